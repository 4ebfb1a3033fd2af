//! The command line. Secrets are not read through clap, so that no help and no error of its can show them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use jobwright::JobId;
use jobwright::store::{JobFilter, JobState};

use crate::demo::DemoArgs;
use crate::output::Format;

/// Transactional message service and job executor.
#[derive(Debug, Parser)]
#[command(
    name = "jobwright",
    version,
    about,
    long_about = "Transactional message service and job executor on PostgreSQL or embedded SQLite.\n\n\
                  Jobs are rows of your database: they commit with your own writes, and are kept until they are done.",
    after_long_help = "\
Settings: defaults < configuration file < environment < flags. The environment knows DATABASE_URL and, for every key of the
file, JOBWRIGHT_SECTION_KEY: JOBWRIGHT_EXECUTOR_LEASE=10s. With no database given, `sqlite:jobwright.db` is used.

Configuration file (jobwright.toml):
  [database]
  url = \"postgres://user@host/database\"   # or \"sqlite:FILE\"
  schema = \"jobwright\"
  [executor]
  lease = \"30s\"
  grace = \"30s\"
  [queues.default]
  concurrency = 10
  [handlers.checksum]
  command = [\"sha256sum\"]
  timeout = \"10m\"

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 the database can't be reached.

Example:
  find . -type f | jobwright send --lines checksum
  jobwright worker --drain",
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Configuration file [default: jobwright.toml, if it exists].
    #[arg(long, short, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where jobs are kept: `postgres://…` or `sqlite:FILE`. Better given in `DATABASE_URL`, where other users can't see it.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// Say more on stderr; twice says everything. `RUST_LOG` sets the details.
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say only what went wrong.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what this does, with real crashes, on a database of its own.
    Demo(DemoArgs),
    /// Bring the database's schema up to this version.
    #[command(
        after_help = "Example:\n  jobwright --database-url postgres://admin@db/app migrate\n  jobwright migrate --print | psql app"
    )]
    Migrate(MigrateArgs),
    /// Run jobs with the handlers of the configuration.
    #[command(after_help = WORKER_HELP)]
    Worker(WorkerArgs),
    /// Send one job, or one for each line of stdin.
    #[command(after_help = SEND_HELP)]
    Send(SendArgs),
    /// Show the mode, the queues and the nodes.
    #[command(
        after_help = "Example:\n  jobwright status --watch\n  jobwright status --output json | jq '.queues[].waiting'"
    )]
    Status(StatusArgs),
    /// Look at jobs and steer them.
    #[command(subcommand)]
    Jobs(JobsCommand),
}

const WORKER_HELP: &str = "\
A program gets the payload on stdin and JOBWRIGHT_JOB_ID, _KIND, _QUEUE, _ATTEMPT, _MAX_ATTEMPTS, _PRIORITY, _CONTENT_TYPE,
_CREATED_AT and JOBWRIGHT_HEADER_<NAME> in its environment. It ends with 0 = done, 75 = try later, 65 = dead letter, anything
else = failed, and the end of its stderr is kept with the job. What it wrote to stdout (at most 1 MiB) goes to the worker's
stdout in one piece when it has ended with 0.

A URL gets a POST of the payload with the headers Jobwright-Job-Id, -Kind, -Queue and -Attempt. 2xx = done; 408, 425, 429 and 5xx
are retried, after Retry-After if there is one; any other answer = dead letter.

A handler may run more than once: after a crash, when its answer got lost, or when it outlived its lease. What must happen once
has to be keyed by the job's id, which never changes: write the file $JOBWRIGHT_JOB_ID.$JOBWRIGHT_ATTEMPT.tmp, then rename it to
$JOBWRIGHT_JOB_ID.

SIGINT or SIGTERM: takes no more jobs and waits for running ones, at most `executor.grace`; a second one stops at once. Jobs that
were stopped are given back at no attempt.

Example:
  jobwright worker --queue default=20 --queue mail
  jobwright worker --drain";

const SEND_HELP: &str = "\
--lines: a line, without its newline, is the payload as text/plain; one that is not UTF-8 as application/octet-stream. An empty
line is a job with an empty text; the end of the input is no line. --jsonl: each line is a JSON document, empty lines are skipped.
Each 1000 lines commit together. A line that can't be sent stops the command; all lines before it have been sent.

Example:
  jobwright send send-invoice '{\"order\": 42}' --queue billing --priority 5
  jobwright send resize - --content-type image/png < photo.png
  find . -type f | jobwright send checksum --lines";

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Say where the schema stands, without changing it.
    #[arg(long, conflicts_with = "print")]
    pub(crate) status: bool,
    /// Print the SQL for somebody else to run.
    #[arg(long)]
    pub(crate) print: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Work on this queue only, with this many jobs at the same time (repeatable) [default: the configured ones].
    #[arg(long, value_name = "QUEUE[=CONCURRENCY]", value_parser = queue)]
    pub(crate) queue: Vec<(String, Option<usize>)>,
    /// End when nothing that could be run here waits, runs or is due.
    #[arg(long)]
    pub(crate) drain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// What is to be done: the kind that a handler is registered for.
    pub(crate) kind: String,
    /// JSON text, or `-` for stdin [default: null].
    #[arg(conflicts_with_all = ["lines", "jsonl"], allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Send each line of stdin as text.
    #[arg(long, conflicts_with = "jsonl")]
    pub(crate) lines: bool,
    /// Send each line of stdin as JSON.
    #[arg(long)]
    pub(crate) jsonl: bool,
    #[command(flatten)]
    pub(crate) options: SendOptions,
}

/// What all jobs of one call have in common.
#[derive(Debug, Args)]
pub(crate) struct SendOptions {
    /// Where it waits.
    #[arg(long, default_value = jobwright::DEFAULT_QUEUE)]
    pub(crate) queue: String,
    /// Higher runs first, -32767 to 32767.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i16,
    /// Run not before this long from now: `30s`, `1h 30m`, `PT1M`.
    #[arg(long, value_parser = duration, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,
    /// Run not before this moment: `2030-01-01T00:00:00Z`.
    #[arg(long)]
    pub(crate) at: Option<Timestamp>,
    /// Tries before it becomes a dead letter.
    #[arg(long, default_value_t = jobwright::DEFAULT_MAX_ATTEMPTS)]
    pub(crate) max_attempts: u32,
    /// A string beside the payload (repeatable).
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// The job's id, a UUID: while a job of this id exists, sending it again changes nothing.
    #[arg(long, conflicts_with_all = ["lines", "jsonl"])]
    pub(crate) id: Option<JobId>,
    /// Send the payload as bytes of this type, not as JSON.
    #[arg(long, value_name = "TYPE", conflicts_with = "jsonl")]
    pub(crate) content_type: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show it again every two seconds, until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

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

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// How to write it.
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

fn queue(text: &str) -> Result<(String, Option<usize>), String> {
    let Some((name, number)) = text.rsplit_once('=') else {
        return Ok((text.to_owned(), None));
    };
    match number.parse() {
        Ok(n) if n > 0 => Ok((name.to_owned(), Some(n))),
        _ => Err(format!("{number:?} is not a number of jobs: write `{name}=5`")),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is written as `name=value`")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn duration(text: &str) -> Result<Duration, String> {
    jobwright::parse_duration(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every command says what it does and gives an example.
    #[test]
    fn every_help_has_an_example() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} has no description");
            if command.has_subcommands() {
                command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(check);
            } else {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example:\n  jobwright "), "{name} has no example");
            }
        }
        check(&Cli::command());
    }
}
