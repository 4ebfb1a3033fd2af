//! Arguments of the operators' commands other than `jobs`.

use std::time::Duration;

use clap::{Args, Subcommand};
use jobwright::admin::{Rate, Scope, ShareBy};

use super::shared::{OperatorArgs, OutputArgs, rows};

#[derive(Debug, Subcommand)]
pub(crate) enum QueuesCommand {
    /// List the queues that hold jobs or have a rule.
    #[command(after_help = "Example:\n  jobwright queues list")]
    List(OutputArgs),
    /// Stop the jobs of a queue from starting, on all nodes, including jobs sent later; running jobs go on.
    #[command(after_help = "Example:\n  jobwright queues pause mail")]
    Pause(QueueArgs),
    /// End a pause.
    #[command(after_help = "Example:\n  jobwright queues resume mail")]
    Resume(QueueArgs),
    /// Limit a queue over all nodes; settings not given stay, `none` removes one.
    #[command(
        after_help = "Example:\n  jobwright queues limit mail --running 20 --rate 100/1m --aging 1m\n  jobwright queues limit mail --share-by tenant --weight big=3\n  jobwright queues limit mail --rate none"
    )]
    Limit(LimitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    /// Its name; `*` for all queues, whatever their rules. A pause of all queues and a pause of one queue end separately.
    pub(crate) queue: String,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// Its name; `*` for each queue without a rule of its own.
    pub(crate) queue: String,
    #[command(flatten)]
    pub(crate) rule: RuleArgs,
    /// A waiting job gains one priority each time this long passes.
    #[arg(long, value_name = "DURATION|none", value_parser = given(jobwright::internal::parse_duration))]
    pub(crate) aging: Option<Given<Duration>>,
    /// How many jobs may wait before the queue counts as full for senders.
    #[arg(long, value_name = "N|none", value_parser = given(number::<u64>))]
    pub(crate) depth: Option<Given<u64>>,
    /// Divide the permits of `--running`: by `tenant` or `kind`.
    #[arg(long, value_name = "BY|none", value_parser = given(share_by))]
    pub(crate) share_by: Option<Given<ShareBy>>,
    /// A name that gets more than one share (repeatable).
    #[arg(long, value_name = "NAME=N", value_parser = weight)]
    pub(crate) weight: Vec<(String, u32)>,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

/// Settings that all scopes have.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// How many may run at the same time.
    #[arg(long, value_name = "N|none", value_parser = given(number::<u32>))]
    pub(crate) running: Option<Given<u32>>,
    /// How many may start within any period of this length, such as `100/1m`.
    #[arg(long, value_name = "N/DURATION|none", value_parser = given(rate))]
    pub(crate) rate: Option<Given<Rate>>,
}

impl RuleArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_none() && self.rate.is_none()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List all rules, including those of queues.
    #[command(after_help = "Example:\n  jobwright rules list --output json")]
    List(OutputArgs),
    /// Set a rule for a queue, kind, tenant, limit key or group; settings not given stay, `none` removes one.
    #[command(
        after_help = "Example:\n  jobwright rules put tenant '*' --running 5\n  jobwright rules put kind newsletter --paused true"
    )]
    Put(PutRuleArgs),
    /// Remove a rule.
    #[command(after_help = "Example:\n  jobwright rules delete tenant acme")]
    Delete(NameArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PutRuleArgs {
    #[command(flatten)]
    pub(crate) name: NameArgs,
    #[command(flatten)]
    pub(crate) rule: RuleArgs,
    /// Stop jobs from starting, including jobs sent later.
    #[arg(long, value_name = "true|false")]
    pub(crate) paused: Option<bool>,
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The scope of the rule: queue, kind, tenant, key or group.
    pub(crate) scope: Scope,
    /// The name; `*` for each one without a rule of its own.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodesCommand {
    /// List nodes with their leases and running jobs.
    #[command(after_help = "Example:\n  jobwright nodes list")]
    List(OutputArgs),
    /// Declare a node dead and release its jobs, each at the cost of an attempt. Use it for a node that is known to be gone if its lease is
    /// long.
    #[command(
        after_help = "Example:\n  jobwright nodes list\n  jobwright nodes evict 17 --dry-run\n  jobwright nodes evict 17"
    )]
    Evict(EvictArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EvictArgs {
    /// The number of the node.
    pub(crate) node: i64,
    /// Only show what would be released.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List what operators did, newest first.
    #[command(after_help = "Example:\n  jobwright audit list --who ann@host --action cancel")]
    List(AuditArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Only by this operator.
    #[arg(long, value_name = "NAME")]
    pub(crate) who: Option<String>,
    /// Only this action: suspend, resume, run, change, retry, cancel, delete, rule, evict, put-schedule, pause-schedule …
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Only entries before this one, by the number in the column `id`.
    #[arg(long, value_name = "ID")]
    pub(crate) before: Option<i64>,
    /// At most this many.
    #[arg(long, default_value_t = 100, value_parser = rows)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A value, or explicitly none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<T>(pub(crate) Option<T>);

/// Reads a value, or the word `none`.
fn given<T: Clone + Send + Sync + 'static>(
    read: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Given<T>, String> + Clone + Send + Sync + 'static {
    move |text| if text == "none" { Ok(Given(None)) } else { read(text).map(|value| Given(Some(value))) }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "it is not a number; `none` means no limit".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|error: jobwright::Error| error.to_string())
}

fn share_by(text: &str) -> Result<ShareBy, String> {
    match text {
        "tenant" => Ok(ShareBy::Tenant),
        "kind" => Ok(ShareBy::Kind),
        _ => Err("shares are by `tenant` or `kind`; `none` ends them".to_owned()),
    }
}

fn weight(text: &str) -> Result<(String, u32), String> {
    let wanted = || format!("{text:?} is not a weight: write `name=3`");
    let (name, number) = text.rsplit_once('=').ok_or_else(wanted)?;
    Ok((name.to_owned(), number.parse().map_err(|_| wanted())?))
}
