//! What is known of an open transaction.

use super::TransactionManager as _;
use super::sqlx::{self, Database, PgConnection};
use crate::error::{Error, ErrorKind};

/// What is known of a transaction.
#[derive(Debug, Default)]
pub(super) struct Probed {
    /// It was probed since code of others had it.
    pub(super) is_open: bool,
    /// A statement of ours was sent, and its answer has not come. If its future was dropped, none will be read.
    is_asked: bool,
    /// A statement got no answer: it may still run.
    is_lost: bool,
}

impl Probed {
    /// Code of others gets the transaction.
    pub(super) fn forget(&mut self) {
        self.is_open = false;
    }

    /// Notes that a statement of ours is about to be sent.
    pub(super) fn asks(&mut self) {
        self.is_asked = true;
    }

    /// Notes how that statement ended. After an error the transaction is aborted, so it has to be probed again before its commit.
    pub(super) fn answered(&mut self, error: Option<&Error>) {
        self.is_asked = false;
        if let Some(error) = error {
            self.is_open = false;
            self.is_lost |= matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unreachable);
        }
    }

    /// Returns whether the connection is of no use to others.
    pub(super) fn is_lost(&self) -> bool {
        self.is_asked || self.is_lost
    }
}

/// Returns how many transactions and savepoints sqlx has open on a connection.
pub(super) fn depth(connection: &PgConnection) -> usize {
    <sqlx::Postgres as Database>::TransactionManager::get_transaction_depth(connection)
}
