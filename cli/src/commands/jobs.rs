//! `jobwright jobs`: inspects jobs and operates on them.

use std::time::Duration;

use jobwright::admin::Admin;
use jobwright::admin::{AffectedJobs, Change, DeadLetterGroups, DueChange, JobFilter, JobSummary, Page};
use jobwright::internal::{Action, OperationWatch};
use serde_json::json as value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::slow_notice::with_slow_notice;
use super::{connect_database, history, progress, show};
use crate::args::{ChangeArgs, ErrorsArgs, JobsCommand, ListArgs, OperateArgs};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, counted, json, line, or_dash, print, say, table, time};

/// How often the line of a long operation changes.
const SHOWN: Duration = Duration::from_millis(100);
/// A short one has none.
const SHOWN_FROM: Duration = Duration::from_millis(800);

pub(crate) async fn run(settings: &Settings, command: JobsCommand) -> Result<(), Failure> {
    match command {
        JobsCommand::List(args) => list(settings, &args).await,
        JobsCommand::Show(args) => show::run(settings, &args).await,
        JobsCommand::Errors(args) => errors(settings, &args).await,
        JobsCommand::History(args) => history::run(settings, &args).await,
        JobsCommand::Retry(args) => {
            let (limit, spread) = (args.limit, args.spread.unwrap_or_default());
            operate(settings, Action::Retry { limit, spread }, &args.operate).await
        }
        JobsCommand::Cancel(args) => operate(settings, Action::Cancel, &args).await,
        JobsCommand::Delete(args) => operate(settings, Action::Delete, &args).await,
        JobsCommand::Suspend(args) => operate(settings, Action::Suspend, &args).await,
        JobsCommand::Resume(args) => operate(settings, Action::Resume, &args).await,
        JobsCommand::Run(args) => operate(settings, Action::RunNow, &args).await,
        JobsCommand::Change(args) => operate(settings, Action::Change(change(&args)), &args.operate).await,
    }
}

fn change(args: &ChangeArgs) -> Change {
    let mut change = Change::default();
    change.priority = args.priority;
    change.due = args.at.map(DueChange::At).or(args.delay.map(DueChange::In));
    change.queue.clone_from(&args.to_queue);
    change.max_attempts = args.max_attempts;
    change
}

async fn list(settings: &Settings, args: &ListArgs) -> Result<(), Failure> {
    let messages = connect_database(settings).await?;
    let mut page = Page::new(args.limit);
    page.after = args.after;
    let jobs = with_slow_notice(settings, messages.admin().list(&args.filter.with_ids(args.id.iter().copied()), &page))
        .await?;
    match args.output.output {
        Format::Json => json(&jobs),
        Format::Table if jobs.is_empty() => {
            say("no job matches");
            Ok(())
        }
        Format::Table => print(jobs_table(&jobs)),
    }
}

fn jobs_table(jobs: &[JobSummary]) -> String {
    table(
        ["seq", "id", "state", "kind", "queue", "prio", "attempt", "created at", "due at", "last error"],
        jobs.iter().map(|job| {
            [
                job.seq.to_string(),
                job.id.to_string(),
                job.state.to_string(),
                job.kind.clone(),
                job.queue.clone(),
                job.priority.to_string(),
                format!("{}/{}", job.attempt, job.max_attempts),
                time(job.created_at),
                or_dash(job.due_at.map(time)),
                or_dash(job.last_error.as_deref()),
            ]
        }),
    )
}

async fn errors(settings: &Settings, args: &ErrorsArgs) -> Result<(), Failure> {
    let messages = connect_database(settings).await?;
    let newest = if args.all { usize::MAX } else { DeadLetterGroups::NEWEST };
    let found =
        with_slow_notice(settings, messages.admin().dead_letter_groups(&args.filter.with_ids([]), newest, args.limit))
            .await?;
    match args.output.output {
        Format::Json => json(&found),
        Format::Table => {
            if found.more {
                say(format!("Of the newest {} dead letters; `--all` reads all.", found.scanned));
            }
            print(errors_table(&found))
        }
    }
}

fn errors_table(found: &DeadLetterGroups) -> String {
    table(
        ["count", "kind", "queue", "first", "last", "example", "error"],
        found.groups.iter().map(|group| {
            [
                group.count.to_string(),
                group.kind.clone(),
                group.queue.clone(),
                time(group.first),
                time(group.last),
                group.example.to_string(),
                group.error.clone(),
            ]
        }),
    )
}

/// Returns the word for what has happened to the jobs.
const fn done(action: &Action) -> &'static str {
    match action {
        Action::Retry { .. } => "retried",
        Action::Cancel => "cancelled",
        Action::Delete => "deleted",
        Action::Suspend => "suspended",
        Action::Resume => "resumed",
        Action::RunNow => "run",
        _ => "changed",
    }
}

async fn operate(settings: &Settings, action: Action, args: &OperateArgs) -> Result<(), Failure> {
    let (verb, done) = (action.as_str(), done(&action));
    let states = action.states().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut ids: Vec<_> = args.ids.iter().chain(&args.id).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    let asked = ids.len() as u64;
    let filter = args.filter.with_ids(ids);
    let anything = filter == JobFilter::default();
    if anything && !args.all {
        return Err(Failure::Usage(format!(
            "`jobs {verb}` without ids or a filter would affect all jobs: name some, or confirm that with `--all`"
        )));
    }
    if !anything && args.all {
        return Err(Failure::Usage("`--all` means no filter: remove one of the two".to_owned()));
    }
    if let Some(asked) = &filter.states
        && !asked.iter().any(|state| action.states().contains(state))
    {
        let asked = asked.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Failure::Usage(format!(
            "`jobs {verb}` does not apply to jobs that are {asked}: it is for those that are {states}"
        )));
    }
    let messages = connect_database(settings).await?;
    let admin = args.operator.admin(&messages);
    let admin = if args.dry_run { admin.dry_run() } else { admin };
    let operated = watched(&admin, &filter, &action, (done, args.dry_run)).await;
    // This process ends now, and an unsent wake-up would be lost with it.
    messages.wake_ups_sent().await;
    let (affected, is_whole) = operated?;
    match args.output.output {
        Format::Json => {
            json(&value!({ "dry_run": args.dry_run, "total": affected.total(), "states": affected }))?;
        }
        Format::Table => line(sentence(&affected, done, args.dry_run))?,
    }
    if !is_whole {
        let goes_on = goes_on(&action, asked > 0);
        return Err(Failure::Interrupted(format!("interrupted: the changes so far stay{goes_on}")));
    }
    let asked = match action {
        Action::Retry { limit: Some(limit), .. } => asked.min(limit),
        _ => asked,
    };
    if affected.total() < asked {
        return Err(Failure::Failed(format!(
            "{} of {asked} could not be {done}: not there (done, cancelled or deleted), or in a state other than {states}",
            counted(asked - affected.total(), "job")
        )));
    }
    Ok(())
}

/// Applies an action, with a line that says how far it is. Ctrl-C ends it after the present transaction, and a second one at once. Returns whether it
/// came to its end.
async fn watched(
    admin: &Admin,
    filter: &JobFilter,
    action: &Action,
    (done, dry_run): (&str, bool),
) -> Result<(AffectedJobs, bool), Failure> {
    let (watch, bar) = (OperationWatch::default(), progress::counter(&format!("jobs {done}"), dry_run));
    // One for all of them: one that comes between two waits must not be missed.
    let mut interrupts =
        signal(SignalKind::interrupt()).map_err(|error| Failure::Failed(format!("can't wait for Ctrl-C: {error}")))?;
    let operating = admin.operate_watched(filter, action, &watch);
    tokio::pin!(operating);
    let mut every = tokio::time::interval_at(Instant::now() + SHOWN_FROM, SHOWN);
    let affected = loop {
        tokio::select! {
            biased;
            affected = &mut operating => break affected,
            _ = interrupts.recv() => {
                if dry_run {
                    return Err(Failure::Interrupted("interrupted: nothing was changed".to_owned()));
                }
                if watch.is_stopped() {
                    bar.finish_and_clear();
                    return Err(Failure::Interrupted(format!(
                        "interrupted: {} {done}, and the current transaction may or may not have been committed",
                        counted(watch.done(), "job")
                    )));
                }
                watch.stop();
                bar.suspend(|| say("stopping after the current transaction; Ctrl-C again stops at once"));
            }
            _ = every.tick() => {
                bar.set_position(watch.done());
                bar.tick();
            }
        }
    };
    bar.finish_and_clear();
    Ok((affected?, !watch.is_cut_short()))
}

/// Says how to go on after an interruption. The filter of an action does not choose the changed jobs again, unless it names ids, or the action has a number
/// or a time of its own.
fn goes_on(action: &Action, by_ids: bool) -> &'static str {
    let chooses_the_rest = match action {
        Action::Retry { limit, spread } => limit.is_none() && spread.is_zero(),
        Action::Cancel | Action::Delete | Action::Suspend | Action::Resume | Action::RunNow => true,
        _ => false,
    };
    if chooses_the_rest && !by_ids { "; the same command goes on with the rest" } else { "" }
}

fn sentence(affected: &AffectedJobs, done: &str, dry_run: bool) -> String {
    let total = affected.total();
    let jobs = if total == 1 { "job" } else { "jobs" };
    let begin = if dry_run { format!("{total} {jobs} would be {done}") } else { format!("{total} {jobs} {done}") };
    let parts: Vec<_> = affected.0.iter().filter(|(_, n)| **n > 0).map(|(state, n)| format!("{n} {state}")).collect();
    match parts.join(", ") {
        parts if parts.is_empty() => begin,
        parts if dry_run => format!("{begin} ({parts})"),
        parts => format!("{begin} ({parts} before)"),
    }
}
