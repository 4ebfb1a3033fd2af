//! What each verdict makes of a job.

use std::time::Duration;

use jobwright::admin::{JobDetail, JobState};
use jobwright::internal::engine::{Settlement, Verdict};

use crate::support::TestDb;
use crate::support::jobs::{LATER, job};

/// Returns the properties that a job keeps through all states.
fn identity(detail: &JobDetail) -> String {
    let s = &detail.summary;
    let payload = detail.payload.decode::<serde_json::Value>().unwrap();
    format!(
        "{} {} {} {} {} {} {} {:?} {payload}",
        s.id, s.seq, s.kind, s.queue, s.priority, s.max_attempts, s.created_at, detail.headers
    )
}

pub(crate) async fn retry_goes_round_with_everything<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().priority(3).max_attempts(9).header("a", "b")).await;
    let before = store.detail(claimed.id).await;
    store.fail(node, &claimed, Duration::ZERO, "boom").await;

    let timer = store.detail(claimed.id).await;
    assert_eq!(timer.summary.state, JobState::Timer);
    assert_eq!(identity(&timer), identity(&before));
    assert_eq!((timer.version, timer.summary.attempt), (claimed.version, 1));
    assert_eq!((timer.summary.owner, timer.summary.claimed_at), (None, None));
    assert_eq!(timer.summary.last_error.as_deref(), Some("boom"));

    assert_eq!(store.promote().await, 1);
    let waiting = store.detail(claimed.id).await;
    assert_eq!((waiting.summary.state, waiting.summary.due_at), (JobState::Waiting, None));
    assert_eq!(identity(&waiting), identity(&before));
    assert_eq!((waiting.version, waiting.summary.attempt), (claimed.version, 1));
    assert_eq!(waiting.errors, timer.errors);

    let again = store.take_one(node).await;
    assert_eq!((again.id, again.seq, again.attempt), (claimed.id, claimed.seq, 2));
    assert_ne!(again.version, claimed.version);
    assert_eq!(store.detail(again.id).await.errors, timer.errors, "the record stays while it runs");
}

pub(crate) async fn an_error_is_on_the_record<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    let settlement =
        Settlement::new(claimed.fence(), Verdict::Retry(LATER)).error("böse \"x\"\n", Some("at\nline 1 🦀"));
    assert!(store.settle_with(node, settlement).await);
    let detail = store.detail(claimed.id).await;
    let [error] = &detail.errors[..] else { panic!("{:?}", detail.errors) };
    assert_eq!((error.attempt, error.node), (1, node.0));
    assert_eq!((error.error.as_str(), error.detail.as_deref()), ("böse \"x\"\n", Some("at\nline 1 🦀")));
    assert!(error.at >= detail.summary.created_at, "by the same clock");
    assert_eq!(detail.summary.last_error.as_deref(), Some("böse \"x\"\n"));
}

pub(crate) async fn without_an_error_the_record_stays<T: TestDb>(db: &T) {
    let store = db.jobs();
    for verdict in [Verdict::Retry(LATER), Verdict::Snooze(LATER), Verdict::Release, Verdict::Dead] {
        let (node, claimed) = store.running(job().priority(1)).await;
        store.fail(node, &claimed, Duration::ZERO, "first").await;
        store.promote().await;
        let again = store.take_one(node).await;
        assert!(store.settle_one(node, again.fence(), verdict.clone()).await);
        let detail = store.detail(claimed.id).await;
        let errors: Vec<_> = detail.errors.iter().map(|error| error.error.as_str()).collect();
        assert_eq!(errors, ["first"], "{verdict:?}");
        store.delete(&jobwright::admin::JobFilter::default(), false).await.unwrap();
    }
}

/// Snoozing or giving back can have a reason too.
pub(crate) async fn an_error_is_kept_with_every_verdict<T: TestDb>(db: &T) {
    let store = db.jobs();
    for verdict in [Verdict::Retry(LATER), Verdict::Snooze(LATER), Verdict::Release, Verdict::Dead] {
        let (node, claimed) = store.running(job().priority(1)).await;
        let settlement = Settlement::new(claimed.fence(), verdict.clone()).error("why", Some("detail"));
        assert!(store.settle_with(node, settlement).await);
        let detail = store.detail(claimed.id).await;
        assert_eq!(detail.errors.len(), 1, "{verdict:?}");
        let error = &detail.errors[0];
        assert_eq!(
            (error.attempt, error.error.as_str(), error.detail.as_deref()),
            (1, "why", Some("detail")),
            "{verdict:?}"
        );
        store.delete(&jobwright::admin::JobFilter::default(), false).await.unwrap();
    }
}

pub(crate) async fn attempts_run_out<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, first) = store.running(job().max_attempts(2).header("a", "b")).await;
    let before = store.detail(first.id).await;
    store.fail(node, &first, Duration::ZERO, "one").await;
    store.promote().await;
    let second = store.take_one(node).await;
    store.fail(node, &second, Duration::ZERO, "two").await;

    let dead = store.detail(first.id).await;
    assert_eq!(dead.summary.state, JobState::Dead);
    assert_eq!(identity(&dead), identity(&before));
    assert_eq!((dead.version, dead.summary.attempt), (second.version, 2));
    assert_eq!(
        dead.errors.iter().map(|error| (error.attempt, error.error.as_str())).collect::<Vec<_>>(),
        [(1, "one"), (2, "two")]
    );
    let (at, reason) = dead.dead.unwrap();
    assert!(at >= dead.summary.created_at);
    assert!(reason.contains("two"), "the reason tells what went wrong: {reason:?}");
    assert_eq!(store.promote().await, 0);
}

pub(crate) async fn a_single_attempt<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().max_attempts(1)).await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Retry(Duration::ZERO)).await);
    let detail = store.detail(claimed.id).await;
    assert_eq!(detail.summary.state, JobState::Dead);
    assert!(!detail.dead.unwrap().1.is_empty(), "there is always a reason");
}

pub(crate) async fn dead_at_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().max_attempts(9)).await;
    let settlement = Settlement::new(claimed.fence(), Verdict::Dead).error("unreadable", Some("line 3"));
    assert!(store.settle_with(node, settlement).await);
    let detail = store.detail(claimed.id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt, detail.version), (JobState::Dead, 1, claimed.version));
    assert!(detail.dead.unwrap().1.contains("unreadable"));
    assert_eq!(detail.errors.len(), 1);

    let (node, silent) = store.running(job()).await;
    assert!(store.settle_one(node, silent.fence(), Verdict::Dead).await);
    assert!(!store.detail(silent.id).await.dead.unwrap().1.is_empty(), "there is always a reason");
}

pub(crate) async fn snooze_costs_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    // With one attempt only: however often it is snoozed, it never becomes a dead letter.
    let (node, mut claimed) = store.running(job().max_attempts(1)).await;
    for _ in 0..5 {
        assert_eq!(claimed.attempt, 1);
        assert!(store.settle_one(node, claimed.fence(), Verdict::Snooze(Duration::ZERO)).await);
        let detail = store.detail(claimed.id).await;
        assert_eq!(
            (detail.summary.state, detail.summary.attempt, detail.version),
            (JobState::Timer, 0, claimed.version)
        );
        assert_eq!(store.promote().await, 1);
        claimed = store.take_one(node).await;
    }
}

pub(crate) async fn release_costs_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (mut node, mut claimed) = store.running(job().max_attempts(1)).await;
    for _ in 0..5 {
        assert_eq!(claimed.attempt, 1);
        assert!(store.settle_one(node, claimed.fence(), Verdict::Release).await);
        let detail = store.detail(claimed.id).await;
        assert_eq!(
            (detail.summary.state, detail.summary.attempt, detail.version),
            (JobState::Waiting, 0, claimed.version)
        );
        assert_eq!((detail.summary.owner, detail.summary.claimed_at), (None, None));
        node = store.node().await;
        claimed = store.take_one(node).await;
    }
}

pub(crate) async fn cancel_removes<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Cancel).await);
    assert!(store.show(claimed.id).await.unwrap().is_none());
    assert_eq!(store.all().await.len(), 0);
}

pub(crate) async fn delays_are_kept<T: TestDb>(db: &T) {
    let store = db.jobs();
    let year = Duration::from_secs(366 * 24 * 3600);
    for (verdict, delay) in [
        (Verdict::Retry(LATER), LATER),
        (Verdict::Snooze(LATER), LATER),
        (Verdict::Retry(year), year),
        (Verdict::Snooze(Duration::from_millis(100_500)), Duration::from_millis(100_500)),
    ] {
        let (node, claimed) = store.running(job()).await;
        let from = store.detail(claimed.id).await.summary.claimed_at.unwrap();
        assert!(store.settle_one(node, claimed.fence(), verdict.clone()).await);
        let due = store.detail(claimed.id).await.summary.due_at.unwrap();
        let off = due.duration_since(from + delay);
        assert!(!off.is_negative() && off.unsigned_abs() < Duration::from_secs(60), "{verdict:?}: {off} off");
    }
}

pub(crate) async fn the_newest_ten_errors_are_kept<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, mut claimed) = store.running(job().max_attempts(20)).await;
    for n in 1..=13 {
        assert_eq!(claimed.attempt, n);
        store.fail(node, &claimed, Duration::ZERO, &format!("error {n}")).await;
        store.promote().await;
        claimed = store.take_one(node).await;
    }
    let detail = store.detail(claimed.id).await;
    let kept: Vec<_> = detail.errors.iter().map(|error| (error.attempt, error.error.clone())).collect();
    let expected: Vec<_> = (4..=13).map(|n| (n, format!("error {n}"))).collect();
    assert_eq!(kept, expected, "oldest first");
    assert_eq!(detail.summary.last_error.as_deref(), Some("error 13"));
    assert!(store.settle_with(node, Settlement::new(claimed.fence(), Verdict::Dead).error("last", None)).await);
    let detail = store.detail(claimed.id).await;
    assert_eq!((detail.errors.len(), detail.errors[9].error.as_str()), (10, "last"), "in a dead letter too");
}

pub(crate) async fn long_errors_are_cut<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    let (error, text) = ("ä\0".repeat(5000), "🦀\0".repeat(5000));
    let settlement = Settlement::new(claimed.fence(), Verdict::Dead).error(&error, Some(&text));
    assert!(store.settle_with(node, settlement).await);
    let detail = store.detail(claimed.id).await;
    let kept = &detail.errors[0];
    assert!(kept.error.len() <= 1024 && kept.error.starts_with("ä\u{fffd}ä") && kept.error.ends_with('…'));
    let text = kept.detail.as_ref().unwrap();
    assert!(text.len() <= 4096 && text.starts_with("🦀\u{fffd}🦀") && text.ends_with('…'));
}
