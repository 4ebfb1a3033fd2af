//! `jobwright adopt`.

use jobwright::internal::{Installation, Place};
use serde_json::json as value;

use super::connect_database;
use super::doctor::denied;
use crate::args::AdoptArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, json, line};

pub(crate) async fn run(settings: &Settings, args: AdoptArgs) -> Result<(), Failure> {
    let messages = connect_database(settings).await?;
    let admin = args.operator.admin(&messages);
    let unknown = || Failure::Failed(format!("{} knows no installations", admin.describe()));
    let before = admin.installation().await.map_err(as_owner)?.ok_or_else(unknown)?;
    if before.is_at_home() && !(args.moved && is_out_of_date(&before)) && !args.force {
        return Err(Failure::Failed(refusal(&before, args.moved)));
    }
    if args.moved && loses_the_server(&before) && !args.force {
        return Err(Failure::Failed(LOSES_THE_SERVER.to_owned()));
    }
    let now = if args.moved { admin.adopt_moved().await } else { admin.adopt_copy().await };
    let now = now.map_err(as_owner)?.ok_or_else(unknown)?;
    match args.output.output {
        Format::Json => json(&value!({ "before": before, "now": now })),
        Format::Table => line(said(&before, &now, args.moved)),
    }
}

/// Whether the record differs from what is found here. Roles that may not read the identifier of the server go by the name of the database, so they
/// are refused where a database was renamed, and the owner, who may read it, is not.
fn is_out_of_date(installation: &Installation) -> bool {
    let (Some(recorded), Some(found)) = (&installation.recorded, &installation.found) else { return false };
    let names = |place: &Place| (place.database_oid, place.database.clone(), place.schema.clone());
    names(recorded) != names(found) || (found.server.is_some() && found.server != recorded.server)
}

/// Whether an identifier of the server is recorded, and this role can't read the one of this server, so that none would be recorded.
fn loses_the_server(installation: &Installation) -> bool {
    let has_server = |place: &Option<Place>| place.as_ref().is_some_and(|place| place.server.is_some());
    has_server(&installation.recorded) && !has_server(&installation.found)
}

const LOSES_THE_SERVER: &str = "this role can't read the identifier of the server, and the recorded place has one. Without it, a copy with the same \
                                name and oid on another server would pass for this database. Adopt it as the owner of the schema, with the right to \
                                execute pg_control_system(), or with `--force` to go on without an identifier";

/// Adds that the owner of the schema may do it, if this role lacks a right.
fn as_owner(error: jobwright::Error) -> Failure {
    if denied(&error).is_none() {
        return error.into();
    }
    Failure::Failed(format!("{}; run `jobwright adopt` as the owner of the schema", Failure::from(error)))
}

/// Says why nothing is adopted.
fn refusal(found: &Installation, moved: bool) -> String {
    let id = found.short_id();
    if found.found.is_none() {
        return format!(
            "this file is the installation {id}, and a copy of it is the same one: if this is a copy, `jobwright adopt --force` makes it a separate \
             installation"
        );
    }
    let force = if moved {
        ""
    } else {
        ". A physical copy (a base backup, a snapshot) looks like its original: for that, `jobwright adopt --force`"
    };
    format!("this database is where its installation {id} was made, so there is nothing to adopt{force}")
}

fn said(before: &Installation, now: &Installation, moved: bool) -> String {
    let place = now.found.as_ref().map_or_else(|| "this file".to_owned(), |place| format!("the {place}"));
    if moved {
        return format!("the installation {} is {place} from now on", now.short_id());
    }
    format!(
        "{place} is the installation {} from now on, no longer {}; its report key is new too. At the broker it needs another prefix or vhost",
        now.short_id(),
        before.short_id()
    )
}
