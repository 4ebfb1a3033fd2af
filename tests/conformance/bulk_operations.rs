//! Operations on more jobs than one transaction takes (5,000): each transaction holds its locks only briefly, and earlier ones stay committed.

use std::time::Duration;

use jobwright::JobId;
use jobwright::admin::{AuditFilter, JobFilter, JobState, Page, RetryOptions};
use jobwright::internal::engine::{OperatorOptions, Settlement, Verdict};
use jobwright::internal::{Action, OperationWatch};

use crate::support::SqlDb;
use crate::support::jobs::{LATER, affected, jobs};

/// One more than a transaction takes.
const MANY: usize = 5001;

/// Creates dead letters and returns their ids in the order in which they were sent.
async fn dead<T: SqlDb>(db: &T) -> Vec<JobId> {
    let store = db.jobs();
    let sent = store.send_all(jobs(MANY)).await;
    let node = store.node().await;
    let claimed = store.take(node, MANY).await;
    let ends: Vec<_> = claimed.iter().map(|job| Settlement::new(job.fence(), Verdict::Dead)).collect();
    assert_eq!(store.settle(node, &ends).await.unwrap().len(), MANY);
    sent
}

/// The last transaction fails: the jobs of those before it run again, and the audit entry says how many.
pub(crate) async fn run_again_in_many_transactions<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let sent = dead(db).await;
    db.refuse(sent[MANY - 1]).await;
    let retry = Action::Retry { limit: None, spread: Duration::ZERO };
    let order = OperatorOptions { by: Some("somebody"), ..OperatorOptions::default() };
    store.operate(&JobFilter::default(), &retry, order).await.unwrap_err();
    assert_eq!((store.count(JobState::Waiting).await, store.count(JobState::Dead).await), (MANY - 1, 1));
    let entries = store.audit(&AuditFilter::default(), 10).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].counts, serde_json::json!({ "dead": MANY - 1 }));
    let rest = JobFilter::state(JobState::Dead);
    store.operate(&rest, &retry, OperatorOptions::default()).await.unwrap_err();
    assert_eq!(store.state(sent[MANY - 1]).await, Some(JobState::Dead));
}

/// Due dates continue where those of the previous transaction ended.
pub(crate) async fn run_again_one_after_the_other_in_many_transactions<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let sent = dead(db).await;
    // An hour for each.
    let options = RetryOptions::default().spread(LATER * MANY as u32);
    let done = store.retry_with(&JobFilter::default(), &options).await.unwrap();
    assert_eq!(done, affected([(JobState::Dead, MANY as u64)]));
    let page = Page::new(MANY);
    let rows = store.list(&JobFilter::state(JobState::Timer), &page).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), sent);
    for pair in rows.windows(2) {
        let apart = pair[1].due_at.unwrap().duration_since(pair[0].due_at.unwrap());
        let off = (apart.as_secs() - 3600).abs();
        assert!(off < 600, "{} and {} are {apart:?} apart", pair[0].seq, pair[1].seq);
    }
}

/// A watch sees the committed changes, and ends an operation between two transactions; begun again, it goes on with the rest.
pub(crate) async fn a_watch_ends_it_between_two_transactions<T: SqlDb>(db: &T) {
    const CHUNK: usize = MANY - 1;
    let store = db.jobs();
    store.send_all(jobs(4 * CHUNK)).await;
    let watch = OperationWatch::default();
    let order = OperatorOptions { watch: Some(&watch), ..OperatorOptions::default() };
    let all = JobFilter::default();
    let operating = store.operate(&all, &Action::Suspend, order);
    tokio::pin!(operating);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut operating => break done.unwrap(),
            () = tokio::task::yield_now() => {
                if watch.done() > 0 {
                    watch.stop();
                }
            }
        }
    };
    // The transaction that was under way when the watch was stopped is completed.
    let (changed, left) = (store.count(JobState::Suspended).await, store.count(JobState::Waiting).await);
    assert_eq!((done.total(), watch.done()), (changed as u64, changed as u64));
    assert!(changed.is_multiple_of(CHUNK) && left > 0 && changed + left == 4 * CHUNK, "{changed} and {left}");
    assert!(watch.is_cut_short());
    assert_eq!(store.operate(&all, &Action::Suspend, order).await.unwrap().total(), 0, "it stays stopped");
    let rest = store.operate(&all, &Action::Suspend, OperatorOptions::default()).await.unwrap();
    assert_eq!(rest.total(), left as u64);
}
