//! The command line of jobwright: `jobwright --help`. It is a library only so that its parsers can be tested from outside.

#![allow(rustdoc::broken_intra_doc_links, reason = "comments of arguments are their help: `[default: 1]` is no link")]

#[cfg(not(unix))]
compile_error!(
    "the command line knows process groups and signals the Unix way: on other systems, run it in a container or in WSL"
);

mod address;
mod args;
mod backoff;
mod commands;
mod config;
mod demo;
mod failure;
mod grants;
mod handlers;
mod log;
mod logging;
mod output;
#[doc(hidden)]
pub mod testing;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::commands::{
    adopt, audit, broker, doctor, exporter, grants as granting, health, jobs, migrate, nodes, queues, rules, schedules,
    send, status, why, worker,
};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::say;

/// Runs the program.
pub fn main() -> ExitCode {
    if let Some(code) = handlers::leash::enter() {
        return code;
    }
    let cli = Cli::parse();
    let log = logging::start(&cli);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(format!("error: the program can't start its threads: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(cli));
    // Not a plain drop, which would wait for a pending read of the terminal.
    runtime.shutdown_timeout(Duration::from_millis(500));
    // A reader that stands still would not read what follows either, and would keep this process from its end.
    let is_read = log.is_none_or(|log| log.drain());
    match ended {
        Ok(code) => code,
        Err(failure) => {
            if is_read && !matches!(failure, Failure::OutputClosed) {
                say(format!("error: {}", output::harmless(&failure.to_string())));
            }
            failure.exit_code()
        }
    }
}

async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    refuse_empty(&cli)?;
    let load = || Settings::load(cli.config.as_deref(), cli.database_url.clone(), cli.amqp_url.clone());
    match cli.command {
        // Only servers that were named on purpose: the demo must not run on one that is in use.
        Command::Demo(args) => demo::run(args, cli.database_url, cli.amqp_url).await,
        Command::Migrate(args) => migrate::run(&load()?, &args).await,
        Command::Grants(args) => granting::run(&load()?, &args).await,
        Command::Adopt(args) => adopt::run(&load()?, args).await,
        Command::Worker(args) => worker::run(&load()?, &args).await,
        Command::Send(args) => send::run(&load()?, args, cli.quiet).await,
        Command::Status(args) => status::run(&load()?, &args).await,
        Command::Why(args) => why::run(&load()?, &args).await,
        Command::Jobs(command) => jobs::run(&load()?, command).await,
        Command::Schedules(command) => schedules::run(&load()?, command).await,
        Command::Queues(command) => queues::run(&load()?, command).await,
        Command::Rules(command) => rules::run(&load()?, command).await,
        Command::Nodes(command) => nodes::run(&load()?, command).await,
        Command::Audit(command) => audit::run(&load()?, command).await,
        Command::Broker(command) => broker::run(&load()?, &command).await,
        Command::Exporter(args) => exporter::run(&load()?, &args).await,
        Command::Health(args) => health::run(&load()?, &args).await,
        // Its exit code says what it found.
        Command::Doctor(args) => return doctor::run(load(), &args).await,
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses flags whose value is missing, as in `--database-url "$UNSET"`.
fn refuse_empty(cli: &Cli) -> Result<(), Failure> {
    for (flag, value) in [("--database-url", &cli.database_url), ("--amqp-url", &cli.amqp_url)] {
        if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
            return Err(Failure::Usage(format!("{flag} is empty: give it a value, or leave it out")));
        }
    }
    Ok(())
}
