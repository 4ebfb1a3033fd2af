//! A job kills its process again and again, beside others, under a supervisor that starts the worker again.

use std::time::{Duration, Instant};

use jobwright::JobId;
use jobwright::admin::JobState;

use crate::faults::ledger_worker::{Does, Orders, job};
use crate::support::TestDb;
use crate::support::environment::{PATIENCE, World};
use crate::support::postgres::Pg;
#[cfg(feature = "sqlite")]
use crate::support::sqlite::SqliteDb;

/// Sends jobs with enough attempts in one commit, so that the first claim takes them together.
async fn send<W: World>(db: &W, all: &[(Does, u32)]) -> Vec<JobId> {
    let messages = db.messages().await;
    let mut cx = messages.begin();
    let ids = all.iter().map(|(does, attempts)| cx.send(job(*does).max_attempts(*attempts)).unwrap()).collect();
    cx.commit().await.unwrap();
    ids
}

/// Starts workers, and each again when its process has died, until no job is left but dead letters. Returns how many processes died.
async fn supervise<W: World>(db: &W, workers: usize) -> usize {
    let start = |name: usize| Orders::new(&db.config(), &format!("worker {name}")).quarantine_after(2).start();
    let mut running: Vec<_> = (0..workers).map(start).collect();
    let (began, mut deaths) = (Instant::now(), 0);
    loop {
        if db.jobs().all().await.iter().all(|job| job.state == JobState::Dead) {
            return deaths;
        }
        assert!(began.elapsed() < 2 * PATIENCE, "after {deaths} deaths: {:#?}", db.jobs().all().await);
        for (name, worker) in running.iter_mut().enumerate() {
            if !worker.is_running() {
                deaths += 1;
                *worker = start(name);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The killer dies once beside its neighbours, and then twice alone. Its neighbours, which take longer than it, are done.
async fn only_the_killer<W: World>(db: &W, workers: usize) {
    // A lifetime of the long ones has room for several deaths of their process.
    let all = [(Does::TakeLong, 100), (Does::NoteThenAbort, 100), (Does::TakeLong, 100), (Does::Note, 100)];
    let ids = send(db, &all).await;
    let deaths = supervise(db, workers).await;
    let dead: Vec<JobId> = db.jobs().all().await.iter().map(|job| job.id).collect();
    assert_eq!(dead, ids[1..2], "{:#?}", db.jobs().all().await);
    db.each_once(&[ids[0], ids[2], ids[3]]).await;
    let detail = db.jobs().detail(ids[1]).await;
    assert_eq!(detail.dead.unwrap().1, "quarantined: its process died 2 times while it ran alone");
    assert_eq!((detail.summary.attempt, deaths), (3, 3), "{:?}", detail.errors);
    let alone = detail.errors.iter().filter(|error| error.error.ends_with("while this job ran alone"));
    assert_eq!(alone.count(), 2, "{:?}", detail.errors);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killer_is_quarantined_and_its_neighbours_are_not() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    only_the_killer(&db, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killer_is_quarantined_and_its_neighbours_on_another_node_are_not() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    only_the_killer(&db, 2).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killer_is_quarantined_on_an_embedded_database() {
    let db = SqliteDb::with_ledger().await.unwrap();
    only_the_killer(&db, 1).await;
}

/// Several killers together, and more of them than deaths that are needed for a quarantine: each is found, and nobody else is blamed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_killers_bury_no_neighbour() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let all: Vec<_> = [Does::TakeLong].into_iter().chain([Does::NoteThenAbort; 3]).map(|does| (does, 100)).collect();
    let ids = send(&db, &all).await;
    supervise(&db, 1).await;
    for id in &ids[1..] {
        let detail = db.jobs().detail(*id).await;
        assert_eq!(detail.dead.unwrap().1, "quarantined: its process died 2 times while it ran alone");
    }
    db.each_once(&ids[..1]).await;
}

/// None is a killer, but the process dies if two of them run at the same time. Each has two attempts: one that ended with the first process,
/// and one alone.
async fn all_get_through<W: World>(db: &W) {
    let ids = send(db, &[(Does::NeedMuch, 2); 6]).await;
    supervise(db, 1).await;
    assert_eq!(db.jobs().count(JobState::Dead).await, 0, "{:#?}", db.jobs().all().await);
    db.each_once(&ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_jobs_that_kill_their_process_together_get_through_one_by_one() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    all_get_through(&db).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_jobs_get_through_one_by_one_on_an_embedded_database() {
    let db = SqliteDb::with_ledger().await.unwrap();
    all_get_through(&db).await;
}
