//! What a context and an enlisted transaction ask of a database: to write messages, and to end with them.

use std::time::Duration;

use super::{GroupTurn, Removed, Store};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobId, JobMessage, NodeId, RowPlace};

/// An open transaction of a store, as message services get it: whoever began it, and will end it.
pub type TransactionRef<'t, S> = <<S as Store>::Transaction as UnitOfWork>::Ref<'t>;

/// Writes messages into an open transaction.
pub trait JobWriter: Send {
    /// Inserts the messages with one statement, however many they are. See [`JobStore::insert`](super::JobStore::insert).
    fn insert(
        &mut self,
        messages: &[JobMessage],
        owned: Option<&Preclaim>,
    ) -> impl Future<Output = Result<Inserted>> + Send;
}

/// What a context does with its open transaction. Dropping it rolls back.
pub trait UnitOfWork: Send + 'static {
    /// The transaction without its end: what it is lent as, and what one that somebody else owns looks like.
    type Ref<'t>: JobWriter;

    /// Lends it to who writes into it.
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

    /// The same for a job of an exclusive group, with which this node may go on: if others wait for the group, it holds that by a lease from the
    /// commit on, as by [`hand_on`](super::JobStore::hand_on). A store without leases frees the group.
    fn remove_and_lease(
        &mut self,
        node: NodeId,
        fence: Fence,
        _turn: &GroupTurn,
        _claim: ClaimNumber,
    ) -> impl Future<Output = Result<Removed>> + Send {
        async move { Ok(if self.remove(node, fence).await? { Removed::Gone } else { Removed::NotOwned }) }
    }

    /// The same for jobs whose handler took them together. `false`: not all claims are current. No job may be named twice.
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

    /// Keeps the result of the job that was removed, for this long. See [`History::result`](super::History::result).
    fn keep_result(&mut self, result: &NewResult) -> impl Future<Output = Result<()>> + Send;

    /// Commits and proves it: returns `Ok` only if the server really committed.
    fn commit(self) -> impl Future<Output = Result<()>> + Send;

    /// Rolls back, waiting for it.
    fn rollback(self) -> impl Future<Output = Result<()>> + Send;
}

/// What a handler returned, to be kept with the end of its job.
#[derive(Clone, Debug)]
pub struct NewResult {
    /// Whose.
    pub id: JobId,
    /// The job's kind.
    pub kind: String,
    /// The result.
    pub payload: Box<serde_json::value::RawValue>,
    /// For how long.
    pub retention: Duration,
}

/// Asks for messages to be inserted as already owned: the hot path of a process that has a free slot for them.
#[derive(Clone, Debug)]
pub struct Preclaim {
    /// The owner. If it is not alive the rows are inserted as waiting.
    pub node: NodeId,
    /// What tells this claim from all others of that node.
    pub claim: ClaimNumber,
    /// The messages (by position) for which a slot is reserved. Only jobs due now can be owned.
    pub positions: Vec<usize>,
}

/// What an insert did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Rows written. Less than the number of messages when a given id existed already.
    pub rows: u64,
    /// The jobs that are now owned by the node of the [`Preclaim`].
    pub owned: Vec<OwnedInsert>,
    /// Unique messages that were not written, because another job holds their key: their id, and that of the other.
    pub kept: Vec<(JobId, JobId)>,
}

impl Inserted {
    /// What a further statement did.
    pub(super) fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.owned.extend(more.owned);
        self.kept.extend(more.kept);
    }
}

/// A job inserted as already owned, with what only the database knows about it. Its attempt is 1, its claim that of the
/// [`Preclaim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedInsert {
    /// Which.
    pub id: JobId,
    /// Its place in the order.
    pub seq: i64,
    /// When, by the database's clock.
    pub created_at: jiff::Timestamp,
    /// Where its row is.
    pub place: RowPlace,
}
