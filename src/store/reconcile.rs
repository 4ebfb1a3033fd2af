//! Reconciliation of what is kept beside the jobs: permits without a holder, and keys that nothing will unblock.
//!
//! Triggers keep both with the rows of the jobs. A table that is truncated, restored alone or written with triggers off passes them by, and then
//! groups and limits would stay taken for ever.

use crate::job::JobId;

/// A permit: its holder, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitHolder {
    /// The job that holds it.
    pub job: JobId,
    /// The key of the group or limit.
    pub key: String,
}

/// How far a reconciliation has got. It begins with the default, and each step takes the result of the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconciled {
    /// Permits whose holder is in no table. The next step takes them back if that is still so: it has to come later than a node needs to notice
    /// that a job of its own is gone.
    pub orphans: Vec<PermitHolder>,
    /// The permits that this step took back.
    pub reclaimed: Vec<PermitHolder>,
    /// The keys that this step unblocked.
    pub unblocked: Vec<String>,
    /// The last permit that was looked at, if there are more.
    pub last_permit: Option<PermitHolder>,
    /// The last key that was looked at, if there are more.
    pub last_key: Option<String>,
}

impl Reconciled {
    /// Returns whether the next step goes on where this one ended.
    pub fn has_more(&self) -> bool {
        self.last_permit.is_some() || self.last_key.is_some()
    }
}
