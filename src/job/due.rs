//! When a job may run.

use std::time::Duration;

use jiff::Timestamp;

/// When a job may first run. The database's clock decides, never the sender's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Due {
    /// As soon as its transaction has committed.
    #[default]
    Now,
    /// This long after it was flushed.
    In(Duration),
    /// Not before this time.
    At(Timestamp),
}
