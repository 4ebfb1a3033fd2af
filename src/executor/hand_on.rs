//! From a job that is done to the next one of its group: whoever records the outcome claims that with the same statement, and it runs in the
//! place of the one before it.
//!
//! ```text
//!  worker ── done, and its place ──▶ completer ── one statement ──▶ the next of the group ──▶ worker
//!                                        └── none here: the place and the group become free, and a round of admission looks
//! ```
//!
//! It is a claim like all others: it has a number of its own, a look at what this node owns waits for it, and whoever gets no answer to it
//! suspects that it took something.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::OwnedRwLockReadGuard;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::dispatcher;
use super::incarnation::Incarnation;
use super::registry::{Kind, Registry, Slots};
use crate::error::Error;
use crate::job::{ClaimNumber, Job};
use crate::store::Store;

/// How long the jobs of one group may follow one another in one slot before others get it: as long as an ordinary job may hold it.
const TURN: Duration = Duration::from_millis(200);

/// The place of a job that is done, for the next one of its group.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) group: String,
    pub(super) slots: Arc<Slots>,
}

/// Kinds that may run in the place of another: those without a limit of their own, and without a batch to wait for.
pub(super) fn kinds<S: Store>(registry: &Registry<S>) -> Vec<String> {
    registry.iter().filter(|(_, kind)| may_follow(kind)).map(|(name, _)| name.clone()).collect()
}

fn may_follow<S: Store>(kind: &Kind<S>) -> bool {
    kind.slots.is_none() && kind.batch.is_none()
}

/// The place of this job, if another may follow in it.
pub(super) fn turn<S: Store>(node: &Incarnation<S>, kind: &Kind<S>, job: &Job, slots: &Arc<Slots>) -> Option<Turn> {
    let group = job.terms.group.as_ref().filter(|_| job.admitted && !job.terms.ordered)?;
    let free = may_follow(kind) && !node.limited.load(Ordering::Relaxed) && slots.has_time(TURN);
    free.then(|| Turn { group: group.clone(), slots: slots.clone() })
}

/// A claim that is about to be sent. While it lives, nobody looks at what the node owns, and the node does not end.
#[derive(Debug)]
pub(super) struct Claiming {
    pub(super) number: ClaimNumber,
    _known: OwnedRwLockReadGuard<()>,
    _worker: TaskTrackerToken,
}

/// What the completer needs of its node to go on with a group.
pub(super) trait Next: Send + Sync {
    /// `None`: not now. The node claims no more, or somebody is looking at what it owns.
    fn claiming(&self) -> Option<Claiming>;

    /// What it may claim.
    fn kinds(&self) -> &[String];

    /// No answer came to the claim, or none that is good.
    fn failed(&self, error: &Error);

    /// Runs a job that was claimed, in this place.
    fn start(&self, job: Job, slots: Arc<Slots>);
}

impl<S: Store> Next for Incarnation<S> {
    fn claiming(&self) -> Option<Claiming> {
        // In this order: who stops claiming then waits for the workers.
        let worker = self.workers.token();
        if self.stop_claiming.is_cancelled() {
            return None;
        }
        // Not waited for: outcomes are more important.
        let known = self.in_flight.claiming.clone().try_read_owned().ok()?;
        Some(Claiming { number: self.next_claim(), _known: known, _worker: worker })
    }

    fn kinds(&self) -> &[String] {
        &self.followers
    }

    fn failed(&self, error: &Error) {
        self.claim_failed(error);
    }

    fn start(&self, job: Job, slots: Arc<Slots>) {
        if let Some(node) = self.me() {
            dispatcher::start_in(&node, job, slots);
        }
    }
}
