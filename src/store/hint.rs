//! What processes tell each other.

use async_trait::async_trait;

use crate::error::Result;

/// A hint that travels between processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Jobs were added to the end of this queue.
    Queue(String),
    /// Jobs became claimable anywhere in this queue: look from the start.
    Rescan(String),
    /// Something may be admitted: a job of a group was sent, a slot was freed, a rule changed.
    Gate,
    /// A timer was set that may be due before the one waited for.
    Timer,
    /// A job was sent that expires, maybe before the one waited for.
    Expiry,
    /// A schedule was put or resumed that may be due before the one waited for.
    Schedule,
    /// Something changed; the store can't tell what.
    Any,
}

/// A stream of hints.
#[async_trait]
pub trait HintStream: Send {
    /// The next hint. An error is final: listen again.
    async fn next(&mut self) -> Result<Hint>;
}
