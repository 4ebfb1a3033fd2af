//! Hints that processes send each other.

use async_trait::async_trait;

use crate::error::Result;

/// A hint that travels between processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Jobs were added to the end of this queue.
    Queue(String),
    /// Jobs became claimable anywhere in this queue: scan from the start.
    Rescan(String),
    /// Jobs may be admitted, or a limit may have room: a job of a group was sent, a permit was released, a rule changed, or a node left some of a limit
    /// to others.
    Admission,
    /// A timer was set that may be due before the next one known.
    Timer,
    /// A job was sent that expires, maybe before the next one known.
    Expiry,
    /// A schedule was put or resumed that may be due before the next one known.
    Schedule,
    /// Something changed; the store can't tell what.
    Any,
}

/// A stream of hints.
#[async_trait]
pub trait HintStream: Send {
    /// Waits for the next hint. An error is final: listen again.
    async fn next(&mut self) -> Result<Hint>;
}
