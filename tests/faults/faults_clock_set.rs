//! Clocks that are set during work.

use std::collections::BTreeMap;
use std::time::Duration;

use jobwright::admin::{JobState, Rule, Scope};
use jobwright::internal::engine::schedules::{get, put};
use jobwright::internal::engine::testing;
use jobwright::{JobId, MessageServices, NewSchedule, NodeId, Overlap, Schedule};

use crate::faults::ledger_worker::{Does, Orders, job};
use crate::support::environment::{PATIENCE, World};
use crate::support::fake_clock::FakedClock;
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::process::{Sign, Worker};
#[cfg(feature = "sqlite")]
use crate::support::sqlite::SqliteDb;
use crate::support::{TestDb as _, eventually};

/// In seconds.
const LEASE: u64 = 4;
/// Heartbeats of more than one lease.
const BEATS: i64 = 4;

/// Returns the live nodes, and how often each has sent a heartbeat.
async fn beats<W: World>(db: &W) -> BTreeMap<NodeId, i64> {
    db.jobs().node_heartbeats().await.unwrap().iter().map(|heartbeat| (heartbeat.node, heartbeat.heartbeats)).collect()
}

/// Waits for more than a lease, and asserts that the same nodes live.
async fn all_live_on<W: World>(db: &W, nodes: usize) {
    let before = beats(db).await;
    assert_eq!(before.len(), nodes, "{before:?}");
    eventually(PATIENCE, async || {
        let now = beats(db).await;
        assert!(now.keys().eq(before.keys()), "somebody died: {before:?}, {now:?}");
        before.iter().all(|(node, heartbeats)| now[node] >= heartbeats + BEATS)
    })
    .await;
}

fn workers<W: World>(db: &W, count: usize, clock: &FakedClock, sign: &Sign) -> Vec<Worker> {
    let start = |n: usize| {
        let mut orders = Orders::new(&db.config(), &format!("worker {n}")).waiting_for(sign);
        // A node that dies here must not have died of a slow machine.
        orders.lease = LEASE;
        orders.start_with(|command| clock.followed_by(command))
    };
    (0..count).map(start).collect()
}

async fn send<W: World>(messages: &MessageServices<W::Store>) -> Vec<JobId> {
    let mut cx = messages.begin();
    let mut ids: Vec<JobId> = (0..20).map(|_| cx.send(job(Does::Note)).unwrap()).collect();
    ids.extend((0..10).map(|_| cx.send(job(Does::Alone).exclusive("g")).unwrap()));
    cx.commit().await.unwrap();
    ids
}

/// Steps of an hour: forward, back, behind the true time and forward again. There are more than the number of deaths that causes a quarantine.
async fn clock_steps_change_nothing<W: World>(db: W, count: usize) {
    let (clock, overlapped) = (FakedClock::right(), Sign::new());
    let messages = db.messages().await;
    let mut workers = workers(&db, count, &clock, &overlapped);
    eventually(PATIENCE, async || beats(&db).await.len() == count).await;
    let born = beats(&db).await;
    let mut ids = Vec::new();
    for ahead in [0, 3600, 0, -3600, 0] {
        // During work: some before, some after.
        ids.extend(send::<W>(&messages).await);
        clock.set(ahead);
        ids.extend(send::<W>(&messages).await);
        all_live_on(&db, count).await;
        let jobs = db.jobs();
        eventually(PATIENCE, async || jobs.all().await.is_empty()).await;
        assert_eq!(overlapped.text(), None, "two of a group ran at the same time, {ahead} s ahead");
    }
    db.each_once(&ids).await;
    assert!(beats(&db).await.keys().eq(born.keys()), "the same nodes as at the beginning");
    assert!(workers.iter_mut().all(Worker::is_running));
    assert_eq!(db.jobs().count(JobState::Dead).await, 0);
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hosts_clock_steps_under_workers_on_an_embedded_database() {
    let Some(db) = SqliteDb::with_ledger().await else { return };
    clock_steps_change_nothing(db, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_of_a_worker_steps() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    clock_steps_change_nothing(db, 2).await;
}

/// The server's own clock, by which everything is due: no node dies of its steps, and schedules and rates go on, forward and back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_of_the_server_steps() {
    if crate::support::postgres_url().is_none() {
        return;
    }
    let server = PrivatePg::start_with_clock();
    let db = Pg::<false>::create_on(&server.url()).await;
    db.create_ledger().await;
    let jobs = db.jobs();
    jobs.put_rule(&Rule::new(Scope::Queue, "default").rate(5, Duration::from_secs(1))).await.unwrap();
    let often = NewSchedule::new("often", Schedule::new("1s").unwrap(), job(Does::Note)).overlap(Overlap::Allow);
    put(&*jobs.0, &testing::schedule(often).unwrap(), None, None).await.unwrap();
    let fired = async || get(&*jobs.0, "often").await.unwrap().unwrap().fired;

    let overlapped = Sign::new();
    let messages = db.messages().await;
    let right = FakedClock::right();
    let mut workers = workers(&db, 2, &right, &overlapped);
    eventually(PATIENCE, async || beats(&db).await.len() == 2).await;
    let born = beats(&db).await;
    let mut ids = Vec::new();
    for ahead in [0, 300, 0, -300, 0] {
        server.set_clock(ahead);
        ids.extend(send::<Pg<false>>(&messages).await);
        let before = fired().await;
        all_live_on(&db, 2).await;
        // The jobs have passed the rate, and the schedule has fired again.
        for id in &ids {
            db.gone(*id).await;
        }
        eventually(PATIENCE, async || fired().await >= before + 2).await;
        assert_eq!(overlapped.text(), None, "two of a group ran at the same time, {ahead} s ahead");
    }
    assert!(beats(&db).await.keys().eq(born.keys()), "the same nodes as at the beginning");
    assert!(workers.iter_mut().all(Worker::is_running));
    assert_eq!(jobs.count(JobState::Dead).await, 0);
    let twice: Vec<_> = db.ledger().await.into_iter().filter(|(_, times)| *times != 1).collect();
    assert!(twice.is_empty(), "took effect more than once: {twice:?}");
}
