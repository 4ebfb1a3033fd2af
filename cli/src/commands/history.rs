//! `jobwright jobs history`: how jobs ended.

use jobwright::Keep;
use jobwright::admin::HistoryEntry;

use super::connect_database;
use super::slow_notice::with_slow_notice;
use crate::args::HistoryArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, or_dash, print, say, table, time};

pub(crate) async fn run(settings: &Settings, args: &HistoryArgs) -> Result<(), Failure> {
    let messages = connect_database(settings).await?;
    let entries = with_slow_notice(settings, messages.admin().history(&args.filter(), args.limit)).await?;
    match args.output.output {
        Format::Json => json(&entries)?,
        Format::Table => print(entries_table(&entries))?,
    }
    if entries.is_empty() && settings.database.history.keep == Keep::Off {
        say("no history is kept: set `[history] keep = \"failed\"` or `\"all\"` for the workers");
    }
    Ok(())
}

fn entries_table(entries: &[HistoryEntry]) -> String {
    table(
        ["ended at", "id", "outcome", "kind", "queue", "attempt", "took", "node", "error"],
        entries.iter().map(|entry| {
            let took = entry.started_at.map(|started| {
                let seconds = entry.ended_at.duration_since(started).as_secs_f64();
                format!("{seconds:.3} s")
            });
            [
                time(entry.ended_at),
                entry.id.to_string(),
                entry.outcome.to_string(),
                entry.kind.clone(),
                entry.queue.clone(),
                entry.attempt.to_string(),
                or_dash(took),
                or_dash(entry.node.map(|node| node.to_string())),
                or_dash(entry.error.as_deref()),
            ]
        }),
    )
}
