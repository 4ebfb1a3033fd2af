//! Whether the server has enough connections for the executors. One that can't have its own for the heartbeat takes no work.

use jobwright::DatabaseConfig;
use tokio_postgres::Row;

use super::Finding;
use super::postgres::{ask, refused};
use crate::commands::Messages;

const CHECK: &str = "connections";
/// Besides those for contexts: the engine's, the heartbeat's, and the one that listens.
const OTHERS: usize = 3 + 1 + 1;

/// Compares what the live nodes may need, if they are configured as this program is, with what the server, the database and the role allow.
pub(super) async fn check(messages: &Messages, config: &DatabaseConfig) -> Finding {
    if config.pgbouncer {
        return Finding::ok(CHECK, "those of the pooler (`database.pgbouncer`); its own settings say how many");
    }
    let rows = match ask(messages, config, include_str!("sql/connections.sql"), &[]).await {
        Ok(rows) => rows,
        Err(why) => return refused(CHECK, &why),
    };
    // Not every role may read the nodes. Then this counts for one.
    let nodes = format!("select count(*)::int4 from \"{}\".node where dead_at is null", config.schema);
    let nodes = ask(messages, config, &nodes, &[]).await.ok();
    let nodes = nodes.and_then(|rows| rows.first()?.try_get::<_, i32>(0).ok()).map_or(1, |nodes| nodes.max(1) as usize);
    compared(rows.first().map(limits).unwrap_or_default(), config.max_connections + OTHERS, nodes)
}

/// Returns the limits that exist, with the name of each.
fn limits(row: &Row) -> Vec<(&'static str, usize)> {
    [("the role", "role_limit"), ("the database", "database_limit"), ("the server", "server_limit")]
        .into_iter()
        .filter_map(|(name, column)| {
            let limit = row.try_get::<_, Option<i32>>(column).ok()??;
            Some((name, usize::try_from(limit).unwrap_or(0)))
        })
        .collect()
}

fn compared(limits: Vec<(&'static str, usize)>, each: usize, nodes: usize) -> Finding {
    let Some((whose, limit)) = limits.into_iter().min_by_key(|(_, limit)| *limit) else {
        return Finding::ok(CHECK, "no limit");
    };
    let wanted = each * nodes;
    let found = format!("{nodes} executors may use {wanted} ({each} each), and {whose} allows {limit}");
    if wanted <= limit {
        return Finding::ok(CHECK, found);
    }
    Finding::warn(
        CHECK,
        found,
        "raise that limit, or lower `database.max_connections`, or use a pooler (`database.pgbouncer`); an executor that gets no connection \
         for its heartbeat takes no work",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::State;

    #[test]
    fn the_smallest_limit_counts() {
        let limits = || vec![("the role", 97), ("the server", 200)];
        assert_eq!(compared(limits(), 13, 7).state, State::Ok);
        let warned = compared(limits(), 13, 8);
        assert_eq!(
            (warned.state, warned.found.as_str()),
            (State::Warn, "8 executors may use 104 (13 each), and the role allows 97")
        );
        assert_eq!(compared(Vec::new(), 13, 100).state, State::Ok);
    }
}
