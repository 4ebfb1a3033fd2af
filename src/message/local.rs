//! What a message service may ask of an executor in the same process. The executor stands above this module and implements it.

use tokio::sync::OwnedSemaphorePermit;

use crate::job::{ClaimNumber, Job, JobId, NodeId};
use crate::store::Hint;

/// An executor in this process.
pub(crate) trait LocalExecutor: Send + Sync {
    /// There may be work.
    fn hint(&self, hint: &Hint);

    /// Opens a hand-over, if this executor is in a state to take jobs straight from a commit.
    fn offer(&self) -> Option<Box<dyn Offer>>;
}

/// The hot path: jobs that are inserted already owned by an executor with a free slot, and run straight after the commit with
/// no claim, no poll and no wake-up. Never beyond free slots, and only for a queue that has nothing waiting.
///
/// Dropped without [`deliver`](Self::deliver), the executor must assume that the rows it was to [`expect`](Self::expect) may exist, because a
/// commit whose answer got lost may have taken effect; it then looks for them and gives them back.
pub(crate) trait Offer: Send + Sync {
    /// Who will own the rows.
    fn node(&self) -> NodeId;

    /// Under which number of a claim.
    fn claim(&self) -> ClaimNumber;

    /// A free slot for a job of this kind in this queue.
    fn reserve(&self, queue: &str, kind: &str) -> Option<OwnedSemaphorePermit>;

    /// These are to be inserted in this executor's name.
    fn expect(&mut self, ids: Vec<JobId>);

    /// They are committed: run them.
    fn deliver(self: Box<Self>, jobs: Vec<(Job, OwnedSemaphorePermit)>);

    /// Nothing was inserted in this executor's name.
    fn withdraw(self: Box<Self>);
}
