//! A database clock that was ahead and is repaired leaves no lasting effects.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use jobwright::admin::ScheduleInfo;
use jobwright::admin::{JobState, Rule, Scope};
use jobwright::internal::engine::schedules::{put, repair_clock, resume};
use jobwright::internal::engine::{Extension, Verdict, testing};
use jobwright::{Misfire, NewJob, NewSchedule, Schedule, Unique};

use crate::conformance::groups::sound;
use crate::conformance::schedules::{fire, moments, read};
use crate::support::jobs::{LATER, hand_out_number, job, jobs, message};
use crate::support::{Jobs, SqlDb, eventually};

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

async fn daily(store: &Jobs, misfire: Misfire) {
    let new = NewSchedule::new("s", Schedule::new("@daily").unwrap(), job()).misfire(misfire);
    put(&*store.0, &testing::schedule(new).unwrap(), None, None).await.unwrap();
}

/// Returns how far ahead the schedule's next occurrence is.
fn ahead(schedule: &ScheduleInfo) -> Duration {
    schedule.next_at.unwrap().duration_since(Timestamp::now()).try_into().unwrap_or_default()
}

/// Repairs what the clock wrote. SQLite has the jobs of all states in one table, so the tables of states count as `job` here.
async fn right(store: &Jobs) -> Vec<(String, u64)> {
    let table = |what: String| what.replace("external_job.", "job.").replace("timer_job.", "job.");
    store.repair_clock().await.unwrap().into_iter().map(|ahead| (table(ahead.what), ahead.rows)).collect()
}

fn found(what: &str, rows: u64) -> Vec<(String, u64)> {
    vec![(what.to_owned(), rows)]
}

/// Times that were requested to lie in the future stay there.
pub(crate) async fn all_is_well_with_a_right_clock<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    daily(&store, Misfire::Once).await;
    store.put_rule(&Rule::new(Scope::Kind, "rated").rate(1, YEAR)).await.unwrap();
    let rated = |n: u32| NewJob::json("rated", &n);
    store.send_all([rated(1), rated(2)]).await;
    store.admit_all().await;
    for job in [job().ttl(YEAR), job().delay(LATER).ttl(YEAR), job().exclusive("g").ttl(YEAR), job().delay(YEAR)] {
        store.send(job).await;
    }
    let failed = store.send(job().priority(9)).await;
    let claimed = store.take_one(node).await;
    assert_eq!(claimed.id, failed);
    store.fail(node, &claimed, YEAR, "no").await;
    store.send(NewJob::json("kind", &1).queue("out")).await;
    let out = store.hand_out("out", 1, YEAR, hand_out_number()).await.unwrap();
    assert_eq!(out.len(), 1);
    store.send(job().unique(Unique::key("a").for_period(YEAR))).await;
    assert_eq!(right(&store).await, []);
    assert_eq!(repair_clock(&*store.0).await.unwrap(), Vec::<String>::new());
    assert_eq!(store.clock_skew().await.unwrap(), []);
}

/// The schedule gets its true next occurrence, and the last one that fired does not fire again.
pub(crate) async fn a_schedule_is_computed_again<T: SqlDb>(db: &T) {
    let store = db.jobs();
    daily(&store, Misfire::Once).await;
    let next = read(&store, "s").await.next_at;
    db.make_due("s", Timestamp::now()).await;
    assert_eq!(fire(&store).await.jobs, 1);
    db.write_ahead(YEAR).await;
    assert!(ahead(&read(&store, "s").await) > YEAR.saturating_sub(HOUR));
    assert_eq!(repair_clock(&*store.0).await.unwrap(), ["s"]);
    let again = read(&store, "s").await;
    assert_eq!((again.next_at, again.fired), (next, 1));
    assert_eq!(repair_clock(&*store.0).await.unwrap(), Vec::<String>::new(), "once");
    assert_eq!(fire(&store).await.schedules, 0, "nothing is due");

    // The coming occurrence has fired already: the clock was ahead by less than a day.
    let fired = next.unwrap();
    let info = ScheduleInfo {
        last_at: next,
        next_at: Some(fired.checked_add(SignedDuration::from_hours(24 * 300)).unwrap()),
        ..again
    };
    let later = info.computed_again(Timestamp::now()).unwrap().next_at.unwrap();
    assert_eq!(later.duration_since(fired), SignedDuration::from_hours(24));
    assert!(
        ScheduleInfo { paused: true, ..info }.computed_again(Timestamp::now()).is_none(),
        "it is computed when it is resumed"
    );
}

/// With a job for each occurrence, it is known which occurrences have fired.
pub(crate) async fn each_occurrence_that_counts_happens_once<T: SqlDb>(db: &T) {
    let store = db.jobs();
    daily(&store, Misfire::All).await;
    db.make_due("s", Timestamp::now()).await;
    assert_eq!(fire(&store).await.jobs, 1);
    db.write_ahead(YEAR).await;
    let before = read(&store, "s").await;
    // The one after the last that fired.
    repair_clock(&*store.0).await.unwrap();
    let after = read(&store, "s").await;
    assert!(after.next_at <= before.next_at && after.next_at > before.last_at, "{after:?}");
    let sent = moments(&store).await.len();
    assert_eq!(fire(&store).await.schedules, 0);
    assert_eq!(moments(&store).await.len(), sent);
    // An operator who wants it sooner pauses and resumes the schedule.
    let (name, jobs) = ("s", &*store.0);
    jobwright::internal::engine::schedules::pause(jobs, name, None).await.unwrap();
    resume(jobs, name, None).await.unwrap();
    assert!(ahead(&read(&store, "s").await) <= 24 * HOUR);
}

/// An interval counts from when the schedule was put, which is not in the future.
pub(crate) async fn a_schedule_put_by_a_wrong_clock<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let new = NewSchedule::new("s", Schedule::new("1h").unwrap(), job());
    put(&*store.0, &testing::schedule(new).unwrap(), None, None).await.unwrap();
    let start = Timestamp::now().checked_add(SignedDuration::from_hours(24 * 300)).unwrap();
    let asked = NewSchedule::new("asked", Schedule::new(&format!("R/{start}/PT1H")).unwrap(), job());
    put(&*store.0, &testing::schedule(asked).unwrap(), None, None).await.unwrap();
    db.write_ahead(YEAR).await;
    assert_eq!(repair_clock(&*store.0).await.unwrap(), ["asked", "s"]);
    let again = read(&store, "s").await;
    assert!(ahead(&again) <= HOUR && again.anchor <= Timestamp::now(), "{again:?}");
    assert_eq!(read(&store, "asked").await.next_at.unwrap().as_second(), start.as_second(), "it begins then");
    db.make_due("s", Timestamp::now()).await;
    assert_eq!(fire(&store).await.jobs, 1);
    let next = read(&store, "s").await;
    assert!(ahead(&next) <= HOUR, "{next:?}");
}

/// Starts in the future count as now: after a period more jobs may start.
pub(crate) async fn a_rate_goes_on<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let period = Duration::from_secs(60);
    store.put_rule(&Rule::new(Scope::Queue, "default").rate(2, period)).await.unwrap();
    store.send_all(jobs(5)).await;
    assert_eq!(store.admit_all().await, 2);
    db.write_ahead(YEAR).await;
    assert_eq!(store.admit_all().await, 0);
    assert_eq!(
        right(&store).await,
        [("unblock.unblock_at".to_owned(), 1), ("rate_log.at".to_owned(), 1)],
        "the gate opens now, and what started counts as now"
    );
    assert_eq!(store.admit_all().await, 0, "a rate is never broken");
    db.pass(period + Duration::from_secs(1)).await;
    assert_eq!(store.admit_all().await, 2);
    sound(&store).await;
    assert_eq!(store.take(node, 10).await.len(), 4);
    assert_eq!(right(&store).await, []);
}

async fn external(store: &Jobs, lease: Duration) -> jobwright::Job {
    store.send(job()).await;
    store.hand_out("default", 1, lease, hand_out_number()).await.unwrap().remove(0)
}

pub(crate) async fn a_lease_of_an_external_worker_ends<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let out = external(&store, Duration::from_millis(300)).await;
    db.write_ahead(YEAR).await;
    assert_eq!(right(&store).await, found("job.lease_until", 1));
    eventually(Duration::from_secs(10), async || store.expire_external(10).await.unwrap().waiting == 1).await;
    assert_eq!(store.state(out.id).await, Some(JobState::Waiting));
    assert_eq!(right(&store).await, []);
}

/// A lease that was extended while the clock was ahead ends no later than the longest possible lease.
pub(crate) async fn an_extended_lease_ends<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let out = external(&store, HOUR).await;
    let extension = Extension { fence: out.fence(), lease: Some(YEAR) };
    assert_eq!(store.extend_external(&[extension]).await.unwrap(), [out.id]);
    assert_eq!(right(&store).await, found("job.lease_until", 1));
    assert_eq!(right(&store).await, []);
    assert_eq!(store.expire_external(10).await.unwrap().total(), 0, "nothing was taken from its worker");
}

pub(crate) async fn a_time_to_live_ends<T: SqlDb>(db: &T) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Kind, "blocked").running(0)).await.unwrap();
    let ttl = Duration::from_secs(60);
    store.send(job().ttl(ttl)).await;
    store.send(job().delay(Duration::from_secs(59)).ttl(ttl)).await;
    store.send(NewJob::json("blocked", &1).ttl(ttl)).await;
    store.admit_all().await;
    db.write_ahead(YEAR).await;
    let lives = right(&store).await.into_iter().filter(|(what, _)| what.ends_with("expires"));
    assert_eq!(lives.map(|(_, rows)| rows).sum::<u64>(), 3);
    assert_eq!(store.expire_jobs(10).await.unwrap().jobs, 0, "they live for as long as was said");
    db.pass(ttl + Duration::from_secs(1)).await;
    assert_eq!(store.expire_jobs(10).await.unwrap().jobs, 3);
}

/// The delay before the next attempt counts from the failure, which is not in the future.
pub(crate) async fn another_attempt_is_made<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let id = store.send(job()).await;
    let claimed = store.take_one(node).await;
    store.fail(node, &claimed, Duration::from_secs(60), "no").await;
    db.write_ahead(YEAR).await;
    assert_eq!(right(&store).await, found("job.due_at", 1));
    assert_eq!(right(&store).await, [], "once");
    assert_eq!(store.promote().await, 0);
    db.pass(Duration::from_secs(62)).await;
    assert_eq!(store.promote().await, 1);
    assert_eq!(store.take_one(node).await.id, id);
}

/// A requested date can't be told from a wrong one, so it stays.
pub(crate) async fn a_timer_that_was_asked_for_stays<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send(job().delay(YEAR)).await;
    store.send(job()).await;
    let claimed = store.take_one(node).await;
    store.settle_one(node, claimed.fence(), Verdict::Snooze(YEAR)).await;
    assert_eq!(right(&store).await, []);
    assert_eq!(store.count(JobState::Timer).await, 2);
}

pub(crate) async fn a_hold_ends<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let mut held = message(job());
    held.hidden_for = Duration::from_secs(60);
    store.insert(&[held], None).await.unwrap();
    assert!(store.take(node, 10).await.is_empty());
    db.write_ahead(YEAR).await;
    assert_eq!(store.take(node, 10).await.len(), 1);
}

/// The key counts as taken now, and is held for the period requested then, whatever later senders request.
pub(crate) async fn a_key_is_free_after_its_period<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let period = Duration::from_secs(60);
    let send = async |period| {
        let message = message(job().unique(Unique::key("a").for_period(period)));
        store.insert(&[message], None).await.unwrap().rows
    };
    // The first send takes a key that was never held, the second one that became free.
    for _ in 0..2 {
        assert_eq!(send(period).await, 1);
        db.write_ahead(YEAR).await;
        assert_eq!(right(&store).await, found("unique_key.expires_at", 1));
        assert_eq!(right(&store).await, [], "once");
        db.pass(period / 2).await;
        assert_eq!(send(YEAR).await, 0, "asking does not hold it for longer");
        assert_eq!(send(Duration::from_secs(1)).await, 0);
        db.pass(Duration::from_secs(20)).await;
        assert_eq!(send(period).await, 0, "nor for shorter");
        db.pass(Duration::from_secs(11)).await;
    }
    assert_eq!(send(period).await, 1);
}

/// The priority is computed again by the same rule, once it turns out that the job has not waited that long.
pub(crate) async fn priorities_raised_too_early_are_lowered_again<T: SqlDb>(db: &T) {
    let store = db.jobs();
    for limit in [None, Some(0)] {
        let mut rule = Rule::new(Scope::Queue, "default").aging(Duration::from_secs(60));
        rule.running = limit;
        store.put_rule(&rule).await.unwrap();
        let old = store.send(job().priority(7)).await;
        store.admit_all().await;
        let priority = async || store.detail(old).await.summary.priority;
        // As long ago as the clock is ahead.
        db.date_back(old, 60 * HOUR).await;
        assert_eq!(store.age_jobs(100).await.unwrap(), 1);
        assert_eq!(priority().await, 7 + 3600);
        db.write_ahead(60 * HOUR).await;
        assert_eq!(store.age_jobs(100).await.unwrap(), 1);
        assert_eq!(priority().await, 7);
        assert_eq!(store.age_jobs(100).await.unwrap(), 0);
        // Sent by a clock that is ahead: its age counts as zero, not as negative.
        db.write_ahead(60 * HOUR).await;
        assert_eq!((store.age_jobs(100).await.unwrap(), priority().await), (0, 7));
        db.clear().await;
    }
}

/// A priority that was raised to the maximum is lowered by no more than was added.
pub(crate) async fn a_priority_raised_to_the_maximum_is_lowered_by_what_was_added<T: SqlDb>(db: &T) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Queue, "default").aging(Duration::from_secs(60))).await.unwrap();
    let old = store.send(job().priority(7)).await;
    let priority = async || store.detail(old).await.summary.priority;
    db.date_back(old, YEAR).await;
    assert_eq!((store.age_jobs(100).await.unwrap(), priority().await), (1, 32767));
    assert_eq!(store.age_jobs(100).await.unwrap(), 0);
    db.write_ahead(YEAR).await;
    assert_eq!((store.age_jobs(100).await.unwrap(), priority().await), (1, 7));
}

/// Skewed rows are reported by table and column: how many, and how far ahead.
pub(crate) async fn timestamps_ahead_of_the_clock_are_reported<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(3)).await;
    store.take(node, 1).await;
    db.write_ahead(YEAR).await;
    let told = store.clock_skew().await.unwrap();
    let kinds: Vec<(&str, u64)> = told.iter().map(|ahead| (ahead.what.as_str(), ahead.rows)).collect();
    assert_eq!(kinds, [("job.claimed_at", 1), ("job.created_at", 3)]);
    assert!(told.iter().all(|ahead| ahead.farthest > YEAR.saturating_sub(HOUR) && ahead.farthest <= YEAR), "{told:?}");
}
