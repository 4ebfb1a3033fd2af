//! What operators do to more jobs than one transaction takes (5,000): the lock is held for a moment only, and what is done stays done.

use std::time::Duration;

use jobwright::JobId;
use jobwright::store::{Action, AuditFilter, JobFilter, JobState, Order, Page, RetryOptions, Settlement, Verdict};

use crate::support::SqlDb;
use crate::support::jobs::{LATER, jobs, steered};

/// One more than a transaction takes.
const MANY: usize = 5001;

/// Dead letters, the first sent first.
async fn dead<T: SqlDb>(db: &T) -> Vec<JobId> {
    let store = db.jobs();
    let sent = store.send_all(jobs(MANY)).await;
    let node = store.node().await;
    let claimed = store.take(node, MANY).await;
    let ends: Vec<_> = claimed.iter().map(|job| Settlement::new(job.fence(), Verdict::Dead)).collect();
    assert_eq!(store.settle(node, &ends).await.unwrap().len(), MANY);
    sent
}

/// The last one fails: those before it run again, and the audit says how many.
pub(crate) async fn run_again_in_many_transactions<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let sent = dead(db).await;
    db.refuse(sent[MANY - 1]).await;
    let retry = Action::Retry { limit: None, spread: Duration::ZERO };
    let order = Order { by: Some("somebody"), ..Order::default() };
    store.steer(&JobFilter::default(), &retry, order).await.unwrap_err();
    assert_eq!((store.count(JobState::Waiting).await, store.count(JobState::Dead).await), (MANY - 1, 1));
    let entries = store.audit(&AuditFilter::default(), 10).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].counts, serde_json::json!({ "dead": MANY - 1 }));
    let rest = JobFilter::state(JobState::Dead);
    store.steer(&rest, &retry, Order::default()).await.unwrap_err();
    assert_eq!(store.state(sent[MANY - 1]).await, Some(JobState::Dead));
}

/// Their due dates go on where those of the transaction before ended.
pub(crate) async fn run_again_one_after_the_other_in_many_transactions<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let sent = dead(db).await;
    // An hour for each.
    let options = RetryOptions::default().spread(LATER * MANY as u32);
    let done = store.retry_with(&JobFilter::default(), &options).await.unwrap();
    assert_eq!(done, steered([(JobState::Dead, MANY as u64)]));
    let page = Page::new(MANY);
    let rows = store.list(&JobFilter::state(JobState::Timer), &page).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), sent);
    for pair in rows.windows(2) {
        let apart = pair[1].due_at.unwrap().duration_since(pair[0].due_at.unwrap());
        let off = (apart.as_secs() - 3600).abs();
        assert!(off < 600, "{} and {} are {apart:?} apart", pair[0].seq, pair[1].seq);
    }
}
