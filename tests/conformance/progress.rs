//! The progress that running jobs report.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobProgress};
use jobwright::internal::engine::{ProgressUpdate, Verdict};
use jobwright::{JobId, NodeId};

use crate::support::jobs::{LATER, job, with_version};
use crate::support::{Jobs, SqlDb};

fn update(percent: u8, note: &str) -> ProgressUpdate {
    ProgressUpdate { percent: Some(percent), note: Some(note.to_owned()), checkpoint: None }
}

fn checkpoint(json: &str) -> ProgressUpdate {
    let json = serde_json::value::RawValue::from_string(json.to_owned()).unwrap();
    ProgressUpdate { checkpoint: Some(json), ..ProgressUpdate::default() }
}

async fn said(store: &Jobs, id: JobId) -> JobProgress {
    store.progress(id).await.unwrap().expect("no progress")
}

pub(crate) async fn progress_survives_the_attempt<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    assert!(store.progress(claimed.id).await.unwrap().is_none());
    assert!(store.record_progress(node, claimed.fence(), &update(10, "ä tenth")).await.unwrap());
    assert!(store.record_progress(node, claimed.fence(), &checkpoint("{\"row\": 7}")).await.unwrap());
    let first = said(&store, claimed.id).await;
    assert_eq!((first.percent, first.note.as_deref()), (Some(10), Some("ä tenth")), "what is not said stays");
    let value: serde_json::Value = serde_json::from_str(first.checkpoint.unwrap().get()).unwrap();
    assert_eq!(value["row"], 7);

    store.fail(node, &claimed, Duration::ZERO, "no").await;
    store.promote().await;
    assert!(said(&store, claimed.id).await.checkpoint.is_some());
    let again = store.take_one(node).await;
    assert!(store.record_progress(node, again.fence(), &update(100, "all")).await.unwrap());
    let last = said(&store, claimed.id).await;
    assert_eq!((last.percent, last.note.as_deref(), last.checkpoint.is_some()), (Some(100), Some("all"), true));
    assert!(last.at > first.at);
}

pub(crate) async fn only_the_owner_says_how_far<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    let old = with_version(claimed.fence(), claimed.version - 1);
    assert!(!store.record_progress(node, old, &update(1, "old")).await.unwrap());
    assert!(!store.record_progress(NodeId(9_999), claimed.fence(), &update(1, "stranger")).await.unwrap());
    assert!(store.settle_one(node, claimed.fence(), Verdict::Release).await);
    assert!(!store.record_progress(node, claimed.fence(), &update(1, "zombie")).await.unwrap());
    assert!(store.progress(claimed.id).await.unwrap().is_none());
}

pub(crate) async fn progress_goes_after_its_job<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let mut ids = Vec::new();
    for verdict in [Verdict::Retry(LATER), Verdict::Dead, Verdict::Cancel] {
        let (node, claimed) = store.running(job()).await;
        assert!(store.record_progress(node, claimed.fence(), &update(50, "half")).await.unwrap());
        assert!(store.settle_one(node, claimed.fence(), verdict).await);
        ids.push(claimed.id);
    }
    let (node, done) = store.running(job()).await;
    assert!(store.record_progress(node, done.fence(), &update(99, "nearly")).await.unwrap());
    assert_eq!(store.prune_progress(10).await.unwrap(), 1, "of the cancelled one");
    store.complete(node, &[done.fence()]).await.unwrap();
    assert_eq!(store.prune_progress(10).await.unwrap(), 1, "of the one that is done");
    assert!(store.progress(done.id).await.unwrap().is_none() && store.progress(ids[2]).await.unwrap().is_none());
    assert_eq!(said(&store, ids[0]).await.percent, Some(50));
    store.delete(&JobFilter::default(), false).await.unwrap();
    assert_eq!((store.prune_progress(1).await.unwrap(), store.prune_progress(1).await.unwrap()), (1, 1));
}
