//! Checks that only a PostgreSQL server needs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jobwright::{AnyTransaction, DatabaseConfig, Postgres};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Finding;
use super::database::Messages;

/// Smaller differences of clocks don't matter.
const CLOCKS: f64 = 2.0;
/// Age at which a transaction keeps too many dead rows.
const OLD: Duration = Duration::from_secs(300);
/// PostgreSQL 13.
const OLDEST_VERSION: i32 = 130_000;

/// Checks version, role, clock and old transactions.
pub(super) async fn server(messages: &Messages) -> Vec<Finding> {
    let asked = Instant::now();
    let rows = ask(messages, include_str!("sql/server.sql"), &[]).await;
    let host = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let told = rows.and_then(|rows| {
        let row = rows.first().ok_or("the server returned no row")?;
        about(row, host, asked.elapsed()).map_err(|error| error.to_string())
    });
    let mut findings = match told {
        Ok(findings) => findings,
        Err(why) => vec![refused("database version", &why)],
    };
    findings.push(match ask(messages, include_str!("sql/oldest_transaction.sql"), &[]).await {
        Ok(rows) => rows.first().map_or_else(|| Finding::ok(OLDEST, "none"), oldest),
        Err(why) => refused(OLDEST, &why),
    });
    findings
}

/// Checks whether all hosts of the URL lead to one server: each commit, claim and heartbeat may take another route.
pub(super) async fn primaries(config: &DatabaseConfig) -> Finding {
    const CHECK: &str = "database servers";
    let found = match Postgres::primaries(config).await {
        Ok(found) => found,
        Err(error) => return Finding::error(CHECK, error, "correct `database.url`"),
    };
    let mut servers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for primary in &found {
        servers.entry(&primary.history).or_default().push(&primary.label);
    }
    if servers.len() < 2 {
        return Finding::ok(CHECK, "all that the URL leads to is one server");
    }
    let each: Vec<_> =
        servers.iter().map(|(history, places)| format!("{} ({history})", places.join(" and "))).collect();
    Finding::fail(
        CHECK,
        format!("{} servers take writes, and are not the same: {}", servers.len(), each.join("; ")),
        "only one can be right: what is sent on the one, a worker on the other never sees. Fence the wrong one, or take it out of the URL \
         and of the balancer; what was written there stays there (docs/high-availability.md, \"A stale primary\")",
    )
}

fn about(row: &Row, host: f64, took: Duration) -> Result<Vec<Finding>, tokio_postgres::Error> {
    let (number, text): (i32, String) = (row.try_get("version")?, row.try_get("version_text")?);
    let (read_only, now): (bool, f64) = (row.try_get("read_only")?, row.try_get("now")?);
    let mut findings = vec![if number < OLDEST_VERSION {
        Finding::fail("database version", format!("PostgreSQL {text}"), "upgrade the server to 13 or newer")
    } else {
        Finding::ok("database version", format!("PostgreSQL {text}"))
    }];
    if read_only {
        findings.push(Finding::fail(
            "database writes",
            "the server takes no writes (a standby?)",
            "point the URL at the primary; with several hosts, `target_session_attrs=read-write`",
        ));
    }
    // The server's time was read at some point during the query.
    let ahead = now - host;
    let off = (ahead.abs() - took.as_secs_f64()).max(0.0);
    let found =
        format!("the database's clock is {ahead:+.3} s from this host's (measured to {:.3} s)", took.as_secs_f64());
    findings.push(if off > CLOCKS {
        Finding::warn("clock", found, "set both by NTP; the database's decides what is due, so `--at` means its time")
    } else {
        Finding::ok("clock", found)
    });
    Ok(findings)
}

const OLDEST: &str = "oldest transaction";

fn oldest(row: &Row) -> Finding {
    let age: i64 = row.try_get("age").unwrap_or_default();
    let seconds: f64 = row.try_get("seconds").unwrap_or_default();
    let hidden: i64 = row.try_get("hidden").unwrap_or_default();
    let secret = match hidden {
        0 => String::new(),
        _ => format!("; {hidden} connections do not show theirs to this role (grant it pg_read_all_stats)"),
    };
    let found = format!("{seconds:.0} s old, {age} transactions behind{secret}");
    if seconds > OLD.as_secs_f64() {
        let todo = "end it: dead rows can't be cleaned up behind it, and claims get slower; the SQL to find it is in docs/operations.md";
        return Finding::warn(OLDEST, found, todo);
    }
    Finding::ok(OLDEST, found)
}

/// Checks what this role may do with the tables.
pub(super) async fn rights(messages: &Messages, schema: &str) -> Vec<Finding> {
    const CHECK: &str = "database rights";
    let rows = match ask(messages, include_str!("sql/rights.sql"), &[&schema]).await {
        Ok(rows) => rows,
        Err(why) => return vec![refused(CHECK, &why)],
    };
    let lacks = |purpose: &str| -> Vec<String> {
        rows.iter()
            .filter(|row| row.try_get::<_, String>("purpose").is_ok_and(|found| found == purpose))
            .filter_map(|row| row.try_get("lacks").ok())
            .collect()
    };
    let todo = "grant what docs/operations.md lists under \"Roles\"";
    let (send, execute) = (lacks("send"), lacks("execute"));
    vec![match (send.is_empty(), execute.is_empty()) {
        (true, true) => Finding::ok(CHECK, "this role may send and execute"),
        (true, false) => {
            Finding::warn(CHECK, format!("this role may send, but not execute: {}", execute.join(", ")), todo)
        }
        (false, _) => Finding::fail(CHECK, format!("this role may not send: {}", send.join(", ")), todo),
    }]
}

/// Queries in a transaction of the library, so that TLS, deadlines and poolers are the same as in use. Keeps nothing.
pub(super) async fn ask(messages: &Messages, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, String> {
    let mut context = messages.begin();
    let rows = match context.transaction().await.map_err(|error| error.to_string())? {
        AnyTransaction::Postgres(transaction) => {
            let said = |error: tokio_postgres::Error| {
                error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
            };
            transaction.query(sql, values).await.map_err(said)?
        }
        _ => Vec::new(),
    };
    context.rollback().await.map_err(|error| error.to_string())?;
    Ok(rows)
}

pub(super) fn refused(check: &'static str, why: &str) -> Finding {
    Finding::warn(check, format!("could not be looked at: {why}"), "see the reason; nothing depends on this check")
}
