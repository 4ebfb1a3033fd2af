//! Repeating jobs: occurrences that were missed, that are too many, or that would overlap.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use jobwright::admin::{JobFilter, JobState};
use jobwright::headers::SCHEDULED_AT;
use jobwright::internal::engine::Verdict;
use jobwright::internal::engine::schedules::fire_due;
use jobwright::{Misfire, NewSchedule, Overlap, Schedule};

use crate::conformance::schedules::{DAY, daily, days_ago, every_day, fire, fire_since, moments, put_new, read};
use crate::support::TestDb;
use crate::support::jobs::{fences, hand_out_number, job};

pub(crate) async fn missed_and_skipped<T: TestDb>(db: &T) {
    let store = db.jobs();
    let put = daily(&store, "s", |new| new.misfire(Misfire::Skip)).await;
    let fired = fire_since(db, "s", 5).await;
    assert_eq!((fired.schedules, fired.jobs), (1, 0));
    let after = read(&store, "s").await;
    assert_eq!((after.fired, after.last_at, after.next_at), (0, None, put.next_at));
    assert!(store.all().await.is_empty());
}

pub(crate) async fn a_little_late_is_not_missed<T: TestDb>(db: &T) {
    let store = db.jobs();
    // The start is now, so this occurrence has just come; earlier ones were missed.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let start = now.checked_sub(SignedDuration::from_secs(3 * DAY)).unwrap();
    let schedule = Schedule::new(&format!("R/{start}/P1D")).unwrap();
    put_new(&store, NewSchedule::new("s", schedule, job()).misfire(Misfire::Skip)).await;
    db.make_due("s", start).await;
    assert_eq!(fire(&store).await.jobs, 1);
    assert_eq!(moments(&store).await, [now]);
}

pub(crate) async fn missed_and_made_up_for_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let put = daily(&store, "s", |new| new.misfire(Misfire::Once)).await;
    assert_eq!(fire_since(db, "s", 500).await.jobs, 1);
    assert_eq!(moments(&store).await, [days_ago(0)], "the latest stands for all");
    assert_eq!(read(&store, "s").await.next_at, put.next_at);
}

pub(crate) async fn missed_and_all_made_up_for<T: TestDb>(db: &T) {
    let store = db.jobs();
    let put = daily(&store, "s", |new| new.misfire(Misfire::All)).await;
    db.make_due("s", days_ago(10)).await;
    for (jobs, unfinished) in [(4, true), (4, true), (3, false), (0, false)] {
        let fired = fire_due(&*store.0, 4).await.unwrap();
        assert_eq!((fired.jobs, !fired.unfinished.is_empty()), (jobs, unfinished), "in batches, and says so");
    }
    assert_eq!(moments(&store).await, (0..=10).rev().map(days_ago).collect::<Vec<_>>());
    let order: Vec<_> = store.all().await.into_iter().map(|job| job.id).collect();
    let first = store.detail(order[0]).await.headers[SCHEDULED_AT].parse::<Timestamp>().unwrap();
    assert_eq!(first, days_ago(10), "the earliest was sent first");
    assert_eq!(read(&store, "s").await.next_at, put.next_at);
}

pub(crate) async fn a_schedule_that_catches_up_does_not_delay_others<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "behind", |new| new.misfire(Misfire::All)).await;
    daily(&store, "just due", |new| new).await;
    db.make_due("behind", days_ago(900)).await;
    db.make_due("just due", days_ago(0)).await;
    let fired = fire_due(&*store.0, 10).await.unwrap();
    assert_eq!((fired.schedules, fired.jobs), (2, 6));
    assert_eq!(fired.unfinished, ["behind"]);
}

pub(crate) async fn an_end<T: TestDb>(db: &T) {
    let store = db.jobs();
    let past = daily(&store, "over", |new| new.until(days_ago(3))).await;
    assert_eq!(past.next_at, None);
    daily(&store, "all", |new| new.until(days_ago(3)).misfire(Misfire::All)).await;
    assert_eq!(fire_since(db, "all", 5).await.jobs, 3);
    assert_eq!(moments(&store).await, [days_ago(5), days_ago(4), days_ago(3)], "the end is the last");
    assert_eq!(read(&store, "all").await.next_at, None);
    daily(&store, "once", |new| new.until(days_ago(3))).await;
    assert_eq!(fire_since(db, "once", 5).await.jobs, 1);
    assert_eq!(read(&store, "once").await.last_at, Some(days_ago(3)));
    assert_eq!(store.next_schedule().await.unwrap(), None);
}

pub(crate) async fn a_number_of_times<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "s", |new| new.times(3).misfire(Misfire::All)).await;
    assert_eq!(fire_since(db, "s", 1).await.jobs, 2);
    assert!(read(&store, "s").await.next_at.is_some());
    assert_eq!(fire_since(db, "s", 30).await.jobs, 1, "no more than are left");
    let over = read(&store, "s").await;
    assert_eq!((over.next_at, over.fired), (None, 3));
}

pub(crate) async fn a_number_of_repetitions<T: TestDb>(db: &T) {
    let store = db.jobs();
    let schedule = Schedule::new(&format!("R2/{}/P1D", days_ago(1))).unwrap();
    let put = put_new(&store, NewSchedule::new("r", schedule, job()).misfire(Misfire::All)).await;
    assert_eq!(put.schedule.next_at, None, "they are past");
    assert_eq!(fire_since(db, "r", 1).await.jobs, 2);
    assert_eq!(read(&store, "r").await.next_at, None);
    // Without a start, occurrences count from when the schedule was put.
    let put = put_new(&store, NewSchedule::new("five", Schedule::new("R5/PT1H").unwrap(), job())).await.schedule;
    let hour = put.next_at.unwrap().duration_since(put.anchor);
    assert_eq!(hour, SignedDuration::from_hours(1));
    assert_eq!(read(&store, "five").await.next_at, put.next_at);
    let last = put.anchor.checked_add(SignedDuration::from_hours(5)).unwrap();
    assert_eq!(read(&store, "five").await.spec.schedule.next_after(last), None);
}

pub(crate) async fn no_overlap_while_the_job_is_alive<T: TestDb>(db: &T) {
    let store = db.jobs();
    // The schedule is put now, and the test sets a different due time for each case.
    let schedule = Schedule::new("P1D").unwrap();
    put_new(&store, NewSchedule::new("s", schedule, job()).overlap(Overlap::Forbid)).await;
    let left_out = async |why: &str| {
        let fired = fire_since(db, "s", 0).await;
        assert_eq!((fired.schedules, fired.jobs, fired.overlapped), (1, 0, vec!["s".to_owned()]), "{why}");
        assert!(read(&store, "s").await.next_at.unwrap() > Timestamp::now(), "{why}: the next is as usual");
    };
    let node = store.node().await;
    assert_eq!(fire_since(db, "s", 5).await.jobs, 1);
    left_out("waiting").await;
    let claimed = store.take_one(node).await;
    left_out("running").await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Retry(Duration::ZERO)).await);
    left_out("a timer").await;
    assert_eq!(store.promote().await, 1);
    let out = store.hand_out("default", 1, Duration::from_secs(300), hand_out_number()).await.unwrap();
    left_out("in the hands of an external worker").await;
    assert_eq!(store.take_back(&fences(&out)).await.unwrap(), 1);
    let claimed = store.take_one(node).await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
    assert_eq!(fire_since(db, "s", 4).await.jobs, 1, "a dead letter is over");
    let id = read(&store, "s").await.last_job.unwrap();
    db.suspend(id).await;
    left_out("suspended").await;
    assert_eq!(store.delete(&JobFilter::ids([id]), false).await.unwrap().total(), 1);
    assert_eq!(fire_since(db, "s", 3).await.jobs, 1, "gone");
    assert_eq!(read(&store, "s").await.fired, 3);
}

pub(crate) async fn overlap_is_allowed<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "s", |new| new).await;
    put_new(&store, NewSchedule::new("s", every_day(), job()).misfire(Misfire::All)).await;
    assert_eq!(fire_since(db, "s", 2).await.jobs, 3);
    assert_eq!(store.count(JobState::Waiting).await, 3);
}

pub(crate) async fn skipped_occurrences_do_not_count<T: TestDb>(db: &T) {
    let store = db.jobs();
    daily(&store, "s", |new| new.overlap(Overlap::Forbid).times(2)).await;
    assert_eq!(fire_since(db, "s", 1).await.jobs, 1);
    assert_eq!(fire_since(db, "s", 0).await.overlapped, ["s"]);
    let after = read(&store, "s").await;
    assert!(after.fired == 1 && after.next_at.is_some(), "{after:?}");
}

pub(crate) async fn a_failure_changes_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    let put = daily(&store, "s", |new| new).await;
    fire_since(db, "s", 1).await;
    let node = store.node().await;
    let claimed = store.take_one(node).await;
    store.fail(node, &claimed, Duration::from_secs(3 * 24 * 3600), "it failed").await;
    assert_eq!(read(&store, "s").await.next_at, put.next_at);
    assert_eq!(fire_since(db, "s", 0).await.jobs, 1);
}
