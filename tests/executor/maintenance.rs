//! Work that comes without a hint is found by the single query that a node makes for all of its maintenance.

use crate::support::jobs::hand_out_number;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobwright::admin::JobState;
use jobwright::{NewJob, NewSchedule, Schedule};

use crate::executor::successful_jobs::note;
use crate::executor::wake_ups::with_nothing_to_do;
use crate::support::environment::{PATIENCE, World, lease};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Each task also looks separately, but only after 120 polls: not before 96 times this interval.
const POLL: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_query_finds_work_without_hints() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let daily = NewSchedule::new("daily", Schedule::new("24h").unwrap(), note());
    messages.schedules().put(daily).await.unwrap();
    let begun = Instant::now();
    let config = lease(30).poll_interval(POLL);
    let executor = with_nothing_to_do::<Pg<false>>(&messages, config).await;
    db.drained().await;
    let store = db.jobs();
    let noted = async || db.ledger().await.len();
    let before = noted().await;

    store.send(note().delay(Duration::from_millis(1))).await;
    store.send(note().exclusive("group")).await;
    db.make_due("daily", Timestamp::now()).await;
    eventually(PATIENCE, async || noted().await == before + 3).await;

    let late = store.send(NewJob::json("unknown", &()).ttl(Duration::from_millis(1))).await;
    db.reaches(late, JobState::Dead).await;

    let out = store.send(NewJob::json("foreign", &()).queue("out")).await;
    assert_eq!(store.hand_out("out", 1, Duration::from_millis(1), hand_out_number()).await.unwrap().len(), 1);
    db.reaches(out, JobState::Waiting).await;

    assert!(begun.elapsed() < POLL * 96, "found by a look that nobody asked for: {:?}", begun.elapsed());
    executor.shutdown(Duration::ZERO).await.unwrap();
}
