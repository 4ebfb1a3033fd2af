//! `migrate`: once, in order, and never against a newer schema.

use jobwright::ErrorKind;
use jobwright::Store;
use tokio::task::JoinSet;

use crate::support::jobs::job;
use crate::support::{Jobs, TestDb};

/// Creates a location without a schema; a database that the test was given only proves that there is a server.
async fn bare<T: TestDb>() -> (T, Jobs) {
    let db = T::create_empty().await.unwrap();
    let jobs = db.jobs();
    (db, jobs)
}

pub(crate) async fn missing_parts_are_named<T: TestDb>(_: &T) {
    let (_db, store) = bare::<T>().await;
    for _ in 0..2 {
        let status = store.migration_status().await.unwrap();
        assert_eq!(status[0].version, 1);
        assert!(status.iter().all(|row| row.applied_at.is_none() && row.known), "looking applies nothing");
        let error = store.check_schema().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.to_string().contains("migrate"), "says what to do: {error}");
    }
}

pub(crate) async fn twice_is_once<T: TestDb>(_: &T) {
    let (_db, store) = bare::<T>().await;
    let first = store.migrate().await.unwrap();
    assert!(first.iter().all(|row| row.applied_at.is_some() && row.known));
    assert!(first[0].version == 1 && first.is_sorted_by(|one, next| one.version < next.version), "numbered in order");
    store.check_schema().await.unwrap();
    let id = store.send(job()).await;
    assert_eq!(store.migrate().await.unwrap(), first);
    assert_eq!(store.migration_status().await.unwrap(), first);
    assert!(store.show(id).await.unwrap().is_some(), "the jobs are still there");
}

/// Ten processes start at once on an empty server.
pub(crate) async fn ten_at_once<T: TestDb>(_: &T) {
    let (db, store) = bare::<T>().await;
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let other = db.reopen().await.engine();
        tasks.spawn(async move { other.migrate().await.unwrap() });
    }
    let all = tasks.join_all().await;
    let status = store.migration_status().await.unwrap();
    for one in all {
        assert_eq!(one, status, "all see the one that was applied");
    }
    store.send(job()).await;
}
