//! What is left behind by a clock that was ahead and was set right.
//!
//! The database's clock decides when something is due. While it is ahead, moments are written that lie far in the future once it is right
//! again: what they hold up would stay held up for as long as the clock had been ahead. None of them can be told by itself from one that
//! somebody asked for, so each is judged by what it must not be: a moment at which something happened is never in the future, and a wait
//! never ends later than it is long.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;

/// A hold that ends later than this counts as ended: twice the longest that anybody asks for, because the clock is read at different moments
/// of a statement. The statements that claim have it as a number.
pub const LONGEST_HOLD: Duration = Duration::from_secs(120);

/// Of times to live and timers, only so many that end last are looked at: those of a clock that was far ahead are among them.
pub(crate) const FARTHEST: usize = 1000;

/// Rows of one kind that lie further ahead of the database's clock than they can.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Ahead {
    /// Table and column: `rate_log.at`.
    pub what: String,
    /// How many.
    pub rows: u64,
    /// How far ahead of the clock the farthest is.
    pub farthest: Duration,
}

/// A store whose clock may have been wrong.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Sets right what holds up work and lies further ahead than it can: openings of gates, starts under a rate, leases of external workers,
    /// times to live, and delays before another attempt. Schedules are the business of
    /// [`set_right`](super::schedules::set_right). Returns what it found; nothing at all takes a look at a few rows of each.
    async fn set_right(&self) -> Result<Vec<Ahead>>;

    /// Whatever lies ahead of the clock and should not, also where that holds up nothing. Reads everything: for `doctor`.
    async fn ahead_of_clock(&self) -> Result<Vec<Ahead>>;
}
