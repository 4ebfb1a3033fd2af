//! Migrates the schema to the version of this build.

use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Error as PgError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::client::{ConnectionLease, LONG};
use super::conn::Conn;
use super::error::ErrorContext;
use super::rows;
use super::shared::Shared;
use super::statements::render;
use crate::backoff::Reconnect;
use crate::error::{Error, ErrorKind, Result};
use crate::store::migration::{self, Applied, Migration, MigrationStatus};

/// All schema changes, in order. A released file is never edited: its checksum is in every database it was applied to.
pub(super) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "schema",
    min_compatible: 1,
    sql: concat!(
        include_str!("../../../migrations/postgres/0001_schema.sql"),
        include_str!("../../../migrations/postgres/0001_work_by_sql.sql"),
    ),
    backfill: None,
}];

/// How long all changes together may take, including the wait for another process that migrates. A change may have to rewrite a large
/// table.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long a change waits for a lock before it lets everybody else go first. Requests for the same table queue up behind one that waits, so
/// this bounds how long a migration holds up sends and claims.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// What a change is tried again after: it waited for a lock for too long, or was chosen to end a deadlock.
const RETRIED: [SqlState; 2] = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED];

/// Longest pause before a change tries again to get a lock.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The table that records applied migrations.
const LEDGER: &str = "\
do $$ begin
    -- `if not exists` asks for the right to create schemas even if there is one.
    if to_regnamespace('{schema}') is null then create schema {schema}; end if;
end $$;
create table if not exists {schema}.migration (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    -- The oldest schema version whose builds run on this one.
    min_compatible integer not null,
    -- Whether all rows are filled in. Until then the change does not count as applied.
    is_filled  boolean not null,
    applied_at timestamptz not null default clock_timestamp()
);";

/// Ends a script where there is a schema already: it knows nothing of what was applied.
const FIRST: &str = "\
do $$ begin
    if to_regclass('{schema}.migration') is not null then
        raise exception 'the schema {schema} exists: run `jobwright migrate`, which applies what is missing';
    end if;
end $$";

const APPLIED: &str =
    "select version, name, checksum, applied_at, min_compatible, is_filled from {schema}.migration order by version";

/// One lock per schema name, held for one transaction, so that no cancelled caller can leave it behind on a pooled connection.
/// `hashtextextended` spreads names over the key space; the prefix avoids collisions with other users of advisory locks.
///
/// Waiting for an advisory lock does not refresh the session's catalog cache, so `create schema if not exists` could still miss a new
/// schema. Locking a table does refresh the cache: hence the query on `pg_namespace`.
/// Any role may hold that lock, so whoever waits for it says who has it.
const LOCK: &str = "\
/* jobwright migrate */ select pg_advisory_xact_lock(hashtextextended('jobwright migrate ' || '{schema}', 0));
select from pg_catalog.pg_namespace limit 0";

/// Returns the same steps as a script, for a database without the schema.
pub(super) fn script(schema: &str) -> String {
    let mut script = String::from("begin;\n");
    for text in [LOCK, FIRST, LEDGER] {
        let _ = writeln!(script, "{};", render(text, schema).trim_end_matches(';'));
    }
    script.push_str(&all_of(MIGRATIONS, schema));
    script.push_str("commit;\n");
    script
}

/// Returns all changes, for a schema that has none of them and no rows that would have to be filled in.
fn all_of(migrations: &[Migration], schema: &str) -> String {
    migrations.iter().fold(String::new(), |mut all, migration| {
        let Migration { version, name, .. } = migration;
        let (sql, entry) = (render(migration.sql, schema), recorded(migration, schema, true));
        let _ = writeln!(all, "\n-- migration {version} ({name})\n{sql}\n;{entry};");
        all
    })
}

fn recorded(migration: &Migration, schema: &str, is_filled: bool) -> String {
    let Migration { version, name, min_compatible, .. } = migration;
    format!(
        "insert into {} (version, name, checksum, min_compatible, is_filled)
         values ({version}, '{name}', '{}', {min_compatible}, {is_filled})",
        render("{schema}.migration", schema),
        migration.checksum()
    )
}

pub(super) async fn status(shared: &Arc<Shared>, migrations: &[Migration]) -> Result<Vec<MigrationStatus>> {
    let context = ErrorContext { what: "read the schema version", label: &shared.label };
    let mut lease = ConnectionLease::new(shared.client(&shared.engine, context).await?, shared);
    let read = async {
        let conn = lease.client()?;
        let table = render("{schema}.migration", &shared.config.schema);
        let exists = conn.query_typed("select to_regclass($1) is not null", &[(&table, Type::TEXT)]).await;
        let exists = exists.map_err(|error| context.explain(error))?;
        if !exists.first().is_some_and(|row| row.get::<_, bool>(0)) {
            return Ok(Vec::new());
        }
        let rows = conn.query_typed(&render(APPLIED, &shared.config.schema), &[]).await;
        rows.map_err(|error| explain_ledger(error, context))
    };
    let rows = timeout(shared.call_timeout, read).await.map_err(|_| context.timeout(shared.call_timeout))??;
    lease.finish();
    migration::compare(migrations, &applied(&rows)?, &shared.label)
}

fn explain_ledger(error: PgError, context: ErrorContext<'_>) -> Error {
    let is_old = error.code() == Some(&SqlState::UNDEFINED_COLUMN);
    if is_old { migration::unreleased(&context.label.to_string()) } else { context.explain(error) }
}

fn applied(rows: &[tokio_postgres::Row]) -> Result<Vec<Applied>> {
    rows.iter()
        .map(|row| {
            Ok(Applied {
                version: rows::get(row, "version")?,
                name: rows::get(row, "name")?,
                checksum: rows::get(row, "checksum")?,
                at: rows::get(row, "applied_at")?,
                min_compatible: rows::get(row, "min_compatible")?,
                is_filled: rows::get(row, "is_filled")?,
            })
        })
        .collect()
}

pub(super) async fn migrate(shared: &Arc<Shared>, migrations: &[Migration]) -> Result<Vec<MigrationStatus>> {
    // A role that may not create schemas can still start on one that is complete.
    let before = status(shared, migrations).await?;
    migration::refuse_newer(&before, &shared.label)?;
    if before.iter().all(|step| step.applied_at.is_some()) {
        return Ok(before);
    }
    let end = Instant::now() + PATIENCE;
    let mut pauses = Reconnect::new(LONGEST_PAUSE);
    let mut last = None;
    loop {
        let tried = timeout_at(end, apply_next(shared, migrations, end)).await;
        match tried.map_err(|_| out_of_time(shared, last.as_ref()))?? {
            Tried::Complete => return status(shared, migrations).await,
            Tried::Applied => pauses.reset(),
            Tried::Locked(error) => {
                let pause = pauses.next_delay();
                if Instant::now() + pause > end {
                    return Err(out_of_time(shared, Some(&error)));
                }
                if last.is_none() {
                    tracing::warn!(%error, "a table is in use; the schema change tries again until it is free, and blocks no other session");
                }
                last = Some(error);
                tokio::time::sleep(pause).await;
            }
        }
    }
}

fn out_of_time(shared: &Shared, last: Option<&Error>) -> Error {
    let why = last.map_or_else(
        || "another program migrates it, or a change takes long".to_owned(),
        |error| format!("a table is in use ({error})"),
    );
    let label = &shared.label;
    Error::new(
        ErrorKind::Timeout,
        format!(
            "could not migrate the schema on {label} within {PATIENCE:?}: {why}; see pg_stat_activity, and try again: it goes on where it was"
        ),
    )
}

/// The result of one transaction of a migration.
enum Tried {
    /// No change is missing.
    Complete,
    Applied,
    /// Another transaction holds a lock that it needs.
    Locked(Error),
}

/// Makes the first change that is missing together with its entry in the table of changes, or fills in some rows of one that was applied. If the
/// caller gives up, the connection is closed and the server is asked to cancel.
async fn apply_next(shared: &Arc<Shared>, migrations: &[Migration], end: Instant) -> Result<Tried> {
    let context = ErrorContext { what: "migrate the schema", label: &shared.label };
    let mut lease = ConnectionLease::new(shared.client(&shared.engine, context).await?, shared);
    let tried = change(shared, lease.client()?, migrations, end).await?;
    let is_applied = matches!(tried, Tried::Applied);
    if is_applied {
        lease.committing();
    }
    // Whether it really committed is read back by the next try.
    let over = if is_applied { "commit" } else { "rollback" };
    lease.client()?.batch_execute(over).await.map_err(|error| context.explain(error))?;
    let alone = lease.client()?.info.stands_alone();
    lease.finish();
    if alone { Err(context.stands_alone()) } else { Ok(tried) }
}

/// Does the same, up to its commit.
async fn change(shared: &Arc<Shared>, conn: &Conn, migrations: &[Migration], end: Instant) -> Result<Tried> {
    let context = ErrorContext { what: "migrate the schema", label: &shared.label };
    let schema = &shared.config.schema;
    let run = async |sql: &str| conn.batch_execute(&render(sql, schema)).await.map_err(|error| context.explain(error));
    // The role may have settings of its own. A program that is frozen holds its locks for 15 s at most.
    let begin = format!(
        "begin isolation level read committed; set local lock_timeout = 0; set local enable_seqscan = on;
         set local idle_in_transaction_session_timeout = 15000; set local statement_timeout = {}",
        left(end)
    );
    run(&begin).await?;
    let mut locked = pin!(run(LOCK));
    let soon = timeout(LONG, &mut locked).await;
    match soon {
        Ok(locked) => locked?,
        Err(_) => {
            shared.tell_holder("migrate");
            locked.await?;
        }
    }
    run(LEDGER).await?;
    let found = conn.query_typed(&render(APPLIED, schema), &[]).await;
    let found = applied(&found.map_err(|error| explain_ledger(error, context))?)?;
    let now = migration::compare(migrations, &found, &shared.label)?;
    migration::refuse_newer(&now, &shared.label)?;
    let missing = now.iter().find(|step| step.applied_at.is_none());
    let Some(step) = missing.and_then(|step| migrations.iter().find(|known| known.version == step.version)) else {
        return Ok(Tried::Complete);
    };
    // Each statement has the time that is left now: the lock of migrations may have taken most of it.
    run(&format!("set local lock_timeout = {}; set local statement_timeout = {}", LOCK_TIMEOUT.as_millis(), left(end)))
        .await?;
    let changed = match step.backfill {
        // Nobody else uses a schema without any change. There all of them are one transaction, as in the script, and no row is to be filled in.
        _ if found.is_empty() => conn.batch_execute(&all_of(migrations, schema)).await,
        Some(backfill) if found.iter().any(|row| row.version == step.version) => {
            fill_in(conn, schema, step, backfill).await
        }
        backfill => {
            tracing::info!(version = step.version, name = step.name, schema, "applying a schema change");
            let (sql, entry) = (render(step.sql, schema), recorded(step, schema, backfill.is_none()));
            conn.batch_execute(&format!("{sql}\n;{entry}")).await
        }
    };
    match changed {
        Ok(()) => Ok(Tried::Applied),
        Err(error) if error.code().is_some_and(|code| RETRIED.contains(code)) => {
            Ok(Tried::Locked(context.explain(error)))
        }
        Err(error) => Err(context.explain(error)),
    }
}

/// Returns the milliseconds until then, less a second for the server's answer.
fn left(end: Instant) -> u128 {
    end.saturating_duration_since(Instant::now() + Duration::from_secs(1)).as_millis().max(1)
}

/// Fills in some rows. If none is left, the change counts as applied.
async fn fill_in(conn: &Conn, schema: &str, step: &Migration, backfill: &str) -> std::result::Result<(), PgError> {
    if conn.execute_typed(&render(backfill, schema), &[]).await? == 0 {
        let filled = format!("update {{schema}}.migration set is_filled = true where version = {}", step.version);
        conn.batch_execute(&render(&filled, schema)).await?;
    }
    Ok(())
}
