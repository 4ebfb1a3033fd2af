//! How large what belongs to a job may be: fixed limits, and those that an installation sets.

use std::time::Duration;

/// Longest kind or queue name in bytes: an AMQP short string, less space for a prefix.
pub(crate) const NAME_MAX: usize = 100;
/// Longest group, tenant or limit key in bytes.
pub(super) const KEY_MAX: usize = 200;
pub(super) const HEADERS_MAX: usize = 64;
/// Due dates beyond this are useless, and PostgreSQL's timestamps end in the year 294276.
pub(super) const DUE_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Limits that an installation may set.
///
/// ```
/// use jobwright::internal::Limits;
///
/// assert_eq!(Limits::default().payload(4096).payload, 4096);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest payload in bytes, at least 1; default 1 MiB.
    pub payload: usize,
    /// Whether a result may go to a client that waits without a queue of its own (`broker.direct_reply`); default `false`.
    pub direct_reply: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload: 1024 * 1024, direct_reply: false }
    }
}

impl Limits {
    /// Sets the largest payload, in bytes.
    #[must_use]
    pub fn payload(mut self, bytes: usize) -> Self {
        self.payload = bytes;
        self
    }

    /// Sets whether results may go to clients that wait without a queue of their own.
    #[must_use]
    pub fn direct_reply(mut self, allowed: bool) -> Self {
        self.direct_reply = allowed;
        self
    }
}
