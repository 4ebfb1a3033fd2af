//! What is kept beside the jobs, and no trigger released: a table was truncated, or restored alone.

use std::time::Duration;

use jobwright::Unique;
use jobwright::admin::{JobState, Rule, Scope};
use jobwright::internal::engine::{Reconciled, Settlement, Verdict};

use crate::support::jobs::{LATER, hand_out_number, ids, job, jobs};
use crate::support::{Jobs, SqlDb, eventually};

/// Makes steps until nothing is left to look at or to take back. Returns what was taken back, by key, and what was unblocked.
async fn reconcile(store: &Jobs) -> (Vec<String>, Vec<String>) {
    let (mut last, mut reclaimed, mut unblocked) = (Reconciled::default(), Vec::new(), Vec::new());
    loop {
        last = store.reconcile(&last).await.unwrap();
        reclaimed.extend(last.reclaimed.iter().map(|permit| permit.key.clone()));
        unblocked.extend(last.unblocked.iter().cloned());
        if last.orphans.is_empty() && !last.has_more() {
            reclaimed.sort();
            return (reclaimed, unblocked);
        }
    }
}

pub(crate) async fn permits_of_a_truncated_table_are_released<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Tenant, "*").running(1)).await.unwrap();
    store.send(job().exclusive("group")).await;
    store.send(job().tenant("acme")).await;
    store.send(job().unique(Unique::key("one"))).await;
    store.admit_all().await;
    assert_eq!(store.take(node, 10).await.len(), 3);
    db.change("truncate {}job").await;
    let sent = store.send_all([job().exclusive("group"), job().tenant("acme")]).await;
    assert_eq!(store.admit_all().await, 0, "what is gone holds it");
    assert_eq!(store.permit_faults().await.unwrap().len(), 2);
    let first = store.reconcile(&Reconciled::default()).await.unwrap();
    assert_eq!((first.orphans.len(), first.reclaimed.len()), (2, 0), "not at the first look");
    assert_eq!(reconcile(&store).await.0, ["g:group", "t:acme"]);
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
    store.admit_all().await;
    assert_eq!(ids(&store.take(node, 10).await), sent);
    // The key has blocked nobody, and is forgotten in time. Where it is looked for is left to chance.
    eventually(LATER, async || store.prune_keys(1000).await.unwrap() == 1).await;
    assert_eq!(store.prune_keys(1000).await.unwrap(), 0);
}

/// A handler is not told at once that its job is gone, and may not stop.
pub(crate) async fn a_handler_whose_job_vanished_keeps_its_group<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send(job().exclusive("group")).await;
    store.admit_all().await;
    let running = store.take_one(node).await;
    db.change("truncate {}job").await;
    let next = store.send(job().exclusive("group")).await;
    let gone = store.stale_claims(node, &[running.fence()]).await.unwrap();
    assert_eq!(gone.len(), 1);
    assert_eq!(reconcile(&store).await.0, Vec::<String>::new());
    assert_eq!(store.admit_all().await, 0, "its handler still runs");
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
    assert_eq!(store.handlers_ended(node, &gone).await.unwrap(), 1);
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, next);
}

/// It has a row in some table, whichever it is.
pub(crate) async fn permits_of_existing_jobs_stay<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let fates = [Verdict::Retry(LATER), Verdict::Retry(Duration::ZERO), Verdict::Dead, Verdict::Snooze(LATER)];
    for (n, fate) in fates.into_iter().enumerate() {
        store.send(job().ordered(format!("ordered {n}"))).await;
        store.admit_all().await;
        let taken = store.take_one(node).await;
        assert!(store.settle_one(node, taken.fence(), fate).await);
    }
    store.promote().await;
    let running = store.send(job().exclusive("runs")).await;
    let cancelled = store.send(job().exclusive("is cancelled")).await;
    store.send(job().queue("outside").exclusive("is handed out")).await;
    store.admit_all().await;
    assert!(store.take(node, 10).await.iter().any(|job| job.id == running));
    store.cancel(&jobwright::admin::JobFilter::ids([cancelled]), false).await.unwrap();
    assert_eq!(store.hand_out("outside", 10, LATER, hand_out_number()).await.unwrap().len(), 1);
    let before = store.permit_faults().await.unwrap();
    assert_eq!(reconcile(&store).await, (vec![], vec![]));
    assert_eq!((store.permit_faults().await.unwrap(), before), (vec![], vec![]));
}

/// The table of unblocks was truncated.
pub(crate) async fn keys_that_nothing_unblocks_are_unblocked<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Key, "paused").paused(true)).await.unwrap();
    let sent = store.send_all(jobs(3).into_iter().map(|job| job.exclusive("group"))).await;
    store.send(job().exclusive("another").limit_key("paused")).await;
    store.admit_once().await;
    let running = store.take_one(node).await;
    db.change("truncate {}unblock").await;
    assert_eq!(reconcile(&store).await.1, Vec::<String>::new(), "it is held, and the other is paused");
    db.change("truncate {}permit").await;
    store.finish(node, &running).await;
    db.change("truncate {}unblock").await;
    assert_eq!(store.admit_all().await, 0);
    assert_eq!(reconcile(&store).await.1, ["g:group"]);
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, sent[1]);
}

/// The permits that are looked at in one step are a page.
pub(crate) async fn more_permits_than_a_page_has<T: SqlDb>(db: &T) {
    let store = db.jobs();
    db.change(
        "insert into {}permit (job_id, key) select gen_random_uuid(), 'g:' || n from generate_series(1, 12001) n",
    )
    .await;
    let first = store.reconcile(&Reconciled::default()).await.unwrap();
    assert!(first.has_more() && first.orphans.len() < 12_001, "{}", first.orphans.len());
    assert_eq!(reconcile(&store).await.0.len(), 12_001);
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

/// Anyone who may send may write unblocks. Keys that no job is blocked on are removed many at a time, and do not count as keys of a pass.
pub(crate) async fn unblocks_of_keys_that_no_job_waits_for_hold_up_no_group<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    // Far more keys than a pass admits jobs of, and more than it removes.
    for (keys, most) in [(15_000, 1), (60_000, 4)] {
        db.change(&format!("insert into {{}}unblock (key) select 'g:' || n from generate_series(1, {keys}) n")).await;
        let sent = store.send(job().exclusive("last")).await;
        let mut passes = 1;
        while store.admit_once().await.jobs == 0 {
            passes += 1;
            assert!(passes <= most, "{passes} passes for {keys} keys");
        }
        let claimed = store.take_one(node).await;
        assert_eq!(claimed.id, sent);
        store.finish(node, &claimed).await;
        store.admit_all().await;
        assert_eq!(store.overdue_unblocks().await.unwrap().unblocks, 0);
    }
}

/// SQL by hand may have written them. They cost the job neither its next attempt nor the error of the last one.
pub(crate) async fn errors_that_are_no_list_are_dropped<T: SqlDb>(db: &T) {
    let store = db.jobs();
    for ends in ["a failure", "a death"] {
        let (node, claimed) = store.running(job()).await;
        db.change(&format!("update {{}}job set errors = '5' where id = '{}'", claimed.id)).await;
        match ends {
            "a failure" => {
                let failed = Settlement::new(claimed.fence(), Verdict::Retry(Duration::ZERO)).error("it failed", None);
                assert!(store.settle_with(node, failed).await);
                store.promote().await;
            }
            _ => {
                db.bury(node).await;
                assert_eq!(store.release_all_lost().await, (1, 0));
            }
        }
        let detail = store.detail(claimed.id).await;
        assert_eq!(
            (detail.summary.state, detail.summary.attempt, detail.errors.len()),
            (JobState::Waiting, 1, 1),
            "{ends}"
        );
        let other = store.node().await;
        let again = store.take_one(other).await;
        store.finish(other, &again).await;
    }
}
