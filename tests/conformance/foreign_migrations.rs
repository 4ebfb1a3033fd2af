//! `migrate` on a schema that something else has changed: nothing is done, and the error says why.

use jobwright::internal::engine::Migration;
use jobwright::{ErrorKind, Result};

use crate::support::SqlDb;
use crate::support::jobs::job;

/// Asserts that the schema was refused, with this text in the error.
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
    db.pretend_newer(9999).await;
    refused(store.migrate().await, "too old for");
    refused(store.check_schema().await, "too old for");
    let status = store.migration_status().await.unwrap();
    let newest = status.last().unwrap();
    assert_eq!((newest.version, newest.name.as_str(), newest.known), (9999, "future", false));
}

/// The upgrade without downtime: the schema is migrated first, and the executors of the previous release go on.
pub(crate) async fn a_newer_schema_that_this_build_runs_on_is_used<T: SqlDb>(db: &T) {
    let store = db.jobs();
    db.pretend_newer(1).await;
    store.check_schema().await.unwrap();
    let status = store.migrate().await.unwrap();
    let newest = status.last().unwrap();
    assert_eq!((newest.version, newest.known, newest.compatible), (9999, false, true));
    let id = store.send(job()).await;
    let node = store.node().await;
    let taken = store.take_one(node).await;
    assert_eq!(taken.id, id);
    store.finish(node, &taken).await;
}

/// A change of a later build, and the statement that fills in its rows.
fn later(sql: &'static str, backfill: &'static str) -> Migration {
    Migration { version: 5000, name: "later", min_compatible: 1, sql, backfill: Some(backfill) }
}

/// Rows are filled in by a statement that is limited to a few, in as many transactions as that takes. Then the change counts as applied.
pub(crate) async fn a_change_fills_in_rows_in_batches<T: SqlDb>(db: &T) {
    let store = db.jobs();
    for _ in 0..25 {
        store.send(job()).await;
    }
    let change = [later(T::LATER.0, T::LATER.1)];
    let status = db.migrate_with(&change).await.unwrap();
    let last = status.last().unwrap();
    assert!(last.name == "later" && status.iter().all(|row| row.applied_at.is_some() && row.known), "{status:?}");
    db.change("create table {}proof (n integer check (n = 25)); insert into {}proof select count(*) from {}later")
        .await;
    assert_eq!(db.migrate_with(&change).await.unwrap(), status);
    // The build of this test knows nothing of it, and runs on it.
    store.check_schema().await.unwrap();
    store.send(job()).await;
}

/// What was stopped in the middle goes on where it was: the change itself is not made again, and it does not count as applied before.
pub(crate) async fn an_interrupted_change_goes_on<T: SqlDb>(db: &T) {
    let store = db.jobs();
    store.send(job()).await;
    let broken = later(T::LATER.0, "insert into nowhere select 1");
    db.migrate_with(&[broken]).await.unwrap_err();
    let status = store.migration_status().await.unwrap();
    let last = status.last().unwrap();
    assert!(last.name == "later" && !last.known && last.compatible, "{status:?}");
    let status = db.migrate_with(&[later(T::LATER.0, T::LATER.1)]).await.unwrap();
    assert!(status.last().unwrap().applied_at.is_some(), "{status:?}");
    db.change("create table {}proof (n integer check (n = 1)); insert into {}proof select count(*) from {}later").await;
}

/// A change that fails in its middle leaves nothing behind, and neither does one whose entry fails. The next try applies it.
pub(crate) async fn a_change_that_fails_is_not_applied<T: SqlDb>(db: &T) {
    let before = db.jobs().migration_status().await.unwrap();
    let half: &str = format!("{}; create table nowhere.at_all (n integer)", T::LATER.0).leak();
    let error = db.migrate_with(&[later(half, T::LATER.1)]).await.unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    db.change(T::NO_ENTRY[0]).await;
    db.migrate_with(&[later(T::LATER.0, T::LATER.1)]).await.unwrap_err();
    assert_eq!(db.jobs().migration_status().await.unwrap(), before);
    db.change(T::NO_ENTRY[1]).await;
    let status = db.migrate_with(&[later(T::LATER.0, T::LATER.1)]).await.unwrap();
    assert!(status.last().unwrap().applied_at.is_some());
}

/// Its table of changes has other columns.
pub(crate) async fn a_schema_from_before_the_first_release_is_refused<T: SqlDb>(db: &T) {
    db.change("alter table {}migration drop column is_filled").await;
    let store = db.jobs();
    refused(store.migration_status().await, "from before 0.1.0");
    refused(store.migrate().await, "from before 0.1.0");
}

/// The applied migration differs from this build's migration of the same number.
pub(crate) async fn an_edited_file_is_refused<T: SqlDb>(db: &T) {
    let store = db.jobs();
    db.pretend_edited().await;
    refused(store.migrate().await, "other text");
    refused(store.check_schema().await, "other text");
    refused(store.migration_status().await, "other text");
}
