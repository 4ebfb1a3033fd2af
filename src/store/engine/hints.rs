//! The role [`Hints`].

use async_trait::async_trait;

use crate::error::Result;
use crate::store::{Hint, HintStream};

/// Wake-ups between processes. A hint may get lost, and nothing relies on it.
#[async_trait]
pub trait Hints: Send + Sync {
    /// Sends hints to other processes, such as that a queue has work. A hint may get lost.
    async fn notify(&self, hints: &[Hint]) -> Result<()>;

    /// Opens a stream of hints; it ends when the connection breaks. `None`: this store can't receive hints, so poll.
    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>>;
}
