//! `jobwright migrate`.

use jobwright::admin::MigrationStatus;
use jobwright::internal::{Access, Backend};
use jobwright::{AnyStore, MessageServices, Postgres, Sqlite};

use crate::args::MigrateArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, counted, json, print, say, table, time};

pub(crate) async fn run(settings: &Settings, args: &MigrateArgs) -> Result<(), Failure> {
    if args.print {
        return print(script(settings)?);
    }
    let access = if args.status { Access::ReadOnly } else { Access::Create };
    let store = AnyStore::connect(&settings.database.clone().access(access)).await?;
    let messages = MessageServices::new(store, &settings.database);
    let admin = messages.admin();
    let before = admin.migration_status().await?;
    let steps = if args.status { before.clone() } else { messages.migrate().await? };
    match args.output.output {
        Format::Json => json(&steps)?,
        Format::Table => print(steps_table(&steps))?,
    }
    if let Some(newer) = steps.iter().rfind(|step| !step.compatible) {
        let (version, name) = (newer.version, &newer.name);
        return Err(Failure::Failed(format!(
            "this program is too old for version {version} ({name}) of {}: upgrade it",
            admin.describe()
        )));
    }
    let missing = steps.iter().filter(|step| step.applied_at.is_none()).count();
    if args.status && missing > 0 {
        return Err(Failure::Failed(format!("{missing} missing on {}: run `jobwright migrate`", admin.describe())));
    }
    if !args.status {
        let applied = before.iter().filter(|step| step.applied_at.is_none()).count();
        let version = steps.last().map_or(0, |step| step.version);
        say(format!(
            "{}: the schema is at version {version} ({} applied now)",
            admin.describe(),
            counted(applied as u64, "change")
        ));
    }
    Ok(())
}

/// Returns the SQL for a database without the schema: one transaction that also records what it did.
fn script(settings: &Settings) -> Result<String, Failure> {
    match settings.database.backend()? {
        Backend::Postgres(_) => Ok(Postgres::migrations(&settings.database)?),
        Backend::Sqlite(_) => Ok(Sqlite::migrations()),
        _ => Err(Failure::Failed("there is no script for databases of this kind".to_owned())),
    }
}

fn steps_table(steps: &[MigrationStatus]) -> String {
    table(
        ["version", "name", "applied at"],
        steps.iter().map(|step| {
            let applied = step.applied_at.map_or_else(|| "missing".to_owned(), time);
            let note = match (step.known, step.compatible) {
                (true, _) => "",
                (false, true) => " (newer than this program, which runs on it)",
                (false, false) => " (this program is too old for it)",
            };
            [step.version.to_string(), step.name.clone(), format!("{applied}{note}")]
        }),
    )
}
