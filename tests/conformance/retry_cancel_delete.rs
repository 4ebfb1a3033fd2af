//! The operator's `retry`, `cancel` and `delete`.

use std::time::Duration;

use jobwright::admin::JobState::{Dead, External, Running, Suspended, Timer, Waiting};
use jobwright::admin::{AffectedJobs, JobFilter, JobState};
use jobwright::{JobId, NewJob};

use crate::conformance::list_show_status::{EVERYWHERE, one_of_each};
use crate::support::jobs::{LATER, affected, job, jobs};
use crate::support::{Jobs, TestDb};

/// Returns the counts without zeros.
fn counted(mut affected: AffectedJobs) -> AffectedJobs {
    affected.0.retain(|_, count| *count > 0);
    affected
}

async fn states(store: &Jobs, ids: [JobId; 6]) -> [Option<JobState>; 6] {
    let mut states = [None; 6];
    for (state, id) in states.iter_mut().zip(ids) {
        *state = store.state(id).await;
    }
    states
}

pub(crate) async fn retry<T: TestDb>(db: &T) {
    let store = db.jobs();
    let ids = one_of_each(db).await;
    let expected = affected([(Timer, 1), (Dead, 1)]);
    let dry = store.retry(&JobFilter::default(), true).await.unwrap();
    assert_eq!(counted(dry), expected);
    assert_eq!(states(&store, ids).await, EVERYWHERE.map(Some), "a dry run changes nothing");
    let wet = store.retry(&JobFilter::default(), false).await.unwrap();
    assert_eq!(wet.total(), 2);
    assert_eq!(counted(wet), expected);
    assert_eq!(
        states(&store, ids).await,
        [Some(Waiting), Some(Running), Some(External), Some(Waiting), Some(Suspended), Some(Waiting)]
    );
    assert_eq!(store.retry(&JobFilter::default(), false).await.unwrap().total(), 0);
}

pub(crate) async fn cancel<T: TestDb>(db: &T) {
    let store = db.jobs();
    let ids = one_of_each(db).await;
    let expected = affected([(Waiting, 1), (Running, 1), (External, 1), (Timer, 1), (Suspended, 1)]);
    let dry = store.cancel(&JobFilter::default(), true).await.unwrap();
    assert_eq!(counted(dry), expected);
    assert_eq!(states(&store, ids).await, EVERYWHERE.map(Some), "a dry run changes nothing");
    let wet = store.cancel(&JobFilter::default(), false).await.unwrap();
    assert_eq!(counted(wet), expected);
    assert_eq!(states(&store, ids).await, [None, None, None, None, None, Some(Dead)]);
}

pub(crate) async fn delete<T: TestDb>(db: &T) {
    let store = db.jobs();
    let ids = one_of_each(db).await;
    let expected = affected([(Waiting, 1), (Timer, 1), (Suspended, 1), (Dead, 1)]);
    let dry = store.delete(&JobFilter::default(), true).await.unwrap();
    assert_eq!(counted(dry), expected);
    assert_eq!(states(&store, ids).await, EVERYWHERE.map(Some), "a dry run changes nothing");
    let wet = store.delete(&JobFilter::default(), false).await.unwrap();
    assert_eq!(counted(wet), expected);
    assert_eq!(states(&store, ids).await, [None, Some(Running), Some(External), None, None, None]);
}

/// A dead letter gets all its attempts again, and keeps its error record.
pub(crate) async fn a_dead_letter_starts_again<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, first) = store.running(job().max_attempts(2).priority(3).header("a", "b")).await;
    store.fail(node, &first, Duration::ZERO, "one").await;
    store.promote().await;
    let second = store.take_one(node).await;
    store.fail(node, &second, Duration::ZERO, "two").await;
    let dead = store.detail(first.id).await;
    assert_eq!(dead.summary.state, Dead);

    store.retry(&JobFilter::ids([first.id]), false).await.unwrap();
    let waiting = store.detail(first.id).await;
    assert_eq!((waiting.summary.state, waiting.summary.attempt), (Waiting, 0));
    assert_eq!((waiting.version, waiting.summary.seq), (dead.version, dead.summary.seq));
    assert_eq!((waiting.errors, &waiting.headers, waiting.dead), (dead.errors, &dead.headers, None));
    assert_eq!((waiting.summary.priority, waiting.summary.created_at), (3, dead.summary.created_at));
    let third = store.take_one(node).await;
    assert_eq!((third.attempt, third.max_attempts), (1, 2));
    assert!(third.version != first.version && third.version != second.version);
    store.fail(node, &third, LATER, "three").await;
    let again = store.detail(first.id).await;
    assert_eq!((again.summary.state, again.errors.len()), (Timer, 3), "one attempt is left");
}

/// A retried timer becomes due now and changes nothing else.
pub(crate) async fn a_timer_keeps_its_attempts<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().max_attempts(5)).await;
    store.fail(node, &claimed, LATER, "error").await;
    store.retry(&JobFilter::ids([claimed.id]), false).await.unwrap();
    let waiting = store.detail(claimed.id).await;
    assert_eq!((waiting.summary.state, waiting.summary.attempt, waiting.version), (Waiting, 1, claimed.version));
    assert_eq!((waiting.summary.due_at, waiting.errors.len()), (None, 1));
    assert_eq!(store.take_one(node).await.attempt, 2);
}

pub(crate) async fn only_matching_jobs_are_affected<T: TestDb>(db: &T) {
    let store = db.jobs();
    let queue = |queue: &str| JobFilter::default().queue(queue.to_owned());
    for operation in ["cancel", "delete"] {
        let mut left = Vec::new();
        for (kind, name) in [("a", "x"), ("b", "x"), ("a", "y")] {
            left.push(store.send(NewJob::json(kind, &1).queue(name)).await);
        }
        let run = async |filter: &JobFilter| match operation {
            "cancel" => store.cancel(filter, false).await.unwrap().total(),
            _ => store.delete(filter, false).await.unwrap().total(),
        };
        assert_eq!(run(&JobFilter::ids([])).await, 0, "{operation} of none is not {operation} of all");
        assert_eq!(run(&JobFilter::default().states(vec![])).await, 0);
        assert_eq!(run(&queue("z")).await, 0);
        assert_eq!(run(&JobFilter::state(Dead)).await, 0);
        assert_eq!(run(&queue("y").kind("b")).await, 0, "every part must match");
        assert_eq!(run(&queue("x").kind("a")).await, 1);
        assert_eq!(run(&queue("x")).await, 1);
        assert_eq!(run(&JobFilter::ids([left[0], left[2], left[2]])).await, 1);
        assert_eq!(store.all().await.len(), 0);
    }
}

pub(crate) async fn retry_affects_only_matching_jobs<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all([job().delay(LATER), job().delay(LATER).queue("x"), job().delay(LATER).queue("x")]).await;
    assert_eq!(store.retry(&JobFilter::ids([]), false).await.unwrap().total(), 0);
    assert_eq!(store.retry(&JobFilter::state(Dead), false).await.unwrap().total(), 0);
    let filter = JobFilter::ids([sent[0], sent[1]]).queue("x");
    assert_eq!(counted(store.retry(&filter, false).await.unwrap()), affected([(Timer, 1)]));
    assert_eq!(store.state(sent[1]).await, Some(Waiting));
    assert_eq!(store.count(Timer).await, 2);
}

/// The handler is not interrupted, but its work can't be committed.
pub(crate) async fn cancel_of_a_running_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    assert_eq!(counted(store.cancel(&JobFilter::ids([claimed.id]), false).await.unwrap()), affected([(Running, 1)]));
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), []);
    assert_eq!(store.state(claimed.id).await, None);
}

pub(crate) async fn delete_leaves_the_running<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    assert_eq!(store.delete(&JobFilter::ids([claimed.id]), false).await.unwrap().total(), 0);
    assert_eq!(store.delete(&JobFilter::state(Running), false).await.unwrap().total(), 0);
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [claimed.id]);
}

pub(crate) async fn thousands<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(3000)).await;
    store.send_all(jobs(2000).into_iter().map(|job| job.delay(LATER))).await;
    assert_eq!(counted(store.retry(&JobFilter::default(), false).await.unwrap()), affected([(Timer, 2000)]));
    assert_eq!(counted(store.cancel(&JobFilter::default(), false).await.unwrap()), affected([(Waiting, 5000)]));
    assert_eq!(store.all().await.len(), 0);
}
