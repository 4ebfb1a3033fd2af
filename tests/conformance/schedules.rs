//! Repeating jobs: each occurrence fires once, and missed ones are handled by the rules.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::admin::{Put, PutOutcome, ScheduleInfo};
use jobwright::headers::{SCHEDULE, SCHEDULED_AT};
use jobwright::internal::engine::schedules::{FireOutcome, Fired, ScheduleQuery, backfill, fire_due, get, pause};
use jobwright::internal::engine::schedules::{Firing, put, resume, run_now as run};
use jobwright::internal::engine::{Hint, OperatorOptions, testing};
use jobwright::{Misfire, NewJob, NewSchedule, Overlap, Payload, Schedule};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::jobs::job;
use crate::support::{Jobs, TestDb, eventually};

pub(crate) const DAY: i64 = 24 * 3600;

/// The same time for the whole run, so that two calls in one test agree.
static BEGUN: LazyLock<Timestamp> = LazyLock::new(|| Timestamp::from_second(Timestamp::now().as_second()).unwrap());

/// Returns the time this many days and twelve hours ago: no test runs into the next occurrence.
pub(crate) fn days_ago(days: i64) -> Timestamp {
    BEGUN.checked_sub(SignedDuration::from_secs(days * DAY + DAY / 2)).unwrap()
}

/// Returns a schedule whose occurrences are those of [`days_ago`].
pub(crate) fn every_day() -> Schedule {
    Schedule::new(&format!("R/{}/P1D", days_ago(1000))).unwrap()
}

pub(crate) async fn put_new(store: &Jobs, new: NewSchedule) -> Put {
    put(&*store.0, &testing::schedule(new).unwrap(), None, None).await.unwrap()
}

/// Puts a schedule whose occurrences are those of [`days_ago`].
pub(crate) async fn daily(store: &Jobs, name: &str, with: impl FnOnce(NewSchedule) -> NewSchedule) -> ScheduleInfo {
    put_new(store, with(NewSchedule::new(name, every_day(), job()))).await.schedule
}

pub(crate) async fn read(store: &Jobs, name: &str) -> ScheduleInfo {
    get(&*store.0, name).await.unwrap().unwrap_or_else(|| panic!("{name} is gone"))
}

pub(crate) async fn fire(store: &Jobs) -> Fired {
    fire_due(&*store.0, 1000).await.unwrap()
}

/// Fires the schedule `name` as if no node had run since `days` days ago.
pub(crate) async fn fire_since<T: TestDb>(db: &T, name: &str, days: i64) -> Fired {
    db.make_due(name, days_ago(days)).await;
    fire(&db.jobs()).await
}

/// Returns the occurrences that have jobs: schedule and time.
async fn occurrences(store: &Jobs) -> Vec<(String, Timestamp)> {
    let mut found = Vec::new();
    for summary in store.all().await {
        let headers = store.detail(summary.id).await.headers;
        found.push((headers[SCHEDULE].clone(), headers[SCHEDULED_AT].parse().unwrap()));
    }
    found.sort();
    found
}

pub(crate) async fn moments(store: &Jobs) -> Vec<Timestamp> {
    occurrences(store).await.into_iter().map(|(_, at)| at).collect()
}

pub(crate) async fn an_occurrence_sends_the_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let template = NewJob::json("report", &json!({ "a": [1, "ä"] }))
        .queue("reports")
        .priority(7)
        .max_attempts(3)
        .header("tenant", "acme");
    let put = put_new(&store, NewSchedule::new("daily report", every_day(), template)).await;
    assert_eq!((put.outcome, put.schedule.version, put.schedule.fired), (PutOutcome::Created, 0, 0));
    assert!(put.schedule.next_at.unwrap() > Timestamp::now(), "not at once");
    let fired = fire_since(db, "daily report", 0).await;
    let expected = Fired { schedules: 1, jobs: 1, hints: vec![Hint::Queue("reports".to_owned())], ..Fired::default() };
    assert_eq!(fired, expected);
    let sent = store.all().await.remove(0);
    assert_eq!((sent.state, sent.kind.as_str(), sent.queue.as_str()), (JobState::Waiting, "report", "reports"));
    assert_eq!((sent.priority, sent.max_attempts, sent.attempt), (7, 3, 0));
    let detail = store.detail(sent.id).await;
    assert_eq!(detail.payload.decode::<serde_json::Value>().unwrap(), json!({ "a": [1, "ä"] }));
    assert_eq!(detail.headers["tenant"], "acme");
    assert_eq!(occurrences(&store).await, [("daily report".to_owned(), days_ago(0))]);
    let after = read(&store, "daily report").await;
    assert_eq!((after.fired, after.last_at, after.last_job), (1, Some(days_ago(0)), Some(sent.id)));
    assert_eq!((after.version, after.next_at), (1, put.schedule.next_at));
    assert_eq!(fire(&store).await, Fired::default(), "not again");
}

pub(crate) async fn bytes_and_no_headers<T: TestDb>(db: &T) {
    let store = db.jobs();
    let payload = Payload::bytes("image/png", vec![0, 255, 1]);
    put_new(&store, NewSchedule::new("b", every_day(), NewJob::new("kind", payload.clone()))).await;
    assert_eq!(read(&store, "b").await.spec.message.payload, payload);
    assert!(read(&store, "b").await.spec.message.headers.is_empty());
    fire_since(db, "b", 0).await;
    let sent = store.all().await.remove(0);
    assert_eq!(store.detail(sent.id).await.payload, payload);
}

/// Many nodes fire at once.
pub(crate) async fn each_occurrence_happens_once<T: TestDb>(db: &T) {
    const SCHEDULES: usize = 12;
    const MISSED: i64 = 20;
    let store = db.jobs();
    let mut expected = BTreeSet::new();
    for n in 0..SCHEDULES {
        let name = format!("s{n:02}");
        daily(&store, &name, |new| new.misfire(Misfire::All)).await;
        db.make_due(&name, days_ago(MISSED - 1)).await;
        expected.extend((0..MISSED).map(|days| (name.clone(), days_ago(days))));
    }
    let handles = [store.clone(), Jobs(db.reopen().await.engine())];
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let store = handles[n % 2].clone();
        tasks.spawn(async move {
            let mut jobs = 0;
            while store.next_schedule().await.unwrap() == Some(Duration::ZERO) {
                // Small batches, so that they collide.
                jobs += fire_due(&*store.0, 40).await.unwrap().jobs;
            }
            jobs
        });
    }
    let sent: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(sent, expected.len() as u64, "as many as said");
    let found = occurrences(&store).await;
    assert_eq!(found.len(), expected.len(), "none twice");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "none left out");
    for n in 0..SCHEDULES {
        let after = read(&store, &format!("s{n:02}")).await;
        assert_eq!((after.fired, after.last_at), (MISSED as u64, Some(days_ago(0))));
    }
}

pub(crate) async fn not_before_it_is_due<T: TestDb>(db: &T) {
    let store = db.jobs();
    assert_eq!(store.next_schedule().await.unwrap(), None);
    daily(&store, "later", |new| new).await;
    let next = store.next_schedule().await.unwrap().unwrap();
    assert!(next > Duration::from_secs(11 * 3600) && next <= Duration::from_secs(13 * 3600), "{next:?}");
    let soon = Timestamp::now().checked_add(SignedDuration::from_millis(400)).unwrap();
    db.make_due("later", soon).await;
    // Polled all the time, also before it is due.
    eventually(Duration::from_secs(30), async || fire(&store).await.jobs == 1).await;
    let sent = store.all().await.remove(0);
    assert!(sent.created_at >= soon, "{} is before {soon}", sent.created_at);
}

/// The schedules are set back, as after a restore of them alone.
pub(crate) async fn an_occurrence_is_one_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "one", |new| new).await;
    fire_since(db, "one", 0).await;
    fire_since(db, "one", 0).await;
    assert_eq!(moments(&store).await, [days_ago(0)]);
}

pub(crate) async fn paused_and_resumed<T: TestDb>(db: &T) {
    let store = db.jobs();
    let put = daily(&store, "s", |new| new.misfire(Misfire::All)).await;
    assert!(pause(&*store.0, "s", None).await.unwrap());
    assert!(!pause(&*store.0, "s", None).await.unwrap(), "it is already");
    db.make_due("s", days_ago(5)).await;
    assert_eq!(store.next_schedule().await.unwrap(), None);
    assert_eq!(fire(&store).await, Fired::default());
    let changed = daily(&store, "s", |new| new.misfire(Misfire::All).times(50)).await;
    assert!(changed.paused, "whoever puts it again does not resume it");
    assert!(resume(&*store.0, "s", None).await.unwrap());
    assert!(!resume(&*store.0, "s", None).await.unwrap());
    assert_eq!(read(&store, "s").await.next_at, put.next_at, "what was missed on purpose is not made up for");
    assert!(store.all().await.is_empty());
}

pub(crate) async fn put_again<T: TestDb>(db: &T) {
    let store = db.jobs();
    let new = |schedule: &str, kind: &str| {
        NewSchedule::new("s", Schedule::new(schedule).unwrap(), NewJob::json(kind, &json!({ "b": 1.5, "a": [] })))
    };
    let first = put_new(&store, new("PT1H", "kind")).await.schedule;
    let again = put_new(&store, new("PT1H", "kind")).await;
    assert_eq!((again.outcome, again.schedule.version), (PutOutcome::Unchanged, 0));
    let other_job = put_new(&store, new("PT1H", "other")).await;
    assert_eq!((other_job.outcome, other_job.schedule.version), (PutOutcome::Changed, 1));
    let kept = read(&store, "s").await;
    assert_eq!((kept.anchor, kept.next_at), (first.anchor, first.next_at), "the next stays as it was");
    assert_eq!(kept.spec.message.kind, "other");
    db.make_due("s", days_ago(0)).await;
    fire(&store).await;
    let other_time = put_new(&store, new("PT2H", "other")).await.schedule;
    assert!(other_time.anchor > first.anchor);
    let two_hours = other_time.next_at.unwrap().duration_since(other_time.anchor);
    assert_eq!(two_hours, SignedDuration::from_hours(2), "counted anew");
    let read = read(&store, "s").await;
    assert_eq!((read.fired, read.version, read.next_at), (1, 3, other_time.next_at), "it keeps its past");
    let end = put_new(&store, new("PT2H", "other").until(days_ago(-5))).await.schedule;
    assert_eq!((end.anchor, end.next_at), (other_time.anchor, other_time.next_at));
    let zoned = Schedule::in_zone("30 2 * * *", "Europe/Berlin").unwrap();
    put_new(&store, NewSchedule::new("s", zoned.clone(), job())).await;
    assert_eq!(crate::conformance::schedules::read(&store, "s").await.spec.schedule, zoned);
}

/// Many programs put the schedule at once when they start.
pub(crate) async fn put_at_once<T: TestDb>(db: &T) {
    let handles = [db.jobs(), Jobs(db.reopen().await.engine())];
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let store = handles[n % 2].clone();
        tasks.spawn(async move { daily(&store, "s", |new| new).await.version });
    }
    assert_eq!(tasks.join_all().await, [0; 8]);
    assert_eq!(handles[0].read_schedules(ScheduleQuery::Page { after: None, limit: 10 }).await.unwrap().1.len(), 1);
}

pub(crate) async fn put_over_an_unseen_change<T: TestDb>(db: &T) {
    let store = db.jobs();
    let spec = |times| testing::schedule(NewSchedule::new("s", every_day(), job()).times(times)).unwrap();
    let missing = put(&*store.0, &spec(1), Some(0), None).await.unwrap_err();
    assert!(missing.is_invalid() && missing.to_string().contains("not there"), "{missing}");
    put(&*store.0, &spec(1), None, None).await.unwrap();
    assert_eq!(put(&*store.0, &spec(2), Some(0), None).await.unwrap().schedule.version, 1);
    let error = put(&*store.0, &spec(3), Some(0), None).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("its version is 1, not 0"), "{error}");
    assert_eq!(read(&store, "s").await.spec.times, Some(2));
}

/// Another node fires the schedule between the query and the firing.
pub(crate) async fn changed_while_it_was_due<T: TestDb>(db: &T) {
    let store = db.jobs();
    let first = daily(&store, "s", |new| new).await;
    pause(&*store.0, "s", None).await.unwrap();
    let message = crate::support::jobs::message(job());
    let firing = |seen| Firing {
        name: "s".to_owned(),
        seen,
        due: first.next_at.unwrap(),
        jobs: vec![message.clone()],
        last_at: Some(days_ago(0)),
        unless_alive: None,
        next_at: None,
        next_if_left_out: None,
        more: false,
    };
    let fates =
        store.fire_schedules(&[firing(first.version), Firing { name: "none".to_owned(), ..firing(0) }]).await.unwrap();
    assert_eq!(fates, [FireOutcome::Lost, FireOutcome::Lost]);
    assert!(store.all().await.is_empty());
    assert_eq!(read(&store, "s").await.next_at, first.next_at);
    assert_eq!(store.fire_schedules(&[firing(1)]).await.unwrap(), [FireOutcome::Sent]);
    assert_eq!(store.fire_schedules(&[firing(1)]).await.unwrap(), [FireOutcome::Lost], "once");
}

/// A node reads a schedule that is deleted and put again before the node fires it: both begin with the same version.
pub(crate) async fn deleted_and_put_again_while_it_was_due<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "s", |new| new).await;
    db.make_due("s", days_ago(0)).await;
    let (now, due) = store.read_schedules(ScheduleQuery::Due(10)).await.unwrap();
    let firing = testing::firing(&due[0], now, 10).unwrap();
    store.delete_schedules(&["s".to_owned()], None).await.unwrap();
    let again = daily(&store, "s", |new| new).await;
    assert_eq!(again.version, firing.seen);
    assert_eq!(store.fire_schedules(&[firing]).await.unwrap(), [FireOutcome::Lost]);
    assert!(store.all().await.is_empty());
    assert_eq!(read(&store, "s").await.next_at, again.next_at);
}

pub(crate) async fn run_now<T: TestDb>(db: &T) {
    let store = db.jobs();
    let put = daily(&store, "s", |new| new.overlap(Overlap::Forbid).times(1)).await;
    pause(&*store.0, "s", None).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (id, hint) = run(&*store.0, "s", None).await.unwrap();
        assert_eq!(hint, Hint::Queue("default".to_owned()));
        ids.push(id);
    }
    assert_eq!(store.count(JobState::Waiting).await, 2, "each time one, whatever the schedule says");
    let headers = store.detail(ids[0]).await.headers;
    assert_eq!(headers[SCHEDULE], "s");
    assert!(headers[SCHEDULED_AT].parse::<Timestamp>().unwrap() >= put.anchor);
    let after = read(&store, "s").await;
    assert_eq!((after.fired, after.next_at, after.last_job), (0, put.next_at, None));
}

pub(crate) async fn filled_in<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "s", |new| new).await;
    fire_since(db, "s", 2).await;
    let time = (days_ago(5), days_ago(0));
    let count = |done: jobwright::admin::Backfilled| (done.occurrences, done.jobs);
    assert_eq!(count(backfill(&*store.0, "s", time, OperatorOptions::DRY_RUN).await.unwrap()), (5, 0));
    assert_eq!(store.all().await.len(), 1, "a dry run sends nothing");
    assert_eq!(count(backfill(&*store.0, "s", time, OperatorOptions::UNNAMED).await.unwrap()), (5, 5));
    assert_eq!(moments(&store).await, (0..=5).rev().map(days_ago).collect::<Vec<_>>());
    assert_eq!(
        count(backfill(&*store.0, "s", time, OperatorOptions::UNNAMED).await.unwrap()),
        (5, 0),
        "they are there"
    );
    db.jobs().delete(&jobwright::admin::JobFilter::default(), false).await.unwrap();
    assert_eq!(count(backfill(&*store.0, "s", time, OperatorOptions::UNNAMED).await.unwrap()), (5, 5), "once more");
    assert_eq!(read(&store, "s").await.fired, 1);
}

pub(crate) async fn nothing_to_fill_in<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "s", |new| new.until(days_ago(100))).await;
    let fill = async |from, to| backfill(&*store.0, "s", (from, to), OperatorOptions::DRY_RUN).await;
    assert_eq!(fill(days_ago(50), days_ago(40)).await.unwrap().occurrences, 0);
    assert_eq!(fill(days_ago(2000), days_ago(40)).await.unwrap().occurrences, 901, "from its start to its end");
    for (from, to) in [(days_ago(1), days_ago(2)), (days_ago(1), days_ago(1)), (days_ago(1), days_ago(-2))] {
        let error = fill(from, to).await.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains("not in the future"), "{error}");
    }
    put_new(&store, NewSchedule::new("s", Schedule::new("* * * * *").unwrap(), job())).await;
    let error = fill(days_ago(10), days_ago(0)).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("10000"), "{error}");
}

pub(crate) async fn listed_by_name<T: TestDb>(db: &T) {
    let store = db.jobs();
    for name in ["b", "ä", "a", "a b"] {
        daily(&store, name, |new| new).await;
    }
    let page = async |after: Option<String>, limit| {
        let after = after.as_deref();
        let (_, found) = store.read_schedules(ScheduleQuery::Page { after, limit }).await.unwrap();
        found.into_iter().map(|one| one.spec.name).collect::<Vec<_>>()
    };
    let all = page(None, 10).await;
    assert_eq!(all.iter().map(String::as_str).collect::<BTreeSet<_>>(), ["b", "ä", "a", "a b"].into());
    let mut paged = Vec::new();
    while paged.len() < 4 {
        let last = paged.last().cloned();
        let next = page(last, 3).await;
        assert!(!next.is_empty());
        paged.extend(next);
    }
    assert_eq!(paged, all, "the same order page by page");
    let named = ["b".to_owned(), "none".to_owned()];
    let (_, found) = store.read_schedules(ScheduleQuery::Named(&named)).await.unwrap();
    assert_eq!(found.len(), 1);
}

pub(crate) async fn deleted<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "s", |new| new).await;
    fire_since(db, "s", 0).await;
    assert_eq!(store.delete_schedules(&["s".to_owned(), "none".to_owned()], None).await.unwrap(), 1);
    assert!(get(&*store.0, "s").await.unwrap().is_none());
    assert_eq!(store.next_schedule().await.unwrap(), None);
    assert_eq!(store.all().await.len(), 1, "what was sent stays");
    assert_eq!(daily(&store, "s", |new| new).await.fired, 0, "a new one has no past");
}

pub(crate) async fn unknown_names<T: TestDb>(db: &T) {
    let store = db.jobs();
    let errors = [
        pause(&*store.0, "none", None).await.unwrap_err(),
        resume(&*store.0, "none", None).await.unwrap_err(),
        run(&*store.0, "none", None).await.unwrap_err(),
        backfill(&*store.0, "none", (days_ago(2), days_ago(1)), OperatorOptions::DRY_RUN).await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_invalid() && error.to_string().contains("\"none\""), "{error}");
    }
}
