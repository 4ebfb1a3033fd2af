//! Jobs that external producers submit. `broker/README.md` says which messages are rejected.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, JobId, MessageServices};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::delivery::amqp_client::{Client, headers};
use crate::delivery::site::{Site, noting};
use crate::support::environment::{PATIENCE, World, patient};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// A site with an executor that takes submissions in.
struct Door {
    site: Site,
    executor: CommandExecutor,
    client: Client,
}

impl Door {
    async fn open() -> Option<Self> {
        let site = Site::<Pg<false>>::open().await?;
        let messages = site.messages().await;
        messages.broker().unwrap().apply(&[], &[]).await.unwrap();
        Some(Self::at(site, &messages).await)
    }

    /// Creates one at a broker where nothing was declared before the executor came.
    async fn fresh() -> Option<Self> {
        let site = Site::<Pg<false>>::open().await?;
        let messages = site.messages().await;
        let door = Self::at(site, &messages).await;
        let submit = door.site.names().submit();
        eventually(PATIENCE, async || door.client.depth(&submit).await.is_some()).await;
        Some(door)
    }

    async fn at(site: Site, messages: &MessageServices<<Pg<false> as TestDb>::Store>) -> Self {
        let executor = noting::<Pg<false>>(messages, patient(), 10).await;
        let client = site.client().await;
        Self { site, executor, client }
    }

    /// Retries, as every producer has to: a queue with `reject-publish` refuses messages after its declaration until it has a leader.
    async fn submit(&self, properties: BasicProperties, body: &[u8]) {
        let submit = self.site.names().submit();
        eventually(PATIENCE, async || self.client.publish("", &submit, properties.clone(), body).await).await;
    }

    async fn submitted(&self, count: u64) {
        eventually(PATIENCE, async || self.executor.stats().submitted == count).await;
    }
}

/// Returns a valid submission, for a queue without executors.
fn good(id: &str) -> BasicProperties {
    BasicProperties::default()
        .with_message_id(id.into())
        .with_type("note".into())
        .with_content_type("application/json".into())
        .with_headers(headers([("queue", "shelf")]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_becomes_a_job_and_runs() {
    let Some(door) = Door::open().await else { return };
    let ids: Vec<_> = (0..50).map(|_| JobId::new()).collect();
    let all = ids.iter().map(|id| {
        let text = id.to_string();
        (good(&text).with_headers(FieldTable::default()), b"{}".to_vec())
    });
    door.client.publish_all(&door.site.names().submit(), all.collect()).await;
    door.submitted(50).await;
    door.site.settled(&ids).await;
    assert_eq!(door.client.waiting(&door.site.names().submit()).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_a_submission_says_is_kept() {
    let Some(door) = Door::open().await else { return };
    let id = JobId::new();
    let mut table = headers([
        ("queue", "shelf"),
        ("maxAttempts", "5"),
        ("delay", "90s"),
        ("tenant", "acme"),
        ("x-own", "not kept"),
    ]);
    table.insert("count".into(), AMQPValue::LongInt(7));
    let properties = good(&id.to_string())
        .with_priority(9)
        .with_correlation_id("order 7".into())
        .with_reply_to("results".into())
        .with_headers(table);
    door.submit(properties, b"{\"n\": 1}").await;
    door.submitted(1).await;
    let detail = door.site.db.jobs().detail(id).await;
    let summary = &detail.summary;
    assert_eq!((summary.kind.as_str(), summary.queue.as_str(), summary.state), ("note", "shelf", JobState::Timer));
    assert_eq!((summary.priority, summary.max_attempts), (5, 5));
    let kept: Vec<_> = detail.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(kept, [("correlationId", "order 7"), ("count", "7"), ("replyTo", "results"), ("tenant", "acme")]);
    let payload: serde_json::Value = detail.payload.decode().unwrap();
    assert_eq!(payload, serde_json::json!({ "n": 1 }));
}

/// The same message again is the same job, also under an id that is no UUID, and also through another node. A different message under its id is
/// rejected, and the first stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_submission_twice_is_one_job() {
    let Some(door) = Door::open().await else { return };
    let other = door.site.messages().await;
    let second = noting::<Pg<false>>(&other, patient(), 10).await;
    for id in [JobId::new().to_string(), "order-4711".to_owned()] {
        for _ in 0..20 {
            door.submit(good(&id), b"1").await;
        }
        door.submit(good(&id), b"2").await;
        let refused = door.client.take(&door.site.names().rejected()).await;
        assert_eq!((refused.header("jobwright-reason").unwrap().as_str(), refused.text().as_str()), ("conflict", "2"));
        assert_eq!(refused.properties.message_id().as_ref().unwrap().as_str(), id);
    }
    eventually(PATIENCE, async || door.client.waiting(&door.site.names().submit()).await == 0).await;
    assert_eq!(door.executor.stats().submitted + second.stats().submitted, 2);
    let jobs = door.site.db.jobs();
    let all = jobs.all().await;
    assert_eq!(all.len(), 2);
    for job in all {
        assert_eq!(jobs.detail(job.id).await.payload.decode::<i32>().unwrap(), 1);
    }
    second.shutdown(Duration::ZERO).await.unwrap();
}

/// A finished job stays finished, whoever repeats its submission.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_comes_again_after_its_job_is_done_runs_nothing() {
    let Some(door) = Door::open().await else { return };
    let id = JobId::new();
    let properties = || good(&id.to_string()).with_headers(FieldTable::default());
    door.submit(properties(), b"1").await;
    door.submitted(1).await;
    door.site.settled(&[id]).await;
    door.submit(properties(), b"1").await;
    let marker = JobId::new();
    door.submit(good(&marker.to_string()).with_headers(FieldTable::default()), b"1").await;
    door.submitted(2).await;
    door.site.settled(&[id, marker]).await;
}

/// Each bad message goes unchanged to the queue of rejected messages, with the reason, and the good one behind it is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_submissions_are_rejected_with_a_reason() {
    let Some(door) = Door::open().await else { return };
    let rejected = door.site.names().rejected();
    let id = || JobId::new().to_string();
    let plain = || BasicProperties::default().with_message_id(id().as_str().into());
    let with = |entries: &[(&str, &str)]| good(&id()).with_headers(headers(entries.iter().copied()));
    let list = |name: &str| {
        let mut table = FieldTable::default();
        table.insert(name.into(), AMQPValue::FieldArray(vec![AMQPValue::LongInt(1)].into()));
        good(&id()).with_headers(table)
    };
    let json = |text: &str| text.as_bytes().to_vec();
    let cases: Vec<(&str, BasicProperties, Vec<u8>)> = vec![
        ("missing-kind", plain(), json("1")),
        ("missing-id", BasicProperties::default().with_type("note".into()), json("1")),
        ("too-large", good(&id()), vec![b'1'; 1024 * 1024 + 1]),
        ("bad-json", good(&id()), json("{\"order\":")),
        ("bad-json", good(&id()), vec![b'"', 0xff, b'"']),
        ("bad-header", list("tenant"), json("1")),
        ("bad-header", with(&[("maxAttempts", "many")]), json("1")),
        ("bad-header", with(&[("maxAttempts", "0")]), json("1")),
        ("bad-header", with(&[("jobPriority", "99999999")]), json("1")),
        ("bad-due", with(&[("dueAt", "yesterday")]), json("1")),
        ("bad-due", with(&[("dueAt", "1969-07-20T20:17:40Z")]), json("1")),
        ("bad-due", with(&[("dueAt", "9000-01-01T00:00:00Z")]), json("1")),
        ("bad-due", with(&[("delay", "1m"), ("dueAt", "2030-01-01T00:00:00Z")]), json("1")),
        ("bad-queue", with(&[("queue", "jobwright.event")]), json("1")),
        ("bad-kind", good(&id()).with_type(" spaces ".into()), json("1")),
        ("expiration", with(&[("delay", "10m")]).with_expiration("600000".into()), json("1")),
        ("bad-encoding", good(&id()).with_content_encoding("gzip".into()), json("1")),
        (
            "java-serialized",
            good(&id()).with_content_type("application/octet-stream".into()),
            vec![0xac, 0xed, 0, 5, 0x73],
        ),
    ];
    let count = cases.len() as u64;
    for (reason, properties, body) in cases {
        door.submit(properties.clone(), &body).await;
        let refused = door.client.take(&rejected).await;
        assert_eq!(refused.header("jobwright-reason").as_deref(), Some(reason), "{properties:?}");
        assert!(!refused.header("jobwright-error").unwrap().is_empty());
        assert_eq!(refused.body, body, "{reason}: not as it came");
        // A message without an id got one on its way: it identifies a message that no queue takes.
        if properties.message_id().is_some() {
            assert_eq!(refused.properties.message_id(), properties.message_id());
        }
    }
    assert_eq!(door.executor.stats().messages_refused, count);
    let by_reason = door.executor.telemetry().metrics().messages_refused;
    assert!(by_reason.values().sum::<u64>() == count && by_reason.len() > 3, "{by_reason:?}");
    assert!(door.site.db.jobs().all().await.is_empty());
    // A due date in the past means now, and a job of an unknown kind waits.
    let past = JobId::new();
    let due = headers([("dueAt", "2020-01-01T00:00:00Z")]);
    door.submit(good(&past.to_string()).with_headers(due), b"1").await;
    let unknown = JobId::new();
    door.submit(good(&unknown.to_string()).with_type("unheard-of".into()).with_headers(FieldTable::default()), b"1")
        .await;
    door.submitted(2).await;
    door.site.db.gone(past).await;
    assert_eq!(door.site.db.jobs().state(unknown).await, Some(JobState::Waiting));
    door.site.db.each_once(&[past]).await;
}

/// A flood of invalid messages with valid ones in it: all of the valid ones arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rubbish_does_not_stop_the_others() {
    let Some(door) = Door::open().await else { return };
    let ids: Vec<_> = (0..100).map(|_| JobId::new()).collect();
    let all = ids.iter().flat_map(|id| {
        let text = id.to_string();
        let none = FieldTable::default();
        [(BasicProperties::default(), b"rubbish".to_vec()), (good(&text).with_headers(none), b"1".to_vec())]
    });
    door.client.publish_all(&door.site.names().submit(), all.collect()).await;
    door.submitted(100).await;
    door.site.settled(&ids).await;
    eventually(PATIENCE, async || door.client.waiting(&door.site.names().rejected()).await == 100).await;
}

/// Where nothing was declared by hand, a bad message is still rejected, once, and the good ones behind it do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_of_rejected_messages_is_declared_on_demand() {
    let Some(door) = Door::fresh().await else { return };
    let (submit, rejected) = (door.site.names().submit(), door.site.names().rejected());
    eventually(PATIENCE, async || door.client.depth(&rejected).await.is_some()).await;
    let ids: Vec<_> = (0..20).map(|_| JobId::new()).collect();
    door.submit(good(&JobId::new().to_string()), b"rubbish").await;
    let all = ids.iter().map(|id| (good(&id.to_string()).with_headers(FieldTable::default()), b"1".to_vec()));
    door.client.publish_all(&submit, all.collect()).await;
    door.submitted(20).await;
    door.site.settled(&ids).await;
    assert_eq!(door.client.take(&rejected).await.header("jobwright-reason").as_deref(), Some("bad-json"));
    assert_eq!(door.executor.stats().messages_refused, 1, "it came back");

    // The queue is deleted: the next bad message brings it back.
    door.client.delete(&rejected).await;
    door.submit(good(&JobId::new().to_string()), b"rubbish").await;
    eventually(PATIENCE, async || door.client.depth(&rejected).await.is_some_and(|(messages, _)| messages == 1)).await;
    eventually(PATIENCE, async || door.client.waiting(&submit).await == 0).await;
}

/// Several nodes take submissions in, unless intake is off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intake_is_shared_and_can_be_left_to_others() {
    let Some(door) = Door::open().await else { return };
    let (second, closed) =
        (door.site.messages().await, door.site.messages_with(&door.site.broker().intake(false)).await);
    let second = noting::<Pg<false>>(&second, patient(), 10).await;
    let closed = noting::<Pg<false>>(&closed, patient(), 10).await;
    let submit = door.site.names().submit();
    eventually(PATIENCE, async || door.client.depth(&submit).await.is_some_and(|(_, consumers)| consumers == 2)).await;
    let ids: Vec<_> = (0..300).map(|_| JobId::new()).collect();
    for part in ids.chunks(30) {
        let part = part.iter().map(|id| (good(&id.to_string()).with_headers(FieldTable::default()), b"1".to_vec()));
        door.client.publish_all(&submit, part.collect()).await;
    }
    eventually(PATIENCE, async || door.executor.stats().submitted + second.stats().submitted == 300).await;
    door.site.settled(&ids).await;
    let shares = [door.executor.stats().submitted, second.stats().submitted];
    assert!(shares.iter().sum::<u64>() == 300 && shares.iter().all(|share| *share > 0), "{shares:?}");
    assert_eq!(closed.stats().submitted, 0);
    second.shutdown(Duration::ZERO).await.unwrap();
    closed.shutdown(Duration::ZERO).await.unwrap();
}
