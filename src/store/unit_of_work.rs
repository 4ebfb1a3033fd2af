//! What contexts and enlisted transactions need from a database: to write messages, and to commit with them.

use std::collections::HashSet;
use std::time::Duration;

use super::{GroupClaim, Removed};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobId, JobMessage, NodeId, RowLocation};

/// Writes messages into an open transaction.
#[doc(hidden)]
pub trait JobWriter: Send {
    /// Inserts the messages with one statement, however many they are. See [`Enqueue::insert`](super::Enqueue::insert).
    fn insert(
        &mut self,
        messages: &[JobMessage],
        owned: Option<&Preclaim>,
    ) -> impl Future<Output = Result<Inserted>> + Send;
}

/// The open transaction of a context. Dropping it rolls back.
#[doc(hidden)]
pub trait UnitOfWork: Send + 'static {
    /// The transaction without commit and rollback: as it is lent, or as the application owns it.
    type Ref<'t>: JobWriter;

    /// Lends the transaction to code that writes into it.
    fn lend(&mut self) -> Self::Ref<'_>;

    /// Inserts messages. See [`JobWriter::insert`].
    fn insert(
        &mut self,
        messages: &[JobMessage],
        owned: Option<&Preclaim>,
    ) -> impl Future<Output = Result<Inserted>> + Send {
        async move { self.lend().insert(messages, owned).await }
    }

    /// Removes the job whose handler used this transaction. `false`: the claim is no longer current, and the transaction must
    /// be rolled back.
    fn remove(&mut self, node: NodeId, fence: Fence) -> impl Future<Output = Result<bool>> + Send;

    /// Removes the job likewise, and leases its exclusive group so that this node may go on with it. If other jobs wait for the group, the node
    /// holds it by a lease from the commit on, as by [`complete_and_claim_next`](super::Outcomes::complete_and_claim_next). A store without
    /// leases releases the group.
    fn remove_and_lease(
        &mut self,
        node: NodeId,
        fence: Fence,
        _group: &GroupClaim,
        _claim: ClaimNumber,
    ) -> impl Future<Output = Result<Removed>> + Send {
        async move { Ok(if self.remove(node, fence).await? { Removed::Gone } else { Removed::NotOwned }) }
    }

    /// Removes the jobs of a handler that runs batches. `false`: not all claims are current, and the transaction must be rolled back. No job may
    /// be named twice.
    fn remove_all(&mut self, node: NodeId, fences: &[Fence]) -> impl Future<Output = Result<bool>> + Send {
        async move {
            for fence in fences {
                if !self.remove(node, *fence).await? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }

    /// Stores the result of the job that was removed. See [`Operator::result`](super::engine::Operator::result).
    fn keep_result(&mut self, result: &NewResult) -> impl Future<Output = Result<()>> + Send;

    /// Commits. Returns `Ok` only if the server has proved that it committed.
    fn commit(self) -> impl Future<Output = Result<()>> + Send;

    /// Rolls back, and waits until that is done.
    fn rollback(self) -> impl Future<Output = Result<()>> + Send;
}

/// A handler's result, to be stored when its job ends.
#[derive(Clone, Debug)]
pub struct NewResult {
    /// The job's id.
    pub id: JobId,
    /// The job's kind.
    pub kind: String,
    /// The result.
    pub payload: Box<serde_json::value::RawValue>,
    /// How long it is kept.
    pub retention: Duration,
}

/// A request to insert messages as already claimed: the hot path of a process that has free slots for them.
#[derive(Clone, Debug)]
pub struct Preclaim {
    /// The node that owns them. If it is not alive, the rows are inserted as waiting.
    pub node: NodeId,
    /// The number of this claim: no other claim of that node has it.
    pub claim: ClaimNumber,
    /// The ids of the messages for which a slot is reserved. Only jobs that are due now can be owned.
    pub ids: HashSet<JobId>,
}

/// The result of an insert.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// How many rows were written: fewer than there are messages if a given id existed already.
    pub rows: u64,
    /// The jobs that are now owned by the node of the [`Preclaim`].
    pub owned: Vec<OwnedInsert>,
    /// Unique messages that were not written because another job holds their key: the message's id, and that of the other job.
    pub duplicates: Vec<(JobId, JobId)>,
    /// The given ids of messages that were sent before; their jobs stay as they are.
    pub known: Vec<JobId>,
}

impl Inserted {
    /// Adds the result of another statement.
    pub(super) fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.owned.extend(more.owned);
        self.duplicates.extend(more.duplicates);
        self.known.extend(more.known);
    }
}

/// A job that was inserted as already owned, with what only the database knows about it. Its attempt is 1, and its claim is that of
/// the [`Preclaim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedInsert {
    /// The job's id.
    pub id: JobId,
    /// Its number in the order of jobs.
    pub seq: i64,
    /// When it was inserted, by the database's clock.
    pub created_at: jiff::Timestamp,
    /// Where its row is.
    pub location: RowLocation,
}
