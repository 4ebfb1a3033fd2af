//! The history of jobs that ended.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::{AuditFilter, HistoryEntry, HistoryFilter, HistoryOutcome, JobFilter, JobState, TimeRange};
use jobwright::internal::Action;
use jobwright::internal::Fence;
use jobwright::internal::engine::{ExternalDone, NewResult, OperatorOptions, Settlement, UnitOfWork, Verdict};
use jobwright::{JobId, Keep, NewJob, NodeId, Unique};

use crate::support::jobs::{LATER, hand_out_number, job, jobs, with_version};
use crate::support::{Jobs, SqlDb};

async fn open<T: SqlDb>(db: &T, keep: Keep) -> Jobs {
    Jobs(db.remembering(keep).await.engine())
}

/// Returns the history, the oldest entry first.
async fn all(store: &Jobs) -> Vec<HistoryEntry> {
    let mut found = store.history(&HistoryFilter::default(), 1000).await.unwrap();
    assert!(found.is_sorted_by_key(|entry| std::cmp::Reverse((entry.ended_at, entry.seq))), "the newest first");
    found.reverse();
    found
}

async fn ends(store: &Jobs, id: JobId) -> Vec<(HistoryOutcome, u32)> {
    all(store).await.iter().filter(|entry| entry.id == id).map(|entry| (entry.outcome, entry.attempt)).collect()
}

/// Ends one job in each possible way. Returns their ids, with the outcomes that the history should show.
async fn one_of_each<T: SqlDb>(db: &T, store: &Jobs) -> Vec<(JobId, Vec<(HistoryOutcome, u32)>)> {
    let node = store.node().await;
    let mut expected = Vec::new();
    let done = store.send(job().tenant("acme")).await;
    let claimed = store.take_one(node).await;
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [done]);
    expected.push((done, vec![(HistoryOutcome::Done, 1)]));

    let failing = store.send(job().max_attempts(2)).await;
    for _ in 0..2 {
        let claimed = store.take_one(node).await;
        store.fail(node, &claimed, Duration::ZERO, &format!("no {}", claimed.attempt)).await;
        store.promote().await;
    }
    expected.push((failing, vec![(HistoryOutcome::Failed, 1), (HistoryOutcome::Dead, 2)]));

    for (verdict, ended) in [
        (Verdict::Dead, vec![(HistoryOutcome::Dead, 1)]),
        (Verdict::Cancel, vec![(HistoryOutcome::Cancelled, 1)]),
        // Not an outcome: the attempt was given back.
        (Verdict::Snooze(LATER), vec![]),
    ] {
        let id = store.send(job()).await;
        let claimed = store.take_one(node).await;
        assert!(store.settle_one(node, claimed.fence(), verdict).await);
        expected.push((id, ended));
    }

    let lost = store.send(job().max_attempts(2)).await;
    for _ in 0..2 {
        let victim = store.node().await;
        store.take_one(victim).await;
        db.bury(victim).await;
        store.release_lost(10, None).await.unwrap();
    }
    expected.push((lost, vec![(HistoryOutcome::Lost, 1), (HistoryOutcome::Dead, 2)]));

    let cancelled = store.send(job().delay(LATER)).await;
    store.cancel(&JobFilter::ids([cancelled]), true).await.unwrap();
    assert_eq!(store.cancel(&JobFilter::ids([cancelled]), false).await.unwrap().total(), 1);
    expected.push((cancelled, vec![(HistoryOutcome::Cancelled, 0)]));
    let deleted = store.send(job()).await;
    assert_eq!(store.delete(&JobFilter::ids([deleted]), false).await.unwrap().total(), 1);
    expected.push((deleted, vec![(HistoryOutcome::Deleted, 0)]));
    let running = store.send(job()).await;
    store.take_one(node).await;
    assert_eq!(store.cancel(&JobFilter::ids([running]), false).await.unwrap().total(), 1);
    expected.push((running, vec![(HistoryOutcome::Cancelled, 1)]));
    expected.extend(expired(store).await.map(|id| (id, vec![(HistoryOutcome::Expired, 0)])));
    expected
}

/// Creates jobs that expire before they start, in each place where jobs wait.
async fn expired(store: &Jobs) -> [JobId; 3] {
    let short = || job().ttl(Duration::from_millis(1));
    let sent = store
        .send_all([short().tenant("acme"), short().exclusive("expired"), short().at(jiff::Timestamp::now() + LATER)])
        .await;
    let mut gone = 0;
    crate::support::eventually(LATER, async || {
        gone += store.expire_jobs(10).await.unwrap().jobs;
        gone == 3
    })
    .await;
    sent.try_into().unwrap()
}

pub(crate) async fn nothing_is_remembered_unless_asked<T: SqlDb>(db: &T) {
    let store = db.jobs();
    one_of_each(db, &store).await;
    assert_eq!(all(&store).await, []);
}

pub(crate) async fn every_end_is_remembered<T: SqlDb>(db: &T) {
    let store = open(db, Keep::All).await;
    for (id, expected) in one_of_each(db, &store).await {
        assert_eq!(ends(&store, id).await, expected);
    }
    let history = all(&store).await;
    let done = &history[0];
    assert_eq!((done.kind.as_str(), done.queue.as_str(), done.tenant.as_deref()), ("kind", "default", Some("acme")));
    assert!(done.created_at <= done.started_at.unwrap() && done.started_at.unwrap() <= done.ended_at, "{done:?}");
    assert!(done.node.is_some() && done.error.is_none(), "{done:?}");
    let errors: Vec<_> = history[1..3].iter().map(|entry| entry.error.as_deref()).collect();
    assert_eq!(errors, [Some("no 1"), Some("no 2")]);
    let lost = history.iter().find(|entry| entry.outcome == HistoryOutcome::Lost).unwrap();
    assert!(lost.error.as_ref().unwrap().starts_with("owner lost") && lost.node.is_some(), "{lost:?}");
    let deleted = history.iter().find(|entry| entry.outcome == HistoryOutcome::Deleted).unwrap();
    assert_eq!((deleted.started_at, deleted.node), (None, None), "it never ran");
    let expired = history.iter().filter(|entry| entry.outcome == HistoryOutcome::Expired);
    assert!(expired.clone().all(|entry| entry.started_at.is_none() && entry.node.is_none()), "nor did these");
    assert_eq!(expired.filter_map(|entry| entry.tenant.as_deref()).collect::<Vec<_>>(), ["acme"]);
}

pub(crate) async fn failures_are_remembered_alone<T: SqlDb>(db: &T) {
    let store = open(db, Keep::Failed).await;
    for (id, expected) in one_of_each(db, &store).await {
        let failures: Vec<_> =
            expected.into_iter().filter(|(terminating_handler, _)| terminating_handler.is_failure()).collect();
        assert_eq!(ends(&store, id).await, failures);
    }
    assert_eq!(all(&store).await.len(), 8);
}

/// The history has the outcomes that external workers report, and those where they report nothing.
pub(crate) async fn ends_outside_are_remembered_too<T: SqlDb>(db: &T) {
    let store = open(db, Keep::All).await;
    let ids = store.send_all(jobs(4).into_iter().map(|job| job.max_attempts(2))).await;
    let out = store.hand_out("default", 4, LATER, hand_out_number()).await.unwrap();
    let done = ExternalDone { fence: out[0].fence(), result: None };
    assert_eq!(store.complete_external(&[done]).await.unwrap().ids, [ids[0]]);
    let failed = Settlement::new(out[1].fence(), Verdict::Retry(LATER)).error("no", None);
    let cancelled = Settlement::new(out[2].fence(), Verdict::Cancel);
    assert_eq!(store.settle_external(&[failed, cancelled]).await.unwrap().len(), 2);
    assert_eq!(store.cancel(&JobFilter::ids([ids[3]]), false).await.unwrap().total(), 1);
    for (id, terminating_handler) in ids.iter().zip([
        HistoryOutcome::Done,
        HistoryOutcome::Failed,
        HistoryOutcome::Cancelled,
        HistoryOutcome::Cancelled,
    ]) {
        assert_eq!(ends(&store, *id).await, [(terminating_handler, 1)]);
    }
    let late = store.send(job()).await;
    store.hand_out("default", 1, Duration::from_millis(1), hand_out_number()).await.unwrap();
    crate::support::eventually(LATER, async || store.expire_external(10).await.unwrap().total() == 1).await;
    assert_eq!(ends(&store, late).await, [(HistoryOutcome::Lost, 1)]);
    assert!(all(&store).await.iter().all(|entry| entry.node == Some(NodeId(0)) && entry.started_at.is_some()));
}

pub(crate) async fn a_refused_outcome_is_not_remembered<T: SqlDb>(db: &T) {
    let store = open(db, Keep::All).await;
    let (node, claimed) = store.running(job()).await;
    let old = with_version(claimed.fence(), 0);
    assert_eq!(store.complete(node, &[old]).await.unwrap(), []);
    assert!(!store.settle_one(node, old, Verdict::Dead).await);
    assert_eq!(store.complete(NodeId(9_999), &[claimed.fence()]).await.unwrap(), []);
    assert_eq!(all(&store).await, []);
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [claimed.id]);
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), []);
    assert_eq!(ends(&store, claimed.id).await, [(HistoryOutcome::Done, 1)], "once");
}

pub(crate) async fn a_rolled_back_end_is_not_remembered<T: SqlDb>(db: &T) {
    let place = db.remembering(Keep::All).await;
    let store = Jobs(place.engine());
    let (node, claimed) = store.running(job()).await;
    let mut transaction = place.begin().await.unwrap();
    assert!(transaction.remove(node, claimed.fence()).await.unwrap());
    transaction.rollback().await.unwrap();
    assert_eq!(all(&store).await, []);
    let mut transaction = place.begin().await.unwrap();
    assert!(transaction.remove(node, claimed.fence()).await.unwrap());
    transaction.commit().await.unwrap();
    assert_eq!(ends(&store, claimed.id).await, [(HistoryOutcome::Done, 1)]);
}

/// Jobs of a batch end together, each with its own entry.
pub(crate) async fn a_batch_is_remembered_one_by_one<T: SqlDb>(db: &T) {
    let place = db.remembering(Keep::All).await;
    let store = Jobs(place.engine());
    let ids = store.send_all(jobs(3)).await;
    let node = store.node().await;
    let fences: Vec<Fence> = store.take(node, 3).await.iter().map(jobwright::Job::fence).collect();
    let mut transaction = place.begin().await.unwrap();
    assert!(transaction.remove_all(node, &fences).await.unwrap());
    transaction.commit().await.unwrap();
    for id in ids {
        assert_eq!(ends(&store, id).await, [(HistoryOutcome::Done, 1)]);
    }
}

pub(crate) async fn history_is_found_by_each_filter<T: SqlDb>(db: &T) {
    let store = open(db, Keep::All).await;
    let node = store.node().await;
    let mut ids = Vec::new();
    for (kind, queue, verdict) in
        [("a", "x", None), ("b", "x", Some("no 100%")), ("a", "y", Some("other")), ("b", "y", None)]
    {
        ids.push(store.send(NewJob::json(kind, &1).queue(queue)).await);
        let claimed = store.take_from(queue, node, 1).await.remove(0);
        match verdict {
            None => drop(store.complete(node, &[claimed.fence()]).await.unwrap()),
            Some(error) => {
                let dead = Settlement::new(claimed.fence(), Verdict::Dead).error(error, None);
                assert!(store.settle_with(node, dead).await);
            }
        }
    }
    let history = all(&store).await;
    let times = |since, until| TimeRange { since, until };
    let second = history[1].ended_at;
    let filter = HistoryFilter::default;
    for (filter, expected) in [
        (filter(), vec![3, 2, 1, 0]),
        (filter().id(ids[2]), vec![2]),
        (filter().kind("a"), vec![2, 0]),
        (filter().queue("y"), vec![3, 2]),
        (filter().outcomes(vec![HistoryOutcome::Dead, HistoryOutcome::Failed]), vec![2, 1]),
        (filter().outcomes(vec![]), vec![]),
        (filter().error("100%"), vec![1]),
        (filter().ended(times(Some(second), None)), vec![3, 2, 1]),
        (filter().ended(times(None, Some(second))), vec![0]),
        (filter().kind("a").queue("x").error("no"), vec![]),
    ] {
        let found: Vec<JobId> = store.history(&filter, 10).await.unwrap().iter().map(|entry| entry.id).collect();
        assert_eq!(found, expected.into_iter().map(|n| ids[n]).collect::<Vec<_>>(), "{filter:?}");
    }
    let newest = store.history(&filter(), 1).await.unwrap();
    let next = filter().behind((newest[0].ended_at, newest[0].seq));
    assert_eq!((newest[0].id, store.history(&next, 1).await.unwrap()[0].id), (ids[3], ids[2]), "page by page");
}

pub(crate) async fn forgotten_when_old<T: SqlDb>(db: &T) {
    let store = open(db, Keep::All).await;
    store.send_all(jobs(5)).await;
    let node = store.node().await;
    let fences: Vec<Fence> = store.take(node, 5).await.iter().map(jobwright::Job::fence).collect();
    store.complete(node, &fences).await.unwrap();
    let ended = all(&store).await;
    // Among entries with the same end time, those sent first come first.
    let oldest = (ended[1].ended_at, ended[1].seq);
    assert_eq!(store.prune_history(LATER, 10).await.unwrap(), 0);
    crate::support::eventually(LATER, async || jiff::Timestamp::now() > oldest.0 + Duration::from_millis(50)).await;
    assert_eq!(store.prune_history(Duration::ZERO, 2).await.unwrap(), 2);
    let left = all(&store).await;
    assert!(
        left.len() == 3 && left.iter().all(|entry| entry.ended_at > oldest.0 || entry.seq > oldest.1),
        "the oldest go first: {left:?}"
    );
    assert_eq!(store.prune_history(Duration::ZERO, 10).await.unwrap(), 3);
}

/// The oldest dead letters are pruned first, a batch at a time. They free what they held, and the history keeps their deaths.
pub(crate) async fn old_dead_letters_go<T: SqlDb>(db: &T) {
    let store = open(db, Keep::All).await;
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        let (node, claimed) = store.running(job().unique(Unique::key(key))).await;
        assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
        ids.push(claimed.id);
    }
    let waits = store.send(job()).await;
    assert_eq!(store.prune_dead_letters(LATER, 10).await.unwrap(), 0, "they are not that old");
    let (last, _) = store.show(ids[2]).await.unwrap().unwrap().dead.unwrap();
    crate::support::eventually(LATER, async || jiff::Timestamp::now() > last + Duration::from_millis(50)).await;
    assert_eq!(store.prune_dead_letters(Duration::ZERO, 2).await.unwrap(), 2);
    let mut states = Vec::new();
    for id in &ids {
        states.push(store.state(*id).await);
    }
    assert_eq!(states, [None, None, Some(JobState::Dead)]);
    assert_eq!(store.prune_dead_letters(Duration::ZERO, 2).await.unwrap(), 1);
    assert_eq!(store.prune_dead_letters(Duration::ZERO, 2).await.unwrap(), 0);
    assert_eq!(store.state(waits).await, Some(JobState::Waiting));
    let again = store.send(job().unique(Unique::key("a"))).await;
    assert_eq!(store.state(again).await, Some(JobState::Waiting), "the key is free");
    assert_eq!(ends(&store, ids[0]).await, [(HistoryOutcome::Dead, 1)]);
}

/// A job that waits for a dead letter's group waits until that is pruned, and no longer.
pub(crate) async fn an_old_dead_letter_frees_its_group<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = store.send_all((0..2).map(|_| job().ordered("g"))).await;
    store.admit_all().await;
    let first = store.take_one(node).await;
    assert!(store.settle_one(node, first.fence(), Verdict::Dead).await);
    assert_eq!(store.admit_all().await, 0);
    crate::support::eventually(LATER, async || store.prune_dead_letters(Duration::ZERO, 10).await.unwrap() == 1).await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, sent[1]);
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

pub(crate) async fn the_old_audit_goes<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let order = |who| OperatorOptions { by: Some(who), ..OperatorOptions::default() };
    for who in ["ann", "bob", "eve"] {
        store.operate(&JobFilter::default(), &Action::Cancel, order(who)).await.unwrap();
    }
    let entries = async || store.audit(&AuditFilter::default(), 10).await.unwrap();
    assert_eq!((entries().await.len(), store.prune_audit(LATER, 10).await.unwrap()), (3, 0));
    let last = entries().await[0].at;
    crate::support::eventually(LATER, async || jiff::Timestamp::now() > last + Duration::from_millis(50)).await;
    assert_eq!(store.prune_audit(Duration::ZERO, 2).await.unwrap(), 2);
    assert_eq!(entries().await.iter().map(|entry| entry.who.as_str()).collect::<Vec<_>>(), ["eve"], "the oldest first");
    assert_eq!(store.prune_audit(Duration::ZERO, 2).await.unwrap(), 1);
}

fn result(id: JobId, json: &str, retention: Duration) -> NewResult {
    let payload = serde_json::value::RawValue::from_string(json.to_owned()).unwrap();
    NewResult { id, kind: "kind".to_owned(), payload, retention }
}

pub(crate) async fn a_result_comes_with_the_end_of_its_job<T: SqlDb>(db: &T) {
    let place = db.store();
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    let mut transaction = place.begin().await.unwrap();
    assert!(transaction.remove(node, claimed.fence()).await.unwrap());
    transaction.keep_result(&result(claimed.id, "1", LATER)).await.unwrap();
    assert!(store.result(claimed.id).await.unwrap().is_none(), "seen before the commit");
    transaction.rollback().await.unwrap();
    assert!(store.result(claimed.id).await.unwrap().is_none());
    for json in ["{\"sum\": 42}", "[\"again\"]"] {
        let mut transaction = place.begin().await.unwrap();
        transaction.keep_result(&result(claimed.id, json, LATER)).await.unwrap();
        transaction.commit().await.unwrap();
        let kept = store.result(claimed.id).await.unwrap().unwrap();
        let value: serde_json::Value = kept.payload.decode().unwrap();
        assert_eq!((kept.kind.as_str(), value), ("kind", serde_json::from_str(json).unwrap()));
        assert!(kept.expires_at.duration_since(kept.created_at).as_secs() >= 3599, "{kept:?}");
    }
    assert_eq!(store.state(claimed.id).await, Some(JobState::Running), "the end of the job is not its business");
    assert_eq!(store.prune_results(10).await.unwrap(), 0);
}

pub(crate) async fn a_result_has_its_time<T: SqlDb>(db: &T) {
    let place = db.store();
    let store = db.jobs();
    let ids = [JobId::new(), JobId::new(), JobId::new()];
    let mut transaction = place.begin().await.unwrap();
    for (id, retention) in ids.into_iter().zip([Duration::ZERO, Duration::ZERO, LATER]) {
        transaction.keep_result(&result(id, "null", retention)).await.unwrap();
    }
    transaction.commit().await.unwrap();
    crate::support::eventually(LATER, async || store.result(ids[0]).await.unwrap().is_none()).await;
    assert_eq!((store.prune_results(1).await.unwrap(), store.prune_results(10).await.unwrap()), (1, 1));
    assert!(store.result(ids[2]).await.unwrap().is_some());
}
