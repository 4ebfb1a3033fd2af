//! Arguments of `jobwright schedules`.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jobwright::{Misfire, Overlap};

use super::shared::{OperatorArgs, OutputArgs, header, priority, timestamp};

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// List repeating jobs with their next occurrence.
    #[command(
        after_help = "Example:\n  jobwright schedules list --output json | jq '.[] | select(.state == \"paused\")'"
    )]
    List(ListSchedulesArgs),
    /// Send a job repeatedly; replaces the schedule of this name.
    #[command(after_help = PUT_HELP)]
    Put(Box<PutArgs>),
    /// Stop a schedule until it is resumed.
    #[command(after_help = "Example:\n  jobwright schedules pause daily-report")]
    Pause(ScheduleArgs),
    /// Resume a schedule; occurrences missed meanwhile are not made up for.
    #[command(after_help = "Example:\n  jobwright schedules resume daily-report")]
    Resume(ScheduleArgs),
    /// Remove schedules; jobs they have sent stay.
    #[command(after_help = "Example:\n  jobwright schedules delete daily-report --dry-run")]
    Delete(DeleteSchedulesArgs),
    /// Send a job of a schedule now, in addition to its occurrences.
    #[command(after_help = "Example:\n  jobwright schedules run daily-report")]
    Run(ScheduleArgs),
    /// Send the jobs of all occurrences in a past period.
    #[command(
        after_help = "Jobs of past occurrences are sent again, unless the job of the occurrence still exists.\n\n\
                      Example:\n  jobwright schedules backfill daily-report --from 2026-03-01T00:00:00Z --to 2026-04-01T00:00:00Z --dry-run"
    )]
    Backfill(BackfillArgs),
}

const PUT_HELP: &str = "\
SCHEDULE is one of
  \"30 9 * * MON-FRI\"               cron: minute, hour, day of month, month, day of week; by the clock of --zone
  \"*/10 * * * * *\"                 cron with seconds in front
  @hourly @daily @weekly @monthly @yearly
  30s, \"1h 30m\", PT5M              an interval, counted from now
  R5/PT10S, R3/2026-01-01T00:00:00Z/P1D   this many times, from that time on
A time that is skipped by a clock change fires when the gap ends; a repeated time fires once.

A job gets the headers `schedule` (the name) and `scheduledAt` (the time of its occurrence). A schedule that is replaced keeps its
next occurrence unless schedule, zone, end or number of times changed.

Example:
  jobwright schedules put daily-report \"0 6 * * MON-FRI\" report '{\"days\": 1}' --zone Europe/Berlin
  jobwright schedules put cleanup 1h cleanup --overlap forbid --misfire skip";

#[derive(Debug, Args)]
pub(crate) struct ListSchedulesArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    /// The schedule's name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// Its name.
    pub(crate) name: String,
    /// The schedule: cron, interval or repetition.
    pub(crate) schedule: String,
    /// The kind of job, for which a handler is registered.
    pub(crate) kind: String,
    /// JSON text, or `-` for stdin [default: null].
    #[arg(allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Time zone of a cron schedule: an IANA name.
    #[arg(long, default_value = "UTC")]
    pub(crate) zone: String,
    /// What happens to missed occurrences: skip, once, all.
    #[arg(long, default_value_t)]
    pub(crate) misfire: Misfire,
    /// Whether a job is sent before the previous one has ended: allow, forbid.
    #[arg(long, default_value_t)]
    pub(crate) overlap: Overlap,
    /// No occurrence after this time: `2030-01-01T00:00:00Z`.
    #[arg(long, value_parser = timestamp)]
    pub(crate) until: Option<Timestamp>,
    /// At most this many jobs.
    #[arg(long)]
    pub(crate) times: Option<u64>,
    /// The queue of its jobs.
    #[arg(long, default_value = jobwright::DEFAULT_QUEUE)]
    pub(crate) queue: String,
    /// Higher runs first, -32767 to 32767.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = priority)]
    pub(crate) priority: i16,
    /// Attempts before a job becomes a dead letter.
    #[arg(long, default_value_t = jobwright::DEFAULT_MAX_ATTEMPTS)]
    pub(crate) max_attempts: u32,
    /// A header: a string beside the payload (repeatable).
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// Send the payload as bytes of this type, not as JSON.
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// Only say when the next jobs would be sent.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteSchedulesArgs {
    /// Their names.
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// Only count them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BackfillArgs {
    /// The schedule's name.
    pub(crate) name: String,
    /// From this time on.
    #[arg(long, value_parser = timestamp)]
    pub(crate) from: Timestamp,
    /// Up to but excluding this time; not in the future.
    #[arg(long, value_parser = timestamp)]
    pub(crate) to: Timestamp,
    /// Only count them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
