//! Migrates the schema to the version of this build.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error as PgError, Transaction};

use super::error::ErrorContext;
use super::statements::render;
use super::{Shared, rows};
use crate::backoff::Reconnect;
use crate::error::{Error, Result};
use crate::store::migration::{self, Applied, Migration, MigrationStatus};

/// All schema changes, in order. A released file is never edited: its checksum is in every database it was applied to.
pub(super) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "schema",
    min_compatible: 1,
    sql: include_str!("../../../migrations/postgres/0001_schema.sql"),
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

const APPLIED: &str =
    "select version, name, checksum, applied_at, min_compatible, is_filled from {schema}.migration order by version";

/// One lock per schema name, held for one transaction, so that no cancelled caller can leave it behind on a pooled connection.
/// `hashtextextended` spreads names over the key space; the prefix avoids collisions with other users of advisory locks.
///
/// Waiting for an advisory lock does not refresh the session's catalog cache, so `create schema if not exists` could still miss a new
/// schema. Locking a table does refresh the cache: hence the query on `pg_namespace`.
const LOCK: &str = "\
select pg_advisory_xact_lock(hashtextextended('jobwright migrate ' || '{schema}', 0));
select from pg_catalog.pg_namespace limit 0";

/// Returns the same steps as a script.
pub(super) fn script(schema: &str) -> String {
    let mut script = String::from("begin;\n");
    for text in [LOCK, LEDGER] {
        let _ = writeln!(script, "{};", render(text, schema).trim_end_matches(';'));
    }
    for migration in MIGRATIONS {
        let _ = writeln!(
            script,
            "\n-- migration {} ({})\n{}\n{};",
            migration.version,
            migration.name,
            render(migration.sql, schema),
            recorded(migration, schema)
        );
    }
    script.push_str("commit;\n");
    script
}

fn recorded(migration: &Migration, schema: &str) -> String {
    let Migration { version, name, min_compatible, backfill, .. } = migration;
    let (checksum, is_filled) = (migration.checksum(), backfill.is_none());
    format!(
        "insert into {} (version, name, checksum, min_compatible, is_filled)
         values ({version}, '{name}', '{checksum}', {min_compatible}, {is_filled})",
        render("{schema}.migration", schema)
    )
}

pub(super) async fn status(shared: &Arc<Shared>, migrations: &[Migration]) -> Result<Vec<MigrationStatus>> {
    let context = ErrorContext { what: "read the schema version", label: &shared.label };
    let client = shared.client(&shared.engine, context).await?;
    let read = async {
        let exists = client
            .query_typed(
                "select to_regclass($1) is not null",
                &[(&render("{schema}.migration", &shared.config.schema), tokio_postgres::types::Type::TEXT)],
            )
            .await?;
        if !exists.first().is_some_and(|row| row.get::<_, bool>(0)) {
            return Ok(Vec::new());
        }
        client.query_typed(&render(APPLIED, &shared.config.schema), &[]).await
    };
    let rows = timeout(shared.call_timeout, read)
        .await
        .map_err(|_| context.timeout(shared.call_timeout))?
        .map_err(|e| context.explain(e))?;
    migration::compare(migrations, &applied(&rows)?, &shared.label)
}

fn applied(rows: &[tokio_postgres::Row]) -> Result<Vec<Applied>> {
    rows.iter()
        .map(|row| {
            Ok(Applied {
                version: rows::get(row, 0)?,
                name: rows::get(row, 1)?,
                checksum: rows::get(row, 2)?,
                at: rows::get(row, 3)?,
                min_compatible: rows::get(row, 4)?,
                is_filled: rows::get(row, 5)?,
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
    loop {
        let context = ErrorContext { what: "migrate the schema", label: &shared.label };
        match timeout_at(end, apply_next(shared, migrations, end)).await.map_err(|_| context.timeout(PATIENCE))?? {
            Tried::Complete => return status(shared, migrations).await,
            Tried::Applied => pauses.reset(),
            Tried::Locked(error) => {
                let pause = pauses.next_delay();
                if Instant::now() + pause > end {
                    return Err(error);
                }
                tracing::info!(%error, ?pause, "a table is in use; the schema change waits without holding anybody up");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// The result of one transaction of a migration.
enum Tried {
    /// No change is missing.
    Complete,
    Applied,
    /// Another transaction holds a lock that it needs.
    Locked(Error),
}

/// Applies the first change that is missing together with its entry in the table of changes, or fills in some rows of one that was applied.
async fn apply_next(shared: &Arc<Shared>, migrations: &[Migration], end: Instant) -> Result<Tried> {
    let context = ErrorContext { what: "migrate the schema", label: &shared.label };
    let schema = &shared.config.schema;
    let explain = |error: PgError| context.explain(error);
    let mut client = shared.client(&shared.engine, context).await?;
    let transaction = client.transaction().await.map_err(explain)?;
    // The role may have settings of its own. A statement that nobody waits for any more ends with the time for all of them.
    let left = end.saturating_duration_since(Instant::now()).as_millis().max(1);
    let settings = format!(
        "set transaction isolation level read committed;
         set local statement_timeout = {left}; set local lock_timeout = 0; set local enable_seqscan = on"
    );
    transaction.batch_execute(&settings).await.map_err(explain)?;
    transaction.batch_execute(&render(LOCK, schema)).await.map_err(explain)?;
    transaction.batch_execute(&render(LEDGER, schema)).await.map_err(explain)?;
    let found = transaction.query_typed(&render(APPLIED, schema), &[]).await.map_err(explain)?;
    let found = applied(&found)?;
    let now = migration::compare(migrations, &found, &shared.label)?;
    migration::refuse_newer(&now, &shared.label)?;
    let missing = now.iter().find(|step| step.applied_at.is_none());
    let Some(step) = missing.and_then(|step| migrations.iter().find(|known| known.version == step.version)) else {
        return Ok(Tried::Complete);
    };
    transaction
        .batch_execute(&format!("set local lock_timeout = {}", LOCK_TIMEOUT.as_millis()))
        .await
        .map_err(explain)?;
    let changed = match step.backfill {
        Some(backfill) if found.iter().any(|row| row.version == step.version) => {
            fill_in(&transaction, schema, step, backfill).await
        }
        _ => {
            tracing::info!(version = step.version, name = step.name, schema, "applying a schema change");
            let both = format!("{}\n;{}", render(step.sql, schema), recorded(step, schema));
            transaction.batch_execute(&both).await
        }
    };
    match changed {
        Err(error) if matches!(error.code(), Some(code) if RETRIED.contains(code)) => {
            return Ok(Tried::Locked(explain(error)));
        }
        changed => changed.map_err(explain)?,
    }
    // Whether it really committed is read back by the next try, or by the caller.
    #[expect(clippy::disallowed_methods, reason = "the migration table is read afterwards, which proves the commit")]
    transaction.commit().await.map_err(explain)?;
    if client.info.stands_alone() { Err(context.stands_alone()) } else { Ok(Tried::Applied) }
}

/// Fills in some rows. If none is left, the change counts as applied.
async fn fill_in(
    transaction: &Transaction<'_>,
    schema: &str,
    step: &Migration,
    backfill: &str,
) -> std::result::Result<(), PgError> {
    if transaction.execute_typed(&render(backfill, schema), &[]).await? == 0 {
        let filled = format!("update {{schema}}.migration set is_filled = true where version = {}", step.version);
        transaction.batch_execute(&render(&filled, schema)).await?;
    }
    Ok(())
}
