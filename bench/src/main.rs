//! Benchmarks, each beside its limit: the least that PostgreSQL (or SQLite) itself needs for the same work, measured in the
//! same run on the same server. See docs/performance.md.

mod amqp;
mod args;
mod cases;
#[cfg(test)]
mod counts;
mod engine;
mod fleet;
mod limits;
mod load;
mod peers;
mod report;
mod server;
mod setup;
mod stats;
mod table;

use std::process::ExitCode;

use args::{Args, Command};
use report::Report;
use setup::Bench;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("{message}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let args = match &command {
        Command::Core(args) | Command::Amqp(args) | Command::Engine(args) | Command::Peers(args) => args,
        Command::Fleet(args) => return finished(run(fleet::run(args))),
        Command::FleetMember(args) => return finished(run(fleet::run_member(args))),
        Command::Help => {
            print!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
    };
    finished(run(measure(args, &command)).and_then(|report| {
        if args.check && !report.missed().is_empty() {
            return Err(format!("below what is required: {}", report.missed().join(", ")).into());
        }
        Ok(())
    }))
}

fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn finished(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", explain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn measure(args: &Args, command: &Command) -> Result<Report> {
    let bench = Bench::open(args).await?;
    let mut report = Report::new(bench.describe().await?);
    let cases = async {
        match command {
            Command::Amqp(_) => amqp::run(&bench, &mut report).await,
            Command::Engine(_) => engine::run(&bench, &mut report).await,
            Command::Peers(_) => peers::run(&bench, &mut report).await,
            _ => cases::run(&bench, &mut report).await,
        }
    };
    let measured = tokio::select! {
        measured = cases => measured,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into).and(Err("interrupted".into())),
    };
    // Also after a failure: nothing stays on the server.
    let closed = bench.close().await;
    report.finish();
    print!("{}", table::markdown(&report));
    if let Some(file) = &args.json {
        std::fs::write(file, report.json()).map_err(|e| format!("{} can't be written: {e}", file.display()))?;
    }
    measured?;
    closed?;
    Ok(report)
}

/// Returns an error with its causes: the driver's own text is often only "db error".
fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
