//! Brings the schema up to this build.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::error::Doing;
use super::statements::render;
use super::{Shared, rows};
use crate::error::Result;
use crate::store::migration::{self, Applied, Migration, MigrationStatus};

/// All schema changes, in order. A released file is never edited: its checksum is in every database it was applied to.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "init", sql: include_str!("../../../migrations/postgres/0001_init.sql") },
    Migration { version: 2, name: "broker", sql: include_str!("../../../migrations/postgres/0002_broker.sql") },
    Migration { version: 3, name: "gates", sql: include_str!("../../../migrations/postgres/0003_gates.sql") },
    Migration { version: 4, name: "schedules", sql: include_str!("../../../migrations/postgres/0004_schedules.sql") },
    Migration { version: 5, name: "history", sql: include_str!("../../../migrations/postgres/0005_history.sql") },
    Migration { version: 6, name: "steering", sql: include_str!("../../../migrations/postgres/0006_steering.sql") },
    Migration { version: 7, name: "unique", sql: include_str!("../../../migrations/postgres/0007_unique.sql") },
    Migration { version: 8, name: "send", sql: include_str!("../../../migrations/postgres/0008_send.sql") },
    Migration { version: 9, name: "fronts", sql: include_str!("../../../migrations/postgres/0009_fronts.sql") },
    Migration { version: 10, name: "liveness", sql: include_str!("../../../migrations/postgres/0010_liveness.sql") },
    Migration { version: 11, name: "identity", sql: include_str!("../../../migrations/postgres/0011_identity.sql") },
    Migration { version: 12, name: "endings", sql: include_str!("../../../migrations/postgres/0012_endings.sql") },
    Migration { version: 13, name: "rights", sql: include_str!("../../../migrations/postgres/0013_rights.sql") },
    Migration {
        version: 14,
        name: "forgetting",
        sql: include_str!("../../../migrations/postgres/0014_forgetting.sql"),
    },
    Migration {
        version: 15,
        name: "report key",
        sql: include_str!("../../../migrations/postgres/0015_report_key.sql"),
    },
    Migration { version: 16, name: "numbers", sql: include_str!("../../../migrations/postgres/0016_numbers.sql") },
    Migration { version: 17, name: "freed", sql: include_str!("../../../migrations/postgres/0017_freed.sql") },
    Migration { version: 18, name: "gate", sql: include_str!("../../../migrations/postgres/0018_gate.sql") },
    Migration { version: 19, name: "unique", sql: include_str!("../../../migrations/postgres/0019_unique.sql") },
    Migration { version: 20, name: "usage", sql: include_str!("../../../migrations/postgres/0020_usage.sql") },
    Migration { version: 21, name: "ways", sql: include_str!("../../../migrations/postgres/0021_ways.sql") },
];

/// How long all changes together may take, waiting for another process that migrates included: a change may have to rewrite a
/// large table.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where what was applied is written down.
const LEDGER: &str = "\
create schema if not exists {schema};
create table if not exists {schema}.migration (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at timestamptz not null default clock_timestamp()
);";

const APPLIED: &str = "select version, name, checksum, applied_at from {schema}.migration order by version";

/// One lock a schema name, taken for the length of a transaction so that no cancelled caller can leave it behind on a pooled
/// connection. `hashtextextended` spreads names over the key space; the prefix keeps away from other users of such locks.
///
/// Waiting for such a lock does not refresh what the session remembers of the catalogs, so `create schema if not exists`
/// could still believe that there is none. Locking a table does refresh it: hence the look at `pg_namespace`.
const LOCK: &str = "\
select pg_advisory_xact_lock(hashtextextended('jobwright migrate ' || '{schema}', 0));
select from pg_catalog.pg_namespace limit 0";

/// The same steps as a script.
pub(super) fn script(schema: &str) -> String {
    let mut script = String::from("begin;\n");
    for text in [LOCK, LEDGER] {
        let _ = writeln!(script, "{};", render(text, schema).trim_end_matches(';'));
    }
    for migration in MIGRATIONS {
        let _ = writeln!(
            script,
            "\n-- migration {} ({})\n{}\ninsert into {} (version, name, checksum) values ({}, '{}', '{}');",
            migration.version,
            migration.name,
            render(migration.sql, schema),
            render("{schema}.migration", schema),
            migration.version,
            migration.name,
            migration.checksum()
        );
    }
    script.push_str("commit;\n");
    script
}

pub(super) async fn status(shared: &Arc<Shared>) -> Result<Vec<MigrationStatus>> {
    let doing = Doing { what: "read the schema version", place: &shared.place };
    let client = shared.client(&shared.engine, doing).await?;
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
        .map_err(|_| doing.timeout(shared.call_timeout))?
        .map_err(|e| doing.explain(e))?;
    migration::compare(MIGRATIONS, &applied(&rows)?, &shared.place)
}

fn applied(rows: &[tokio_postgres::Row]) -> Result<Vec<Applied>> {
    rows.iter()
        .map(|row| {
            Ok(Applied {
                version: rows::get(row, 0)?,
                name: rows::get(row, 1)?,
                checksum: rows::get(row, 2)?,
                at: rows::get(row, 3)?,
            })
        })
        .collect()
}

pub(super) async fn migrate(shared: &Arc<Shared>) -> Result<Vec<MigrationStatus>> {
    // A role that may not create schemas can still start on one that is complete.
    let before = status(shared).await?;
    migration::refuse_newer(&before, &shared.place)?;
    if before.iter().all(|step| step.applied_at.is_some()) {
        return Ok(before);
    }
    apply(shared).await?;
    status(shared).await
}

/// One transaction for all that is missing: either the schema this build needs is there, or nothing changed.
async fn apply(shared: &Arc<Shared>) -> Result<()> {
    let doing = Doing { what: "migrate the schema", place: &shared.place };
    let schema = &shared.config.schema;
    let mut client = shared.client(&shared.engine, doing).await?;
    let work = async {
        let transaction = client.transaction().await.map_err(|e| doing.explain(e))?;
        let run = |sql: String| {
            let transaction = &transaction;
            async move { transaction.batch_execute(&sql).await.map_err(|e| doing.explain(e)) }
        };
        run(format!("set local statement_timeout = {}", PATIENCE.as_millis())).await?;
        run(render(LOCK, schema)).await?;
        run(render(LEDGER, schema)).await?;
        let found = transaction.query_typed(&render(APPLIED, schema), &[]).await.map_err(|e| doing.explain(e))?;
        let now = migration::compare(MIGRATIONS, &applied(&found)?, &shared.place)?;
        migration::refuse_newer(&now, &shared.place)?;
        for migration in
            MIGRATIONS.iter().filter(|m| now.iter().any(|s| s.version == m.version && s.applied_at.is_none()))
        {
            tracing::info!(version = migration.version, name = migration.name, schema, "applying a schema change");
            run(render(migration.sql, schema)).await?;
            run(format!(
                "insert into \"{schema}\".migration (version, name, checksum) values ({}, '{}', '{}')",
                migration.version,
                migration.name,
                migration.checksum()
            ))
            .await?;
        }
        // Whether it really committed is read back by the caller.
        #[expect(
            clippy::disallowed_methods,
            reason = "the migration table is read afterwards, which proves the commit"
        )]
        transaction.commit().await.map_err(|e| doing.explain(e))
    };
    timeout(PATIENCE, work).await.map_err(|_| doing.timeout(PATIENCE))??;
    if client.line.stands_alone() { Err(doing.stands_alone()) } else { Ok(()) }
}
