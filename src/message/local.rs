//! What message services need of an executor in the same process, which is a layer above them and implements these traits.

use tokio::sync::OwnedSemaphorePermit;

use crate::job::{ClaimNumber, Job, JobId, NodeId};
use crate::store::Hint;

/// An executor in this process.
pub(crate) trait LocalExecutor: Send + Sync {
    /// Reports that there may be work.
    fn hint(&self, hint: &Hint);

    /// Makes it poll now: it may have missed hints.
    fn poll(&self);

    /// Opens a handoff, if this executor can take jobs straight from a commit now.
    fn handoff(&self) -> Option<Box<dyn LocalHandoff>>;
}

/// The hot path for jobs that are inserted as already claimed by an executor with a free slot. They run straight after the commit, with no
/// claim, no poll and no wake-up. It is limited to free slots, and to queues without waiting jobs.
///
/// If it is dropped without [`deliver`](Self::deliver), the executor must assume that the rows it was to [`expect`](Self::expect) may
/// exist: a commit whose answer was lost may have taken effect. It then searches for them and releases them.
pub(crate) trait LocalHandoff: Send + Sync {
    /// The node that will own the rows.
    fn node(&self) -> NodeId;

    /// The claim number for the rows.
    fn claim(&self) -> ClaimNumber;

    /// Reserves a free slot for a job of this kind in this queue.
    fn reserve(&self, queue: &str, kind: &str) -> Option<OwnedSemaphorePermit>;

    /// Announces jobs that are about to be inserted in this executor's name.
    fn expect(&mut self, ids: Vec<JobId>);

    /// Runs the jobs, which are committed now.
    fn deliver(self: Box<Self>, jobs: Vec<(Job, OwnedSemaphorePermit)>);

    /// Gives up the handoff: nothing was inserted in this executor's name.
    fn withdraw(self: Box<Self>);
}
