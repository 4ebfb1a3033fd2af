//! `jobwright status`.

use std::io::IsTerminal as _;
use std::time::Duration;

use jobwright::store::StatusReport;
use jobwright::{AnyStore, MessageServices};
use serde::Serialize;

use super::connect;
use crate::args::StatusArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, line, or_dash, print, table, time};

/// How often `--watch` looks.
const EVERY: Duration = Duration::from_secs(2);
/// There is no broker yet, so there is one mode.
const MODE: &str = "DB-only (no broker configured)";

#[derive(Serialize)]
struct Report {
    mode: &'static str,
    messages: String,
    #[serde(flatten)]
    status: StatusReport,
}

pub(crate) async fn run(settings: &Settings, args: &StatusArgs) -> Result<(), Failure> {
    let messages = connect(settings).await?;
    if !args.watch {
        return show(&report(&messages).await?, args.output.output, false);
    }
    loop {
        let report = report(&messages).await?;
        if args.output.output == Format::Table && std::io::stdout().is_terminal() {
            // Home, and clear what is below: no flicker.
            print("\x1b[H\x1b[J")?;
        }
        show(&report, args.output.output, true)?;
        tokio::select! {
            stop = tokio::signal::ctrl_c() => {
                return stop.map_err(|error| Failure::Failed(format!("can't wait for Ctrl-C: {error}")));
            }
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn report(messages: &MessageServices<AnyStore>) -> Result<Report, Failure> {
    Ok(Report { mode: MODE, messages: messages.describe(), status: messages.jobs().status().await? })
}

fn show(report: &Report, format: Format, watching: bool) -> Result<(), Failure> {
    if format == Format::Json {
        // One document a line, for whoever follows a stream.
        return if watching { line(serde_json::to_string(report).unwrap_or_default()) } else { json(report) };
    }
    let StatusReport { queues, nodes } = &report.status;
    let mut text = format!("mode      {}\nmessages  {}\n\n", report.mode, report.messages);
    if queues.is_empty() {
        text.push_str("No jobs.\n");
    } else {
        text.push_str(&table(
            ["queue", "waiting", "running", "external", "timer", "overdue", "suspended", "dead", "oldest waiting"],
            queues.iter().map(|queue| {
                let counts = [queue.waiting, queue.running, queue.external, queue.timer, queue.overdue, queue.suspended, queue.dead];
                let [waiting, running, external, timer, overdue, suspended, dead] = counts.map(|n| n.to_string());
                let oldest = or_dash(queue.oldest_waiting_seconds.map(|seconds| format!("{seconds:.1} s")));
                [queue.queue.clone(), waiting, running, external, timer, overdue, suspended, dead, oldest]
            }),
        ));
    }
    text.push('\n');
    if nodes.is_empty() {
        text.push_str("No nodes: nothing runs jobs (start one with `jobwright worker`).\n");
    } else {
        text.push_str(&table(
            ["node", "name", "host", "pid", "started at", "lease", "running"],
            nodes.iter().map(|node| {
                let lease =
                    if node.dead { "dead".to_owned() } else { format!("{:.0} s left", node.lease_seconds_left) };
                let (id, pid, running) = (node.id.to_string(), node.pid.to_string(), node.running.to_string());
                [id, node.name.clone(), node.host.clone(), pid, time(node.started_at), lease, running]
            }),
        ));
    }
    print(text)
}
