//! Arguments of `jobwright jobs`.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jobwright::JobId;
use jobwright::admin::{JobFilter, JobState, TimeRange};

use super::history::HistoryArgs;
use super::shared::{OperatorArgs, OutputArgs, moment, priority, rows, timestamp};

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, oldest first.
    #[command(
        after_help = "Example:\n  jobwright jobs list --state dead --queue billing\n  jobwright jobs list --after 4711 --output json"
    )]
    List(ListArgs),
    /// Show everything about one job: errors, headers, payload, progress, checkpoint, result.
    #[command(after_help = "Example:\n  jobwright jobs show 01890a5d-ac96-774b-bcce-b302099a8057")]
    Show(ShowArgs),
    /// Group dead letters by error, the most frequent first.
    #[command(after_help = "Example:\n  jobwright jobs errors --queue billing --since 1d")]
    Errors(ErrorsArgs),
    /// List how attempts and jobs ended, newest first; needs `[history] keep`.
    #[command(after_help = "Example:\n  jobwright jobs history --outcome failed,dead --since 1d --kind send-invoice")]
    History(HistoryArgs),
    /// Run dead letters again, and timers at once.
    #[command(
        after_help = "Example:\n  jobwright jobs retry --state dead --kind send-invoice --dry-run\n  jobwright jobs retry --since 2h --error \"connection refused\" --limit 1000 --spread 10m"
    )]
    Retry(RetryArgs),
    /// Remove jobs that have not ended; the handler of a running one is asked to stop, and its work is not committed.
    #[command(after_help = "Example:\n  jobwright jobs cancel --queue mail --kind newsletter")]
    Cancel(OperateArgs),
    /// Remove jobs for good, including dead letters; running ones are left alone.
    #[command(after_help = "Example:\n  jobwright jobs delete --state dead --kind newsletter")]
    Delete(OperateArgs),
    /// Suspend jobs that are not running, until they are resumed. To stop jobs that are sent later as well, pause with `queues` or `rules`.
    #[command(after_help = "Example:\n  jobwright jobs suspend --tenant acme --dry-run")]
    Suspend(OperateArgs),
    /// Make suspended jobs wait again, until their due date if that is in the future.
    #[command(after_help = "Example:\n  jobwright jobs resume --tenant acme")]
    Resume(OperateArgs),
    /// Run timers and suspended jobs at once.
    #[command(after_help = "Example:\n  jobwright jobs run 01890a5d-ac96-774b-bcce-b302099a8057")]
    Run(OperateArgs),
    /// Change jobs that are not running: priority, due date, queue, attempts.
    #[command(
        after_help = "Example:\n  jobwright jobs change --kind newsletter --priority -5 --to-queue slow\n  jobwright jobs change --queue mail --delay 2h"
    )]
    Change(ChangeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) operate: OperateArgs,
    /// Higher runs first.
    #[arg(long, allow_negative_numbers = true, value_parser = priority)]
    pub(crate) priority: Option<i16>,
    /// Run no sooner than this long from now, such as `2h`.
    #[arg(long, value_name = "DURATION", value_parser = jobwright::internal::parse_duration)]
    pub(crate) delay: Option<Duration>,
    /// Run no sooner than this time.
    #[arg(long, value_name = "TIME", conflicts_with = "delay", value_parser = timestamp)]
    pub(crate) at: Option<Timestamp>,
    /// Wait in this queue.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) to_queue: Option<String>,
    /// Attempts before it becomes a dead letter, including those already spent.
    #[arg(long, value_name = "N")]
    pub(crate) max_attempts: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ErrorsArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// At most this many groups.
    #[arg(long, default_value_t = 20, value_parser = rows)]
    pub(crate) limit: usize,
    /// Read all dead letters, not only the newest 100,000.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) operate: OperateArgs,
    /// At most this many, those sent first.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Spread the retries over this time, such as `10m`.
    #[arg(long, value_name = "DURATION", value_parser = jobwright::internal::parse_duration)]
    pub(crate) spread: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only these jobs (repeatable).
    #[arg(long)]
    pub(crate) id: Vec<JobId>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// At most this many.
    #[arg(long, default_value_t = 100, value_parser = rows)]
    pub(crate) limit: usize,
    /// Only jobs after this one, by the number in the column `seq`.
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<i64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The job's id.
    pub(crate) id: JobId,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(super) const WHY_HELP: &str = "\
Looks at rules, limits, groups and the holders of their permits, at due times, and at the queues and kinds of the living nodes. Without an id, it sorts
the jobs that wait or are blocked by their reasons: the 50 largest classes among the first 100,000 of them.

Exit codes: 0 = there is an answer, 1 = there is no such job.

Example:
  jobwright why 01890a5d-ac96-774b-bcce-b302099a8057
  jobwright why --queue billing --output json";

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The job's id.
    #[arg(conflicts_with_all = ["queue", "kind"])]
    pub(crate) id: Option<JobId>,
    /// Jobs of this queue.
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Jobs of this kind.
    #[arg(long)]
    pub(crate) kind: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OperateArgs {
    /// Only these jobs.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
    /// The same, as a flag (repeatable).
    #[arg(long, value_name = "ID")]
    pub(crate) id: Vec<JobId>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Confirm that all jobs are meant.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only count them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Which jobs.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only in these states: waiting, blocked, running, external, timer, suspended, dead.
    #[arg(long, value_delimiter = ',')]
    pub(crate) state: Vec<JobState>,
    /// Only in this queue.
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only of this kind.
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only of this tenant.
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Only of this exclusive group.
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only with this limit key.
    #[arg(long, value_name = "KEY")]
    pub(crate) limit_key: Option<String>,
    /// Only those whose newest error contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Only those that became dead letters since then: a time, or how long ago (`2h`).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Timestamp>,
    /// Only those that became dead letters before then.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Timestamp>,
    /// Only those sent since then.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) sent_since: Option<Timestamp>,
    /// Only those sent before then.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) sent_until: Option<Timestamp>,
}

impl FilterArgs {
    pub(crate) fn with_ids(&self, ids: impl IntoIterator<Item = JobId>) -> JobFilter {
        let some = |ids: Vec<JobId>| (!ids.is_empty()).then_some(ids);
        let mut filter = JobFilter::default();
        filter.ids = some(ids.into_iter().collect());
        filter.states = (!self.state.is_empty()).then(|| self.state.clone());
        filter.queue.clone_from(&self.queue);
        filter.kind.clone_from(&self.kind);
        filter.tenant.clone_from(&self.tenant);
        filter.group.clone_from(&self.group);
        filter.limit_key.clone_from(&self.limit_key);
        filter.error.clone_from(&self.error);
        filter.created = TimeRange { since: self.sent_since, until: self.sent_until };
        filter.dead = TimeRange { since: self.since, until: self.until };
        filter
    }
}
