//! The mode of the broker.

use std::time::Instant;

/// The state of the connections to the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerMode {
    /// Both connections are up. The number counts how often they came up.
    Up(u64),
    /// Connected, but the broker refuses messages for this reason (a memory or disk alarm).
    Blocked(String),
    /// Not connected.
    Down {
        /// Since when it has been down.
        since: Instant,
        /// The reason, without secrets.
        why: String,
    },
}

impl BrokerMode {
    /// Returns whether deliveries go through the broker.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up(_))
    }
}
