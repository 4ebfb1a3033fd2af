//! `claim`: which rows, in which order, for which node.

use jobwright::admin::JobState;
use jobwright::internal::engine::{ClaimRequest, ScanCursor, ScanRange, Verdict};
use jobwright::{Job, NewJob, NodeId};

use crate::support::jobs::{LATER, NOBODY, claim_number, cursor, ids, job, jobs};
use crate::support::{Jobs, TestDb};

pub(crate) async fn by_priority_then_order<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut expected = Vec::new();
    for (n, priority) in [0, 5, -5, 5, 0, i16::MAX, -i16::MAX].into_iter().enumerate() {
        expected.push((-priority, n, store.send(job().priority(priority)).await));
    }
    expected.sort_unstable();
    let node = store.node().await;
    for (rank, _, id) in expected {
        let claimed = store.take_one(node).await;
        assert_eq!((claimed.id, -claimed.priority), (id, rank));
    }
    assert_eq!(store.take(node, 1).await.len(), 0);
}

pub(crate) async fn the_best_of_many<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(20)).await;
    let urgent = store.send_all(jobs(3).into_iter().map(|job| job.priority(1))).await;
    let node = store.node().await;
    assert_eq!(ids(&store.take(node, 3).await), urgent);
}

pub(crate) async fn at_most_the_limit<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(10)).await;
    let node = store.node().await;
    for (limit, expected) in [(0, 0), (1, 1), (4, 4), (100, 5), (100, 0)] {
        assert_eq!(store.take(node, limit).await.len(), expected, "limit {limit}");
    }
}

pub(crate) async fn one_queue_only<T: TestDb>(db: &T) {
    let store = db.jobs();
    let a = store.send(job().queue("a")).await;
    let b = store.send(job().queue("b").priority(9)).await;
    let node = store.node().await;
    assert_eq!(store.take(node, 10).await.len(), 0, "nothing in `default`");
    assert_eq!(ids(&store.take_from("a", node, 10).await), [a]);
    assert_eq!(store.take_from("A", node, 10).await.len(), 0, "names are exact");
    assert_eq!(ids(&store.take_from("b", node, 10).await), [b]);
}

pub(crate) async fn only_given_kinds<T: TestDb>(db: &T) {
    let store = db.jobs();
    let kinds = ["a", "b", "c", "a", "Ä"];
    let sent = store.send_all(kinds.map(|kind| NewJob::json(kind, &1))).await;
    let node = store.node().await;
    let take = async |kinds: &[&str]| {
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let request = ClaimRequest::new(node, claim_number(), "default", 10).kinds(&kinds);
        let mut claimed = store.claim(&request).await.unwrap().jobs;
        claimed.sort_by_key(|job| job.seq);
        ids(&claimed)
    };
    assert_eq!(take(&[]).await, [], "a node that can run nothing gets nothing");
    assert_eq!(take(&["x", "A"]).await, []);
    assert_eq!(take(&["a", "Ä"]).await, [sent[0], sent[3], sent[4]]);
    assert_eq!(take(&["c", "b", "b"]).await, [sent[1], sent[2]]);
}

/// Jobs of kinds that no handler here can run must not use up the limit.
pub(crate) async fn other_kinds_are_not_in_the_way<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all((0..50).map(|_| NewJob::json("foreign", &1).priority(5))).await;
    let ours = store.send_all(jobs(3)).await;
    let node = store.node().await;
    let kinds = ["kind".to_owned()];
    let request = ClaimRequest::new(node, claim_number(), "default", 3).kinds(&kinds);
    let mut claimed = store.claim(&request).await.unwrap().jobs;
    claimed.sort_by_key(|job| job.seq);
    assert_eq!(ids(&claimed), ours);
}

async fn take_after(store: &Jobs, node: NodeId, limit: usize, after: &[ScanCursor]) -> Vec<Job> {
    take_range(store, node, limit, ScanRange::after(after)).await
}

async fn take_range(store: &Jobs, node: NodeId, limit: usize, range: ScanRange<'_>) -> Vec<Job> {
    let request = ClaimRequest::new(node, claim_number(), "default", limit).range(range);
    let mut claimed = store.claim(&request).await.unwrap().jobs;
    claimed.sort_by_key(|job| (-job.priority, job.seq));
    claimed
}

pub(crate) async fn a_claim_continues_from_its_cursor<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(6)).await;
    let node = store.node().await;
    let first = take_after(&store, node, 2, &[]).await;
    let second = take_after(&store, node, 2, &[cursor(&first[1])]).await;
    assert_eq!(ids(&second), sent[2..4]);
    // A row that came back in front of the cursor is missed from the cursor on, and found by a scan from the start.
    assert!(store.settle_one(node, first[0].fence(), Verdict::Release).await);
    assert!(store.settle_one(node, second[1].fence(), Verdict::Release).await);
    let third = take_after(&store, node, 10, &[cursor(&second[1])]).await;
    assert_eq!(ids(&third), sent[4..], "the marked row itself lies before the cursor");
    assert_eq!(take_after(&store, node, 10, &[cursor(&third[1])]).await.len(), 0);
    assert_eq!(ids(&take_after(&store, node, 10, &[]).await), [sent[0], sent[3]]);
}

/// A cursor applies to its own rank: better and worse ranks are scanned whole.
pub(crate) async fn the_mark_knows_priorities<T: TestDb>(db: &T) {
    let store = db.jobs();
    let high = store.send_all(jobs(2).into_iter().map(|job| job.priority(5))).await;
    let low = store.send_all(jobs(2).into_iter().map(|job| job.priority(-5))).await;
    let node = store.node().await;
    let first = take_after(&store, node, 1, &[]).await;
    assert_eq!(ids(&first), [high[0]]);
    let urgent = store.send(job().priority(6)).await;
    let last = store.send(job().priority(5)).await;
    let rest = take_after(&store, node, 10, &[cursor(&first[0])]).await;
    assert_eq!(ids(&rest), [urgent, high[1], last, low[0], low[1]]);
    assert_eq!(take_after(&store, node, 10, &[]).await.len(), 0);
}

/// A store may scan more than it must, but never misses rows behind the cursor of their rank, or of a rank without a cursor.
pub(crate) async fn from_the_marks_of_several_ranks<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let of = async |priority: i16| store.send(job().priority(priority)).await;
    let (mut cursors, mut before) = (Vec::new(), Vec::new());
    for priority in [7, 0, -7] {
        of(priority).await;
        let claimed = store.take_one(node).await;
        cursors.push(cursor(&claimed));
        before.push(claimed);
    }
    let mut expected = Vec::new();
    for priority in [9, 7, 7, 3, 0, -1, -7, -9] {
        expected.push(of(priority).await);
    }
    // The limit holds for all ranks together, best first.
    assert_eq!(ids(&take_after(&store, node, 3, &cursors).await), expected[..3]);
    assert_eq!(ids(&take_after(&store, node, 1, &cursors).await), expected[3..4]);
    assert_eq!(ids(&take_after(&store, node, 10, &cursors).await), expected[4..]);
    for job in &before {
        assert!(store.settle_one(node, job.fence(), Verdict::Release).await);
    }
    assert_eq!(take_after(&store, node, 10, &[]).await.len(), 3);
}

/// Claims the rows that were passed over: better ranks, and rows of the same rank up to a given `seq`. No others are claimed, whatever the limit.
pub(crate) async fn up_to_the_mark<T: TestDb>(db: &T) {
    let store = db.jobs();
    let of = async |priority: i16| store.send(job().priority(priority)).await;
    let mut sent = Vec::new();
    for priority in [0, 5, 0, 0, -5, 0, 6] {
        sent.push(of(priority).await);
    }
    let seq = store.detail(sent[2]).await.summary.seq;
    let node = store.node().await;
    let up_to = |seq: i64| ScanRange::UpTo(ScanCursor { rank: 0, seq });
    // The range includes its last number.
    assert_eq!(ids(&take_range(&store, node, 2, up_to(seq)).await), [sent[6], sent[1]]);
    assert_eq!(ids(&take_range(&store, node, 10, up_to(seq)).await), [sent[0], sent[2]]);
    assert_eq!(take_range(&store, node, 10, up_to(seq)).await.len(), 0);
    assert_eq!(ids(&take_range(&store, node, 10, up_to(i64::MAX)).await), [sent[3], sent[5]]);
    assert_eq!(ids(&take_range(&store, node, 10, ScanRange::All).await), [sent[4]]);
}

pub(crate) async fn a_dead_or_unknown_node_claims_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    let dead = store.node().await;
    db.bury(dead).await;
    for node in [dead, NOBODY, NodeId(0), NodeId(-1)] {
        assert_eq!(store.take(node, 10).await.len(), 0);
    }
    let detail = store.detail(id).await;
    assert_eq!((detail.summary.state, detail.version, detail.summary.attempt), (JobState::Waiting, 0, 0));
}

pub(crate) async fn gives_a_token_and_raises_the_attempt<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    let node = store.node().await;
    let mut tokens = std::collections::BTreeSet::from([0]);
    for n in 1..=3 {
        let claimed = store.take_one(node).await;
        assert_eq!((claimed.id, claimed.attempt), (id, n));
        assert!(tokens.insert(claimed.version), "claim {n} has the token of another");
        let detail = store.detail(id).await;
        assert_eq!((detail.version, detail.summary.attempt), (claimed.version, claimed.attempt));
        store.fail(node, &claimed, std::time::Duration::ZERO, "again").await;
        assert_eq!(store.promote().await, 1);
    }
}

pub(crate) async fn hands_out_the_whole_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = job().queue("q").priority(-3).max_attempts(7).header("tenant", "acme");
    let id = store.send(sent).await;
    let before = store.detail(id).await;
    let node = store.node().await;
    let claimed = store.take_from("q", node, 1).await.remove(0);
    assert_eq!((claimed.id, claimed.seq, claimed.created_at), (id, before.summary.seq, before.summary.created_at));
    assert_eq!((claimed.kind.as_str(), claimed.queue.as_str()), ("kind", "q"));
    assert_eq!((claimed.priority, claimed.max_attempts), (-3, 7));
    assert_eq!(claimed.headers["tenant"], "acme");
    assert_eq!(claimed.payload.decode::<serde_json::Value>().unwrap()["n"], 1);
    let after = store.detail(id).await.summary;
    assert_eq!((after.state, after.owner), (JobState::Running, Some(node)));
    assert!(after.claimed_at.unwrap() >= after.created_at);
}

pub(crate) async fn only_waiting_jobs_are_taken<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, dead) = store.running(job()).await;
    assert!(store.settle_one(node, dead.fence(), Verdict::Dead).await);
    store.running(job()).await;
    store.send(job().delay(LATER)).await;
    let suspended = store.send(job()).await;
    db.suspend(suspended).await;
    assert_eq!(store.take(node, 10).await.len(), 0);
    assert_eq!(store.all().await.len(), 4);
}
