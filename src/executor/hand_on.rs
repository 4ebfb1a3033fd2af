//! From jobs that are done to the next ones of their group: whoever records the outcome claims those with the same statement, and they run one after
//! the other in the place of the one before them.
//!
//! ```text
//!  worker ── done, and its place ──▶ completer ── one statement ──▶ the next of the group ──▶ line of workers ── all done, and their place ──┐
//!                                        ▲         └── none: the place and the group become free, and a round of admission looks            │
//!                                        └──────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Meanwhile the node holds the group by a *lease*. It is like a claim: it has the number of one, a look at what this node owns finds it, and whoever
//! gets no answer suspects that it took something.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::OwnedRwLockReadGuard;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::in_flight::Lease;
use super::incarnation::Incarnation;
use super::line;
use super::registry::{Kind, Registry, Slots};
use crate::error::Error;
use crate::job::{ClaimNumber, Job, JobId};
use crate::store::{GroupTurn, Store};

/// How long the jobs of one group may follow one another in one slot before others get it: as long as an ordinary job may hold it.
const TURN: Duration = Duration::from_millis(200);
/// How long the jobs that are taken together are to take. So long whoever is more important may have to wait, and what has ended, to be recorded.
const AIM: Duration = Duration::from_millis(10);
/// Jobs of a group that are taken together at most.
const MOST: usize = 64;
/// The same the first time, when one job is all that is known of its group.
const MOST_AT_FIRST: usize = 16;
/// How many are asked for of a group that just ran dry: the fewer, the more groups there are in one statement.
const FEW: usize = 2;
/// How much faster than the last time a group may go on that did not run dry.
const FASTER: usize = 4;

/// The place of a job that is done, for the next ones of its group.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) group: GroupTurn,
    /// What the node holds the group by, when no job does.
    pub(super) lease: Option<Lease>,
    pub(super) slots: Arc<Slots>,
}

impl Turn {
    /// How many jobs to ask for, when so many were taken and so many of them ran in this time.
    pub(super) fn pace(&mut self, taken: usize, ran: usize, took: Duration) {
        let most = match &self.lease {
            None => MOST_AT_FIRST,
            Some(_) if taken < self.group.wanted => FEW,
            Some(_) => MOST.min(FASTER * taken),
        };
        let each = took / u32::try_from(ran.max(1)).unwrap_or(u32::MAX);
        let fit = AIM.as_nanos() / each.as_nanos().max(1);
        self.group.wanted = usize::try_from(fit).unwrap_or(MOST).clamp(1, most);
    }

    /// The lease holds the group.
    pub(super) fn leased(&mut self, lease: Lease) {
        self.group.holder = self.group.lease;
        self.lease = Some(lease);
    }

    /// The group stays taken, until the node is retired.
    pub(super) fn keep(self) {
        if let Some(lease) = self.lease {
            std::mem::forget(lease);
        }
    }

    /// The group and the place are to become free.
    pub(super) fn end(&mut self) {
        self.group.wanted = 0;
    }
}

/// Kinds that may run in the place of another: those without a limit of their own, and without a batch to wait for.
pub(super) fn kinds<S: Store>(registry: &Registry<S>) -> Vec<String> {
    let may_follow = |kind: &Kind<S>| kind.slots.is_none() && kind.batch.is_none();
    registry.iter().filter(|(_, kind)| may_follow(kind)).map(|(name, _)| name.clone()).collect()
}

/// The place of this job, if others may follow in it; it took so long.
pub(super) fn turn<S: Store>(node: &Incarnation<S>, job: &Job, slots: &Arc<Slots>, took: Duration) -> Option<Turn> {
    let group = job.terms.group.as_ref().filter(|_| job.admitted && !job.terms.ordered)?;
    if !may_go_on(node, slots) || !node.followers.contains(&job.kind) {
        return None;
    }
    let group = GroupTurn::after_job(group, &job.queue, job.id, JobId::new());
    let mut turn = Turn { group, lease: None, slots: slots.clone() };
    turn.pace(1, 1, took);
    Some(turn)
}

/// Whether more jobs of a group may follow in these slots.
pub(super) fn may_go_on<S: Store>(node: &Incarnation<S>, slots: &Slots) -> bool {
    !node.limited.load(Ordering::Relaxed) && !node.stop_claiming.is_cancelled() && slots.has_time(TURN)
}

/// A claim that is about to be sent. While it lives, nobody looks at what the node owns, and the node does not end.
#[derive(Debug)]
pub(super) struct Claiming {
    _known: OwnedRwLockReadGuard<()>,
    _worker: TaskTrackerToken,
}

/// What the completer needs of its node to go on with a group.
pub(super) trait Next: Send + Sync {
    /// `None`: not now. The node claims no more, or somebody is looking at what it owns.
    fn claiming(&self) -> Option<Claiming>;

    /// The number of the next claim.
    fn number(&self) -> ClaimNumber;

    /// What it may claim.
    fn kinds(&self) -> &[String];

    /// No answer came to the claim, or none that is good.
    fn failed(&self, error: &Error);

    /// Runs jobs of a group that were claimed, one after the other.
    fn start(&self, jobs: Vec<Job>, turn: Turn);
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
        Some(Claiming { _known: known, _worker: worker })
    }

    fn number(&self) -> ClaimNumber {
        self.next_claim()
    }

    fn kinds(&self) -> &[String] {
        &self.followers
    }

    fn failed(&self, error: &Error) {
        self.claim_failed(error);
    }

    fn start(&self, jobs: Vec<Job>, turn: Turn) {
        if let Some(node) = self.me() {
            self.workers.spawn(line::run(node, jobs, turn));
        }
    }
}
