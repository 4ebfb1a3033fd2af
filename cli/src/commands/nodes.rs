//! `jobwright nodes`.

use jobwright::NodeId;
use jobwright::admin::StatusReport;
use serde_json::json as value;

use super::slow_notice::with_slow_notice;
use super::{connect_database, status};
use crate::args::{EvictArgs, NodesCommand, OutputArgs};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, line, print};

pub(crate) async fn run(settings: &Settings, command: NodesCommand) -> Result<(), Failure> {
    match command {
        NodesCommand::List(output) => list(settings, output).await,
        NodesCommand::Evict(args) => evict(settings, args).await,
    }
}

async fn list(settings: &Settings, output: OutputArgs) -> Result<(), Failure> {
    let admin = connect_database(settings).await?.admin();
    let StatusReport { nodes, workers, .. } = with_slow_notice(settings, admin.status()).await?;
    match output.output {
        Format::Json => json(&nodes),
        Format::Table => print(status::nodes_text(&nodes) + &status::workers_text(&workers)),
    }
}

async fn evict(settings: &Settings, args: EvictArgs) -> Result<(), Failure> {
    let messages = connect_database(settings).await?;
    let node = args.node;
    let missing = || {
        Failure::Failed(format!(
            "there is no node {node}: it shut down cleanly or was removed; `jobwright nodes list` shows the existing nodes"
        ))
    };
    if args.dry_run {
        let nodes = messages.admin().nodes().await?;
        let found = nodes.iter().find(|known| known.id == NodeId(node)).ok_or_else(missing)?;
        return match args.output.output {
            Format::Json => json(&value!({ "dry_run": true, "node": node, "running": found.running })),
            Format::Table => line(format!(
                "node {node} ({}) would be declared dead, and its jobs ({}) would be released; its lease ends in {:.1} s",
                found.name, found.running, found.lease_seconds_left
            )),
        };
    }
    let Some(released) = args.operator.admin(&messages).evict(NodeId(node)).await? else {
        return Err(missing());
    };
    messages.wake_ups_sent().await;
    let (waiting, dead) = (released.waiting, released.dead);
    match args.output.output {
        Format::Json => json(&value!({ "node": node, "waiting": waiting, "dead": dead })),
        Format::Table => {
            line(format!("node {node} is declared dead; jobs that wait again: {waiting}; new dead letters: {dead}"))
        }
    }
}
