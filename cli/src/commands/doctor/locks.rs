//! Checks whether a session keeps others from the tables.

use jobwright::DatabaseConfig;
use tokio_postgres::Row;

use super::Finding;
use super::postgres::{ask, refused};
use crate::commands::Messages;

const CHECK: &str = "locks";
/// A statement of an executor that waits for longer waits for a session that does something else. In seconds.
const LONG: f64 = 1.0;

/// Names the sessions that others wait for.
pub(super) async fn check(messages: &Messages, config: &DatabaseConfig) -> Finding {
    let rows = match ask(messages, config, include_str!("sql/locks.sql"), &[&config.schema, &LONG]).await {
        Ok(rows) => rows,
        Err(why) => return refused(CHECK, &why),
    };
    let blockers: Result<Vec<_>, _> = rows.iter().map(Blocker::of).collect();
    let blockers = match blockers {
        Ok(blockers) => blockers,
        Err(error) => return refused(CHECK, &error.to_string()),
    };
    let Some(first) = blockers.first() else { return Finding::ok(CHECK, "no session waits for long") };
    let found: Vec<_> = blockers.iter().map(Blocker::text).collect();
    let end = if first.pid == 0 {
        "`select * from pg_prepared_xacts`, and `commit prepared` or `rollback prepared` it".to_owned()
    } else {
        format!("let it end, or end it: `select pg_terminate_backend({})`", first.pid)
    };
    Finding::warn(
        CHECK,
        found.join("; "),
        format!("{end}. Until then, executors try again, and other jobs go on where they can"),
    )
}

/// A session that others wait for.
struct Blocker {
    pid: i32,
    waiting: i64,
    longest: f64,
    role: Option<String>,
    application: Option<String>,
    state: Option<String>,
    seconds: Option<f64>,
}

impl Blocker {
    fn of(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            pid: row.try_get("pid")?,
            waiting: row.try_get("waiting")?,
            longest: row.try_get("longest")?,
            role: row.try_get("role")?,
            application: row.try_get("application")?,
            state: row.try_get("state")?,
            seconds: row.try_get("seconds")?,
        })
    }

    fn text(&self) -> String {
        let wait =
            if self.waiting == 1 { "1 session waits".to_owned() } else { format!("{} sessions wait", self.waiting) };
        let wait = format!("{wait} (for {:.0} s)", self.longest);
        if self.pid == 0 {
            return format!("{wait} for a prepared transaction");
        }
        let mut text = format!("{wait} for session {}", self.pid);
        if let Some(role) = &self.role {
            text.extend([" of role ", role]);
        }
        let application = self.application.clone().filter(|name| !name.is_empty());
        let age = self.seconds.map(|seconds| format!("in a transaction for {seconds:.0} s"));
        let more: Vec<_> = application.into_iter().chain(self.state.clone()).chain(age).collect();
        if !more.is_empty() {
            text.extend([" (", &more.join(", "), ")"]);
        }
        text
    }
}
