//! Lets one job run alone in its process.
//!
//! If a process dies that ran nothing but one job, that job is to blame. So the suspects of a death run alone (dispatch/suspects.rs): nothing
//! is claimed by any node of this process meanwhile. Whatever claims asks [`is_open`] once it has the number of its claim, or a claim that
//! began earlier could take jobs after nothing seemed to run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex as Turn, MutexGuard, Notify};

/// How often to look whether jobs still run. Nothing waits for it but a suspect, or what comes after one.
const LOOK: Duration = Duration::from_millis(10);

/// A node, as far as it matters here.
pub(crate) trait Busy: Send + Sync {
    /// Returns how many jobs a handler runs, or will run.
    fn running(&self) -> usize;

    /// Waits until the claims under way have ended.
    fn claims_ended(&self) -> BoxFuture<'_, ()>;
}

static NODES: Mutex<Vec<Weak<dyn Busy>>> = Mutex::new(Vec::new());
static CLOSED: AtomicBool = AtomicBool::new(false);
/// Notified when jobs may be claimed again, and when they may no more.
static CHANGED: Notify = Notify::const_new();
static TURN: Turn<()> = Turn::const_new(());

/// Makes the jobs of a node count as running in this process.
pub(crate) fn register(node: Weak<dyn Busy>) {
    let mut nodes = NODES.lock().unwrap_or_else(PoisonError::into_inner);
    nodes.retain(|node| node.strong_count() > 0);
    nodes.push(node);
}

/// Makes the jobs of a node count no longer, because it has ended. A handler that blocks its thread for ever must not keep others from starting.
pub(crate) fn unregister(ended: &Weak<dyn Busy>) {
    NODES.lock().unwrap_or_else(PoisonError::into_inner).retain(|node| node.strong_count() > 0 && !node.ptr_eq(ended));
}

/// Returns whether jobs may be claimed and started in this process.
pub(crate) fn is_open() -> bool {
    !CLOSED.load(Ordering::SeqCst)
}

/// Waits until jobs may be claimed and started.
pub(crate) async fn opened() {
    changed_to(true).await;
}

/// Waits until no jobs may be claimed and started, because one is to run alone.
pub(crate) async fn closed() {
    changed_to(false).await;
}

async fn changed_to(open: bool) {
    loop {
        let mut changed = std::pin::pin!(CHANGED.notified());
        // From here on it hears of it.
        changed.as_mut().enable();
        if is_open() == open {
            return;
        }
        changed.await;
    }
}

/// Returns whether any node of this process runs a job.
pub(crate) fn is_busy() -> bool {
    nodes().iter().any(|node| node.running() > 0)
}

fn nodes() -> Vec<Arc<dyn Busy>> {
    NODES.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}

/// While this lives, no node of this process claims jobs to run, but for the one that holds it.
pub(crate) struct Alone {
    _turn: MutexGuard<'static, ()>,
}

impl Alone {
    /// Waits until nothing runs in this process, for `patience` at most, and begins nothing meanwhile.
    pub(crate) async fn begin(patience: Duration) -> Option<Self> {
        let empty = async {
            let turn = TURN.lock().await;
            CLOSED.store(true, Ordering::SeqCst);
            CHANGED.notify_waiters();
            let alone = Self { _turn: turn };
            for node in nodes() {
                node.claims_ended().await;
            }
            alone.ended().await;
            alone
        };
        tokio::time::timeout(patience, empty).await.ok()
    }

    /// Waits until nothing runs in this process.
    pub(crate) async fn ended(&self) {
        while is_busy() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        CLOSED.store(false, Ordering::SeqCst);
        CHANGED.notify_waiters();
    }
}
