//! `jobwright audit`: which operator did what.

use jobwright::store::AuditFilter;

use super::connect_database;
use super::slow_notice::with_slow_notice;
use crate::args::{AuditArgs, AuditCommand};
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, print, table, time};

pub(crate) async fn run(settings: &Settings, command: AuditCommand) -> Result<(), Failure> {
    let AuditCommand::List(AuditArgs { who, action, before, limit, output }) = command;
    let mut filter = AuditFilter::default().before(before);
    (filter.who, filter.action) = (who, action);
    let admin = connect_database(settings).await?.admin();
    let entries = with_slow_notice(settings, admin.audit(&filter, limit)).await?;
    match output.output {
        Format::Json => json(&entries),
        Format::Table => print(table(
            ["id", "at", "who", "action", "jobs", "what"],
            entries.iter().map(|entry| {
                [
                    entry.id.to_string(),
                    time(entry.at),
                    entry.who.clone(),
                    entry.action.clone(),
                    entry.counts.to_string(),
                    entry.what.to_string(),
                ]
            }),
        )),
    }
}
