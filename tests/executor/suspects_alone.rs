//! Suspects of the death of a process run alone, and other jobs go on.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobwright::admin::{JobState, Rule, Scope};
use jobwright::{BatchOptions, CommandExecutor, MessageServices, NewJob, Outcome};

use crate::support::environment::{World, quick};

/// What handlers saw of each other, whichever executor of this process ran them.
#[derive(Debug, Default)]
struct Seen {
    running: AtomicUsize,
    /// The most that ran together.
    most: AtomicUsize,
    /// How many suspects ran, and how often one of them was not alone.
    suspects: AtomicUsize,
    in_company: AtomicUsize,
}

/// Starts an executor whose jobs take a while. A suspect has been tried once.
async fn counting<W: World>(messages: &MessageServices<W::Store>, seen: &Arc<Seen>) -> CommandExecutor<W::Store> {
    let seen = seen.clone();
    CommandExecutor::builder(messages.clone())
        .config(quick().quarantine_after(3))
        .queue("default", 4)
        .handle_with("counts", move |cx| {
            let seen = seen.clone();
            Box::pin(async move {
                let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
                seen.most.fetch_max(running, Ordering::SeqCst);
                let is_suspect = cx.job().attempt > 1;
                seen.suspects.fetch_add(usize::from(is_suspect), Ordering::SeqCst);
                for _ in 0..20 {
                    let beside = seen.running.load(Ordering::SeqCst) > 1;
                    seen.in_company.fetch_add(usize::from(is_suspect && beside), Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                seen.running.fetch_sub(1, Ordering::SeqCst);
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap()
}

async fn send<W: World>(messages: &MessageServices<W::Store>, count: usize) {
    let mut cx = messages.begin();
    for _ in 0..count {
        cx.send(NewJob::json("counts", &())).unwrap();
    }
    cx.commit().await.unwrap();
}

/// Sends jobs, and makes suspects of them.
async fn suspected<W: World>(db: &W, messages: &MessageServices<W::Store>, count: usize) {
    send::<W>(messages, count).await;
    let store = db.jobs();
    let node = store.node().await;
    assert_eq!(store.take(node, count).await.len(), count);
    db.bury(node).await;
    let released = store.release_lost(100, NonZeroU32::new(3)).await.unwrap();
    assert_eq!((released.waiting, store.count(JobState::Blocked).await), (count as u64, count));
}

/// Neither in its own executor nor in another one of the process, which are busy before and after.
pub(crate) async fn nothing_runs_beside_one<W: World>(db: &W) {
    let messages = db.messages().await;
    suspected(db, &messages, 5).await;
    let seen = Arc::new(Seen::default());
    let first = counting::<W>(&messages, &seen).await;
    let second = counting::<W>(&messages, &seen).await;
    for _ in 0..10 {
        send::<W>(&messages, 20).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    db.drained().await;
    assert_eq!(seen.suspects.load(Ordering::SeqCst), 5);
    assert_eq!(seen.in_company.load(Ordering::SeqCst), 0);
    assert!(seen.most.load(Ordering::SeqCst) > 1, "nothing ever ran beside anything");
    for executor in [first, second] {
        assert_eq!(executor.shutdown(Duration::from_secs(20)).await.unwrap().refused, 0);
    }
}

/// Jobs that wait for others to make a batch run as they are: nothing is claimed any more that could join them.
pub(crate) async fn a_batch_does_not_keep_one_waiting<W: World>(db: &W) {
    let messages = db.messages().await;
    // Before there is an executor whose monitor could release them first.
    suspected(db, &messages, 1).await;
    let batches = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 4)
        .handle_batch("gathers", BatchOptions::new(10).wait(Duration::from_secs(60)), |batch| {
            Box::pin(async move { Ok(batch.all_done()) })
        })
        .start()
        .await
        .unwrap();
    let gathers = messages.send(NewJob::json("gathers", &())).await.unwrap();
    db.reaches(gathers, JobState::Running).await;
    let seen = Arc::new(Seen::default());
    let executor = counting::<W>(&messages, &seen).await;
    crate::support::eventually(Duration::from_secs(45), async || seen.suspects.load(Ordering::SeqCst) == 1).await;
    db.drained().await;
    for executor in [batches, executor] {
        executor.shutdown(Duration::from_secs(20)).await.unwrap();
    }
}

/// Limits hold for suspects, and are free again after them.
pub(crate) async fn limits_count_them<W: World>(db: &W) {
    let messages = db.messages().await;
    suspected(db, &messages, 3).await;
    for rule in [Rule::new(Scope::Kind, "counts").running(2), Rule::new(Scope::Queue, "default").running(1)] {
        db.jobs().put_rule(&rule).await.unwrap();
    }
    let seen = Arc::new(Seen::default());
    let executor = counting::<W>(&messages, &seen).await;
    db.drained().await;
    send::<W>(&messages, 10).await;
    db.drained().await;
    assert_eq!((seen.suspects.load(Ordering::SeqCst), seen.most.load(Ordering::SeqCst)), (3, 1));
    executor.shutdown(Duration::from_secs(20)).await.unwrap();
}

/// Suspects that wait do not keep an executor from stopping, and neither does one that runs.
pub(crate) async fn an_executor_stops_in_the_middle<W: World>(db: &W) {
    let messages = db.messages().await;
    suspected(db, &messages, 20).await;
    let seen = Arc::new(Seen::default());
    let executor = counting::<W>(&messages, &seen).await;
    let jobs = db.jobs();
    crate::support::eventually(Duration::from_secs(30), async || seen.suspects.load(Ordering::SeqCst) > 0).await;
    let stats = executor.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!((stats.in_flight, stats.released, jobs.count(JobState::Running).await), (0, 0, 0));
    assert_eq!(seen.in_company.load(Ordering::SeqCst), 0);
    // Another one goes on with the rest.
    let executor = counting::<W>(&messages, &seen).await;
    db.drained().await;
    assert_eq!(seen.suspects.load(Ordering::SeqCst), 20);
    executor.shutdown(Duration::from_secs(20)).await.unwrap();
}
