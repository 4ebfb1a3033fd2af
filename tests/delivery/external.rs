//! Jobs for external workers: any AMQP client that takes a message and reports.

use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{
    BrokerConfig, CommandExecutor, ExternalQueue, JobId, KindOptions, MessageServices, NewJob, RetryAdvice, RetryPolicy,
};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ShortString};

use crate::delivery::amqp_client::{Client, Message, Tap};
use crate::delivery::frames::{Confirms, Frames};
use crate::delivery::site::Site;
use crate::support::environment::{PATIENCE, World as _, quick};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// A node that hands out the jobs of the queue `paint`, and a worker's connection.
pub(crate) struct Paint {
    pub(crate) site: Site,
    pub(crate) messages: MessageServices,
    pub(crate) executor: CommandExecutor,
    pub(crate) client: Client,
}

impl Paint {
    pub(crate) async fn open(queue: ExternalQueue) -> Option<Self> {
        let site = Site::<Pg<false>>::open().await?;
        site.uses("paint");
        let messages = site.messages().await;
        messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
        let executor =
            CommandExecutor::builder(messages.clone()).config(quick()).external_queue(queue).start().await.unwrap();
        let client = site.client().await;
        Some(Self { site, messages, executor, client })
    }

    /// Creates the same with a proxy that does this to the broker's confirms.
    pub(crate) async fn with_confirms(
        confirms: Confirms,
        queue: ExternalQueue,
        change: impl FnOnce(BrokerConfig) -> BrokerConfig,
    ) -> Option<(Self, Frames)> {
        let site = Site::<Pg<false>>::open().await?;
        site.uses("paint");
        let frames = Frames::start(site.address()).await;
        let messages = site.messages_with(&change(site.broker_by(frames.address))).await;
        messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
        messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
        frames.confirms(confirms);
        let executor =
            CommandExecutor::builder(messages.clone()).config(quick()).external_queue(queue).start().await.unwrap();
        let client = site.client().await;
        Some((Self { site, messages, executor, client }, frames))
    }

    pub(crate) async fn tap(&self, prefetch: u16) -> Tap {
        self.client.tap(&self.site.names().external("paint"), prefetch).await
    }

    pub(crate) async fn send(&self, n: i64) -> JobId {
        self.messages.send(paint(n)).await.unwrap()
    }

    /// Reports on a job as `broker/README.md` describes it.
    pub(crate) async fn report(&self, message: &Message, status: &str, more: &[(&str, &str)]) {
        self.report_with(message, status, more, None).await;
    }

    async fn report_with(&self, message: &Message, status: &str, more: &[(&str, &str)], body: Option<&str>) {
        let (properties, body) = report(message, status, more, body);
        assert!(self.client.publish("", &self.site.names().reply(), properties, &body).await);
    }

    pub(crate) async fn reported(&self, count: u64) {
        eventually(PATIENCE, async || self.executor.stats().reported == count).await;
    }
}

pub(crate) fn paint(n: i64) -> NewJob {
    NewJob::json("paint", &n).queue("paint").header("tenant", "acme").max_attempts(3)
}

pub(crate) fn lease(seconds: u64) -> ExternalQueue {
    ExternalQueue::new("paint").lease(Duration::from_secs(seconds))
}

pub(crate) fn report(
    about: &Message,
    status: &str,
    more: &[(&str, &str)],
    body: Option<&str>,
) -> (BasicProperties, Vec<u8>) {
    let mut table = about.about_it();
    for (name, value) in [("status", status)].into_iter().chain(more.iter().copied()) {
        table.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let mut properties = BasicProperties::default().with_headers(table);
    if body.is_some() {
        properties = properties.with_content_type("application/json".into());
    }
    (properties, body.unwrap_or_default().as_bytes().to_vec())
}

/// Reported failures follow the policies like failures of handlers: the job's before its kind's, its kind's before its queue's. The classifier
/// applies too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reported_failures_follow_the_policies() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    let hours = |n: u64| RetryPolicy::Fixed(Duration::from_secs(n * 3600));
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .external_queue(lease(60))
        .queue_retry("paint", hours(2))
        .kind_options("draw", KindOptions::default().retry(hours(3)))
        .classify(|error, job| match (error.message(), job.kind.as_str()) {
            ("no colour", "paint") => RetryAdvice::Never,
            _ => error.advice(),
        })
        .start()
        .await
        .unwrap();
    let client = site.client().await;
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let job = |kind: &str| NewJob::json(kind, &1).queue("paint").max_attempts(5);
    let at_once = [("retry", "after"), ("retryAfter", "1h")];
    for (job, more, hours) in [
        (job("paint"), &[("error", "no")][..], Some(2)),
        (job("draw"), &[("error", "no colour")], Some(3)),
        (job("draw").retry(hours(4)), &[("error", "no")], Some(4)),
        (job("draw").retry(hours(4)), &at_once, Some(1)),
        (job("paint"), &[("error", "no colour")], None),
        (job("paint"), &[("error", "no"), ("retry", "never")], None),
    ] {
        let id = messages.send(job).await.unwrap();
        let message = tap.next().await;
        let (properties, body) = report(&message, "failed", more, None);
        assert!(client.publish("", &site.names().reply(), properties, &body).await);
        tap.ack(&message).await;
        let Some(hours) = hours else {
            site.db.reaches(id, JobState::Dead).await;
            continue;
        };
        site.db.reaches(id, JobState::Timer).await;
        let due = site.db.jobs().detail(id).await.summary.due_at.unwrap();
        let minutes = due.duration_since(jiff::Timestamp::now()).as_secs() / 60;
        assert!((hours * 60 - 30..=hours * 60).contains(&minutes), "{more:?}: due in {minutes} minutes, not {hours} h");
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_handed_out_whole_and_done() {
    let Some(paint) = Paint::open(lease(60)).await else { return };
    let mut tap = paint.tap(0).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(paint.send(n).await);
    }
    let mut came = Vec::new();
    for (n, id) in ids.into_iter().enumerate() {
        let message = tap.next().await;
        assert_eq!((message.job(), message.text()), (id, n.to_string()), "not in order");
        let properties = &message.properties;
        assert_eq!(message.kind(), Some("paint"));
        assert_eq!(properties.message_id().as_ref().map(ShortString::as_str), Some(id.to_string().as_str()));
        assert_eq!(properties.content_type().as_ref().map(ShortString::as_str), Some("application/json"));
        let header = |name| message.header(name).unwrap();
        assert_eq!((header("tenant"), header("queue")), ("acme".to_owned(), "paint".to_owned()));
        assert_eq!(header("attempt"), "1");
        assert!((1..1 << 53).contains(&message.version()), "every client can keep it: {}", message.version());
        came.push(message);
    }
    for message in &came {
        paint.report(message, "done", &[]).await;
        tap.ack(message).await;
    }
    paint.reported(20).await;
    paint.site.db.drained().await;
    assert_eq!(paint.executor.stats().handed_out, 20);
}

/// Without consumers no lease begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_handed_out_without_a_worker() {
    let Some(paint) = Paint::open(lease(60)).await else { return };
    let id = paint.send(1).await;
    // The node has polled: it did something else that comes after that.
    paint.report(&Message::about(JobId::new(), 1), "done", &[]).await;
    eventually(PATIENCE, async || paint.executor.stats().messages_refused == 1).await;
    assert_eq!(paint.site.db.jobs().state(id).await, Some(JobState::Waiting));
    assert_eq!(paint.executor.stats().handed_out, 0);
    let mut tap = paint.tap(0).await;
    assert_eq!(tap.next().await.job(), id);
}

/// No more jobs are handed out than the queue may hold; the rest stays in the table, where operators can change it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_outs_are_bounded_by_the_queue() {
    let Some(paint) = Paint::open(lease(60).depth(5)).await else { return };
    let mut cx = paint.messages.begin();
    for n in 0..50 {
        cx.send(self::paint(n)).unwrap();
    }
    cx.commit().await.unwrap();
    let mut tap = paint.tap(1).await;
    for _ in 0..50 {
        let message = tap.next().await;
        assert!(paint.client.waiting(&paint.site.names().external("paint")).await <= 5);
        paint.report(&message, "done", &[]).await;
        tap.ack(&message).await;
    }
    paint.site.db.drained().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_tried_again_as_the_worker_advises() {
    let Some(paint) = Paint::open(lease(60)).await else { return };
    let mut tap = paint.tap(0).await;
    let id = paint.send(1).await;
    let jobs = paint.site.db.jobs();

    let first = tap.next().await;
    tap.ack(&first).await;
    let exactly = [("error", "no blue left"), ("detail", "a stack"), ("retry", "after"), ("retryAfter", "200ms")];
    paint.report(&first, "failed", &exactly).await;
    let second = tap.next().await;
    tap.ack(&second).await;
    assert_eq!((second.job(), second.header("attempt").unwrap().as_str()), (id, "2"));
    assert_ne!(second.version(), first.version());
    let detail = jobs.detail(id).await;
    assert_eq!((detail.errors[0].error.as_str(), detail.errors[0].attempt), ("no blue left", 1));

    // The policy's delay is longer than this test waits, and a shorter one that a worker passes on does not make it shorter.
    paint.report(&second, "failed", &[("error", "no red left"), ("retryAfter", "0")]).await;
    paint.site.db.reaches(id, JobState::Timer).await;

    let other = paint.send(2).await;
    let third = tap.next().await;
    tap.ack(&third).await;
    assert_eq!(third.job(), other);
    paint.report(&third, "failed", &[("error", "no canvas"), ("retry", "never")]).await;
    paint.site.db.reaches(other, JobState::Dead).await;
    assert_eq!(jobs.detail(other).await.errors[0].error, "no canvas");
    paint.reported(3).await;
}

/// Attempts are counted, and the last one is final.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_too_often_is_a_dead_letter() {
    let Some(paint) = Paint::open(lease(60)).await else { return };
    let mut tap = paint.tap(0).await;
    let id = paint.send(1).await;
    for attempt in 1..=3 {
        let message = tap.next().await;
        tap.ack(&message).await;
        assert_eq!(message.header("attempt").unwrap(), attempt.to_string());
        paint.report(&message, "failed", &[("error", "no"), ("retry", "after"), ("retryAfter", "0")]).await;
    }
    paint.site.db.reaches(id, JobState::Dead).await;
    assert_eq!(paint.site.db.jobs().detail(id).await.errors.len(), 3);
}

/// A lease runs out and the job goes to another worker; the first one's report is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_runs_out_hands_the_job_out_again() {
    let Some(paint) = Paint::open(lease(1)).await else { return };
    let mut tap = paint.tap(0).await;
    let id = paint.send(1).await;
    let first = tap.next().await;
    let second = tap.next().await;
    assert_eq!((first.job(), second.job()), (id, id));
    assert_ne!(second.version(), first.version());
    paint.report(&first, "done", &[]).await;
    eventually(PATIENCE, async || paint.executor.stats().reports_refused == 1).await;
    assert!(paint.site.db.jobs().state(id).await.is_some(), "a late report took effect");
    assert_eq!(paint.executor.stats().reported, 0);
}

/// A worker that needs longer extends its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_can_be_extended() {
    let Some(paint) = Paint::open(lease(2)).await else { return };
    let mut tap = paint.tap(0).await;
    paint.send(1).await;
    let message = tap.next().await;
    tap.ack(&message).await;
    paint.report(&message, "extend", &[("lease", "60s")]).await;
    // Longer than the lease was: no other worker gets it.
    assert!(tap.next_within(Duration::from_secs(4)).await.is_none());
    paint.report(&message, "done", &[]).await;
    // A second report, which is too late.
    paint.report(&message, "done", &[]).await;
    paint.report(&message, "extend", &[]).await;
    paint.reported(1).await;
    paint.site.db.drained().await;
    eventually(PATIENCE, async || paint.executor.stats().reports_refused == 2).await;
}

/// The queue is deleted with its messages: the jobs come back by their leases, and the queue is declared again at the next hand-out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_loses_nothing() {
    let Some(paint) = Paint::open(lease(1)).await else { return };
    let name = paint.site.names().external("paint");
    let mut tap = paint.tap(1).await;
    for n in 0..10 {
        paint.send(n).await;
    }
    tap.next().await;
    paint.client.delete(&name).await;
    eventually(PATIENCE, async || paint.client.depth(&name).await.is_some()).await;
    let mut tap = paint.tap(1).await;
    eventually(PATIENCE, async || {
        if let Some(message) = tap.next_within(Duration::from_millis(100)).await {
            paint.report(&message, "done", &[]).await;
            tap.ack(&message).await;
        }
        paint.site.db.jobs().all().await.is_empty()
    })
    .await;
    assert_eq!(paint.executor.stats().reported, 10);
}

/// The broker refuses the messages: no worker has them, so no attempt is spent. In this test the refusal is false and the messages are there, so a
/// worker that takes one of them is told that it came too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_outs_that_are_refused_are_taken_back() {
    let opened = Paint::with_confirms(Confirms::Nacked, lease(60), |broker| broker).await;
    let Some((Paint { site, messages, executor, client }, frames)) = opened else { return };
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let id = messages.send(paint(1)).await.unwrap();
    let refused = tap.next().await;
    tap.ack(&refused).await;
    assert_eq!((refused.job(), refused.header("attempt").unwrap().as_str()), (id, "1"));
    // It comes again only after it was taken back: an earlier report is accepted.
    let again = tap.next().await;
    tap.ack(&again).await;
    assert_ne!(again.version(), refused.version());
    let reply = site.names().reply();
    let (properties, _) = report(&refused, "done", &[], None);
    assert!(client.publish("", &reply, properties, b"").await);
    eventually(PATIENCE, async || executor.stats().reports_refused == 1).await;
    frames.confirms(Confirms::Pass);
    // Until one is handed out whose confirm came. Of the others, the last may be reported before it is taken back.
    let end = Instant::now() + PATIENCE;
    while !site.db.jobs().all().await.is_empty() {
        assert!(Instant::now() < end, "none is taken");
        let Some(message) = tap.next_within(Duration::from_millis(200)).await else { continue };
        tap.ack(&message).await;
        assert_eq!((message.job(), message.header("attempt").unwrap().as_str()), (id, "1"));
        assert_ne!(message.version(), refused.version());
        let (properties, _) = report(&message, "done", &[], None);
        assert!(client.publish("", &reply, properties, b"").await);
    }
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().reported, 1);
}

/// Whether the broker has the message is unknown. The lease would end in an hour, but the job is handed out again at once, at no attempt. Of the two
/// copies only the later one counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_out_whose_confirm_got_lost_is_taken_back() {
    let opened = Paint::with_confirms(Confirms::Lost, lease(3600), |broker| broker).await;
    let Some((Paint { site, messages, executor, client }, frames)) = opened else { return };
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let id = messages.send(paint(1)).await.unwrap();
    let first = tap.next().await;
    tap.ack(&first).await;
    eventually(PATIENCE, async || frames.hits() > 0).await;
    frames.confirms(Confirms::Pass);
    let second = tap.next().await;
    tap.ack(&second).await;
    assert_eq!((second.job(), second.header("attempt").unwrap().as_str()), (id, "1"));
    assert_ne!(second.version(), first.version());
    for message in [&first, &second] {
        let (properties, _) = report(message, "done", &[], None);
        assert!(client.publish("", &site.names().reply(), properties, b"").await);
    }
    site.db.drained().await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.reported, stats.handed_out), (1, 1));
}

/// Unreadable reports are moved to the queue of rejected messages, and the next one is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_reports_are_rejected() {
    let Some(paint) = Paint::open(lease(60)).await else { return };
    let mut tap = paint.tap(0).await;
    paint.send(1).await;
    let message = tap.next().await;
    tap.ack(&message).await;
    let (reply, rejected) = (paint.site.names().reply(), paint.site.names().rejected_reports());
    assert!(paint.client.publish("", &reply, BasicProperties::default(), b"done!").await);
    assert_eq!(paint.client.take(&rejected).await.header("jobwright-reason").unwrap(), "missing-id");
    paint.report(&message, "finished", &[]).await;
    assert_eq!(paint.client.take(&rejected).await.header("jobwright-reason").unwrap(), "bad-status");
    paint.report(&message, "failed", &[("retry", "sometimes")]).await;
    assert_eq!(paint.client.take(&rejected).await.header("jobwright-reason").unwrap(), "bad-header");
    paint.report(&message, "done", &[]).await;
    paint.reported(1).await;
}

/// A job can ask for its result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_result_is_sent_to_the_requester() {
    let Some(paint) = Paint::open(lease(60)).await else { return };
    let results = paint.client.queue().await;
    let mut tap = paint.tap(0).await;
    let id = paint.messages.send(self::paint(1).reply_to(results.as_str(), "order 7")).await.unwrap();
    let message = tap.next().await;
    tap.ack(&message).await;
    assert_eq!(message.properties.reply_to().as_ref().map(ShortString::as_str), Some(results.as_str()));
    paint.report_with(&message, "done", &[], Some("{\"painted\":true}")).await;
    let result = paint.client.take(&results).await;
    assert_eq!(result.text(), "{\"painted\": true}");
    assert_eq!(result.correlation(), Some("order 7"));
    assert_eq!((result.job(), result.kind()), (id, Some("paint")));
    paint.site.db.drained().await;
}

/// The queue is declared with the broker's limit, and would refuse further messages again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_deeper_than_the_brokers_queues() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let messages = site.messages().await;
    let limit = messages.broker().unwrap().limit();
    let deep = ExternalQueue::new("paint").depth(limit + 1);
    let refused = CommandExecutor::builder(messages).external_queue(deep).start().await.map(drop).unwrap_err();
    assert!(refused.to_string().contains(&format!("use 1 to {limit}")), "{refused}");
}
