//! Group runs: the next jobs of a group run in the slot of the one that ended.
//!
//! The statement that records the end of a job also claims the next ones of its group. They run one after the other in the same slot.
//!
//! ```text
//!  worker ── done, and its slot ──▶ completer ── one statement ──▶ next jobs of the group ──▶ GroupRunner ── all done, and the slot ──┐
//!                                       ▲            └── no jobs left: slot and group become free, and an admission pass follows      │
//!                                       └─────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Meanwhile the node holds the group by a *lease*. A lease is like a claim: it has the number of one, and reconciliation finds it among
//! what the node owns. When an answer is lost, the node suspects that it holds one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::OwnedRwLockReadGuard;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::group_runner;
use super::in_flight::GroupLease;
use super::node_session::NodeSession;
use super::registry::{Kind, Registry, Slots};
use crate::error::Error;
use crate::job::{ClaimNumber, Job, JobId};
use crate::store::{GroupClaim, Store};

/// How long jobs of one group may follow one another in one slot before other jobs get it: as long as an ordinary job may hold it.
const MAX_TIME_IN_SLOT: Duration = Duration::from_millis(200);
/// The target run time of the jobs taken together. More important jobs may have to wait this long, and so may finished jobs to be recorded.
const RUN_TARGET: Duration = Duration::from_millis(10);
/// The most jobs of a group that are taken together.
const MOST: usize = 64;
/// The same for the first time, when one job is all that is known of its group.
const MOST_AT_FIRST: usize = 16;
/// How many jobs to ask for of a group that just ran dry. The fewer, the more groups fit into one statement.
const FEW: usize = 2;
/// By which factor the number of jobs may grow for a group that did not run dry.
const FASTER: usize = 4;

/// The slot of a finished job, offered to the next jobs of its group.
#[derive(Debug)]
pub(super) struct GroupRun {
    pub(super) group: GroupClaim,
    /// The lease by which the node holds the group while no job does.
    pub(super) lease: Option<GroupLease>,
    pub(super) slots: Arc<Slots>,
}

impl GroupRun {
    /// Sets how many jobs to ask for: `taken` jobs were claimed the last time, and `ran` of them ran in the time `took`.
    pub(super) fn pace(&mut self, taken: usize, ran: usize, took: Duration) {
        let most = match &self.lease {
            None => MOST_AT_FIRST,
            Some(_) if taken < self.group.wanted => FEW,
            Some(_) => MOST.min(FASTER * taken),
        };
        let each = took / u32::try_from(ran.max(1)).unwrap_or(u32::MAX);
        let fit = RUN_TARGET.as_nanos() / each.as_nanos().max(1);
        self.group.wanted = usize::try_from(fit).unwrap_or(MOST).clamp(1, most);
    }

    /// Notes that this lease holds the group now.
    pub(super) fn leased(&mut self, lease: GroupLease) {
        self.group.holder = self.group.lease;
        self.lease = Some(lease);
    }

    /// Leaves the group held until the node is retired.
    pub(super) fn keep(self) {
        if let Some(lease) = self.lease {
            std::mem::forget(lease);
        }
    }

    /// Asks for no more jobs, so that the group and the slot become free.
    pub(super) fn end(&mut self) {
        self.group.wanted = 0;
    }
}

/// Returns the kinds that may run in the slot of another job: those without a limit on this node and without a batch to wait for.
pub(super) fn kinds<S: Store>(registry: &Registry<S>) -> Vec<String> {
    let may_follow = |kind: &Kind<S>| kind.slots.is_none() && kind.batch.is_none();
    registry.iter().filter(|(_, kind)| may_follow(kind)).map(|(name, _)| name.clone()).collect()
}

/// Returns a group run in the slot of this job, which took the time `took`, if others may follow in it.
pub(super) fn group_run<S: Store>(
    node: &NodeSession<S>,
    job: &Job,
    slots: &Arc<Slots>,
    took: Duration,
) -> Option<GroupRun> {
    let group = job.options.group.as_ref().filter(|_| job.admitted && !job.options.ordered)?;
    if !may_go_on(node, slots) || !node.chainable_kinds.contains(&job.kind) {
        return None;
    }
    let group = GroupClaim::after_job(group, &job.queue, job.id, JobId::new());
    let mut group_run = GroupRun { group, lease: None, slots: slots.clone() };
    group_run.pace(1, 1, took);
    Some(group_run)
}

/// Returns whether more jobs of a group may follow in these slots.
pub(super) fn may_go_on<S: Store>(node: &NodeSession<S>, slots: &Slots) -> bool {
    !node.limited.load(Ordering::Relaxed) && !node.stop_claiming.is_cancelled() && slots.has_time(MAX_TIME_IN_SLOT)
}

/// A claim that is about to be sent. While this lives, no reconciliation runs, and the node does not end.
#[derive(Debug)]
pub(super) struct ClaimGuard {
    _known: OwnedRwLockReadGuard<()>,
    _worker: TaskTrackerToken,
}

/// What the completer needs of its node to continue a group.
pub(super) trait GroupClaimer: Send + Sync {
    /// Returns a guard for a claim. `None`: not now, because the node claims no more or is reconciling.
    fn claiming(&self) -> Option<ClaimGuard>;

    /// Returns the number of the next claim.
    fn number(&self) -> ClaimNumber;

    /// Returns the kinds it may claim.
    fn kinds(&self) -> &[String];

    /// Reports that the claim got no answer, or an error.
    fn failed(&self, error: &Error);

    /// Runs the claimed jobs of a group, one after the other.
    fn start(&self, jobs: Vec<Job>, group_run: GroupRun);
}

impl<S: Store> GroupClaimer for NodeSession<S> {
    fn claiming(&self) -> Option<ClaimGuard> {
        // The token comes first: a node that stops claiming then waits for the workers.
        let worker = self.workers.token();
        if self.stop_claiming.is_cancelled() {
            return None;
        }
        // Not waited for: outcomes are more important.
        let known = self.in_flight.claiming.clone().try_read_owned().ok()?;
        Some(ClaimGuard { _known: known, _worker: worker })
    }

    fn number(&self) -> ClaimNumber {
        self.next_claim()
    }

    fn kinds(&self) -> &[String] {
        &self.chainable_kinds
    }

    fn failed(&self, error: &Error) {
        self.claim_failed(error);
    }

    fn start(&self, jobs: Vec<Job>, group_run: GroupRun) {
        if let Some(node) = self.me() {
            self.workers.spawn(group_runner::run(node, jobs, group_run));
        }
    }
}
