//! Concurrent calls: nothing twice, nothing lost, nothing stuck.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jobwright::JobId;
use jobwright::admin::JobState;
use jobwright::internal::engine::{Settlement, Verdict};
use tokio::task::JoinSet;

use crate::support::jobs::{fences, ids, job, jobs, messages, node_info, set};
use crate::support::{TestDb, eventually};

/// Returns two handles with separate connections, as two processes have them.
async fn two_processes<T: TestDb>(db: &T) -> [crate::support::Jobs; 2] {
    use jobwright::Store;
    [db.jobs(), crate::support::Jobs(db.reopen().await.engine())]
}

pub(crate) async fn claimers_share_without_overlap<T: TestDb>(db: &T) {
    let handles = two_processes(db).await;
    let sent = set(handles[0].send_all(jobs(500)).await);
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let store = handles[n % 2].clone();
        tasks.spawn(async move {
            let node = store.node().await;
            let mut all = Vec::new();
            loop {
                let claimed = store.take(node, 7).await;
                all.extend(ids(&claimed));
                // Rows that another claim has locked are passed over, so the work is over only when no job waits.
                if claimed.is_empty() && store.count(JobState::Waiting).await == 0 {
                    return all;
                }
            }
        });
    }
    let claimed = tasks.join_all().await.concat();
    assert_eq!(claimed.len(), 500, "none twice");
    assert_eq!(set(claimed), sent, "none left out");
}

/// Sends, claims, completes, fails and promotes at once, until all jobs are done.
pub(crate) async fn everything_at_once<T: TestDb>(db: &T) {
    const SENDERS: usize = 2;
    const BATCHES: usize = 20;
    const BATCH: usize = 10;
    const TOTAL: usize = SENDERS * BATCHES * BATCH;
    let handles = two_processes(db).await;
    let mut senders = JoinSet::new();
    for n in 0..SENDERS {
        let store = handles[n % 2].clone();
        senders.spawn(async move {
            let mut sent = Vec::new();
            for _ in 0..BATCHES {
                sent.extend(store.send_all(jobs(BATCH)).await);
            }
            sent
        });
    }
    let finished = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for n in 0..4 {
        let store = handles[n % 2].clone();
        let finished = finished.clone();
        workers.spawn(async move {
            let node = store.node().await;
            let mut done = Vec::new();
            // Bounded: with a store that loses a job the loop would never end.
            let start = std::time::Instant::now();
            while finished.load(Ordering::Relaxed) < TOTAL && start.elapsed() < Duration::from_secs(60) {
                store.promote().await;
                let claimed = store.take(node, 9).await;
                // Every third fails once.
                let (failed, good): (Vec<_>, Vec<_>) =
                    claimed.into_iter().partition(|job| job.seq % 3 == 0 && job.attempt == 1);
                let failures: Vec<_> =
                    failed.iter().map(|job| Settlement::new(job.fence(), Verdict::Retry(Duration::ZERO))).collect();
                assert_eq!(store.settle(node, &failures).await.unwrap().len(), failed.len());
                let accepted = store.complete(node, &fences(&good)).await.unwrap();
                assert_eq!(accepted.len(), good.len());
                finished.fetch_add(accepted.len(), Ordering::Relaxed);
                done.extend(accepted);
            }
            done
        });
    }
    let sent = senders.join_all().await.concat();
    let done = workers.join_all().await.concat();
    assert_eq!(done.len(), TOTAL, "each exactly once");
    assert_eq!(set(done), set(sent));
    assert_eq!(handles[0].all().await.len(), 0);
}

pub(crate) async fn promoters_share_without_overlap<T: TestDb>(db: &T) {
    let handles = two_processes(db).await;
    let store = &handles[0];
    let node = store.node().await;
    store.send_all(jobs(200)).await;
    let batch: Vec<_> = store
        .take(node, 200)
        .await
        .iter()
        .map(|job| Settlement::new(job.fence(), Verdict::Snooze(Duration::ZERO)))
        .collect();
    assert_eq!(store.settle(node, &batch).await.unwrap().len(), 200);
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let store = handles[n % 2].clone();
        tasks.spawn(async move {
            let mut total = 0;
            while store.count(JobState::Timer).await > 0 {
                total += store.promote_due(7).await.unwrap().jobs;
            }
            total
        });
    }
    assert_eq!(tasks.join_all().await.iter().sum::<u64>(), 200, "each promoted once");
    let claimed = store.take(node, 1000).await;
    assert_eq!((claimed.len(), set(ids(&claimed)).len()), (200, 200));
}

pub(crate) async fn monitors_share_without_overlap<T: TestDb>(db: &T) {
    let handles = two_processes(db).await;
    let store = &handles[0];
    store.send_all((0..100).map(|n| if n % 4 == 0 { job().max_attempts(1) } else { job() })).await;
    let node = store.node().await;
    assert_eq!(store.take(node, 100).await.len(), 100);
    db.bury(node).await;
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let store = handles[n % 2].clone();
        tasks.spawn(async move {
            let mut sum = (0, 0);
            while store.count(JobState::Running).await > 0 {
                let released = store.release_lost(7, None).await.unwrap();
                sum = (sum.0 + released.waiting, sum.1 + released.dead);
            }
            sum
        });
    }
    let sums = tasks.join_all().await;
    assert_eq!(sums.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1)), (75, 25));
    for summary in store.all().await {
        assert_eq!(store.detail(summary.id).await.errors.len(), 1, "one loss, one entry");
    }
}

/// When many report an outcome of the same claim at once, one is accepted.
pub(crate) async fn one_outcome_wins<T: TestDb>(db: &T) {
    let handles = two_processes(db).await;
    for _ in 0..10 {
        let (node, claimed) = handles[0].running(job()).await;
        let fence = claimed.fence();
        let mut tasks = JoinSet::new();
        for n in 0..6 {
            let store = handles[n % 2].clone();
            tasks.spawn(async move {
                match n % 3 {
                    0 => store.complete(node, &[fence]).await.unwrap().len(),
                    1 => usize::from(store.settle_one(node, fence, Verdict::Cancel).await),
                    _ => usize::from(store.settle_one(node, fence, Verdict::Snooze(Duration::from_secs(3600))).await),
                }
            });
        }
        assert_eq!(tasks.join_all().await.iter().sum::<usize>(), 1);
        assert!(handles[0].count(JobState::Waiting).await == 0);
    }
}

/// When many send the same id at once, one inserts it.
pub(crate) async fn one_send_of_an_id_wins<T: TestDb>(db: &T) {
    let handles = two_processes(db).await;
    for round in 0..5 {
        let id = JobId::new();
        let mut tasks = JoinSet::new();
        for n in 0..6 {
            let store = handles[n % 2].clone();
            tasks.spawn(async move { store.insert(&messages([job().id(id)]), None).await.unwrap().rows });
        }
        assert_eq!(tasks.join_all().await.iter().sum::<u64>(), 1);
        assert_eq!(handles[0].all().await.len(), round + 1);
    }
}

/// Overlapping batches in different orders must not deadlock into an error for the sender.
pub(crate) async fn overlapping_batches_do_not_collide<T: TestDb>(db: &T) {
    let handles = two_processes(db).await;
    let shared: Vec<JobId> = (0..50).map(|_| JobId::new()).collect();
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let store = handles[n % 2].clone();
        let mut order = shared.clone();
        order.rotate_left(n * 13);
        if n % 2 == 1 {
            order.reverse();
        }
        tasks.spawn(async move {
            let batch = messages(order.into_iter().map(|id| job().id(id)));
            loop {
                match store.insert(&batch, None).await {
                    Ok(inserted) => return inserted.rows,
                    Err(error) => assert!(error.is_retryable(), "{error:?}"),
                }
            }
        });
    }
    assert_eq!(tasks.join_all().await.iter().sum::<u64>(), 50);
    assert_eq!(handles[0].all().await.len(), 50);
}

/// A job that is claimed while its node is declared dead is released afterwards; a claim that begins later takes nothing.
pub(crate) async fn claims_meet_the_death_of_their_node<T: TestDb>(db: &T) {
    let handles = two_processes(db).await;
    let [store, reaper] = &handles;
    // More than can be claimed meanwhile, so that the late claims find something to take.
    store.send_all(jobs(1000)).await;
    for _ in 0..10 {
        let node = store.node().await;
        let (took, dead) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let claims = tokio::spawn({
            let (claimer, took, dead) = (store.clone(), took.clone(), dead.clone());
            async move {
                while !dead.load(Ordering::SeqCst) {
                    took.fetch_add(claimer.take(node, 1).await.len(), Ordering::SeqCst);
                }
                claimer.take(node, 1).await.len()
            }
        });
        eventually(Duration::from_secs(5), async || took.load(Ordering::SeqCst) > 0).await;
        db.bury(node).await;
        dead.store(true, Ordering::SeqCst);
        let mut released = reaper.release_lost(1000, None).await.unwrap().total();
        assert_eq!(claims.await.unwrap(), 0, "what begins after the death takes nothing");
        assert!(store.count(JobState::Waiting).await > 0, "there was something to take");
        // Jobs whose claims were in flight during the first release.
        released += reaper.release_lost(1000, None).await.unwrap().total();
        assert_eq!(released, took.load(Ordering::SeqCst) as u64, "whatever the dead node took was released");
        assert_eq!(store.count(JobState::Running).await, 0);
    }
}

pub(crate) async fn nodes_register_at_once<T: TestDb>(db: &T) {
    let handles = two_processes(db).await;
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let store = handles[n % 2].clone();
        tasks.spawn(async move { store.register_node(&node_info("same")).await.unwrap() });
    }
    let nodes: BTreeSet<_> = tasks.join_all().await.into_iter().collect();
    assert_eq!(nodes.len(), 8);
}
