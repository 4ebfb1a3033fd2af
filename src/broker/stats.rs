//! The numbers of messages that went through the broker.

/// What went through the broker since the start. It counts messages: one that delivers jobs to executors may name several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerStats {
    /// Changes of the mode.
    pub changes: ModeChanges,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages refused: the queue was full.
    pub nacked: u64,
    /// Messages returned because no queue took them.
    pub returned: u64,
    /// Messages whose confirm did not arrive.
    pub unknown: u64,
    /// Messages published and not confirmed yet.
    pub unconfirmed: u64,
    /// Messages received.
    pub received: u64,
    /// Messages received that the broker had delivered before.
    pub redelivered: u64,
}

/// How often the mode of a broker changed, by the mode that began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModeChanges {
    /// It could be reached, and took messages.
    pub up: u64,
    /// It could be reached, and took no messages.
    pub blocked: u64,
    /// It could not be reached.
    pub down: u64,
}

impl ModeChanges {
    /// Returns all of them.
    #[doc(hidden)]
    pub fn total(&self) -> u64 {
        self.up + self.blocked + self.down
    }
}
