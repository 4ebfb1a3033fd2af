//! Faults, which are bounded in every exploration.

/// Faults so far, or how many there may be. Each subject has some of these kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Processes that crashed.
    pub crashes: u8,
    /// Live nodes that were declared dead, or stopped themselves.
    pub deaths: u8,
    /// Answers that got lost, and statements that were given up.
    pub lost: u8,
    /// Statements that run long after their process gave them up.
    pub late: u8,
    /// Checks based on an old note.
    pub stale: u8,
    /// Lost confirms and reports, redeliveries, and publishers that crashed.
    pub network: u8,
    /// Failovers and restores.
    pub forgets: u8,
    /// Connections that changed servers.
    pub moves: u8,
    /// Processes that crashed or froze.
    pub silences: u8,
    /// Jumps of the server's wall clock.
    pub jumps: u8,
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        crashes: 0,
        deaths: 0,
        lost: 0,
        late: 0,
        stale: 0,
        network: 0,
        forgets: 0,
        moves: 0,
        silences: 0,
        jumps: 0,
    };
}
