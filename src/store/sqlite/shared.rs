//! The state that all handles of one file share. The modules above it add what they do with it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::identity::Identity;
use super::liveness_files::LivenessFiles;
use super::place::Place;
use super::serial_connection::SerialConnection;
use crate::config::HistoryConfig;

/// The state that all handles share.
pub(super) struct Shared {
    /// Where the file is. All that is derived from its name is derived from this.
    pub(super) place: Place,
    /// The open file, whatever its name leads to by now.
    pub(super) identity: Identity,
    /// `sqlite:` and the path, for messages.
    pub(super) label: String,
    pub(super) call_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) writer: SerialConnection,
    /// Whether code of others had the connection that writes since it was last reset.
    pub(super) lent: AtomicBool,
    /// For the engine's short checks.
    pub(super) checks: SerialConnection,
    /// For operators, whose queries may take a while.
    pub(super) queries: SerialConnection,
    pub(super) history: HistoryConfig,
    /// The files that show which nodes are alive.
    pub(super) liveness_files: Arc<LivenessFiles>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}
