//! Arguments of `jobwright broker` and `jobwright doctor`.

use clap::{Args, Subcommand, ValueEnum};
use jobwright::internal::RejectedQueue;

use super::installation::ClaimArgs;
use super::shared::{OutputArgs, rows};
use crate::grants::Purpose;

pub(super) const BROKER_HELP: &str = "\
The queues are those of the configuration (`default` if it names none), and those of --queue.";

pub(super) const DOCTOR_HELP: &str = "\
Each check is ok, warn or fail, with what to do. Nothing is changed and no password is shown.
Exit codes: 0 nothing failed, 1 something did (or warned, with `--strict`), 3 the database or the broker can't be reached.

Example:
  jobwright doctor --as executor
  jobwright doctor --output json | jq '.[] | select(.state != \"ok\")'";

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Declare what is missing. Never deletes or changes existing queues and exchanges.
    #[command(
        after_help = "Example:\n  jobwright --amqp-url amqp://admin@host/vhost broker apply\n  jobwright broker apply --queue mail"
    )]
    Apply(BrokerArgs),
    /// Show what is missing or different, and change nothing.
    #[command(
        after_help = "Exit codes: 0 everything exists with the right settings, 1 something is missing or differs.\n\n\
                      Example:\n  jobwright broker check"
    )]
    Check(BrokerArgs),
    /// Show what would be declared, without asking the broker.
    #[command(after_help = "Example:\n  jobwright broker show --output json")]
    Show(BrokerArgs),
    /// Mark the queues of the prefix as those of this database's installation. Workers that may configure them do it on their own.
    #[command(
        after_help = "Executors of another installation, such as a restored copy, are then refused. The command needs the database, and a user of\n\
                      the broker who may configure, write and read names with the prefix.\n\n\
                      Example:\n  jobwright --amqp-url amqp://admin@host/vhost broker claim\n  jobwright broker claim --take-over"
    )]
    Claim(ClaimArgs),
    /// List rejected messages, resubmit them, or remove them.
    #[command(subcommand)]
    Rejected(RejectedCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RejectedCommand {
    /// List rejected messages and why they were rejected, oldest first. They stay where they are.
    #[command(
        after_help = "Example:\n  jobwright broker rejected list\n  jobwright broker rejected list --of reports --output json"
    )]
    List(RejectedListArgs),
    /// Resubmit messages to the queue they came from; each is removed once the broker has confirmed its copy.
    #[command(
        after_help = "A submission that is taken in twice is still one job, and a repeated report is refused.\n\n\
                      Example:\n  jobwright broker rejected resubmit --reason delivery_limit --dry-run\n  \
                      jobwright broker rejected resubmit --of reports --all"
    )]
    Resubmit(RejectedOperateArgs),
    /// Remove messages for good.
    #[command(
        after_help = "Example:\n  jobwright broker rejected drop --of dead --all\n  jobwright broker rejected drop --of submissions --reason bad-json --dry-run"
    )]
    Drop(RejectedDropArgs),
}

/// The queues of rejected messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Of {
    /// Submissions of producers.
    Submissions,
    /// Reports of external workers.
    Reports,
    /// Deliveries and handed-out jobs, whose rows are in the database.
    Dead,
}

impl From<Of> for RejectedQueue {
    fn from(of: Of) -> Self {
        match of {
            Of::Submissions => Self::Submissions,
            Of::Reports => Self::Reports,
            Of::Dead => Self::Dead,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RejectedListArgs {
    /// Only these; all by default.
    #[arg(long)]
    pub(crate) of: Option<Of>,
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// At most this many of each.
    #[arg(long, default_value_t = 100, value_parser = rows)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RejectedOperateArgs {
    /// Which messages.
    #[arg(long, default_value = "submissions")]
    pub(crate) of: Of,
    #[command(flatten)]
    pub(crate) operate: RejectedArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RejectedDropArgs {
    /// Which messages.
    #[arg(long)]
    pub(crate) of: Of,
    #[command(flatten)]
    pub(crate) operate: RejectedArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RejectedArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// At most this many, oldest first.
    #[arg(long, value_parser = rows)]
    pub(crate) limit: Option<usize>,
    /// Confirm that all are meant.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only count them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WhichArgs {
    /// Only those with this `message_id` (repeatable).
    #[arg(long)]
    pub(crate) id: Vec<String>,
    /// Only those with this reason, such as `bad-json`, or `delivery_limit` of the broker.
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BrokerArgs {
    /// Include this queue (repeatable).
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The purpose of this role of the database: it is judged only by the rights that this purpose needs.
    #[arg(long = "as", value_enum, value_name = "PURPOSE")]
    pub(crate) purpose: Option<Purpose>,
    /// Exit with 1 on a warning too, for gates and alarms.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
