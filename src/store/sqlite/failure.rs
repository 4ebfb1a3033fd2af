//! What SQLite's errors mean to a caller.

use std::error::Error as StdError;

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

/// An error inside a piece of work: SQLite's, to be explained once it is known what was tried, or one of ours.
#[derive(Debug)]
pub(super) enum Failure {
    Sql(rusqlite::Error),
    Ours(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

/// What a piece of work returns.
pub(super) type Work<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(super) fn explain(self, tried: &str, place: &str) -> Error {
        match self {
            Self::Sql(error) => explain(error, tried, place),
            Self::Ours(error) => error,
        }
    }
}

/// Says what was tried, on what, why it failed and what to do.
pub(super) fn explain(error: rusqlite::Error, tried: &str, place: &str) -> Error {
    let busy = is_busy(&error);
    let (kind, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => (
            ErrorKind::Busy,
            "another connection holds its write lock (a transaction that stays open too long, here or in another process); \
             nothing was changed",
        ),
        Some(ErrorCode::ReadOnly) => {
            (ErrorKind::ReadOnly, "it can't be written: check the permissions of the file and of its directory")
        }
        Some(ErrorCode::CannotOpen) => (
            ErrorKind::Unreachable,
            "the file, or the -wal and -shm files beside it, can't be opened or created: check the directory and its permissions",
        ),
        Some(ErrorCode::DiskFull) => (ErrorKind::Unreachable, "the disk is full; nothing was changed"),
        Some(ErrorCode::SystemIoFailure) => {
            (ErrorKind::Unreachable, "reading or writing the file failed; nothing was changed")
        }
        Some(ErrorCode::NotADatabase) => (ErrorKind::Config, "the file is not an SQLite database: name another one"),
        Some(ErrorCode::OperationInterrupted) => {
            (ErrorKind::Timeout, "it took longer than `database.call_timeout` and was stopped; nothing was changed")
        }
        _ if error.to_string().contains("no such table: jobwright_") => {
            (ErrorKind::Schema, "it lacks the job tables: run `jobwright migrate`, or call `MessageServices::migrate`")
        }
        _ => {
            return Error::new(ErrorKind::Database, format!("can't {tried} in {place}: {}", message(&error)))
                .with_source(error);
        }
    };
    let told = Error::new(kind, format!("can't {tried} in {place}: {advice}")).with_source(error);
    if busy { told.keeping_nothing() } else { told }
}

/// What kind an error of the driver is.
pub(crate) fn driver_kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    let error = error.downcast_ref::<rusqlite::Error>()?;
    if is_busy(error) {
        return Some(ErrorKind::Busy);
    }
    match error.sqlite_error_code()? {
        ErrorCode::ReadOnly => Some(ErrorKind::ReadOnly),
        ErrorCode::CannotOpen | ErrorCode::DiskFull | ErrorCode::SystemIoFailure => Some(ErrorKind::Unreachable),
        ErrorCode::OperationInterrupted => Some(ErrorKind::Timeout),
        _ => Some(ErrorKind::Database),
    }
}

/// A statement of the caller's own that was refused. The transaction stays usable unless SQLite itself ended it.
pub(super) fn refused(error: rusqlite::Error, place: &str) -> Error {
    Error::new(ErrorKind::Database, format!("{place} refused a statement: {}", message(&error))).with_source(error)
}

/// SQLite's own words, without the statement.
fn message(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// Whether somebody else has the lock, so that the same may be tried again.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}
