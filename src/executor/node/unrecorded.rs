//! An outcome that could not be recorded yet.

use crate::job::Fence;
use crate::store::Settlement;

/// The outcome of one job, to be recorded later.
#[derive(Debug)]
pub(crate) enum Unrecorded {
    Done(Fence),
    Settled(Settlement),
}

impl Unrecorded {
    pub(crate) fn fence(&self) -> Fence {
        match self {
            Self::Done(fence) => *fence,
            Self::Settled(settlement) => settlement.fence,
        }
    }
}
