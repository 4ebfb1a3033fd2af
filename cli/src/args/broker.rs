//! What `jobwright broker` and `jobwright doctor` take.

use clap::{Args, Subcommand};

use super::OutputArgs;

pub(super) const BROKER_HELP: &str = "\
The queues are those of the configuration (`default` if it names none), and those of --queue.";

pub(super) const DOCTOR_HELP: &str = "\
Each check is ok, warn or fail, with what to do. Nothing is changed and no password is shown.
Exit codes: 0 nothing failed, 1 something did, 3 the database or the broker can't be reached.

Example:
  jobwright doctor
  jobwright doctor --output json | jq '.[] | select(.state != \"ok\")'";

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Declare what is missing. Never deletes or changes what is there.
    #[command(
        after_help = "Example:\n  jobwright --amqp-url amqp://admin@host/vhost broker apply\n  jobwright broker apply --queue mail"
    )]
    Apply(BrokerArgs),
    /// Say what is missing or different, and change nothing.
    #[command(
        after_help = "Exit codes: 0 all is there, 1 something is missing or differs.\n\nExample:\n  jobwright broker check"
    )]
    Check(BrokerArgs),
    /// Show what would be declared, without asking the broker.
    #[command(after_help = "Example:\n  jobwright broker show --output json")]
    Show(BrokerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BrokerArgs {
    /// This queue too (repeatable).
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
