//! Translates SQLite's errors for the caller.

use std::error::Error as StdError;

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

/// An error inside a piece of work: one of SQLite's, which is explained once it is known what was tried, or one of this library.
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

/// The result of a piece of work.
pub(super) type Work<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(super) fn explain(self, tried: &str, label: &str) -> Error {
        match self {
            Self::Sql(error) => explain(error, tried, label),
            Self::Ours(error) => error,
        }
    }
}

/// Explains what was tried, on which file, why it failed and what to do.
pub(super) fn explain(error: rusqlite::Error, tried: &str, label: &str) -> Error {
    let refuses_all = refuses_all(&error);
    let told = translated(error, tried, label);
    if refuses_all { told.refusing_all() } else { told }
}

/// Returns whether every other statement of this sort would be refused too, whatever values it has, until something changes in the file: a table, a column or
/// a function is gone, or the file is none of SQLite's. A damaged page may be that of one row.
fn refuses_all(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    let of_the_file = matches!(
        code,
        Some(
            ErrorCode::NotADatabase
                | ErrorCode::PermissionDenied
                | ErrorCode::AuthorizationForStatementDenied
                | ErrorCode::SchemaChanged
        )
    );
    // A trigger of the application may raise any text, and means a row.
    let is_gone = code != Some(ErrorCode::ConstraintViolation)
        && ["no such table", "no such column", "no such function"].iter().any(|gone| message(error).starts_with(gone));
    of_the_file || is_gone || matches!(error, rusqlite::Error::SqlInputError { .. })
}

fn translated(error: rusqlite::Error, tried: &str, label: &str) -> Error {
    // Those whose text says so.
    let unchanged = is_busy(&error)
        || matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::OperationInterrupted));
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
            (ErrorKind::Unreachable, "reading or writing the file failed: check the disk")
        }
        Some(ErrorCode::NotADatabase) => (ErrorKind::Config, "the file is not an SQLite database: name another one"),
        Some(ErrorCode::OperationInterrupted) => {
            (ErrorKind::Timeout, "it took longer than `database.call_timeout` and was stopped; nothing was changed")
        }
        _ if error.to_string().contains("no such table: jobwright_") => {
            (ErrorKind::Schema, "it lacks the job tables: run `jobwright migrate`, or call `MessageServices::migrate`")
        }
        _ => {
            let told = Error::new(ErrorKind::Database, format!("can't {tried} in {label}: {}", message(&error)));
            // The driver's text of this one has the whole SQL.
            let has_sql = matches!(error, rusqlite::Error::SqlInputError { .. });
            return if has_sql { told } else { told.with_source(error) };
        }
    };
    let told = Error::new(kind, format!("can't {tried} in {label}: {advice}")).with_source(error);
    if unchanged { told.keeping_nothing() } else { told }
}

/// Returns the kind of a driver error.
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

/// Explains a caller's statement that was rejected. The transaction stays usable unless SQLite itself ended it.
pub(super) fn refused(error: rusqlite::Error, label: &str) -> Error {
    Error::new(ErrorKind::Database, format!("{label} refused a statement: {}", message(&error))).with_source(error)
}

/// Returns SQLite's own message, without the statement.
fn message(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// Returns whether another connection holds the lock, so that the same may be tried again.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}

#[cfg(test)]
mod tests {
    use super::{explain, refuses_all};

    /// The text of a trigger's refusal says nothing.
    #[test]
    fn a_trigger_refuses_a_row_and_a_table_that_is_gone_all() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "create table t (n); create trigger refuse before insert on t begin select raise(abort, 'no such table: orders'); end",
            )
            .unwrap();
        let by_trigger = connection.execute("insert into t values (1)", []).unwrap_err();
        assert!(!refuses_all(&by_trigger), "{by_trigger:?}");
        let mut statement = connection.prepare("select n from t").unwrap();
        connection.execute_batch("alter table t rename to u").unwrap();
        let gone = statement.query([]).and_then(|mut rows| rows.next().map(drop)).unwrap_err();
        assert!(refuses_all(&gone), "{gone:?}");
        assert!(explain(gone, "look", "a file").refuses_all());
        assert!(refuses_all(&connection.execute("insert into t values (1)", []).unwrap_err()));
    }
}
