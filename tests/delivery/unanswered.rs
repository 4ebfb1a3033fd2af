//! Messages that the broker answers by ending the channel or the connection, and addresses that would make it do so.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, ExternalQueue, JobId, NewJob, Outcome};
use lapin::BasicProperties;

use crate::delivery::amqp_client::headers;
use crate::delivery::site::Site;
use crate::support::environment::{PATIENCE, World, patient};
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
use crate::support::private_rabbit::PrivateRabbit;
use crate::support::{TestDb, amqp_url, eventually};

/// A message larger than the broker accepts ends the channel (406), and all others on it stay unanswered. These have one attempt, and must not pay
/// for it: neither when they were on that channel, nor when they are published again while others of those messages end theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_the_broker_refuses_costs_itself_its_attempts_and_its_neighbours_nothing() {
    if amqp_url().is_none() {
        return;
    }
    let server = PrivateRabbit::start_with("max_message_size = 20000\n", "[].\n");
    let Some(site) = Site::<Pg<false>>::on(server.url()).await else { return };
    site.uses("paint");
    let (messages, client) = (site.messages().await, site.client().await);
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    let heard = client.listen(&site.names().events(), "#").await;
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let large = || "x".repeat(30_000);
    let good = |n: i64| NewJob::event("told", &n).max_attempts(1);
    let mut cx = messages.begin();
    let mut refused = Vec::new();
    for _ in 0..5 {
        refused.push(cx.send(NewJob::event("told", &large()).max_attempts(2)).unwrap());
        refused.push(cx.send(NewJob::json("paint", &large()).queue("paint").max_attempts(2)).unwrap());
    }
    for n in 0..5 {
        cx.send(good(n)).unwrap();
        cx.send(NewJob::json("paint", &n).queue("paint").max_attempts(1)).unwrap();
    }
    cx.commit().await.unwrap();
    let elsewhere = site.messages().await;
    let queue = ExternalQueue::new("paint").lease(Duration::from_secs(600));
    let executor = CommandExecutor::builder(elsewhere).config(patient()).external_queue(queue).start().await.unwrap();

    let mut events = Vec::new();
    for _ in 0..5 {
        events.push(client.take(&heard).await.text());
    }
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(tap.next().await.text());
    }
    events.sort();
    jobs.sort();
    let good_ones = ["0", "1", "2", "3", "4"].map(str::to_owned).to_vec();
    assert_eq!((events, jobs), (good_ones.clone(), good_ones));
    site.db.counts(JobState::Dead, refused.len()).await;
    for job in site.db.jobs().all().await.into_iter().filter(|job| job.state == JobState::Dead) {
        assert!(refused.contains(&job.id), "{job:?}");
        assert_eq!(job.attempt, 2);
        assert!(job.last_error.as_deref().unwrap().contains("larger than configured max size"), "{:?}", job.last_error);
    }
    // Messages sent after it go out.
    messages.send(good(5)).await.unwrap();
    assert_eq!(client.take(&heard).await.text(), "5");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The broker takes no connection beside those that exist: what has to be published alone waits, at no attempt, and operators hear of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_need_their_own_connection_wait_until_the_broker_accepts_one() {
    if amqp_url().is_none() {
        return;
    }
    let logs = Logs::capture();
    let server = PrivateRabbit::start_with("max_message_size = 20000\n", "[].\n");
    let Some(site) = Site::<Pg<false>>::on(server.url()).await else { return };
    let (messages, client) = (site.messages().await, site.client().await);
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let heard = client.listen(&site.names().events(), "#").await;
    let relay = site.messages().await;
    let of_relay = relay.broker().unwrap().clone();
    let executor = CommandExecutor::builder(relay).config(patient()).without_handlers().start().await.unwrap();
    of_relay.up_within(PATIENCE).await.unwrap();
    // Two of each service, and that of the client. They stay, and no other gets in: a limit by their number would count one that is just being closed.
    let open = || server.ctl(&["list_connections", "--no-table-headers", "pid"]).lines().count();
    eventually(PATIENCE, async || open() == 5).await;
    server.ctl(&["set_vhost_limits", "{\"max-connections\": 0}"]);
    let mut cx = messages.begin();
    let refused = cx.send(NewJob::event("told", &"x".repeat(30_000)).max_attempts(1)).unwrap();
    cx.send(NewJob::event("told", &1).max_attempts(1)).unwrap();
    cx.commit().await.unwrap();
    let address = server.address();
    let warned =
        || logs.about(&address, "WARN").iter().filter(|line| line.contains("refuses another connection")).count();
    eventually(PATIENCE, async || warned() > 0).await;
    assert_eq!(site.db.jobs().count(JobState::Dead).await, 0);
    assert_eq!(warned(), 1, "it is said once");
    server.ctl(&["clear_vhost_limits"]);
    assert_eq!(client.take(&heard).await.text(), "1");
    site.db.reaches(refused, JobState::Dead).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Changes rows to what an earlier build would have stored.
async fn rewrite(site: &Site, id: JobId, to: &str) {
    let sql = format!(
        "update {}.job set headers = headers || jsonb_build_object('replyTo', $1::text) where id = $2",
        site.db.schema()
    );
    let id: uuid::Uuid = id.into();
    assert_eq!(site.db.client().await.execute(&sql, &[&to, &id]).await.unwrap(), 1);
}

fn adding(messages: jobwright::MessageServices) -> jobwright::ExecutorBuilder<jobwright::Postgres> {
    CommandExecutor::builder(messages).config(patient()).handle_with("add", |cx| {
        Box::pin(async move {
            let (a, b): (i64, i64) = cx.job().payload.decode()?;
            cx.reply(jobwright::Payload::json(&(a + b))?)?;
            Ok(Outcome::Done)
        })
    })
}

/// 541 for an invented address of a waiting client, 406 for the name without one: rows from before such names were refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_rows_with_reserved_names_end_without_harm() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let config = site.broker().direct_reply(true);
    let messages = site.messages_with(&config).await;
    let client = site.client().await;
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    let answers = client.queue().await;
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let paint = |n: i64| NewJob::json("paint", &n).queue("paint");
    let add = || NewJob::json("add", &(2, 3)).reply_to(answers.as_str(), "sum");
    for to in ["amq.rabbitmq.reply-to.AAAA.x", "amq.rabbitmq.reply-to"] {
        rewrite(&site, messages.send(add()).await.unwrap(), to).await;
    }
    let poison = messages.send(paint(0).reply_to("x", "c")).await.unwrap();
    rewrite(&site, poison, "amq.rabbitmq.reply-to").await;
    for n in 1..4 {
        messages.send(paint(n)).await.unwrap();
        messages.send(add()).await.unwrap();
    }
    let elsewhere = site.messages_with(&config).await;
    elsewhere.broker().unwrap().up_within(PATIENCE).await.unwrap();
    let changes = elsewhere.broker().unwrap().stats().changes;
    let executor = adding(elsewhere.clone())
        .queue("default", 1)
        .external_queue(ExternalQueue::new("paint"))
        .start()
        .await
        .unwrap();
    for _ in 0..4 {
        let job = tap.next().await;
        assert_eq!(job.properties.reply_to(), &None);
    }
    for _ in 0..3 {
        assert_eq!(client.take(&answers).await.text(), "5");
    }
    site.db.counts(JobState::Dead, 2).await;
    let dead: Vec<_> = site.db.jobs().all().await.into_iter().filter(|job| job.state == JobState::Dead).collect();
    assert!(dead.iter().all(|job| job.queue == "jobwright.reply" && job.attempt == 1), "{dead:?}");
    let stats = elsewhere.broker().unwrap().stats();
    assert_eq!((stats.unknown, stats.changes), (0, changes));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// New submissions can't use such a name either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_with_a_reserved_name_is_rejected() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (messages, client) = (site.messages().await, site.client().await);
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let error = messages.send(NewJob::json("add", &1).reply_to("amq.rabbitmq.reply-to", "c")).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let executor =
        CommandExecutor::builder(site.messages().await).config(patient()).without_handlers().start().await.unwrap();
    let properties = BasicProperties::default().with_message_id(JobId::new().to_string().as_str().into());
    let table = headers([("jobKind", "add"), ("replyTo", "amq.rabbitmq.reply-to")]);
    assert!(client.publish("", &site.names().submit(), properties.with_headers(table), b"1").await);
    let kept = client.take(&site.names().rejected()).await;
    assert_eq!(kept.header("jobwright-reason").as_deref(), Some("bad-header"));
    assert!(kept.header("jobwright-error").unwrap().contains("keeps for itself"), "{kept:?}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// By direct reply-to, if that is on: once, to a client that is still connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_waits_gets_its_answer_once_and_one_that_has_gone_costs_a_dead_letter() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let config = site.broker().direct_reply(true);
    let messages = site.messages_with(&config).await;
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let executor = adding(messages.clone()).queue("default", 1).start().await.unwrap();
    let client = site.client().await;
    let request = || {
        let properties = BasicProperties::default().with_message_id(JobId::new().to_string().as_str().into());
        properties
            .with_type("add".into())
            .with_correlation_id("sum".into())
            .with_content_type("application/json".into())
    };
    let submit = site.names().submit();
    let answer = client.ask(&submit, request(), b"[2, 3]", true).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.correlation()), ("5", Some("sum")));
    eventually(PATIENCE, async || executor.stats().relayed == 1).await;
    site.db.drained().await;

    assert!(client.ask(&submit, request(), b"[2, 3]", false).await.is_none());
    site.db.counts(JobState::Dead, 1).await;
    let dead = site.db.jobs().all().await;
    assert!(dead[0].last_error.as_deref().unwrap().contains("its requester is gone"), "{:?}", dead[0]);
    assert_eq!(messages.broker().unwrap().stats().unknown, 0);
    executor.shutdown(Duration::ZERO).await.unwrap();
}
