//! Dead letters: found by error and time, grouped, and run again some at a time.

use jiff::Timestamp;
use jobwright::admin::{JobFilter, JobState, RetryOptions, TimeRange};
use jobwright::internal::engine::Verdict;
use jobwright::{JobId, NewJob};

use crate::support::jobs::{LATER, affected, job, jobs, set};
use crate::support::{Jobs, TestDb};

/// Sends a job and makes it fail for good with this error.
async fn dies(store: &Jobs, job: NewJob, error: &str) -> JobId {
    let id = store.send(job).await;
    let node = store.node().await;
    let queue = store.detail(id).await.summary.queue;
    let claimed = store.take_from(&queue, node, 1).await.remove(0);
    assert_eq!(claimed.id, id);
    let settlement = jobwright::internal::engine::Settlement::new(claimed.fence(), Verdict::Dead).error(error, None);
    assert!(store.settle_with(node, settlement).await);
    id
}

async fn found(store: &Jobs, filter: JobFilter) -> Vec<JobId> {
    store.find(&filter).await.iter().map(|row| row.id).collect()
}

fn with_error(text: &str) -> JobFilter {
    JobFilter::default().error(text.to_owned())
}

pub(crate) async fn found_by_their_newest_error<T: TestDb>(db: &T) {
    let store = db.jobs();
    let refused = dies(&store, job(), "Connection refused (100%_x)").await;
    dies(&store, job(), "other").await;
    store.send(job()).await;
    // A live job, which still has its whole error record.
    let (node, claimed) = {
        let node = store.node().await;
        (node, store.take_one(node).await)
    };
    store.fail(node, &claimed, LATER, "first Connection refused").await;
    assert_eq!(found(&store, with_error("Connection refused")).await, [refused, claimed.id]);
    assert_eq!(found(&store, with_error("(100%_x)")).await, [refused], "the text means itself");
    assert_eq!(found(&store, with_error("connection refused")).await, []);
    assert_eq!(found(&store, with_error("%")).await, [refused]);
    store.retry(&JobFilter::ids([claimed.id]), false).await.unwrap();
    let again = store.take_one(node).await;
    store.fail(node, &again, LATER, "another").await;
    assert_eq!(found(&store, with_error("Connection refused")).await, [refused], "only the newest error counts");
    assert_eq!(store.retry(&with_error("Connection"), true).await.unwrap(), affected([(JobState::Dead, 1)]));
    assert_eq!(store.delete(&with_error("Connection"), false).await.unwrap(), affected([(JobState::Dead, 1)]));
    assert_eq!(store.cancel(&with_error("another"), false).await.unwrap(), affected([(JobState::Timer, 1)]));
}

pub(crate) async fn found_by_when_they_died_and_were_sent<T: TestDb>(db: &T) {
    let store = db.jobs();
    let early = dies(&store, job(), "early").await;
    let (died, _) = store.detail(early).await.dead.unwrap();
    let late = dies(&store, job(), "late").await;
    let waiting = store.send(job()).await;
    let (later, _) = store.detail(late).await.dead.unwrap();
    assert!(later > died, "the clock stood still");
    let range = |since, until| TimeRange { since, until };
    let dead = |since, until| JobFilter::default().dead(range(since, until));
    for (filter, expected) in [
        (dead(Some(died), None), vec![early, late]),
        (dead(None, Some(died)), vec![]),
        (dead(None, Some(later)), vec![early]),
        (dead(Some(died), Some(later)), vec![early]),
        (dead(Some(later), None), vec![late]),
        (dead(Some(Timestamp::MIN), Some(Timestamp::MAX)), vec![early, late]),
    ] {
        assert_eq!(found(&store, filter.clone()).await, expected, "{filter:?}");
        assert_eq!(store.retry(&filter, true).await.unwrap().total(), expected.len() as u64);
        assert_eq!(store.cancel(&filter, true).await.unwrap().total(), 0);
    }
    let sent = store.detail(late).await.summary.created_at;
    let created = |since, until| JobFilter::default().created(range(since, until));
    assert_eq!(found(&store, created(Some(sent), None)).await, [late, waiting]);
    assert_eq!(found(&store, created(None, Some(sent))).await, [early]);
    // A live job has no time of death.
    assert_eq!(store.cancel(&dead(Some(died), None), false).await.unwrap().total(), 0);
    assert_eq!(store.delete(&dead(Some(later), None), false).await.unwrap(), affected([(JobState::Dead, 1)]));
    assert_eq!(store.retry(&created(None, Some(sent)), false).await.unwrap(), affected([(JobState::Dead, 1)]));
    assert_eq!(store.count(JobState::Waiting).await, 2);
}

pub(crate) async fn dead_letters_are_grouped_by_error<T: TestDb>(db: &T) {
    let store = db.jobs();
    for order in 17..20 {
        dies(&store, job(), &format!("order {order} not found\nat line {order}")).await;
    }
    let last = dies(&store, job(), "order 20 not found").await;
    dies(&store, job().queue("other"), "order 21 not found").await;
    dies(&store, job().max_attempts(7), "").await;
    store.send(job()).await;
    let all = store.dead_letter_groups(&JobFilter::default(), 1000, 10).await.unwrap();
    assert_eq!((all.scanned, all.more, all.groups.len()), (6, false, 3));
    let group = &all.groups[0];
    assert_eq!((group.count, group.error.as_str()), (4, "order # not found"));
    assert_eq!((group.kind.as_str(), group.queue.as_str(), group.example), ("kind", "default", last));
    assert!(group.first < group.last, "{group:?}");
    assert_eq!(group.last, store.detail(last).await.dead.unwrap().0);

    let newest = store.dead_letter_groups(&JobFilter::default(), 2, 10).await.unwrap();
    assert!(newest.scanned == 2 && newest.more && !all.more, "{newest:?}");
    let one = store.dead_letter_groups(&JobFilter::default(), 1000, 1).await.unwrap();
    assert_eq!((one.groups.len(), one.scanned), (1, 6), "the largest");
    let other = JobFilter::default().queue("other");
    assert_eq!(store.dead_letter_groups(&other, 1000, 10).await.unwrap().groups.len(), 1);
    assert_eq!(store.dead_letter_groups(&JobFilter::state(JobState::Timer), 1000, 10).await.unwrap().scanned, 0);
    assert_eq!(store.dead_letter_groups(&with_error("order 2"), 1000, 10).await.unwrap().scanned, 2);
}

pub(crate) async fn run_again_some_at_a_time<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(dies(&store, job(), "no").await);
        ids.push(store.send(job().delay(LATER)).await);
    }
    let options = RetryOptions::default().limit(3);
    let first = affected([(JobState::Dead, 2), (JobState::Timer, 1)]);
    let dry = store.retry_with(&JobFilter::default(), &options.dry_run(true)).await.unwrap();
    assert_eq!(dry, first);
    assert_eq!(store.count(JobState::Waiting).await, 0, "a dry run changes nothing");
    assert_eq!(store.retry_with(&JobFilter::default(), &options).await.unwrap(), first);
    let waiting = store.find(&JobFilter::state(JobState::Waiting)).await;
    assert_eq!(waiting.iter().map(|row| row.id).collect::<Vec<_>>(), ids[..3], "the first sent");
    assert!(waiting.iter().all(|row| row.attempt == 0), "{waiting:?}");
    let rest = affected([(JobState::Dead, 1), (JobState::Timer, 2)]);
    assert_eq!(store.retry_with(&JobFilter::default(), &options).await.unwrap(), rest);
    assert_eq!(store.retry_with(&JobFilter::default(), &options).await.unwrap().total(), 0);
    let node = store.node().await;
    assert_eq!(set(store.take(node, 10).await.iter().map(|job| job.id)), set(ids), "nothing got lost");
    let none = RetryOptions::default().limit(0);
    assert_eq!(store.retry_with(&JobFilter::default(), &none).await.unwrap().total(), 0);
}

pub(crate) async fn run_again_one_after_the_other<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut dead = Vec::new();
    for _ in 0..4 {
        dead.push(dies(&store, job().max_attempts(1).header("a", "b"), "no").await);
    }
    let (soon, far) = (store.send(job().delay(LATER)).await, store.send(job().delay(24 * 30 * LATER)).await);
    let soon_due = store.detail(soon).await.summary.due_at;
    let before = Timestamp::now();
    let options = RetryOptions::default().spread(60 * LATER);
    let done = store.retry_with(&JobFilter::default(), &options).await.unwrap();
    assert_eq!(done, affected([(JobState::Dead, 4), (JobState::Timer, 2)]));
    let mut hours = Vec::new();
    for id in dead.iter().chain([&far]) {
        let detail = store.detail(*id).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Timer, 0));
        hours.push(detail.summary.due_at.unwrap().duration_since(before).as_secs() / 3600);
    }
    assert_eq!(hours, [0, 10, 20, 30, 50], "ten hours apart, in the order they were sent");
    assert_eq!(store.detail(soon).await.summary.due_at, soon_due, "a timer is never put off");
    let detail = store.detail(dead[3]).await;
    assert_eq!((detail.errors.len(), detail.headers["a"].as_str()), (1, "b"));
    // The first is due at once.
    assert_eq!(store.promote().await, 1);
    let node = store.node().await;
    assert_eq!(store.take_one(node).await.id, dead[0]);
}

pub(crate) async fn a_thousand_over_a_while<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(1000)).await;
    let node = store.node().await;
    let claimed = store.take(node, 1000).await;
    let ends: Vec<_> =
        claimed.iter().map(|job| jobwright::internal::engine::Settlement::new(job.fence(), Verdict::Dead)).collect();
    assert_eq!(store.settle(node, &ends).await.unwrap().len(), 1000);
    let options = RetryOptions::default().limit(600).spread(24 * 365 * 100 * LATER);
    assert_eq!(store.retry_with(&JobFilter::state(JobState::Dead), &options).await.unwrap().total(), 600);
    assert_eq!((store.count(JobState::Timer).await, store.count(JobState::Dead).await), (600, 400));
}
