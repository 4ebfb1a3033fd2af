//! The role [`Enqueue`].

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::job::{JobId, JobMessage, Submission};
use crate::store::{FullQueue, Hint, HintStream, Inserted, Preclaim, Received};

/// Puts jobs in: those of our own senders, those of external producers, and back in the open what was hidden for a delivery. Tells other
/// processes that there is work.
#[async_trait]
#[doc(hidden)]
pub trait Enqueue: StoreInfo + Send + Sync {
    /// Inserts messages in a transaction of their own, with one statement. Skips a message whose given id exists in any state, and
    /// a unique one whose key is held. A message that is due later becomes a timer.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when the key of a unique message is held and its options ask to reject it then, or when a
    /// given id is that of a job of another kind or queue; nothing was written.
    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted>;

    /// Stores what external producers submitted, and remembers each id with the digest of its message, in one transaction. The
    /// answers are in the order of the submissions; an id that comes twice in a batch is judged in that order too.
    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>>;

    /// Returns those of these queues that hold as many waiting and blocked jobs as their rule allows, or more. The answer is approximate: jobs
    /// that are not committed are not counted, and a rule that was set within the last second may not be known yet. If no rule sets a depth,
    /// this costs next to nothing.
    async fn full(&self, queues: &[&str]) -> Result<Vec<FullQueue>>;

    /// Returns a statement that sends this message in a transaction of any driver, and its parameter. `largest`: the longest payload that the message was
    /// checked for. `None`: the database has no function for it.
    fn send_by_sql(&self, _message: &JobMessage, _largest: usize) -> Result<Option<(String, String)>> {
        Ok(None)
    }

    /// Ends the head start of deliveries that will not arrive. Returns the queues whose rows can be claimed now.
    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>>;

    /// Sends hints to other processes, such as that a queue has work. A hint may get lost.
    async fn notify(&self, hints: &[Hint]) -> Result<()>;

    /// Opens a stream of hints; it ends when the connection breaks. `None`: this store can't receive hints, so poll.
    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>>;
}
