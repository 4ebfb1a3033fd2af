//! The role [`StoreInfo`].

use std::sync::Arc;

use crate::config::HistoryConfig;
use crate::store::Outage;

/// What is known of a database without asking it.
#[doc(hidden)]
pub trait StoreInfo: Send + Sync {
    /// Says which database this is and where, for logs, without a password.
    fn describe(&self) -> String;

    /// Returns whether the database can be reached, as far as its connections have found out. `None`: it is not a server.
    fn outage(&self) -> Option<&Arc<Outage>> {
        None
    }

    /// Returns whether an open transaction blocks all other writers. Then no queue gets shorter while a sender waits inside a transaction.
    fn is_single_writer(&self) -> bool;

    /// Returns what this store is configured to keep, and for how long.
    fn history_config(&self) -> HistoryConfig;
}
