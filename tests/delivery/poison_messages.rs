//! Messages that end their consumer again and again, at a broker that limits deliveries, as RabbitMQ 4 does by default.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{Broker, CommandExecutor, ExternalQueue, JobId, NewJob};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::delivery::amqp_client::{Client, headers};
use crate::delivery::site::{Site, noting};
use crate::support::environment::{PATIENCE, patient};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// A small limit, so that a test reaches it.
const LIMIT: i64 = 2;

/// Declares one of our queues as usual, but with a delivery limit.
async fn limited(site: &Site, client: &Client, queue: &str) {
    let items = Broker::plan(&site.broker(), &[], &["paint".to_owned()]);
    let settings = &items.iter().find(|item| item.name == queue).unwrap().settings;
    let mut arguments = FieldTable::default();
    for (key, value) in settings.split(", ").map(|part| part.split_once('=').unwrap()) {
        let value = value.parse().map_or_else(|_| AMQPValue::LongString(value.into()), AMQPValue::LongLongInt);
        arguments.insert(key.into(), value);
    }
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(LIMIT));
    client.declare(queue, arguments).await;
}

/// Makes the database fail at this statement for the kind `poison`, and count the tries.
async fn trap(site: &Site, moment: &str) {
    let sql = format!(
        "create sequence tries;
         create function never() returns trigger language plpgsql as $$ begin
           if coalesce(new.kind, old.kind) = 'poison' then
             perform nextval('tries');
             raise exception 'not now' using errcode = '40001';
           end if;
           return coalesce(new, old);
         end $$;
         create trigger never before {moment} for each row execute function never();"
    );
    let schema = site.db.schema();
    let sql = sql.replace("'tries'", &format!("'{schema}.tries'"));
    site.db.client().await.batch_execute(&sql).await.unwrap();
}

/// Starts one executor after the other, and ends each while it holds the poison, until the broker gives a message up.
async fn torment(site: &Site, client: &Client, queue: &str, kept: &str, start: impl AsyncFn() -> CommandExecutor) {
    let database = site.db.client().await;
    let tries = async || -> i64 {
        database.query_one("select last_value from tries where is_called", &[]).await.map_or(0, |row| row.get(0))
    };
    let dead = site.names().dead();
    let had_enough = async || {
        let waits = async |queue: &str| client.depth(queue).await.is_some_and(|(messages, _)| messages > 0);
        waits(kept).await || waits(&dead).await
    };
    while !had_enough().await {
        let before = tries().await;
        let executor = start().await;
        eventually(PATIENCE, async || tries().await > before || had_enough().await).await;
        executor.shutdown(Duration::ZERO).await.unwrap();
        eventually(PATIENCE, async || client.depth(queue).await.is_some_and(|(_, consumers)| consumers == 0)).await;
    }
}

/// A submission that the database never accepts: each executor that holds it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poisonous_submission_takes_no_good_ones_with_it() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    limited(&site, &client, &names.submit()).await;
    trap(&site, "insert on job").await;
    let good: Vec<JobId> = (0..5).map(|_| JobId::new()).collect();
    let submission = |id: JobId, kind: &str| {
        let properties = BasicProperties::default().with_message_id(id.to_string().as_str().into());
        (properties.with_type(kind.into()).with_headers(headers([("queue", "shelf")])), b"1".to_vec())
    };
    let poison = JobId::new();
    let mut all: Vec<_> = good.iter().map(|id| submission(*id, "note")).collect();
    // Behind the first, after which all that wait are taken at once; and before the others, so that it comes first when they are redelivered.
    all.insert(1, submission(poison, "poison"));
    client.publish_all(&names.submit(), all).await;

    let start = async || noting::<Pg<false>>(&site.messages().await, patient(), 1).await;
    torment(&site, &client, &names.submit(), &names.rejected(), start).await;

    let executor = start().await;
    eventually(PATIENCE, async || site.db.jobs().count(JobState::Waiting).await == 5).await;
    for id in good {
        assert_eq!(site.db.jobs().state(id).await, Some(JobState::Waiting));
    }
    let kept = client.take(&names.rejected()).await;
    assert_eq!(kept.properties.message_id().as_ref().unwrap().as_str(), poison.to_string());
    assert_eq!(kept.header("x-first-death-reason").as_deref(), Some("delivery_limit"));
    assert_eq!((client.waiting(&names.rejected()).await, client.waiting(&names.dead()).await), (0, 0));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The same with reports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poisonous_report_takes_no_good_ones_with_it() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let (client, names) = (site.client().await, site.names());
    limited(&site, &client, &names.reply()).await;
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    // Handed out by a node that is gone when the reports come.
    let paint = || ExternalQueue::new("paint").lease(Duration::from_secs(300));
    let start = async || {
        let messages = site.messages().await;
        CommandExecutor::builder(messages).config(patient()).external_queue(paint()).start().await.unwrap()
    };
    let first = start().await;
    for n in 0..6 {
        // As above.
        let kind = if n == 1 { "poison" } else { "paint" };
        messages.send(NewJob::json(kind, &n).queue("paint")).await.unwrap();
    }
    let mut tap = client.tap(&names.external("paint"), 0).await;
    let mut reports = Vec::new();
    for _ in 0..6 {
        let job = tap.next().await;
        tap.ack(&job).await;
        let properties = BasicProperties::default().with_headers(job.about_it()).with_type("done".into());
        reports.push((job.job(), (properties, Vec::new())));
    }
    first.shutdown(Duration::ZERO).await.unwrap();
    let poison = reports[1].0;
    client.publish_all(&names.reply(), reports.into_iter().map(|(_, report)| report).collect()).await;
    trap(&site, "delete on external_job").await;

    torment(&site, &client, &names.reply(), &names.rejected_reports(), start).await;

    let second = start().await;
    eventually(PATIENCE, async || site.db.jobs().all().await.len() == 1).await;
    let kept = client.take(&names.rejected_reports()).await;
    assert_eq!(kept.job(), poison);
    assert_eq!(kept.header("x-first-death-reason").as_deref(), Some("delivery_limit"));
    assert_eq!((client.waiting(&names.rejected_reports()).await, client.waiting(&names.dead()).await), (0, 0));
    second.shutdown(Duration::ZERO).await.unwrap();
}
