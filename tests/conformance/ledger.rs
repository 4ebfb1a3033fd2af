//! `migrate` on a database that somebody else has touched: nothing is done, and the error says why.

use jobwright::{ErrorKind, Result};

use crate::support::SqlDb;

/// It was refused because of the schema, and this text tells why.
#[track_caller]
fn refused<V: std::fmt::Debug>(result: Result<V>, why: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema, "{error:?}");
    assert!(error.to_string().contains(why), "{error}");
    assert!(!error.is_retryable());
}

/// An old build must never touch the schema of a newer one.
pub(crate) async fn a_newer_schema_is_refused<T: SqlDb>(db: &T) {
    let store = db.jobs();
    db.pretend_newer().await;
    refused(store.migrate().await, "newer");
    refused(store.check_schema().await, "newer");
    let status = store.migration_status().await.unwrap();
    let newest = status.last().unwrap();
    assert_eq!((newest.version, newest.name.as_str(), newest.known), (9999, "future", false));
}

/// What was applied is not what this build knows by that number.
pub(crate) async fn an_edited_file_is_refused<T: SqlDb>(db: &T) {
    let store = db.jobs();
    db.pretend_edited().await;
    refused(store.migrate().await, "other text");
    refused(store.check_schema().await, "other text");
    refused(store.migration_status().await, "other text");
}
