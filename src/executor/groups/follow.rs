//! Whether the next job of a group may have the slot of the one that ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::executor::node::Node;
use crate::executor::node::alone;
use crate::executor::node::group_run::GroupRun;
use crate::executor::node::slots::Slots;
use crate::job::{Job, JobId};
use crate::store::GroupClaim;

/// How long jobs of one group may follow one another in one slot before other jobs get it: as long as an ordinary job may hold it.
const MAX_TIME_IN_SLOT: Duration = Duration::from_millis(200);

/// Returns a group run in the slot of this job, which took the time `took`, if others may follow in it.
pub(crate) fn group_run(node: &Node, job: &Job, slots: &Arc<Slots>, took: Duration) -> Option<GroupRun> {
    let group = job.options.group.as_ref().filter(|_| job.admitted && !job.options.ordered)?;
    if !may_go_on(node, slots) || !node.chainable_kinds.contains(&job.kind) {
        return None;
    }
    let group = GroupClaim::after_job(group, &job.queue, job.id, JobId::new());
    let mut group_run = GroupRun { group, lease: None, slots: slots.clone() };
    group_run.pace(1, 1, took, job.payload.as_bytes().len());
    Some(group_run)
}

/// Returns whether more jobs of a group may follow in these slots. While the node leaves a kind alone, none may: the claim asks for all kinds.
pub(crate) fn may_go_on(node: &Node, slots: &Slots) -> bool {
    !node.limited.load(Ordering::Relaxed)
        && !node.breakers.any_open()
        && !node.stop_claiming.is_cancelled()
        && alone::is_open()
        && slots.has_time(MAX_TIME_IN_SLOT)
}
