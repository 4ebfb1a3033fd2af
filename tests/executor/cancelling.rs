//! Jobs that are cancelled while they run: their handlers are notified, and nothing they did is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::{CommandExecutor, JobId, NewJob, Outcome};

use crate::support::environment::{PATIENCE, World, quick};
use crate::support::eventually;

/// Counts what became of handlers.
#[derive(Default)]
struct Seen {
    started: AtomicU64,
    /// Handlers that were asked to stop.
    told: AtomicU64,
    /// Handlers that ran to their end.
    ended: AtomicU64,
    /// Handlers whose futures returned or were dropped.
    dropped: AtomicU64,
}

impl Seen {
    fn count(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::SeqCst)
    }

    async fn reaches(counter: &AtomicU64, n: u64) {
        eventually(PATIENCE, async || Self::count(counter) >= n).await;
    }
}

/// Counts when it is dropped.
struct Goes(Arc<Seen>);

impl Drop for Goes {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Builds an executor with three kinds: `asks` polls whether it should stop; `writes` waits to be notified, then writes a line and returns `Done`;
/// `deaf` never checks.
async fn executor<W: World>(db: &W, grace: Duration) -> (CommandExecutor<W::Store>, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let mut builder =
        CommandExecutor::builder(db.messages().await).config(quick().cancel_grace(grace)).queue("default", 8);
    for kind in ["writes", "deaf", "asks"] {
        let seen = seen.clone();
        builder = builder.handle_with(kind, move |cx| {
            let seen = seen.clone();
            Box::pin(async move {
                let _goes = Goes(seen.clone());
                seen.started.fetch_add(1, Ordering::SeqCst);
                match kind {
                    "writes" => cx.cancelled().await,
                    "deaf" => std::future::pending().await,
                    _ => {
                        while !cx.is_cancelled() {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                }
                seen.told.fetch_add(1, Ordering::SeqCst);
                if kind == "writes" {
                    W::note(cx.transaction().await?, "too late").await?;
                }
                seen.ended.fetch_add(1, Ordering::SeqCst);
                Ok(Outcome::Done)
            })
        });
    }
    (builder.start().await.unwrap(), seen)
}

async fn cancel<W: World>(db: &W, id: JobId) {
    let affected = db.jobs().cancel(&JobFilter::ids([id]), false).await.unwrap();
    assert_eq!(affected.0.get(&JobState::Running), Some(&1));
}

pub(crate) async fn a_cancelled_handler_is_notified_and_may_clean_up<W: World>(db: &W) {
    let (executor, seen) = executor(db, Duration::from_secs(600)).await;
    let messages = db.messages().await;
    let id = messages.send(NewJob::json("asks", &1)).await.unwrap();
    Seen::reaches(&seen.started, 1).await;
    let other = messages.send(NewJob::json("asks", &2)).await.unwrap();
    Seen::reaches(&seen.started, 2).await;
    cancel(db, id).await;
    Seen::reaches(&seen.ended, 1).await;
    eventually(PATIENCE, async || executor.stats().cancelled == 1).await;
    assert_eq!(Seen::count(&seen.told), 1, "the other one is not meant");
    let jobs = db.jobs();
    assert_eq!((jobs.state(id).await, jobs.state(other).await), (None, Some(JobState::Running)));
    cancel(db, other).await;
    Seen::reaches(&seen.ended, 2).await;
    let stats = executor.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!((stats.cancelled, stats.done, stats.failed, stats.released, stats.in_flight), (2, 0, 0, 0, 0));
}

pub(crate) async fn one_that_does_not_listen_is_dropped<W: World>(db: &W) {
    let (executor, seen) = executor(db, Duration::from_millis(50)).await;
    let id = db.messages().await.send(NewJob::json("deaf", &1).max_attempts(1)).await.unwrap();
    Seen::reaches(&seen.started, 1).await;
    cancel(db, id).await;
    Seen::reaches(&seen.dropped, 1).await;
    eventually(PATIENCE, async || executor.stats().cancelled == 1).await;
    assert_eq!((Seen::count(&seen.told), Seen::count(&seen.ended)), (0, 0));
    assert_eq!(db.jobs().state(id).await, None);
    let stats = executor.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!((stats.cancelled, stats.failed, stats.in_flight), (1, 0, 0));
}

/// A shutdown ends every grace period.
pub(crate) async fn a_shutdown_ends_the_grace<W: World>(db: &W) {
    let (executor, seen) = executor(db, Duration::from_secs(3600)).await;
    let id = db.messages().await.send(NewJob::json("deaf", &1)).await.unwrap();
    Seen::reaches(&seen.started, 1).await;
    cancel(db, id).await;
    let stopped = tokio::time::timeout(PATIENCE, executor.shutdown(Duration::from_secs(2))).await;
    stopped.expect("it waits for ever").unwrap();
    assert_eq!(Seen::count(&seen.dropped), 1);
    assert_eq!(db.jobs().state(id).await, None);
}

/// The same id is sent again and runs on the same node while the first handler still has its grace: cancelling the one does not stop the other, and
/// the end of the one does not end the other.
pub(crate) async fn its_id_is_sent_again<W: World>(db: &W) {
    let (executor, seen) = executor(db, Duration::from_secs(2)).await;
    let messages = db.messages().await;
    let id = messages.send(NewJob::json("deaf", &1).id(JobId::new())).await.unwrap();
    Seen::reaches(&seen.started, 1).await;
    cancel(db, id).await;
    assert_eq!(messages.send(NewJob::json("asks", &2).id(id)).await.unwrap(), id);
    Seen::reaches(&seen.started, 2).await;
    Seen::reaches(&seen.dropped, 1).await;
    eventually(PATIENCE, async || executor.stats().cancelled == 1).await;
    assert_eq!((Seen::count(&seen.told), Seen::count(&seen.ended)), (0, 0), "the other one is not meant");
    assert_eq!(db.jobs().state(id).await, Some(JobState::Running));

    // Again, while the first one's cancellation may still be remembered.
    cancel(db, id).await;
    Seen::reaches(&seen.ended, 1).await;
    messages.send(NewJob::json("asks", &3).id(id)).await.unwrap();
    Seen::reaches(&seen.started, 3).await;
    let other = messages.send(NewJob::json("asks", &4)).await.unwrap();
    Seen::reaches(&seen.started, 4).await;
    // By then the node has asked the database more than once.
    cancel(db, other).await;
    Seen::reaches(&seen.ended, 2).await;
    eventually(PATIENCE, async || executor.stats().cancelled == 3).await;
    assert_eq!(db.jobs().state(id).await, Some(JobState::Running));
    cancel(db, id).await;
    Seen::reaches(&seen.ended, 3).await;
    let stats = executor.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!((stats.cancelled, stats.done, stats.refused, stats.in_flight), (4, 0, 0, 0));
}

/// The slot and the group become free for others at once.
pub(crate) async fn the_group_goes_on<W: World>(db: &W) {
    let (executor, seen) = executor(db, Duration::from_millis(10)).await;
    let messages = db.messages().await;
    let first = messages.send(NewJob::json("deaf", &1).exclusive("g")).await.unwrap();
    Seen::reaches(&seen.started, 1).await;
    let second = messages.send(NewJob::json("deaf", &1).exclusive("g")).await.unwrap();
    cancel(db, first).await;
    Seen::reaches(&seen.started, 2).await;
    assert_eq!(db.jobs().state(second).await, Some(JobState::Running));
    cancel(db, second).await;
    eventually(PATIENCE, async || executor.stats().cancelled == 2).await;
    assert_eq!(db.jobs().permit_faults().await.unwrap(), Vec::<String>::new());
    executor.shutdown(Duration::from_secs(20)).await.unwrap();
}

pub(crate) async fn writes_of_a_cancelled_handler_are_rolled_back<W: World>(db: &W) {
    let (executor, seen) = executor(db, Duration::from_secs(600)).await;
    let id = db.messages().await.send(NewJob::json("writes", &1)).await.unwrap();
    Seen::reaches(&seen.started, 1).await;
    cancel(db, id).await;
    Seen::reaches(&seen.ended, 1).await;
    let stats = executor.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!((stats.cancelled, stats.done, stats.refused), (1, 0, 0));
    assert!(db.ledger().await.is_empty());
}
