//! `list`, `show` and `status`: read-only queries.

use std::time::Duration;

use jobwright::admin::{Count, JobFilter, JobState, Page, QueueStatus};
use jobwright::internal::engine::Verdict;
use jobwright::{JobId, NewJob};

use crate::support::jobs::{LATER, hand_out_number, job, jobs};
use crate::support::{Jobs, TestDb, eventually};

/// The states that a plain job can be in, in the order of its life.
pub(crate) const EVERYWHERE: [JobState; 6] =
    [JobState::Waiting, JobState::Running, JobState::External, JobState::Timer, JobState::Suspended, JobState::Dead];

/// Creates a job in each of these states.
pub(crate) async fn one_of_each<T: TestDb>(db: &T) -> [JobId; 6] {
    let store = db.jobs();
    let node = store.node().await;
    // The running and the dead one first, or the claim would take the waiting ones.
    let dead = store.send(job().max_attempts(1)).await;
    let claimed = store.take_one(node).await;
    store.fail(node, &claimed, LATER, "failed").await;
    let running = store.send(job()).await;
    store.take_one(node).await;
    let external = store.send(job()).await;
    assert_eq!(store.hand_out("default", 1, LATER, hand_out_number()).await.unwrap().len(), 1);
    let timer = store.send(job().delay(LATER)).await;
    let suspended = store.send(job()).await;
    db.suspend(suspended).await;
    let waiting = store.send(job()).await;
    let all = [waiting, running, external, timer, suspended, dead];
    for (id, state) in all.into_iter().zip(EVERYWHERE) {
        assert_eq!(store.state(id).await, Some(state));
    }
    all
}

async fn found(store: &Jobs, filter: &JobFilter) -> Vec<JobId> {
    store.find(filter).await.iter().map(|row| row.id).collect()
}

pub(crate) async fn pages<T: TestDb>(db: &T) {
    let store = db.jobs();
    // In all states, so that pages combine several tables.
    one_of_each(db).await;
    store
        .send_all(jobs(20).into_iter().enumerate().map(|(n, job)| if n % 3 == 0 { job.delay(LATER) } else { job }))
        .await;
    let all = store.all().await;
    assert_eq!(all.len(), 26);
    assert!(all.is_sorted_by(|a, b| a.seq < b.seq));
    for limit in [1, 4, 26, 27] {
        let mut paged = Vec::new();
        let mut next = Page::new(limit);
        loop {
            let page = store.list(&JobFilter::default(), &next).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            next = next.after(last.seq);
            paged.extend(page.iter().map(|row| row.id));
        }
        assert_eq!(paged, all.iter().map(|row| row.id).collect::<Vec<_>>(), "pages of {limit}");
    }
}

pub(crate) async fn filters<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut sent = Vec::new();
    for (kind, queue) in [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")] {
        sent.push(store.send(NewJob::json(kind, &1).queue(queue)).await);
    }
    sent.push(store.send(NewJob::json("a", &1).queue("x").delay(LATER)).await);
    let filter = |kind: Option<&str>, queue: Option<&str>, states: Option<&[JobState]>, ids: Option<&[JobId]>| {
        let mut filter = JobFilter::default();
        filter.ids = ids.map(<[_]>::to_vec);
        filter.states = states.map(<[_]>::to_vec);
        filter.queue = queue.map(str::to_owned);
        filter.kind = kind.map(str::to_owned);
        filter
    };
    let (waiting, timer) = (JobState::Waiting, JobState::Timer);
    for (filter, expected) in [
        (JobFilter::default(), vec![0, 1, 2, 3, 4]),
        (filter(Some("a"), None, None, None), vec![0, 2, 4]),
        (filter(None, Some("x"), None, None), vec![0, 1, 4]),
        (filter(Some("a"), Some("x"), None, None), vec![0, 4]),
        (filter(Some("a"), Some("x"), Some(&[waiting]), None), vec![0]),
        (filter(None, None, Some(&[waiting, timer]), None), vec![0, 1, 2, 3, 4]),
        (filter(None, None, Some(&[timer]), None), vec![4]),
        (filter(None, None, None, Some(&[sent[3], sent[1], sent[1]])), vec![1, 3]),
        (filter(Some("a"), None, None, Some(&sent[1..3])), vec![2]),
        (filter(Some("A"), None, None, None), vec![]),
        (filter(None, Some("%"), None, None), vec![]),
        (filter(None, None, None, Some(&[JobId::new()])), vec![]),
        // An empty set of states, which is not the same as no filter.
        (filter(None, None, None, Some(&[])), vec![]),
        (filter(None, None, Some(&[]), None), vec![]),
    ] {
        let expected: Vec<JobId> = expected.into_iter().map(|n| sent[n]).collect();
        assert_eq!(found(&store, &filter).await, expected, "{filter:?}");
    }
}

pub(crate) async fn each_state<T: TestDb>(db: &T) {
    let store = db.jobs();
    let all = one_of_each(db).await;
    for (id, state) in all.into_iter().zip(EVERYWHERE) {
        let rows = store.find(&JobFilter::state(state)).await;
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [id]);
        let row = &rows[0];
        assert_eq!(row.state, state);
        assert_eq!(row.owner.is_some(), state == JobState::Running, "{state}");
        assert_eq!(row.claimed_at.is_some(), state == JobState::Running, "{state}");
        assert_eq!(row.due_at.is_some(), state == JobState::Timer, "{state}");
        assert_eq!(row.last_error.as_deref(), (state == JobState::Dead).then_some("failed"));
    }
}

/// The list and the detail agree.
pub(crate) async fn show_agrees_with_list<T: TestDb>(db: &T) {
    let store = db.jobs();
    one_of_each(db).await;
    for row in store.all().await {
        let detail = store.detail(row.id).await;
        assert_eq!(format!("{row:?}"), format!("{:?}", detail.summary));
        assert_eq!(detail.dead.is_some(), row.state == JobState::Dead);
        assert_eq!(store.job_state(row.id).await.unwrap(), Some(row.state));
        assert_eq!(detail.errors.last().map(|error| &error.error), row.last_error.as_ref());
        assert_eq!(detail.payload.decode::<serde_json::Value>().unwrap()["n"], 1);
    }
}

pub(crate) async fn show_of_nothing<T: TestDb>(db: &T) {
    assert!(db.jobs().show(JobId::new()).await.unwrap().is_none());
    assert!(db.jobs().job_state(JobId::new()).await.unwrap().is_none());
}

pub(crate) async fn status_counts<T: TestDb>(db: &T) {
    let store = db.jobs();
    assert_eq!(store.status().await.unwrap().queues.len(), 0, "only queues that hold something");
    one_of_each(db).await;
    store.send_all((0..3).map(|_| job().queue("other").delay(LATER))).await;
    store.send_all((0..2).map(|_| job())).await;
    let mut queues = store.status().await.unwrap().queues;
    queues.sort_by(|a, b| a.queue.cmp(&b.queue));
    // Waiting, blocked, running, external, timer, overdue, suspended, dead.
    let counts = |queue: &QueueStatus| queue.counts().map(|(_, count)| count);
    assert_eq!(queues.iter().map(|q| q.queue.as_str()).collect::<Vec<_>>(), ["default", "other"]);
    assert_eq!(counts(&queues[0]), [3, 0, 1, 1, 1, 0, 1, 1].map(Count::Exact));
    assert_eq!(counts(&queues[1]), [0, 0, 0, 0, 3, 0, 0, 0].map(Count::Exact));
    let oldest = queues[0].oldest_waiting_seconds.unwrap();
    assert!((0.0..300.0).contains(&oldest), "{oldest}");
    assert_eq!(queues[1].oldest_waiting_seconds, None, "nothing waits there");
}

pub(crate) async fn status_finds_overdue_timers<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Snooze(Duration::ZERO)).await);
    store.send(job().delay(LATER)).await;
    let overdue = async || {
        let queue = store.status().await.unwrap().queues.remove(0);
        assert_eq!(queue.timer, 2, "overdue ones are timers all the same");
        assert_eq!(queue.oldest_overdue_seconds.is_some(), queue.overdue != 0);
        assert!(queue.oldest_overdue_seconds.is_none_or(|late| (0.0..300.0).contains(&late)));
        queue.overdue == 1
    };
    eventually(Duration::from_secs(5), overdue).await;
}

pub(crate) async fn the_oldest_waiting_grows<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send(job()).await;
    let age = async || store.status().await.unwrap().queues[0].oldest_waiting_seconds.unwrap();
    let first = age().await;
    eventually(Duration::from_secs(5), async || age().await > first).await;
    // A younger job does not hide it.
    store.send(job()).await;
    assert!(age().await > first);
    // A running job does not count as waiting.
    let node = store.node().await;
    store.take(node, 2).await;
    assert_eq!(store.status().await.unwrap().queues[0].oldest_waiting_seconds, None);
}

pub(crate) async fn looking_changes_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    one_of_each(db).await;
    let before = format!("{:?}", store.all().await);
    store.status().await.unwrap();
    for row in store.all().await {
        store.detail(row.id).await;
    }
    store.check_schema().await.unwrap();
    assert_eq!(format!("{:?}", store.all().await), before);
}

pub(crate) async fn a_store_describes_itself_in_one_line<T: TestDb>(db: &T) {
    let text = db.jobs().describe();
    assert!(!text.is_empty());
    assert!(!text.contains('\n'), "one line: {text:?}");
}
