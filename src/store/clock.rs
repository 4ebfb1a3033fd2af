//! Repair of times that the database wrote while its clock was ahead.
//!
//! The database's clock decides when something is due. While it is ahead, it writes times that lie far in the future once it is correct
//! again. Whatever waits for such a time would wait for as long as the clock had been ahead. The time itself does not show whether it is
//! wrong or was asked for. So each is judged by what can't be: nothing has happened in the future, and no wait ends later than its length
//! from now.

use std::time::Duration;

/// A head start that ends later than this from now counts as over. It is twice the longest head start, because a statement may read the clock at
/// different times. The statements that claim have it as a number.
pub const MAX_HIDDEN: Duration = Duration::from_secs(120);

/// How many times to live and timers are checked: those that end last, because a clock that was far ahead wrote some of these.
pub(crate) const FARTHEST: usize = 1000;

/// Rows whose times lie further ahead of the database's clock than they can; of one table and column.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SkewedRows {
    /// The table and column, such as `rate_log.at`.
    pub what: String,
    /// How many rows there are.
    pub rows: u64,
    /// How far ahead of the clock the farthest of them is.
    pub farthest: Duration,
}
