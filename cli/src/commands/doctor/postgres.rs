//! Checks that only a PostgreSQL server needs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jobwright::internal::{VacuumStatus, XminHolder};
use jobwright::{AnyTransaction, DatabaseConfig, Postgres};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Finding;
use crate::commands::Messages;
use crate::grants::Purpose;

/// Smaller differences of clocks don't matter.
const CLOCKS: f64 = 2.0;
/// PostgreSQL 13.
const OLDEST_VERSION: i32 = 130_000;

/// Checks version, role, clock and old transactions.
pub(super) async fn server(messages: &Messages, config: &DatabaseConfig, purpose: Option<Purpose>) -> Vec<Finding> {
    let asked = Instant::now();
    let rows = ask(messages, config, include_str!("sql/server.sql"), &[]).await;
    let host = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let told = rows.and_then(|rows| {
        let row = rows.first().ok_or("the server returned no row")?;
        about(row, host, asked.elapsed()).map_err(|error| error.to_string())
    });
    let mut findings = match told {
        Ok(findings) => findings,
        Err(why) => vec![refused("database version", &why)],
    };
    findings.push(match messages.admin().vacuum().await {
        Ok(status) => oldest(&status.unwrap_or_default(), purpose),
        Err(error) => Finding::error(OLDEST, error, "follow the advice in the error"),
    });
    findings.extend(open_path(messages, config).await);
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
        return Finding::ok(CHECK, "all hosts in the URL are the same server");
    }
    let each: Vec<_> =
        servers.iter().map(|(history, places)| format!("{} ({history})", places.join(" and "))).collect();
    Finding::fail(
        CHECK,
        format!("{} different servers accept writes: {}", servers.len(), each.join("; ")),
        "only one can be the primary: a worker on one never sees jobs that were sent through another. Fence the wrong one, or remove it from the URL \
         and the balancer; rows that were written there stay there (docs/high-availability.md, \"A stale primary\")",
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
    if row.try_get("standby")? {
        findings.push(Finding::fail(
            "database writes",
            "the server is a standby, which takes no writes",
            "point the URL at the primary; with several hosts, `target_session_attrs=read-write`",
        ));
    } else if read_only {
        findings.push(Finding::fail(
            "database writes",
            "transactions are read-only here: `default_transaction_read_only` is on",
            "take it from the server, the database or the role: `alter role … set default_transaction_read_only = off`",
        ));
    }
    // The server's time was read at some point during the query.
    let ahead = now - host;
    let off = (ahead.abs() - took.as_secs_f64()).max(0.0);
    let found =
        format!("the database's clock is {ahead:+.3} s from this host's (measured to {:.3} s)", took.as_secs_f64());
    findings.push(if off > CLOCKS {
        Finding::warn(
            "clock",
            found,
            "synchronise both by NTP; the database's clock decides which jobs are due, so `--at` refers to it",
        )
    } else {
        Finding::ok("clock", found)
    });
    Ok(findings)
}

const OLDEST: &str = "oldest transaction";

/// When a transaction is old.
const OLD: f64 = 300.0;
/// When one is that has an age in transactions only.
const BEHIND: u64 = 1_000_000;

fn is_old(holder: &XminHolder) -> bool {
    holder.seconds.map_or(holder.transactions > BEHIND, |seconds| seconds > OLD)
}

/// Describes what holds back the cleaning of dead rows for the longest time.
fn oldest(status: &VacuumStatus, purpose: Option<Purpose>) -> Finding {
    let mut holders: Vec<&XminHolder> = status.holders.iter().collect();
    // Those that are too old first, and then those whose time is known.
    holders.sort_by(|a, b| {
        let seconds = |holder: &XminHolder| holder.seconds.unwrap_or(-1.0);
        let by_age = seconds(b).total_cmp(&seconds(a)).then(b.transactions.cmp(&a.transactions));
        is_old(b).cmp(&is_old(a)).then(by_age)
    });
    let worst = holders.first();
    let found = match worst {
        None => "none".to_owned(),
        Some(XminHolder { kind, name, transactions, seconds, .. }) => match seconds {
            None => format!("the {kind} {name}, {transactions} transactions behind"),
            Some(seconds) => format!("the {kind} {name}, {seconds:.0} s old, {transactions} transactions behind"),
        },
    };
    if let Some(holder) = worst.filter(|holder| is_old(holder)) {
        let end = match holder.kind.as_str() {
            "replication slot" => {
                "let its standby or subscriber catch up, or drop the slot (`pg_drop_replication_slot`)"
            }
            "standby" => "let it catch up, or end the query that it runs; or turn `hot_standby_feedback` off there",
            "prepared transaction" => {
                "`commit prepared` or `rollback prepared` it in its database, or let its transaction manager recover"
            }
            _ => "end it (`pg_terminate_backend`)",
        };
        let todo = format!(
            "{end}: dead rows can't be cleaned up behind it, and claims get slower; the SQL to find others is in docs/operations.md"
        );
        return Finding::warn(OLDEST, found, todo);
    }
    let hidden = status.hidden_sessions;
    if hidden == 0 {
        return Finding::ok(OLDEST, found);
    }
    let blind = format!("{found}; but {hidden} sessions of others hide theirs from this role");
    if purpose.is_some_and(|purpose| !purpose.looks()) {
        return Finding::ok(OLDEST, blind);
    }
    Finding::warn(
        OLDEST,
        blind,
        "`grant pg_read_all_stats to ROLE`, as a superuser; or give the purpose of this role (`--as executor`)",
    )
}

/// Checks whether others may put functions and operators into a schema where this role's statements would find them.
async fn open_path(messages: &Messages, config: &DatabaseConfig) -> Vec<Finding> {
    const CHECK: &str = "search path";
    let rows = match ask(messages, config, include_str!("sql/search_path.sql"), &[]).await {
        Ok(rows) => rows,
        Err(why) => return vec![refused(CHECK, &why)],
    };
    let text = |row: &Row, column| row.try_get::<_, String>(column).unwrap_or_default();
    if rows.is_empty() {
        return vec![Finding::ok(CHECK, "no other role may create objects in the schemas of this role's search path")];
    }
    let open = rows.iter().map(|row| {
        let (schema, who) = (text(row, "schema"), text(row, "who"));
        let todo = format!(
            "`revoke create on schema {schema} from {who}`, or take the schema out of the role's `search_path`: a function or operator that is \
             created there can be called in place of another one, with the rights of the caller. jobwright's statements do not look there; those of \
             handlers may"
        );
        Finding::warn(CHECK, format!("{who} may create objects in the schema {schema}, which is in this role's search path"), todo)
    });
    open.collect()
}

/// Checks whether logical decoding can follow each table that a publication covers.
pub(super) async fn publications(messages: &Messages, config: &DatabaseConfig) -> Finding {
    const CHECK: &str = "publications";
    let rows = match ask(messages, config, include_str!("sql/publications.sql"), &[&config.schema]).await {
        Ok(rows) => rows,
        Err(why) => return refused(CHECK, &why),
    };
    let text = |row: &Row, column| row.try_get::<_, String>(column).unwrap_or_default();
    let without: Vec<_> =
        rows.iter().map(|row| format!("{} (in {})", text(row, "relation"), text(row, "publications"))).collect();
    if without.is_empty() {
        return Finding::ok(CHECK, "each published table has a replica identity");
    }
    Finding::fail(
        CHECK,
        format!("the server refuses updates and deletes of tables without a replica identity: {}", without.join(", ")),
        "run `jobwright migrate`, which gives each table one; if it was removed since: `alter table … replica identity default`, or `full` for \
         `history`, `rate_log` and `unblock`",
    )
}

/// Queries within the deadline of a call: a table, or a catalogue, may be locked. Keeps nothing.
pub(super) async fn ask(
    messages: &Messages,
    config: &DatabaseConfig,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, String> {
    let limit = config.call_timeout;
    let answer = tokio::time::timeout(limit, queried(messages, sql, values)).await;
    answer.unwrap_or_else(|_| Err(format!("no answer came within {limit:?}; another session may hold a lock")))
}

/// Queries in a transaction of the library, so that TLS and poolers are the same as in use.
async fn queried(messages: &Messages, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, String> {
    let mut context = messages.begin();
    let rows = match context.transaction().await.map_err(|error| error.to_string())? {
        AnyTransaction::Postgres(transaction) => {
            let said = |error: tokio_postgres::Error| {
                error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
            };
            transaction.batch_execute("set local search_path = pg_catalog, pg_temp").await.map_err(said)?;
            transaction.query(sql, values).await.map_err(said)?
        }
        _ => Vec::new(),
    };
    context.rollback().await.map_err(|error| error.to_string())?;
    Ok(rows)
}

pub(super) fn refused(check: &'static str, why: &str) -> Finding {
    Finding::warn(check, format!("not checked: {why}"), "see the reason; nothing depends on this check")
}
