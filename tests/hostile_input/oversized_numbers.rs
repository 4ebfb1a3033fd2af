//! A document that the server can't send: its numbers take more than a gigabyte when written out. No producer of this library sends one; third-party
//! SQL can.

use std::cell::Cell;
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Rule, Scope};
use jobwright::internal::Action;
use jobwright::internal::Fence;
use jobwright::internal::engine::{ClaimRequest, OperatorOptions};
use jobwright::{CommandExecutor, ErrorKind, JobId, MessageServices, NewJob, NodeId, Outcome, Payload};

use crate::support::environment::patient;
use crate::support::jobs::{LATER, claim_number, hand_out_number, ids, jobs};
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::{Jobs, TestDb as _, eventually};

/// 700 kB, and 1.1 GB as text.
const BOMB: &str = "('[' || repeat('1e-16383,', 70000) || '1]')::jsonb";

fn everything(node: NodeId) -> ClaimRequest<'static> {
    ClaimRequest::new(node, claim_number(), "default", 10)
}

struct Range {
    db: Pg<false>,
    jobs: Jobs,
    sent: Vec<JobId>,
    _server: PrivatePg,
}

impl Range {
    /// Creates five jobs, of which the second is a bomb.
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

    /// Asserts that the good ones were taken and the bomb is a dead letter that says why, also when it is shown.
    async fn cleared(&self, taken: &[jobwright::Job]) {
        let sent = &self.sent;
        assert_eq!(ids(taken), [sent[0], sent[2], sent[3], sent[4]]);
        assert!(taken.iter().all(|job| job.attempt == 1));
        let detail = self.jobs.detail(sent[1]).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Dead, 1));
        let (_, reason) = detail.dead.unwrap();
        assert!(reason.starts_with("can't be read: ") && reason.contains("bytes or more once"), "{reason}");
        assert_eq!((detail.errors.len(), &detail.errors[0].error), (1, &reason));
        assert_eq!(
            detail.payload.as_str(),
            Some("can't be read: out of memory (SQLSTATE 54000)"),
            "what can't be shown is said",
        );
    }
}

#[tokio::test]
async fn a_bomb_is_a_dead_letter_and_its_queue_goes_on() {
    let range = Range::laid().await;
    let node = range.jobs.node().await;
    let taken = range.jobs.take(node, 10).await;
    range.cleared(&taken).await;
    // Requeued, it is dead-lettered again, and still blocks nothing.
    let retry = Action::Retry { limit: None, spread: Duration::ZERO };
    let again = range.jobs.operate(&JobFilter::ids([range.sent[1]]), &retry, OperatorOptions::default()).await.unwrap();
    assert_eq!(again.total(), 1);
    let good = range.jobs.send_all(jobs(1)).await;
    assert_eq!(ids(&range.jobs.take(node, 10).await), good);
    assert_eq!(range.jobs.state(range.sent[1]).await, Some(JobState::Dead));
}

/// The check of the options does not write them out to find out how long they are. (The server does, for its message.)
#[tokio::test]
async fn a_bomb_among_the_options_is_refused_before_it_goes_off() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    client.batch_execute("set statement_timeout = '900ms'").await.unwrap();
    let carriable = format!("select is_carriable(jsonb_build_object('x', {BOMB}), null)");
    assert!(!client.query_one(&carriable, &[]).await.unwrap().get::<_, bool>(0));
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

impl Range {
    /// Makes dead-lettering fail from now on.
    async fn without_dead_letters(&self) {
        self.db
            .raw(
                "create function {schema}.no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
                 create trigger no before insert on {schema}.dead_letter_job execute function {schema}.no()",
            )
            .await;
    }

    /// Asserts that the bomb is parked in another queue, and never ran.
    async fn park_unreadable(&self) {
        let aside = self.jobs.detail(self.sent[1]).await.summary;
        assert_eq!((aside.state, aside.queue.as_str(), aside.attempt), (JobState::Waiting, "unreadable:default", 0));
    }
}

/// A parked job's content is not changed.
#[tokio::test]
async fn a_bomb_that_cannot_be_buried_is_set_aside() {
    let range = Range::laid().await;
    range.without_dead_letters().await;
    let node = range.jobs.node().await;
    assert_eq!(range.jobs.take(node, 10).await.len(), 4);
    range.park_unreadable().await;
    assert_eq!(range.jobs.take(node, 10).await.len(), 0);
}

/// A delivery that names it is then out of date, and the other delivered jobs are taken.
#[tokio::test]
async fn a_delivered_bomb_that_cannot_be_buried_is_set_aside() {
    let range = Range::laid().await;
    range.without_dead_letters().await;
    let node = range.jobs.node().await;
    let deliveries: Vec<Fence> = range.sent.iter().map(|id| Fence::new(*id, 0)).collect();
    let claim = async || range.jobs.claim_delivered(node, claim_number(), &deliveries, None).await.unwrap();
    assert_eq!(claim().await.len(), 4);
    range.park_unreadable().await;
    assert_eq!(claim().await.len(), 0);
}

/// Its permit goes to another job.
#[tokio::test]
async fn a_bomb_that_is_set_aside_holds_nothing() {
    let range = Range::laid().await;
    range.without_dead_letters().await;
    let node = range.jobs.node().await;
    range.jobs.cancel(&JobFilter::ids([range.sent[0]]), false).await.unwrap();
    range.jobs.put_rule(&Rule::new(Scope::Queue, "default").running(1)).await.unwrap();
    range.jobs.admit_all().await;
    assert_eq!(range.jobs.take(node, 10).await.len(), 0);
    range.park_unreadable().await;
    range.jobs.admit_all().await;
    assert_eq!(ids(&range.jobs.take(node, 10).await), [range.sent[2]]);
    assert_eq!(range.jobs.permit_faults().await.unwrap(), Vec::<String>::new());
}

/// The server could send these, but that takes longer than a claim may take: 983 MB each.
#[tokio::test]
async fn payloads_that_take_too_long_to_send_block_no_other_job() {
    let range = Range::laid().await;
    let lay = "update {schema}.job set payload = ('[' || repeat('1e-16383,', 60000) || '1]')::jsonb";
    let (near, far) = (range.sent[1], range.sent[3]);
    range.db.raw(&format!("{lay} where id in ('{near}', '{far}')")).await;
    let hasty = range.db.waiting_at_most(Duration::from_secs(2)).await;
    let node = hasty.node().await;
    // It may have taken something, and the caller has to check for that, so it gets an error.
    assert_eq!(hasty.claim(&everything(node)).await.unwrap_err().kind(), ErrorKind::Timeout);
    let mut taken = Vec::new();
    // Jobs whose claim got no answer are given back first.
    eventually(Duration::from_secs(150), async || {
        hasty.release_unknown(node, &[], None).await.unwrap();
        taken.extend(hasty.claim(&everything(node)).await.map_or_else(|_| Vec::new(), |claimed| claimed.jobs));
        taken.len() == 3
    })
    .await;
    assert_eq!(ids(&taken), [range.sent[0], range.sent[2], range.sent[4]]);
    // Not through the store, which would return their payloads.
    let dead = range.db.client().await.query("select id, reason from dead_letter_job order by seq", &[]).await.unwrap();
    let dead: Vec<(uuid::Uuid, String)> = dead.iter().map(|row| (row.get(0), row.get(1))).collect();
    let reason = "can't be read: it has 983040001 bytes or more once it is written out";
    assert_eq!(dead, [near, far].map(|id| (id.into(), reason.to_owned())));
    let kilobytes = crate::hostile_input::memory::peak(i32::try_from(std::process::id()).unwrap());
    assert!(kilobytes < 2 << 20, "this process grew to {kilobytes} kB");
}

/// As when a slow server still writes it out for a claim that was given up.
#[tokio::test]
async fn a_bomb_that_is_locked_for_longer_than_a_call_may_take_is_removed() {
    let range = Range::laid().await;
    let hasty = range.db.waiting_at_most(Duration::from_secs(2)).await;
    let node = hasty.node().await;
    let held = range.db.hold("lock table {schema}.dead_letter_job in access exclusive mode").await;
    let (ended, released) = (Cell::new(0), Cell::new(false));
    let until_cancelled = async {
        loop {
            eventually(Duration::from_secs(30), async || held.waiter().await.is_some()).await;
            let (Some(first), before) = (held.waiter().await, ended.get()) else { continue };
            let again = async || held.waiter().await.is_some_and(|waiter| waiter != first);
            eventually(Duration::from_secs(30), async || ended.get() != before || again().await).await;
            // Within one claim. On a busy machine one may have had no time left for a second statement.
            if ended.get() == before {
                break;
            }
        }
        released.set(true);
        held.commit().await;
    };
    let claims = async {
        while !released.get() {
            // Whether a claim runs out of time depends on the machine.
            let _ = hasty.claim(&everything(node)).await;
            ended.set(ended.get() + 1);
            let _ = hasty.release_unknown(node, &[], None).await;
        }
    };
    tokio::join!(claims, until_cancelled);
    let dead = range.db.client().await.query("select id from dead_letter_job", &[]).await.unwrap();
    assert_eq!(dead.iter().map(|row| row.get(0)).collect::<Vec<uuid::Uuid>>(), [uuid::Uuid::from(range.sent[1])]);
}

/// It is within the limit that its installation has set.
#[tokio::test]
async fn a_large_job_beside_a_bomb_is_no_bomb() {
    let range = Range::laid().await;
    let large = "to_jsonb(repeat('x', 70 << 20))";
    range.db.raw(&format!("update {{schema}}.job set payload = {large} where id = '{}'", range.sent[2])).await;
    let generous = range.db.with_payloads_of(100 << 20).await;
    let node = generous.node().await;
    let taken = generous.take(node, 10).await;
    range.cleared(&taken).await;
}

/// To look at each of its numbers takes a time that grows with their count, and not with its square: that would be minutes, and a call has one.
#[tokio::test]
async fn a_job_of_many_numbers_beside_a_bomb_is_no_bomb() {
    let range = Range::laid().await;
    let many = "('[' || repeat('1,', 1500000) || '1]')::jsonb";
    range.db.raw(&format!("update {{schema}}.job set payload = {many} where id = '{}'", range.sent[2])).await;
    let node = range.jobs.node().await;
    let taken = range.jobs.take(node, 10).await;
    range.cleared(&taken).await;
}

/// No one writes out a gigabyte to find a bomb, and no job is checked twice.
#[tokio::test]
async fn many_bombs_are_found_at_one_look() {
    let range = Range::laid().await;
    range.db.raw(&format!("update {{schema}}.job set payload = {BOMB}")).await;
    let more = range.jobs.send_all(jobs(40)).await;
    let odd = more.iter().skip(1).step_by(2).map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ");
    range.db.raw(&format!("update {{schema}}.job set payload = {BOMB} where id in ({odd})")).await;
    let node = range.jobs.node().await;
    assert_eq!(ids(&range.jobs.take(node, 100).await), more.iter().copied().step_by(2).collect::<Vec<_>>());
    assert_eq!(range.jobs.count(JobState::Dead).await, 25);
}

/// A worker's maintenance meets bombs too: it checks for jobs that it owns unknowingly, for lost jobs and for due ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_runs_the_good_ones_among_bombs() {
    let range = Range::laid().await;
    let sent = range.jobs.send_all(jobs(40)).await;
    let tenth = sent.iter().step_by(10).map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ");
    range.db.raw(&format!("update {{schema}}.job set payload = {BOMB} where id in ({tenth})")).await;
    let config = range.db.config_by(range.db.address()).call_timeout(Duration::from_secs(60));
    let messages = MessageServices::postgres(&config).await.unwrap();
    let executor = CommandExecutor::builder(messages)
        .config(patient())
        .handle("kind", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    eventually(Duration::from_secs(60), async || executor.stats().done == 40).await;
    executor.shutdown(Duration::from_secs(30)).await.unwrap();
    assert_eq!((range.jobs.count(JobState::Dead).await, range.jobs.all().await.len()), (5, 5));
}

/// An operator deletes it and its sender sends the same id again, just before it is dead-lettered: the new job has the version of the old one.
#[tokio::test]
async fn a_job_sent_again_with_the_same_id_is_not_dead_lettered() {
    let range = Range::laid().await;
    let (bomb, good) = (range.sent[1], range.sent[0]);
    let held = range.db.hold("lock table {schema}.dead_letter_job in access exclusive mode").await;
    let node = range.jobs.node().await;
    let swap = async {
        // It is found, and about to be moved.
        eventually(LATER, async || held.waiting().await > 0).await;
        range
            .db
            .raw(&format!(
                "delete from {{schema}}.job where id = '{bomb}';
                 insert into {{schema}}.job (id, kind, queue, rank, max_attempts, payload)
                 select '{bomb}', kind, queue, rank, max_attempts, payload from {{schema}}.job where id = '{good}'"
            ))
            .await;
        held.commit().await;
    };
    let request = everything(node);
    // It may fail once, because the row it met was moved by another transaction.
    let (claimed, ()) = tokio::join!(range.jobs.claim(&request), swap);
    let mut taken = claimed.map_or_else(|_| Vec::new(), |claimed| claimed.jobs);
    taken.extend(range.jobs.take(node, 10).await);
    assert_eq!(ids(&taken), range.sent.iter().copied().filter(|id| *id != bomb).chain([bomb]).collect::<Vec<_>>());
}

/// Its pages were lost: it can neither be sent nor be moved.
#[tokio::test]
async fn a_body_that_is_damaged_keeps_nothing_back() {
    let server = PrivatePg::start();
    let db = Pg::create_on(&server.url()).await;
    let store = db.jobs();
    let body = || Payload::bytes("text/plain", (0..100_000_u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>());
    let sent = store.send_all((0..5).map(|n| NewJob::new(if n == 1 { "damaged" } else { "good" }, body()))).await;
    // The server would not allow this: it deletes the pages of one body in the TOAST table.
    db.raw(
        "set allow_system_table_mods = on;
         do $$
         declare
             beside oid := (select reltoastrelid from pg_class where oid = '{schema}.job'::regclass);
         begin
             update pg_class set relkind = 'r' where oid = beside;
             execute format('delete from %s where chunk_id = (select chunk_id from %1$s group by chunk_id order by chunk_id offset 1 limit 1)', beside::regclass);
             update pg_class set relkind = 't' where oid = beside;
         end $$",
    )
    .await;
    let node = store.node().await;
    assert_eq!(ids(&store.take(node, 10).await), [sent[0], sent[2], sent[3], sent[4]]);
    let aside = store.find(&JobFilter::ids([sent[1]])).await;
    assert_eq!((aside[0].state, aside[0].queue.as_str()), (JobState::Waiting, "unreadable:default"));
}

/// In SQL, `send` writes its numbers out one by one, and stops at the size limit of a payload.
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
    let kilobytes = crate::hostile_input::memory::peak(pid);
    assert!(kilobytes < 200 * 1024, "a process of the server grew to {kilobytes} kB");
}
