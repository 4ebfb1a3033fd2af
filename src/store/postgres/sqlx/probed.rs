//! What is known of an open transaction.

use super::sqlx::{self, Database, PgConnection, TransactionManager as _};
use crate::error::{Error, ErrorKind};

/// What is known of a transaction.
#[derive(Debug, Default)]
pub(super) struct Probed {
    /// It was probed since code of others had it.
    pub(super) is_open: bool,
    /// A statement got no answer: it may still run.
    is_lost: bool,
}

impl Probed {
    /// Code of others gets the transaction.
    pub(super) fn forget(&mut self) {
        self.is_open = false;
    }

    /// Takes note of the error of a statement of ours.
    pub(super) fn heed(&mut self, error: &Error) {
        self.is_lost |= matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unreachable);
    }

    /// Returns whether the connection is of no use to others.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }
}

/// Returns how many transactions and savepoints sqlx has open on a connection.
pub(super) fn depth(connection: &PgConnection) -> usize {
    <sqlx::Postgres as Database>::TransactionManager::get_transaction_depth(connection)
}
