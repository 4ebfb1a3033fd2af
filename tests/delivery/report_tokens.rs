//! Reports are accepted only from the worker that was handed the job: the token in the delivery proves it.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, ExternalQueue};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::delivery::amqp_client::Message;
use crate::delivery::external::{Paint, lease, paint, report};
use crate::delivery::site::Site;
use crate::support::environment::{PATIENCE, World as _, quick};
use crate::support::postgres::Pg;
use crate::support::{TestDb as _, eventually};

fn done(about: FieldTable) -> BasicProperties {
    BasicProperties::default().with_headers(about).with_type("done".into())
}

/// Returns the properties of a report about a job, with another token, or with none.
fn with(about: &Message, token: Option<&str>) -> BasicProperties {
    let others = about.about_it().inner().clone().into_iter().filter(|(name, _)| name.as_str() != "reportToken");
    let token = token.map(|token| ("reportToken".into(), AMQPValue::LongString(token.into())));
    done(others.chain(token).collect::<std::collections::BTreeMap<_, _>>().into())
}

impl Paint {
    /// Sends a report that must not be accepted.
    async fn lie(&self, report: BasicProperties) {
        assert!(self.client.publish("", &self.site.names().reply(), report, b"").await);
        let refused = self.client.take(&self.site.names().rejected_reports()).await;
        assert_eq!(refused.header("jobwright-reason").unwrap(), "bad-token");
        assert!(refused.header("jobwright-error").unwrap().contains("reportToken"));
    }
}

/// Both jobs were handed out together, so they have the same version, and ids are no secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_can_not_report_on_a_job_it_was_not_handed() {
    let Some(paint) = Paint::open(lease(300)).await else { return };
    let mut cx = paint.messages.begin();
    let ids = [1, 2].map(|n| cx.send(self::paint(n)).unwrap());
    cx.commit().await.unwrap();
    let mut tap = paint.tap(0).await;
    let (mine, neighbours) = (tap.next().await, tap.next().await);
    assert_eq!([mine.job(), neighbours.job()], ids);
    assert_eq!(mine.version(), neighbours.version(), "not handed out together");
    let (my, right) = (mine.header("reportToken").unwrap(), neighbours.header("reportToken").unwrap());
    assert_ne!(my, right);
    let almost = format!("{}{}", if right.starts_with('A') { 'B' } else { 'A' }, &right[1..]);
    for token in [None, Some(""), Some(my.as_str()), Some(&"A".repeat(22)), Some(&almost), Some(&right[..4])] {
        paint.lie(with(&neighbours, token)).await;
    }
    let by_correlation = format!("{}:{}", neighbours.job(), neighbours.version());
    paint.lie(done(FieldTable::default()).with_correlation_id(by_correlation.as_str().into())).await;
    assert_eq!(paint.site.db.jobs().state(ids[1]).await, Some(JobState::External), "it lost its job");
    assert_eq!(paint.executor.stats().reported, 0);

    // The worker that has the job may make each kind of report.
    paint.report(&mine, "done", &[]).await;
    let right = done(FieldTable::default()).with_correlation_id(format!("{by_correlation}:{right}").into());
    assert!(paint.client.publish("", &paint.site.names().reply(), right, b"").await);
    paint.reported(2).await;
    paint.site.db.drained().await;
}

/// A worker that once had the job, and reads its present version in the database, can't report on it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_an_earlier_hand_out_is_worth_nothing() {
    let Some(paint) = Paint::open(lease(300)).await else { return };
    let mut tap = paint.tap(0).await;
    let id = paint.send(1).await;
    let first = tap.next().await;
    paint.report(&first, "failed", &[("retry", "after"), ("retryAfter", "0")]).await;
    let second = tap.next().await;
    assert_eq!((first.job(), second.job()), (id, id));
    assert_ne!(first.version(), second.version());
    paint.lie(with(&second, first.header("reportToken").as_deref())).await;
    assert_eq!(paint.site.db.jobs().state(id).await, Some(JobState::External));
    // With its own version it is merely late.
    paint.report(&first, "done", &[]).await;
    eventually(PATIENCE, async || paint.executor.stats().reports_refused == 1).await;
    paint.report(&second, "done", &[]).await;
    paint.reported(2).await;
    paint.site.db.drained().await;
}

/// For the time of a change: some workers do not send tokens back yet, and some jobs were handed out by an earlier build.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_tokens_are_optional_when_turned_off() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let messages = site.messages_with(&site.broker().report_tokens(false)).await;
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    let executor =
        CommandExecutor::builder(messages.clone()).config(quick()).external_queue(lease(300)).start().await.unwrap();
    let client = site.client().await;
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    messages.send(paint(1)).await.unwrap();
    let message = tap.next().await;
    assert_eq!(message.header("reportToken").unwrap().len(), 22);
    assert!(client.publish("", &site.names().reply(), with(&message, None), b"").await);
    site.db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().reported, 1);
}

/// As after an upgrade without the new grant: no job is handed out, because reports on it could not be checked, and no report is lost. Once the grant
/// is given everything goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_key_can_not_be_read_jobs_and_reports_wait() {
    let Some(paint) = Paint::open(lease(300)).await else { return };
    let Paint { site, messages, executor, client } = paint;
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let id = messages.send(self::paint(1)).await.unwrap();
    let message = tap.next().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    let database = site.db.client().await;
    database.batch_execute("alter table report_key rename to hidden").await.unwrap();
    let next = messages.send(self::paint(2)).await.unwrap();
    let queue = || ExternalQueue::new("paint").lease(Duration::from_secs(300));
    let executor =
        CommandExecutor::builder(messages.clone()).config(quick()).external_queue(queue()).start().await.unwrap();
    let (properties, _) = report(&message, "done", &[], None);
    assert!(client.publish("", &site.names().reply(), properties, b"").await);
    assert!(tap.next_within(Duration::from_secs(2)).await.is_none(), "handed out without a key");
    let jobs = site.db.jobs();
    assert_eq!((jobs.state(id).await, jobs.state(next).await), (Some(JobState::External), Some(JobState::Waiting)));
    assert_eq!(client.waiting(&site.names().rejected_reports()).await, 0);
    database.batch_execute("alter table hidden rename to report_key").await.unwrap();
    site.db.gone(id).await;
    assert_eq!(tap.next().await.job(), next);
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.reported, stats.messages_refused), (1, 0));
}
