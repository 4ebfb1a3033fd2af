//! A document that the server can't send: its numbers are more than a gigabyte when they are written out. No producer of this library sends
//! one; somebody's own SQL can.

use std::time::Duration;

use jobwright::store::{Action, JobFilter, JobState, Order};
use jobwright::{Fence, JobId};

use crate::support::Jobs;
use crate::support::jobs::{LATER, claim_number, hand_out_number, ids, jobs};
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;

/// 700 kB, and 1.1 GB as text.
const BOMB: &str = "('[' || repeat('1e-16383,', 70000) || '1]')::jsonb";

struct Range {
    db: Pg<false>,
    jobs: Jobs,
    sent: Vec<JobId>,
    _server: PrivatePg,
}

impl Range {
    /// Five jobs, of which the second is a bomb.
    async fn laid() -> Self {
        let server = PrivatePg::start();
        let db = Pg::create_on(&server.url()).await;
        // Each claim that meets it takes the server a second or more.
        let jobs = db.waiting_at_most(Duration::from_secs(60)).await;
        let sent = jobs.send_all(crate::support::jobs::jobs(5)).await;
        let lay = format!("update {{schema}}.job set payload = {BOMB} where id = '{}'", sent[1]);
        db.raw(&lay).await;
        Self { db, jobs, sent, _server: server }
    }

    /// The good ones were taken; the bomb is a dead letter that says why, also when it is looked at.
    async fn cleared(&self, taken: &[jobwright::Job]) {
        let sent = &self.sent;
        assert_eq!(ids(taken), [sent[0], sent[2], sent[3], sent[4]]);
        assert!(taken.iter().all(|job| job.attempt == 1));
        let detail = self.jobs.detail(sent[1]).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Dead, 1));
        let (_, reason) = detail.dead.unwrap();
        assert!(reason.starts_with("can't be read: ") && reason.contains("SQLSTATE 54000"), "{reason}");
        assert_eq!((detail.errors.len(), &detail.errors[0].error), (1, &reason));
        assert_eq!(detail.payload.as_str(), Some(reason.as_str()), "what can't be shown is said");
    }
}

#[tokio::test]
async fn a_bomb_is_a_dead_letter_and_its_queue_goes_on() {
    let range = Range::laid().await;
    let node = range.jobs.node().await;
    let taken = range.jobs.take(node, 10).await;
    range.cleared(&taken).await;
    // Put back, it is buried again, and still stands in nobody's way.
    let retry = Action::Retry { limit: None, spread: Duration::ZERO };
    let again = range.jobs.steer(&JobFilter::ids([range.sent[1]]), &retry, Order::default()).await.unwrap();
    assert_eq!(again.total(), 1);
    let good = range.jobs.send_all(jobs(1)).await;
    assert_eq!(ids(&range.jobs.take(node, 10).await), good);
    assert_eq!(range.jobs.state(range.sent[1]).await, Some(JobState::Dead));
}

#[tokio::test]
async fn a_bomb_that_is_delivered_keeps_nothing_back() {
    let range = Range::laid().await;
    let node = range.jobs.node().await;
    let deliveries: Vec<Fence> = range.sent.iter().map(|id| Fence::new(*id, 0)).collect();
    let taken = range.jobs.claim_delivered(node, claim_number(), &deliveries, None).await.unwrap();
    range.cleared(&taken).await;
}

#[tokio::test]
async fn a_bomb_is_not_handed_out_and_keeps_nothing_back() {
    let range = Range::laid().await;
    let taken = range.jobs.hand_out("default", 10, LATER, hand_out_number()).await.unwrap();
    range.cleared(&taken).await;
}

/// Nothing but its queue is changed then.
#[tokio::test]
async fn a_bomb_that_cannot_be_buried_is_set_aside() {
    let range = Range::laid().await;
    range
        .db
        .raw(
            "create function {schema}.no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
             create trigger no before insert on {schema}.dead_letter_job execute function {schema}.no()",
        )
        .await;
    let node = range.jobs.node().await;
    let taken = range.jobs.take(node, 10).await;
    assert_eq!(ids(&taken).len(), 4);
    let detail = range.jobs.detail(range.sent[1]).await.summary;
    assert_eq!((detail.state, detail.queue.as_str(), detail.attempt), (JobState::Waiting, "unreadable:default", 0));
    assert_eq!(range.jobs.take(node, 10).await.len(), 0);
}

/// By SQL its numbers are written out one by one, and no further than a payload may be large.
#[tokio::test]
async fn a_bomb_that_is_sent_is_refused_before_it_goes_off() {
    let server = PrivatePg::start();
    let db = Pg::create_on(&server.url()).await;
    let client = db.client().await;
    for numbers in ["1e-16383", "0e-16383", "-1e131071", r#"{"a":[1e131071]}"#] {
        let send = format!("select send('kind', ('[' || repeat('{numbers},', 40000) || '1]')::jsonb)");
        let refused = client.query_one(&send, &[]).await.unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert_eq!(refused.code(), &tokio_postgres::error::SqlState::INVALID_PARAMETER_VALUE, "{refused:?}");
    }
    let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let kilobytes = crate::memory::peak(pid);
    assert!(kilobytes < 200 * 1024, "a process of the server grew to {kilobytes} kB");
}
