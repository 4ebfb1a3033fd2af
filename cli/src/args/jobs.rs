//! What `jobwright jobs` takes.

use clap::{Args, Subcommand};
use jobwright::JobId;
use jobwright::store::{JobFilter, JobState};

use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, oldest first.
    #[command(
        after_help = "Example:\n  jobwright jobs list --state dead --queue billing\n  jobwright jobs list --after 4711 --output json"
    )]
    List(ListArgs),
    /// Show everything about one job: errors, headers, payload.
    #[command(after_help = "Example:\n  jobwright jobs show 01890a5d-ac96-774b-bcce-b302099a8057")]
    Show(ShowArgs),
    /// Run dead letters again, and timers at once.
    #[command(after_help = "Example:\n  jobwright jobs retry --state dead --kind send-invoice --dry-run")]
    Retry(SteerArgs),
    /// Remove jobs that are not over; a running one finishes, but what it did is not committed.
    #[command(after_help = "Example:\n  jobwright jobs cancel --queue mail --kind newsletter")]
    Cancel(SteerArgs),
    /// Remove jobs for good, dead letters too; running ones are left alone.
    #[command(after_help = "Example:\n  jobwright jobs delete --state dead --kind newsletter")]
    Delete(SteerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only these jobs (repeatable).
    #[arg(long)]
    pub(crate) id: Vec<JobId>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// At most this many.
    #[arg(long, default_value_t = 100)]
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

#[derive(Debug, Args)]
pub(crate) struct SteerArgs {
    /// Only these jobs.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
    /// The same as a flag (repeatable).
    #[arg(long, value_name = "ID")]
    pub(crate) id: Vec<JobId>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Really mean all jobs.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only count them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Which jobs.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only in these states: waiting, running, external, timer, suspended, dead.
    #[arg(long, value_delimiter = ',')]
    pub(crate) state: Vec<JobState>,
    /// Only in this queue.
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only of this kind.
    #[arg(long)]
    pub(crate) kind: Option<String>,
}

impl FilterArgs {
    pub(crate) fn with_ids(&self, ids: impl IntoIterator<Item = JobId>) -> JobFilter {
        let some = |ids: Vec<JobId>| (!ids.is_empty()).then_some(ids);
        JobFilter {
            ids: some(ids.into_iter().collect()),
            states: (!self.state.is_empty()).then(|| self.state.clone()),
            queue: self.queue.clone(),
            kind: self.kind.clone(),
        }
    }
}
