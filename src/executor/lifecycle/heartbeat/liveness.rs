//! Whether the application's runtime still runs tasks.
//!
//! The heartbeat has a thread of its own, so that a handler that blocks the runtime does not cost the node its lease. Without a bound, a node whose
//! runtime stands still for good would keep its lease for ever, and no other node would get its jobs. So the heartbeat asks the runtime for a sign of
//! life with each renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::job::NodeId;

/// Asks a runtime for signs of life.
pub(crate) struct Liveness {
    runtime: Handle,
    /// Without a sign for this long, the node gives up its lease.
    limit: Duration,
    /// When the sign was asked for that has not come yet.
    asked: Option<Instant>,
    answered: Arc<AtomicBool>,
    /// Whether the log says that none comes.
    told: bool,
}

impl Liveness {
    /// Asks this runtime. No limit: it is not asked.
    pub(crate) fn of(runtime: Handle, limit: Option<Duration>) -> Option<Self> {
        limit.map(|limit| Self { runtime, limit, asked: None, answered: Arc::default(), told: false })
    }

    /// Returns whether the runtime has given no sign of life for too long. After `patience` it is warned of. To be called again and again.
    pub(super) fn is_over(&mut self, node: NodeId, patience: Duration) -> bool {
        if self.answered.swap(false, Ordering::AcqRel)
            && let Some(asked) = self.asked.take()
            && std::mem::take(&mut self.told)
        {
            tracing::info!(%node, after = ?asked.elapsed(), "the runtime of this process runs tasks again");
        }
        let Some(asked) = self.asked else {
            let answered = self.answered.clone();
            self.asked = Some(Instant::now());
            // A runtime that has ended drops it: then the node session has ended too, and this thread soon will.
            self.runtime.spawn(async move { answered.store(true, Ordering::Release) });
            return false;
        };
        let silent = asked.elapsed();
        if silent >= self.limit {
            tracing::error!(
                %node, ?silent,
                "the runtime of this process runs no tasks, so the work of this node stands still; giving up the lease, so that other nodes take its \
                 jobs. Handlers must not block the runtime's threads: use `tokio::task::spawn_blocking`"
            );
            return true;
        }
        if silent >= patience && !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                %node, ?silent, limit = ?self.limit,
                "the runtime of this process runs no tasks, so the work of this node stands still: a handler blocks its threads, or the process was \
                 suspended"
            );
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    /// A runtime whose only thread is blocked until the sender is dropped.
    fn blocked() -> (tokio::runtime::Runtime, std::sync::mpsc::Sender<()>) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        runtime.spawn(async move {
            let _ = released.recv();
        });
        (runtime, release)
    }

    #[test]
    fn a_runtime_that_stands_still_is_noticed_and_one_that_goes_on_is_not() {
        let (runtime, release) = blocked();
        let mut patient = Liveness::of(runtime.handle().clone(), Some(Duration::from_secs(3600))).unwrap();
        let mut strict = Liveness::of(runtime.handle().clone(), Some(Duration::ZERO)).unwrap();
        assert!(!strict.is_over(NODE, Duration::ZERO), "nothing was asked before");
        assert!(strict.is_over(NODE, Duration::ZERO));
        assert!(!patient.is_over(NODE, Duration::ZERO) && !patient.is_over(NODE, Duration::ZERO) && patient.told);
        drop(release);
        let begun = Instant::now();
        while patient.told {
            assert!(begun.elapsed() < Duration::from_secs(60), "the sign is not seen");
            assert!(!patient.is_over(NODE, Duration::from_secs(3600)));
            std::thread::yield_now();
        }
        assert!(Liveness::of(runtime.handle().clone(), None).is_none());
    }
}
