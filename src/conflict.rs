//! Recognizes errors that mean a lost conflict: nothing is wrong with the transaction, and a second try may succeed at once.

use std::error::Error as StdError;

use tokio_postgres::error::{DbError, SqlState};

/// Whether an error, or one of its causes, is a lost conflict: `serialization_failure` or `deadlock_detected` of PostgreSQL,
/// "busy" or "locked" of SQLite.
///
/// `lock_not_available` does not count. A caller that sets a `lock_timeout` has waited as long as it wanted, and one that writes `nowait`
/// wants an error rather than an immediate retry.
pub(crate) fn is_conflict(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if postgres(error) || sqlite(error) {
            return true;
        }
        next = error.source();
    }
    false
}

fn postgres(error: &(dyn StdError + 'static)) -> bool {
    // The server's message is a cause of the driver's error, and may be all that is visible: `anyhow` hides the type of the first error in
    // the chain.
    let said = error.downcast_ref::<DbError>().map(DbError::code);
    let said = said.or_else(|| error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code));
    said.is_some_and(lost) || by_sqlx(error)
}

fn lost(code: &SqlState) -> bool {
    *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
}

#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
fn by_sqlx(error: &(dyn StdError + 'static)) -> bool {
    sqlx_code(error).is_some_and(|code| lost(&code))
}

/// Returns the code that a server answered with, if an error is one of any version of sqlx.
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
pub(crate) fn sqlx_code(error: &(dyn StdError + 'static)) -> Option<SqlState> {
    // As above: the server's answer is a cause of sqlx's error.
    macro_rules! code {
        ($sqlx:ident) => {{
            use $sqlx::postgres::PgDatabaseError;
            let said = error.downcast_ref::<$sqlx::Error>().and_then($sqlx::Error::as_database_error);
            let said = said.and_then(|said| said.try_downcast_ref::<PgDatabaseError>());
            // A cause of sqlx's error, or what `anyhow` was made of.
            let cause = error.downcast_ref::<Box<dyn $sqlx::error::DatabaseError>>();
            said.or_else(|| cause.and_then(|said| said.try_downcast_ref()))
                .or_else(|| error.downcast_ref::<PgDatabaseError>())
                .map(PgDatabaseError::code)
        }};
    }
    let code = None;
    #[cfg(feature = "sqlx-0_8")]
    let code = code.or_else(|| code!(sqlx_0_8));
    #[cfg(feature = "sqlx-0_9")]
    let code = code.or_else(|| code!(sqlx_0_9));
    code.map(SqlState::from_code)
}

#[cfg(not(any(feature = "sqlx-0_8", feature = "sqlx-0_9")))]
fn by_sqlx(_: &(dyn StdError + 'static)) -> bool {
    false
}

#[cfg(feature = "sqlite")]
fn sqlite(error: &(dyn StdError + 'static)) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    // As above: SQLite's code is a cause of the driver's error.
    let said = error.downcast_ref::<rusqlite::ffi::Error>().map(|error| error.code);
    said.or_else(|| error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code))
        .is_some_and(|code| matches!(code, DatabaseBusy | DatabaseLocked))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &(dyn StdError + 'static)) -> bool {
    false
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::job::{JobError, RetryAdvice};

    fn sqlite_error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
    }

    #[test]
    fn a_busy_database_is_a_conflict_wherever_it_stands_in_the_chain() {
        let busy = || sqlite_error(rusqlite::ffi::SQLITE_BUSY_SNAPSHOT);
        assert!(is_conflict(&busy()));
        let wrapped = Error::new(ErrorKind::Busy, "can't begin").with_source(busy());
        assert_eq!(JobError::from(wrapped).advice(), RetryAdvice::Conflict);
    }

    #[test]
    fn a_conflict_inside_an_anyhow_error_is_one() {
        let busy = || anyhow::Error::from(sqlite_error(rusqlite::ffi::SQLITE_BUSY));
        for error in [busy(), busy().context("can't book"), busy().context("can't book").context("can't pay")] {
            let fails = || -> Result<(), JobError> { Err(error)? };
            assert_eq!(fails().unwrap_err().advice(), RetryAdvice::Conflict);
        }
        let other = anyhow::Error::from(sqlite_error(rusqlite::ffi::SQLITE_CONSTRAINT)).context("can't book");
        assert_eq!(JobError::from(other).advice(), RetryAdvice::ByPolicy);
    }

    #[test]
    fn other_errors_are_none() {
        assert!(!is_conflict(&sqlite_error(rusqlite::ffi::SQLITE_CONSTRAINT)));
        // No connection in time: a caller that waited that long need not retry at once.
        assert!(!is_conflict(&Error::new(ErrorKind::Busy, "no connection became free")));
    }
}
