//! Schedules while time passes.

use std::time::Duration;

use jiff::Timestamp;
use jobwright::headers::SCHEDULED_AT;
use jobwright::testing::{Runner, Summary, TestDatabase, assert_sent};
use jobwright::{Job, JobError, Misfire, NewJob, NewSchedule, Outcome, Overlap, Schedule};

use crate::test_kit::kit::Kit;

const HOUR: Duration = Duration::from_secs(3600);

fn tick(name: &str, when: &str) -> NewSchedule {
    NewSchedule::new(name, Schedule::new(when).unwrap(), NewJob::json("tick", &()))
}

async fn put<S: Kit>(db: &TestDatabase<S>, schedule: NewSchedule) {
    db.messages().schedules().put(schedule).await.unwrap();
}

/// Runs `tick` without failures.
async fn ticking<S: Kit>(db: &TestDatabase<S>) -> Runner<S> {
    db.runner(|executor| executor.handle("tick", |_| async { Ok(Outcome::Done) })).await.unwrap()
}

fn moment(job: &Job) -> Timestamp {
    job.headers[SCHEDULED_AT].parse().unwrap()
}

/// Returns which schedules sent a job, in order.
fn sent(summary: &Summary) -> Vec<&str> {
    summary.fired.iter().filter(|fired| fired.job.is_some()).map(|fired| &*fired.schedule).collect()
}

/// Also between the retries of the jobs of others, and with their own times whenever the test runs.
pub(crate) async fn each_occurrence_fires_in_its_place<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = db
        .runner(|executor| {
            executor.handle("tick", |job: Job| async move {
                if job.attempt < 3 { Err(JobError::retry_after("not yet", HOUR * 4 / 5)) } else { Ok(Outcome::Done) }
            })
        })
        .await
        .unwrap();
    put(db, tick("hourly", "1h")).await;
    let first = db.messages().schedules().get("hourly").await.unwrap().unwrap().next_at.unwrap();
    let hours = |hours: u32| first.saturating_add(HOUR * hours).unwrap();
    let summary = runner.drain_through(HOUR * 7 / 2).await.unwrap();
    let fired: Vec<_> = summary.fired.iter().map(|fired| (&*fired.schedule, fired.at, fired.job.is_some())).collect();
    assert_eq!(fired, [("hourly", hours(0), true), ("hourly", hours(1), true), ("hourly", hours(2), true)]);
    let ran: Vec<_> = summary.ran.iter().map(|ran| (moment(&ran.job), ran.job.attempt)).collect();
    // Begun at 1 h, 2 h and 3 h, with attempts 0.8 h and 1.6 h later.
    let expected = [(hours(0), 1), (hours(0), 2), (hours(1), 1), (hours(0), 3), (hours(1), 2), (hours(2), 1)];
    assert_eq!(ran, expected, "{summary}");
    assert!(summary.to_string().contains(&format!("schedule hourly: due at {}, sent a job", hours(1))), "{summary}");
    let ids: Vec<_> = summary.fired.iter().map(|fired| fired.job.unwrap()).collect();
    assert!(summary.ran.iter().all(|ran| ids.contains(&ran.job.id)));

    // Time goes on where it was.
    let summary = runner.drain_through(HOUR).await.unwrap();
    assert_eq!(summary.fired.iter().map(|fired| fired.at).collect::<Vec<_>>(), [hours(3)], "{summary}");
}

/// Its times are those of the calendar, not of the machine's clock.
pub(crate) async fn a_cron_line_fires_by_the_calendar<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = ticking(db).await;
    put(
        db,
        NewSchedule::new(
            "report",
            Schedule::in_zone("30 2 * * MON", "Europe/Berlin").unwrap(),
            NewJob::json("tick", &()),
        ),
    )
    .await;
    let mut next = db.messages().schedules().get("report").await.unwrap().unwrap().next_at.unwrap();
    let summary = runner.drain_through(HOUR * 24 * 7 * 30).await.unwrap();
    assert_eq!(summary.expect_done().done(), 30);
    let schedule = Schedule::in_zone("30 2 * * MON", "Europe/Berlin").unwrap();
    for fired in &summary.fired {
        assert_eq!(fired.at, next, "{summary}");
        next = schedule.next_after(next).unwrap();
    }
    let put = db.messages().schedules().get("report").await.unwrap().unwrap();
    assert_eq!((put.fired, put.next_at), (30, Some(next)));
}

pub(crate) async fn schedules_keep_their_own_rules<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = db
        .runner(|executor| {
            executor.handle("long", |job: Job| async move {
                if job.attempt == 1 { Err(JobError::retry_after("not yet", HOUR * 3 / 2)) } else { Ok(Outcome::Done) }
            })
        })
        .await
        .unwrap();
    let long = |name: &str| NewSchedule::new(name, Schedule::new("1h").unwrap(), NewJob::json("long", &()));
    put(db, long("alone").overlap(Overlap::Forbid).times(2)).await;
    put(db, long("paused")).await;
    assert!(db.messages().schedules().pause("paused").await.unwrap());
    put(db, long("ends").until(Timestamp::now().saturating_add(HOUR * 3 / 2).unwrap())).await;
    let summary = runner.drain_through(HOUR * 13 / 2).await.unwrap();
    let alone: Vec<_> =
        summary.fired.iter().filter(|fired| fired.schedule == "alone").map(|fired| fired.job.is_some()).collect();
    assert_eq!(alone, [true, false, true], "not while the job before is not over, and two jobs in all: {summary}");
    assert_eq!(sent(&summary).iter().filter(|name| **name == "ends").count(), 1, "{summary}");
    assert_eq!(sent(&summary).iter().filter(|name| **name == "paused").count(), 0, "{summary}");
    assert!(summary.to_string().contains("SENT NOTHING"), "{summary}");
}

/// A jump over occurrences is an outage of the scheduler.
pub(crate) async fn occurrences_that_a_test_jumps_over_are_missed<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = ticking(db).await;
    put(db, tick("once", "24h")).await;
    put(db, tick("all", "24h").misfire(Misfire::All)).await;
    put(db, tick("skip", "24h").misfire(Misfire::Skip)).await;
    db.travel(HOUR * 73).await.unwrap();
    assert!(runner.drain().await.unwrap().fired.is_empty(), "only a drain through time fires");
    let summary = runner.drain_through(Duration::ZERO).await.unwrap();
    let mut fired = sent(&summary);
    fired.sort_unstable();
    assert_eq!(fired, ["all", "all", "all", "once"], "{summary}");
    assert_eq!(summary.fired.len(), 5, "one that skips them moves on: {summary}");
    assert_eq!(runner.drain_through(HOUR * 24).await.unwrap().fired.len(), 3);
}

/// It begins in the time of the test.
pub(crate) async fn a_schedule_that_is_put_later_begins_later<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = ticking(db).await;
    let before = Timestamp::now();
    db.travel(HOUR * 24 * 365).await.unwrap();
    put(db, tick("hourly", "1h")).await;
    put(db, tick("paused", "1h")).await;
    db.messages().admin().by("ann").schedules().pause("paused").await.unwrap();
    let summary = runner.drain_through(HOUR * 3 / 2).await.unwrap();
    assert_eq!(sent(&summary), ["hourly"], "{summary}");
    assert!(summary.fired[0].at > before.saturating_add(HOUR * 24 * 365).unwrap(), "{summary}");
    db.messages().schedules().resume("paused").await.unwrap();
    assert_eq!(sent(&runner.drain_through(HOUR).await.unwrap()), ["hourly", "paused"]);
}

pub(crate) async fn a_schedule_is_fired_by_its_name<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = ticking(db).await;
    let error = runner.fire("nightly").await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().ends_with("there are schedules: none"), "{error}");
    put(db, tick("nightly-report", "0 3 * * *")).await;
    put(db, tick("weekly-report", "0 3 * * MON")).await;
    let error = runner.fire("nightly").await.unwrap_err().to_string();
    assert!(error.contains("no schedule \"nightly\"") && error.ends_with(": nightly-report, weekly-report"), "{error}");
    assert_sent(&db.sent().await.unwrap()).never();
    let id = runner.fire("nightly-report").await.unwrap();
    assert_sent(&db.sent().await.unwrap()).id(id).kind("tick").header("schedule", "nightly-report").once();
    let summary = runner.drain().await.unwrap();
    assert_eq!((summary.expect_done().done(), summary.ran[0].job.id), (1, id));
}

pub(crate) async fn a_schedule_that_fires_for_ever_is_found_out<S: Kit>(db: &TestDatabase<S>) {
    let runner = ticking(db).await;
    let job = NewJob::json("nobody-runs-it", &());
    put(db, NewSchedule::new("busy", Schedule::new("1s").unwrap(), job).overlap(Overlap::Forbid)).await;
    let text = runner.most(20).drain_through(HOUR).await.unwrap_err().to_string();
    assert!(text.contains("schedules fired 20 times") && text.contains("20 of busy"), "{text}");
}
