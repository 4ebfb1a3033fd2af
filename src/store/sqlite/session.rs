//! Makes the connection that writes as it was before code of others had it.

use rusqlite::Connection;

use super::open::{LOCK_WAIT, SETTINGS};

/// Settings of a connection that SQLite begins with, and that statements depend on.
const DEFAULTS: &str = "pragma query_only = off; pragma ignore_check_constraints = off; pragma recursive_triggers = off; \
                        pragma reverse_unordered_selects = off; pragma read_uncommitted = off; pragma writable_schema = off; \
                        pragma trusted_schema = on; pragma legacy_alter_table = off; pragma cell_size_check = off;";

/// What is temporary, those that belong to others first. A temporary table hides one of the file that has the same name.
const TEMPORARY: &str = "select type, name from temp.sqlite_schema \
                         where type in ('trigger', 'view', 'table') and name not like 'sqlite\\_%' escape '\\' order by type = 'table', type";

/// Removes what is temporary, detaches other files, and sets what has to be set. Functions and hooks stay.
pub(super) fn reset(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(LOCK_WAIT)?;
    connection.execute_batch(DEFAULTS)?;
    connection.execute_batch(SETTINGS)?;
    for (kind, name) in pairs(connection, TEMPORARY)? {
        connection.execute_batch(&format!("drop {kind} if exists temp.{}", quoted(&name)))?;
    }
    for (name, _) in
        pairs(connection, "select name, file from pragma_database_list where name not in ('main', 'temp')")?
    {
        connection.execute_batch(&format!("detach database {}", quoted(&name)))?;
    }
    // The setting can't be read.
    if !connection.query_row("select 'a' like 'A'", [], |row| row.get::<_, bool>(0))? {
        connection.execute_batch("pragma case_sensitive_like = off")?;
    }
    Ok(())
}

fn pairs(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?.unwrap_or_default())))?;
    rows.collect()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
