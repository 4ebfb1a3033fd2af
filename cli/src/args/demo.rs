//! Arguments of `jobwright demo`.

use std::path::PathBuf;

use clap::Args;

/// Flags of the tour.
#[derive(Debug, Args)]
#[command(after_help = "\
Creates a separate database and removes it at the end: a file in a temporary directory, or, with --database-url, the schema
jobwright_demo_<pid> on that server. With --amqp-url the jobs go through that broker, in queues whose names begin with
jobwright_demo_<pid>. DATABASE_URL, AMQP_URL and the configuration file are ignored.

Example:
  jobwright demo
  jobwright demo --database-url postgres://postgres@localhost/test
  jobwright demo --amqp-url amqp://guest:guest@localhost/%2F")]
pub(crate) struct DemoArgs {
    /// Takes the place of the flag that all commands have: the tour looks at no configuration.
    #[arg(long, short, hide = true)]
    pub(crate) config: Option<PathBuf>,
    /// How many orders the second part has, each with a job.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) jobs: u64,
    /// The process that is killed in the third part.
    #[arg(long, hide = true)]
    pub(crate) child_worker: bool,
}
