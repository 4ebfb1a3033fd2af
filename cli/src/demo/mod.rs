//! `jobwright demo`: the guided tour. Nothing in it is simulated: the failures, the kill and the figures are real.

mod account;
mod flood;
mod process;
mod stage;
mod takeover;

use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use self::stage::Stage;
use crate::commands::signals::Signals;
use crate::failure::Failure;
use crate::output::{is_interactive, line, say};

/// Flags of the tour.
#[derive(Debug, Args)]
#[command(after_help = "\
Makes a database of its own and removes it at the end: a file in a temporary directory, or, with --database-url, the schema
jobwright_demo_<pid> on that server. With --amqp-url the jobs of parts 2 and 3 go over that broker, by queues whose names begin with
jobwright_demo_<pid>. DATABASE_URL, AMQP_URL and the configuration file are not looked at.

Example:
  jobwright demo
  jobwright demo --database-url postgres://postgres@localhost/test
  jobwright demo --amqp-url amqp://guest:guest@localhost/%2F")]
pub(crate) struct DemoArgs {
    /// How many jobs the second part sends.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    jobs: u64,
    /// The process that is killed in the third part.
    #[arg(long, hide = true)]
    child_worker: bool,
}

pub(crate) async fn run(args: DemoArgs, database_url: Option<String>, amqp_url: Option<String>) -> Result<(), Failure> {
    if args.child_worker {
        return takeover::child().await;
    }
    let mut signals = Signals::new()?;
    let began = Instant::now();
    let stage = Stage::open(database_url, amqp_url).await?;
    // Whatever happens, nothing is left behind.
    let ended = tokio::select! {
        ended = tour(&stage, args.jobs) => ended,
        name = signals.next() => Err(Failure::Failed(format!("stopped by {name}; nothing is left behind"))),
    };
    let with_broker = stage.messages.broker().is_some();
    let place = stage.messages.admin().describe();
    let closed = stage.close().await;
    if closed.is_err() {
        say(format!("the demo could not remove what it made on {place}"));
    }
    ended.and(closed)?;
    let what = if with_broker { "its database and its queues" } else { "its database" };
    line(format!("The demo took {:.0} s and has removed {what}.", began.elapsed().as_secs_f64()))
}

async fn tour(stage: &Stage, jobs: u64) -> Result<(), Failure> {
    line(format!("A database of its own: {}", stage.messages.admin().describe()))?;
    if let Some(broker) = stage.messages.broker() {
        line(format!("A broker: {}, queues {}.*", broker.describe(), stage.config.broker.prefix))?;
    }
    line("")?;
    process::run(stage).await?;
    let sent = flood::run(stage, jobs).await?;
    let taken = takeover::run(stage).await?;
    account::run(stage, sent, &taken).await
}

/// Creates a progress bar, hidden unless stderr is a terminal.
fn bar(length: u64, what: &'static str) -> ProgressBar {
    if !is_interactive() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("    {bar:40} {human_pos} of {human_len} {msg}");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(what)
}
