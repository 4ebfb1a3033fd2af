//! `jobwright schedules`: repeating jobs.

use std::iter::successors;

use jiff::Timestamp;
use jobwright::admin::{PutOutcome, ScheduleInfo};
use jobwright::{AnyStore, MessageServices, NewJob, NewSchedule, Schedule, ScheduleService};
use serde_json::{Value, json as value};

use super::connect_database;
use super::send::payload;
use super::slow_notice::with_slow_notice;
use crate::args::{BackfillArgs, DeleteSchedulesArgs, OperatorArgs, PutArgs, SchedulesCommand};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, counted, json, line, or_dash, print, table, time};

/// How many occurrences a dry run shows.
const PREVIEWED: usize = 5;

pub(crate) async fn run(settings: &Settings, command: SchedulesCommand) -> Result<(), Failure> {
    let longest = settings.database.max_payload;
    let messages = connect_database(settings).await?;
    let done = match command {
        SchedulesCommand::List(args) => with_slow_notice(settings, list(&messages, args.output.output)).await,
        SchedulesCommand::Put(args) => put(&messages, *args, longest).await,
        SchedulesCommand::Pause(args) => {
            existing(&messages, &args.name).await?;
            let paused = schedules(&messages, &args.operator).pause(&args.name).await?;
            line(format!("{} {}", args.name, if paused { "is paused" } else { "was paused already" }))
        }
        SchedulesCommand::Resume(args) => {
            existing(&messages, &args.name).await?;
            let resumed = schedules(&messages, &args.operator).resume(&args.name).await?;
            line(format!("{} {}", args.name, if resumed { "goes on" } else { "was not paused" }))
        }
        SchedulesCommand::Delete(args) => delete(&messages, &args).await,
        SchedulesCommand::Run(args) => {
            existing(&messages, &args.name).await?;
            line(schedules(&messages, &args.operator).run(&args.name).await?.to_string())
        }
        SchedulesCommand::Backfill(args) => backfill(&messages, &args).await,
    };
    // This process ends now, and an unsent wake-up would be lost with it.
    messages.wake_ups_sent().await;
    done
}

/// Returns the schedules, to be changed in an operator's name.
fn schedules(messages: &MessageServices<AnyStore>, operator: &OperatorArgs) -> ScheduleService {
    messages.admin().by(operator.name()).schedules()
}

/// Returns a schedule that must exist.
async fn existing(messages: &MessageServices<AnyStore>, name: &str) -> Result<ScheduleInfo, Failure> {
    messages.schedules().get(name).await?.ok_or_else(|| missing(messages, name))
}

fn missing(messages: &MessageServices<AnyStore>, name: &str) -> Failure {
    let place = messages.admin().describe();
    Failure::Failed(format!(
        "there is no schedule {name:?} in {place}: `jobwright schedules list` shows the existing schedules"
    ))
}

async fn list(messages: &MessageServices<AnyStore>, format: Format) -> Result<(), Failure> {
    let all = messages.schedules().list().await?;
    let faults = messages.admin().schedule_faults().await?;
    match format {
        Format::Json => {
            let unread =
                faults.iter().map(|fault| value!({ "name": fault.name, "state": "unreadable", "why": fault.why }));
            json(&all.iter().map(document).chain(unread).collect::<Vec<_>>())
        }
        Format::Table => print(table(
            ["name", "schedule", "zone", "kind", "queue", "state", "next at", "last at", "fired"],
            all.iter()
                .map(|one| {
                    [
                        one.spec.name.clone(),
                        one.spec.schedule.to_string(),
                        one.spec.schedule.zone().to_owned(),
                        one.spec.message.kind.clone(),
                        one.spec.message.queue.clone(),
                        state(one).to_owned(),
                        or_dash(one.next_at.filter(|_| !one.paused).map(time)),
                        or_dash(one.last_at.map(time)),
                        one.fired.to_string(),
                    ]
                })
                .chain(faults.iter().map(|fault| {
                    let dash = || "-".to_owned();
                    [
                        fault.name.clone(),
                        fault.why.clone(),
                        dash(),
                        dash(),
                        dash(),
                        "unreadable".to_owned(),
                        dash(),
                        dash(),
                        dash(),
                    ]
                })),
        )),
    }
}

fn state(schedule: &ScheduleInfo) -> &'static str {
    match schedule {
        ScheduleInfo { paused: true, .. } => "paused",
        ScheduleInfo { next_at: None, .. } => "over",
        _ => "active",
    }
}

fn document(schedule: &ScheduleInfo) -> Value {
    let ScheduleInfo { spec, version, paused, next_at, last_at, last_job, fired, .. } = schedule;
    let message = &spec.message;
    value!({
        "name": spec.name, "version": version, "schedule": spec.schedule.text(), "zone": spec.schedule.zone(),
        "misfire": spec.misfire, "overlap": spec.overlap, "until": spec.until, "times": spec.times,
        "state": state(schedule), "next_at": next_at.filter(|_| !paused), "last_at": last_at, "last_job": last_job, "fired": fired,
        "kind": message.kind, "queue": message.queue, "priority": message.priority, "max_attempts": message.max_attempts,
        "headers": message.headers, "content_type": message.payload.content_type(),
    })
}

async fn put(messages: &MessageServices<AnyStore>, args: PutArgs, longest: usize) -> Result<(), Failure> {
    let schedule = Schedule::in_zone(&args.schedule, &args.zone)?;
    if args.dry_run {
        return preview(schedule, &args);
    }
    let payload = payload(args.payload.as_deref(), args.content_type.as_deref(), longest).await?;
    let job = NewJob::new(args.kind, payload).queue(args.queue).priority(args.priority).max_attempts(args.max_attempts);
    let job = args.header.into_iter().fold(job, |job, (name, value)| job.header(name, value));
    let mut new = NewSchedule::new(args.name, schedule, job).misfire(args.misfire).overlap(args.overlap);
    if let Some(until) = args.until {
        new = new.until(until);
    }
    if let Some(times) = args.times {
        new = new.times(times);
    }
    let put = schedules(messages, &args.operator).put(new).await?;
    let done = match put.outcome {
        PutOutcome::Created => "was created",
        PutOutcome::Changed => "was changed",
        PutOutcome::Unchanged => "is unchanged",
    };
    match args.output.output {
        Format::Json => json(&value!({ "outcome": put.outcome, "schedule": document(&put.schedule) })),
        Format::Table => line(format!("{} {done}; {}", put.schedule.spec.name, what_comes(&put.schedule))),
    }
}

/// Prints when the first jobs of a new schedule would be sent, if it were put now.
fn preview(schedule: Schedule, args: &PutArgs) -> Result<(), Failure> {
    let now = Timestamp::now();
    let schedule = schedule.counted_from(now);
    let most = args.times.map_or(PREVIEWED, |times| usize::try_from(times).unwrap_or(PREVIEWED).min(PREVIEWED));
    let next: Vec<Timestamp> = successors(schedule.next_after(now), |last| schedule.next_after(*last))
        .take_while(|next| args.until.is_none_or(|until| *next <= until))
        .take(most)
        .collect();
    match args.output.output {
        Format::Json => json(&value!({ "outcome": "not_put", "next": next })),
        Format::Table if next.is_empty() => line("it would send nothing: no occurrence is left"),
        Format::Table => print(next.into_iter().map(|next| time(next) + "\n").collect::<String>()),
    }
}

fn what_comes(schedule: &ScheduleInfo) -> String {
    match (schedule.paused, schedule.next_at) {
        (true, _) => "it is paused".to_owned(),
        (false, Some(next)) => format!("next at {}", time(next)),
        (false, None) => "it is over: no occurrence is left".to_owned(),
    }
}

async fn delete(messages: &MessageServices<AnyStore>, args: &DeleteSchedulesArgs) -> Result<(), Failure> {
    let mut names = args.names.clone();
    names.sort_unstable();
    names.dedup();
    let mut deleted = Vec::new();
    let mut absent = Vec::new();
    for name in names {
        let there = if args.dry_run {
            messages.schedules().get(&name).await?.is_some()
        } else {
            schedules(messages, &args.operator).delete(&name).await?
        };
        if there { deleted.push(name) } else { absent.push(name) }
    }
    match args.output.output {
        Format::Json => json(&value!({ "dry_run": args.dry_run, "total": deleted.len(), "names": deleted }))?,
        Format::Table => {
            let schedules = if deleted.len() == 1 { "schedule" } else { "schedules" };
            let done = if args.dry_run { "would be deleted" } else { "deleted" };
            line(format!("{} {schedules} {done}", deleted.len()))?;
        }
    }
    absent.first().map_or(Ok(()), |name| Err(missing(messages, name)))
}

async fn backfill(messages: &MessageServices<AnyStore>, args: &BackfillArgs) -> Result<(), Failure> {
    existing(messages, &args.name).await?;
    let schedules = schedules(messages, &args.operator);
    let done = if args.dry_run {
        schedules.count_backfill(&args.name, args.from, args.to).await?
    } else {
        schedules.backfill(&args.name, args.from, args.to).await?
    };
    match args.output.output {
        Format::Json => json(&value!({
            "dry_run": args.dry_run, "occurrences": done.occurrences, "jobs": done.jobs, "queue": done.queue,
        })),
        Format::Table if args.dry_run => {
            line(format!("{}; their jobs would be sent", counted(done.occurrences, "occurrence")))
        }
        Format::Table => line(format!(
            "{}, {} sent{}",
            counted(done.occurrences, "occurrence"),
            counted(done.jobs, "job"),
            if done.jobs < done.occurrences { "; the others are still there" } else { "" }
        )),
    }
}
