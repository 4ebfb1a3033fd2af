//! Checks what this role may do with the tables and functions.

use tokio_postgres::types::ToSql;

use super::Finding;
use super::postgres::{ask, refused};
use crate::commands::Messages;
use crate::config::Settings;
use crate::grants::{Extra, Purpose, Right};

const CHECK: &str = "database rights";
/// How many missing rights are named.
const NAMED: usize = 12;

/// Checks the rights for a purpose, or without one those to send and to execute.
pub(super) async fn check(settings: &Settings, messages: &Messages, purpose: Option<Purpose>) -> Finding {
    let found = match purpose {
        Some(purpose) => of(settings, messages, purpose).await,
        None => send_and_execute(settings, messages).await,
    };
    found.unwrap_or_else(|why| refused(CHECK, &why))
}

async fn of(settings: &Settings, messages: &Messages, purpose: Purpose) -> Result<Finding, String> {
    let lacks = lacks(settings, messages, purpose).await?;
    if lacks.is_empty() {
        return Ok(Finding::ok(CHECK, format!("this role has the rights of a {}", purpose.name())));
    }
    Ok(Finding::fail(CHECK, format!("a {} needs: {}", purpose.name(), some(&lacks)), todo(purpose)))
}

async fn send_and_execute(settings: &Settings, messages: &Messages) -> Result<Finding, String> {
    let mut send = lacks(settings, messages, Purpose::Sender).await?;
    let execute = lacks(settings, messages, Purpose::Executor).await?;
    if send.is_empty() && execute.is_empty() {
        return Ok(Finding::ok(CHECK, "this role may send and execute"));
    }
    // Without these, nothing at all can be sent. Programs and ids of their own need the others.
    if let Some(none) = send.iter().position(|right| right.starts_with("insert on ") && right.ends_with("job")) {
        send.swap(0, none);
        return Ok(Finding::fail(CHECK, format!("this role may not send: {}", some(&send)), todo(Purpose::Sender)));
    }
    let (purpose, what, lacks) = if send.is_empty() {
        (Purpose::Executor, "send, but not execute", execute)
    } else {
        (Purpose::Sender, "send by SQL alone", send)
    };
    let todo = format!("{}; or give its purpose (`--as`)", todo(purpose));
    Ok(Finding::warn(CHECK, format!("this role may {what}: {}", some(&lacks)), todo))
}

fn todo(purpose: Purpose) -> String {
    format!("`jobwright grants {} ROLE --apply`, as the owner of the schema", purpose.name())
}

/// Returns the rights that this role lacks for a purpose.
async fn lacks(settings: &Settings, messages: &Messages, purpose: Purpose) -> Result<Vec<String>, String> {
    let schema = &settings.database.schema;
    let extras: &[Extra] = if settings.external_queues().next().is_some() { &[Extra::External] } else { &[] };
    let rights = purpose.rights(extras);
    let texts = |of: fn(&Right) -> &str| rights.iter().map(of).collect::<Vec<&str>>();
    let (kinds, objects) = (texts(|right| right.kind), texts(|right| &right.object));
    let (privileges, columns) =
        (texts(|right| &right.privilege), rights.iter().map(|right| right.column.as_deref()).collect::<Vec<_>>());
    let values: &[&(dyn ToSql + Sync)] = &[schema, &kinds, &objects, &privileges, &columns];
    let rows = ask(messages, &settings.database, include_str!("sql/rights.sql"), values).await?;
    Ok(rows.iter().filter_map(|row| row.try_get("lacks").ok()).collect())
}

fn some(lacks: &[String]) -> String {
    let more = lacks.len().saturating_sub(NAMED);
    let named = lacks.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}
