//! Jobs that were claimed and have not started, with the slots that they will take.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::executor::kinds::kind::Kind;
use crate::executor::node::Node;
use crate::executor::node::limits::Running;
use crate::job::Job;

/// A claimed job with its slots.
pub(super) struct Ready {
    pub(super) job: Job,
    pub(super) slot: OwnedSemaphorePermit,
    pub(super) kind_slot: Option<OwnedSemaphorePermit>,
    pub(super) running: Option<Running>,
}

pub(super) fn start_all(node: &Arc<Node>, ready: &mut Vec<Ready>) {
    for Ready { job, slot, kind_slot, running } in ready.drain(..) {
        node.start(job, slot, kind_slot, running);
    }
}

/// Takes the free slots of a kind that has a limit, at most `most`.
pub(super) fn take_kind_slots(kind: &Kind, most: usize) -> Option<OwnedSemaphorePermit> {
    let slots = kind.slots.as_ref()?;
    let free = u32::try_from(slots.available_permits().min(most)).ok().filter(|free| *free > 0)?;
    slots.clone().try_acquire_many_owned(free).ok()
}
