//! `Admin`, the one door of operators: what it leaves in the audit, what a dry run refuses, and what only it has.

use std::time::Duration;

use jiff::Timestamp;
use jobwright::admin::Admin;
use jobwright::admin::{AuditFilter, JobFilter, JobState, RetryOptions, Rule, Scope};
use jobwright::internal::Action;
use jobwright::{ErrorKind, NewJob, NewSchedule, Result, Schedule};

use crate::executor::successful_jobs::note;
use crate::support::environment::World;

/// Returns who did what, the oldest first.
async fn audit(admin: &Admin) -> Vec<(String, String)> {
    let entries = admin.audit(&AuditFilter::default(), 100).await.unwrap();
    entries.into_iter().rev().map(|entry| (entry.who, entry.action)).collect()
}

fn hourly(name: &str) -> NewSchedule {
    NewSchedule::new(name, Schedule::new("1h").unwrap(), NewJob::json("note", &1))
}

fn refused<T>(result: Result<T>) {
    let error = result.err().expect("it is refused");
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("a dry run can't"), "{error}");
}

/// An operator who gave no name is `(unnamed)`. A program that puts its own schedules is no operator.
pub(crate) async fn whatever_an_operator_does_is_in_the_audit<W: World>(db: &W) {
    let messages = db.messages().await;
    let admin = messages.admin();
    let id = messages.send(note().delay(Duration::from_secs(3600))).await.unwrap();
    messages.schedules().put(hourly("its own")).await.unwrap();
    assert_eq!(audit(&admin).await, []);

    admin.suspend(&JobFilter::ids([id])).await.unwrap();
    admin.put_rule(&Rule::new(Scope::Queue, "default").running(5)).await.unwrap();
    admin.pause_queue("default").await.unwrap();
    admin.schedules().pause("its own").await.unwrap();
    let node = db.jobs().node().await;
    admin.clone().by("ann").evict(node).await.unwrap();
    let who = |name: &str, action: &str| (name.to_owned(), action.to_owned());
    let unnamed = ["suspend", "rule", "rule", "pause-schedule"].map(|action| who("(unnamed)", action));
    assert_eq!(audit(&admin).await, [&unnamed[..], &[who("ann", "evict")]].concat());
}

/// It counts what is done to jobs and what a backfill would send. It refuses all else, and writes nothing.
pub(crate) async fn a_dry_run_changes_nothing<W: World>(db: &W) {
    let messages = db.messages().await;
    let dry = messages.admin().by("ann").dry_run();
    let id = messages.send(note().delay(Duration::from_secs(3600))).await.unwrap();
    let on_the_hour = Schedule::new("0 * * * *").unwrap();
    messages.schedules().put(NewSchedule::new("kept", on_the_hour, NewJob::json("note", &1))).await.unwrap();
    let rule = Rule::new(Scope::Queue, "default").running(5);
    let node = db.jobs().node().await;

    assert_eq!(dry.operate(&JobFilter::ids([id]), &Action::Cancel).await.unwrap().total(), 1);
    refused(dry.put_rule(&rule).await);
    refused(dry.change_rule(Scope::Queue, "default", |rule| rule.paused = true).await);
    refused(dry.evict(node).await);
    let schedules = dry.schedules();
    refused(schedules.put(hourly("another")).await);
    refused(schedules.pause("kept").await);
    refused(schedules.resume("kept").await);
    refused(schedules.run("kept").await);
    refused(schedules.delete("kept").await);
    let now = Timestamp::now();
    let from = now.checked_sub(jiff::SignedDuration::from_hours(3)).unwrap();
    let counted = schedules.backfill("kept", from, now).await.unwrap();
    assert!(counted.occurrences >= 2, "{counted:?}");

    assert_eq!(db.jobs().all().await.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    assert_eq!(dry.rules().await.unwrap(), []);
    assert!(dry.nodes().await.unwrap().iter().all(|node| !node.dead));
    let kept = schedules.list().await.unwrap();
    assert!(kept.len() == 1 && !kept[0].paused, "{kept:?}");
    assert_eq!(audit(&dry).await, []);
}

/// A rule replaces the one before, an invalid one changes nothing, and an empty one removes it.
pub(crate) async fn a_rule_is_put_whole<W: World>(db: &W) {
    let admin = db.messages().await.admin();
    let rule = |running| Rule::new(Scope::Kind, "mail").running(running);
    admin.put_rule(&rule(5).paused(true)).await.unwrap();
    admin.put_rule(&rule(7)).await.unwrap();
    assert_eq!(admin.rules().await.unwrap(), [rule(7)]);
    assert_eq!(admin.put_rule(&rule(9).depth(1)).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(admin.rule(Scope::Kind, "mail").await.unwrap(), rule(7));
    admin.put_rule(&Rule::new(Scope::Kind, "mail")).await.unwrap();
    assert_eq!(admin.rules().await.unwrap(), []);
}

/// Some of the matching jobs run again, and a dry run counts them.
pub(crate) async fn some_jobs_are_retried<W: World>(db: &W) {
    let messages = db.messages().await;
    for _ in 0..3 {
        messages.send(note().delay(Duration::from_secs(3600))).await.unwrap();
    }
    let admin = messages.admin();
    let some = RetryOptions::default().limit(2);
    assert_eq!(admin.retry_with(&JobFilter::default(), &some.dry_run(true)).await.unwrap().total(), 2);
    assert_eq!(db.jobs().count(JobState::Timer).await, 3);
    assert_eq!(admin.retry_with(&JobFilter::default(), &some).await.unwrap().total(), 2);
    assert_eq!(db.jobs().count(JobState::Waiting).await, 2);
    assert_eq!(admin.retry(&JobFilter::default()).await.unwrap().total(), 1);
    assert_eq!(db.jobs().count(JobState::Waiting).await, 3);
}

/// The longest overdue comes first, and paused ones are not waited for.
pub(crate) async fn overdue_schedules_are_reported<W: World>(db: &W) {
    let messages = db.messages().await;
    let schedules = messages.schedules();
    for name in ["a", "b", "c", "paused", "later"] {
        schedules.put(hourly(name)).await.unwrap();
    }
    schedules.pause("paused").await.unwrap();
    let now = Timestamp::now();
    for (name, minutes) in [("a", 5), ("b", 20), ("c", 10), ("paused", 30)] {
        db.make_due(name, now.checked_sub(jiff::SignedDuration::from_mins(minutes)).unwrap()).await;
    }
    let overdue = messages.admin().schedules().overdue(2).await.unwrap();
    let names: Vec<&str> = overdue.iter().map(|(schedule, _)| schedule.spec.name.as_str()).collect();
    assert_eq!(names, ["b", "c"]);
    assert!(overdue[0].1 >= Duration::from_secs(19 * 60), "{:?}", overdue[0].1);
    assert_eq!(messages.admin().schedules().overdue(100).await.unwrap().len(), 3);
    assert_eq!(messages.admin().schedules().clock_skew().await.unwrap().len(), 0);
}

/// Its next occurrence is in a month, though it is due each hour: the clock was ahead when it was computed.
pub(crate) async fn a_schedule_from_a_clock_that_was_ahead_is_reported<W: World>(db: &W) {
    let messages = db.messages().await;
    for name in ["ahead", "right"] {
        messages.schedules().put(hourly(name)).await.unwrap();
    }
    db.make_due("ahead", Timestamp::now().checked_add(jiff::SignedDuration::from_hours(24 * 30)).unwrap()).await;
    let skewed = messages.admin().schedules().clock_skew().await.unwrap();
    let [(schedule, by)] = &skewed[..] else { panic!("{skewed:?}") };
    assert!(schedule.spec.name == "ahead" && *by > Duration::from_secs(29 * 24 * 3600), "{skewed:?}");
}

/// A server is up; a file is no server.
pub(crate) async fn whether_the_database_is_down_is_known<W: World>(db: &W) {
    let messages = db.messages().await;
    messages.admin().status().await.unwrap();
    let is_file = messages.admin().describe().starts_with("sqlite:");
    assert_eq!(messages.database_is_down(), if is_file { None } else { Some(false) });
}
