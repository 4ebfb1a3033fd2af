//! The command line. Secrets are not read through clap, so that none of its help and error messages can show them.

mod broker;
mod demo;
mod grants;
mod history;
mod http;
mod installation;
mod jobs;
mod operate;
mod schedules;
mod send;
mod shared;
mod shell;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::address::Address;

use self::broker::{BROKER_HELP, DOCTOR_HELP};
pub(crate) use self::broker::{
    BrokerArgs, BrokerCommand, DoctorArgs, RejectedArgs, RejectedCommand, RejectedListArgs, WhichArgs,
};
pub(crate) use self::demo::DemoArgs;
use self::grants::GRANTS_HELP;
pub(crate) use self::grants::GrantsArgs;
pub(crate) use self::history::HistoryArgs;
use self::http::{EXPORTER_HELP, HEALTH_HELP};
pub(crate) use self::http::{ExporterArgs, HealthArgs, Probe};
use self::installation::ADOPT_HELP;
pub(crate) use self::installation::{AdoptArgs, ClaimArgs};
use self::jobs::WHY_HELP;
pub(crate) use self::jobs::{ChangeArgs, ErrorsArgs, JobsCommand, ListArgs, OperateArgs, ShowArgs, WhyArgs};
pub(crate) use self::operate::{
    AuditArgs, AuditCommand, EvictArgs, LimitArgs, NodesCommand, PutRuleArgs, QueueArgs, QueuesCommand, RuleArgs,
    RulesCommand,
};
pub(crate) use self::schedules::{BackfillArgs, DeleteSchedulesArgs, PutArgs, SchedulesCommand};
use self::send::SEND_HELP;
pub(crate) use self::send::SendArgs;
pub(crate) use self::shared::{LogFormat, OperatorArgs, OutputArgs};
use self::shell::{COMPLETIONS_HELP, MAN_HELP};
pub(crate) use self::shell::{CompletionsArgs, ManArgs};

/// The heading of the options that all commands have: so that they are apart from those of a command.
const GLOBAL: &str = "Connection and log";

/// The command line of the job queue.
#[derive(Debug, Parser)]
#[command(
    name = "jobwright",
    version,
    about = "A job queue in your own database: PostgreSQL, or a file of SQLite, with or without RabbitMQ",
    long_about = "A job queue in your own database: PostgreSQL, or a file of SQLite, with or without RabbitMQ.\n\n\
                  A job is a row, sent in the same transaction as your own writes, and kept until it is done.",
    after_long_help = "\
Settings: defaults < configuration file < environment < flags. The environment variables are DATABASE_URL, AMQP_URL and, for
every key of the file, JOBWRIGHT_SECTION_KEY: JOBWRIGHT_EXECUTOR_LEASE=10s. With no database given, `sqlite:jobwright.db` is used;
with no broker given, everything goes through the database.

Configuration file (jobwright.toml):
  [database]
  url = \"postgres://user@host/database\"   # or \"sqlite:FILE\"
  schema = \"jobwright\"
  [broker]
  url = \"amqp://user@host/vhost\"         # leave it out to work without one
  [executor]
  lease = \"30s\"
  grace = \"30s\"
  [queues.default]
  concurrency = 10
  [handlers.checksum]
  command = [\"sh\", \"-c\", 'sha256sum \"$(cat)\"']
  timeout = \"10m\"

Exit codes: 0 done, 1 failed, 2 usage or configuration, or the database or the queues belong to another installation,
3 the database or the broker can't be reached, 4 (`worker --drain`) jobs are left that are blocked or can't run here.

Example, with the handler above in jobwright.toml (it gets the names of files, and returns their checksums):
  jobwright migrate
  find . -type f | jobwright send --lines checksum
  jobwright worker --drain",
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Configuration file [default: jobwright.toml, if it exists].
    #[arg(long, short, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where jobs are kept: `postgres://…` or `sqlite:FILE`. Prefer `DATABASE_URL`, which other users can't see.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// The broker: `amqp://…` or `amqps://…`. Prefer `AMQP_URL`, which other users can't see.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    pub(crate) amqp_url: Option<String>,
    /// Log more on stderr; twice logs everything. `RUST_LOG` sets the details.
    #[arg(long, short, global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The form of log lines on stderr.
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// Log errors only.
    #[arg(long, short, global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show an order and its invoice, a killed worker and the cure of a dead letter, on a separate database.
    Demo(DemoArgs),
    /// Migrate the database's schema to this version.
    #[command(
        after_help = "Example:\n  jobwright --database-url postgres://admin@db/app migrate\n  jobwright migrate --print | psql -v ON_ERROR_STOP=1 app"
    )]
    Migrate(MigrateArgs),
    /// Print or grant the rights that a role of PostgreSQL needs.
    #[command(after_help = GRANTS_HELP)]
    Grants(GrantsArgs),
    /// Declare a restored or cloned database to be a separate installation, or the original that has moved.
    #[command(after_help = ADOPT_HELP)]
    Adopt(AdoptArgs),
    /// Run jobs with the configured handlers.
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
    /// Explain why a job does not run, or why jobs wait.
    #[command(after_help = WHY_HELP)]
    Why(WhyArgs),
    /// Inspect jobs and operate on them.
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Send jobs repeatedly, on a schedule.
    #[command(subcommand)]
    Schedules(SchedulesCommand),
    /// Inspect queues, pause them, and limit them on all nodes.
    #[command(subcommand)]
    Queues(QueuesCommand),
    /// Limit or pause kinds, tenants, limit keys and groups on all nodes.
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Inspect the nodes that run jobs, and evict one that is known to be dead.
    #[command(subcommand)]
    Nodes(NodesCommand),
    /// Show the actions of operators.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Set up the queues and exchanges at the broker, and inspect them.
    #[command(subcommand, after_help = BROKER_HELP)]
    Broker(BrokerCommand),
    /// Check everything that is needed, and give advice.
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Serve the metrics of the database, for Prometheus.
    #[command(after_help = EXPORTER_HELP)]
    Exporter(ExporterArgs),
    /// Ask a worker whether it works.
    #[command(after_help = HEALTH_HELP)]
    Health(HealthArgs),
    /// Print a script that lets a shell complete commands and options.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Write the manual, a page for each command, to a directory.
    #[command(after_help = MAN_HELP)]
    Man(ManArgs),
}

const WORKER_HELP: &str = "\
A program gets the payload on stdin and JOBWRIGHT_JOB_ID, _KIND, _QUEUE, _ATTEMPT, _MAX_ATTEMPTS, _PRIORITY, _CONTENT_TYPE,
_CREATED_AT and JOBWRIGHT_HEADER_<NAME> in its environment (all headers as JSON: JOBWRIGHT_HEADERS). It exits with 0 = done, 75 = try
later (after `later`, without costing an attempt), 65 = dead letter, anything else = failed, and the end of its stderr is kept with the job. At its
timeout it gets SIGTERM, and `stop_grace` later SIGKILL. Its stdout (at most 1 MiB) goes to the worker's
stdout in one piece when it has exited with 0. While a program can't be started here, its jobs are left to other workers, without costing an
attempt.

A URL gets a POST of the payload with the headers Jobwright-Job-Id, -Kind, -Queue and -Attempt. 2xx = done; 408, 425, 429 and 5xx
are retried by policy, not before Retry-After; any other answer = dead letter.

A handler with `reply = true` answers: the program's stdout (as text/plain), or the body of the URL's response, is sent to
the queue of the broker that the job names (`jobwright send --reply-to`), once the job's end has committed.

The jobs of a queue with `external = true` are not run here but handed to external workers over the broker.

A handler may run more than once: after a crash, when its answer got lost, or when it outlived its lease. Key an effect that
must happen once by the job's id, which never changes: write the file $JOBWRIGHT_JOB_ID.$JOBWRIGHT_ATTEMPT.tmp, then rename it to
$JOBWRIGHT_JOB_ID.

SIGINT, SIGTERM, SIGQUIT or SIGHUP: the worker takes no more jobs and waits for the running ones, at most `executor.grace`; a second signal
(but not SIGHUP) stops it at once. Stopped jobs return to their queue without using an attempt.

--drain ends when no job waits, is due or runs. Jobs that are due later stay. The worker waits for jobs that a rate delays; if all jobs
that are left wait for something else (a pause, or a group or limit that is held elsewhere), it names the reason, and ends with exit
code 4, as it does if a program can't be started here.

Example:
  jobwright worker --queue default=20 --queue mail
  jobwright worker --drain";

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Show the state of the schema, without changing it.
    #[arg(long, conflicts_with = "print")]
    pub(crate) status: bool,
    /// Print the SQL, to be run by another user.
    #[arg(long)]
    pub(crate) print: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Serve this queue only, with this many concurrent jobs (repeatable) [default: the configured queues].
    #[arg(long, value_name = "QUEUE[=CONCURRENCY]", value_parser = queue)]
    pub(crate) queue: Vec<(String, Option<usize>)>,
    /// End when no job that could run here is waiting, running or due.
    #[arg(long)]
    pub(crate) drain: bool,
    /// Exit with 1 if a job has become a dead letter here.
    #[arg(long)]
    pub(crate) fail_on_dead: bool,
    /// Keep trying when the database, or a required broker, can't be reached at the start, instead of exiting with 3.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Serve metrics and probes here: /metrics, /livez, /readyz and /startupz [default: `http.listen`; without it, nothing].
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(crate) listen: Option<Address>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Refresh every two seconds, until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every command has a description and an example.
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
