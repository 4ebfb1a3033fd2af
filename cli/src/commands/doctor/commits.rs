//! Checks whether commits wait for a synchronous standby.

use jobwright::DatabaseConfig;
use tokio_postgres::Row;

use super::Finding;
use super::postgres::{ask, refused};
use crate::commands::Messages;

const CHECK: &str = "commits";

/// Looks for commits that the standbys named in `synchronous_standby_names` have not confirmed. They wait without an end.
pub(super) async fn check(messages: &Messages, config: &DatabaseConfig) -> Finding {
    let rows = match ask(messages, config, include_str!("sql/commits.sql"), &[]).await {
        Ok(rows) => rows,
        Err(why) => return refused(CHECK, &why),
    };
    match rows.first().map(waiting).transpose() {
        Ok(Some((waiting, longest, standbys))) if waiting > 0 => Finding::warn(
            CHECK,
            format!(
                "commits that wait for a synchronous standby ({standbys:?}): {waiting}, the longest for {longest:.0} s"
            ),
            "start that standby, or let it catch up; or, if commits may be lost with this server: `alter system set synchronous_standby_names = ''`, \
             and `select pg_reload_conf()`. Executors lose their leases meanwhile",
        ),
        Ok(_) => Finding::ok(CHECK, "none waits for a standby"),
        Err(error) => refused(CHECK, &error.to_string()),
    }
}

fn waiting(row: &Row) -> Result<(i64, f64, String), tokio_postgres::Error> {
    Ok((row.try_get("waiting")?, row.try_get("longest")?, row.try_get("standbys")?))
}
