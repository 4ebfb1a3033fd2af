//! Finds the transaction that a statement waits for, and names it in the log.
//!
//! A lock of an application, an operator or a mere reader must not look like a slow database. So the log says who holds it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool::managed::Timeouts;
use tokio::time::timeout;

use super::client::{ConnectionLease, Params, send};
use super::held::Held;
use super::lock_holder::{holder, joined};
use super::shared::Shared;
use super::statements::Statement;

/// How long the question may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Shared {
    /// Logs, in the background, what a statement waits for, if it is a lock. The log names each holder once a minute.
    pub(super) fn tell_holder(self: &Arc<Self>, name: &'static str) {
        let shared = self.clone();
        tokio::spawn(async move {
            let Some(held_by) = shared.holders_of(&[name]).await else { return };
            // The time that it has been open for is no news.
            let who = held_by.split(" for ").next().unwrap_or_default();
            if shared.lock_holders.is_news(&format!("{name} {who}"), Instant::now()) {
                tracing::warn!(
                    statement = name,
                    held_by,
                    "a statement waits for a lock of another transaction on {}; work that needs it stands still until that ends",
                    shared.label
                );
            }
        });
    }

    /// Logs that these wait for a transaction that has locked them. The log names each holder once a minute.
    pub(super) fn tell_held(&self, what: &str, held_by: &str, n: usize, example: &str) {
        let who = held_by.split(" for ").next().unwrap_or_default();
        if self.lock_holders.is_news(&format!("{what} {who}"), Instant::now()) {
            tracing::warn!(
                n,
                example,
                held_by,
                "{what}: another transaction on {} has locked them; the others go on",
                self.label
            );
        }
    }

    /// Returns the transactions that statements of these names wait for at this moment. `None`: they wait for no lock, or there is no
    /// connection to ask with.
    pub(super) async fn holders_of(self: &Arc<Self>, names: &[&str]) -> Option<String> {
        let mut lease = ConnectionLease::new(self.spare().await?, self);
        let marks: Vec<String> = names.iter().map(|name| Statement::mark(name)).collect();
        let params: Params<'_> = &[&marks];
        let conn = lease.client().ok()?;
        let asking = async {
            // To compile this statement would take a second.
            conn.batch_execute("begin; set local jit = off").await?;
            let rows = send(conn, self.pgbouncer, &self.sql.lock_holders, params).await?;
            conn.batch_execute("rollback").await?;
            Ok::<_, tokio_postgres::Error>(rows)
        };
        let asked = timeout(PATIENCE, asking).await.ok()?;
        let rows = asked.inspect_err(|error| tracing::debug!(%error, "the holder of a lock was not found")).ok()?;
        lease.finish();
        let found: Vec<String> = rows.iter().filter_map(|row| holder(row).ok().flatten()).collect();
        (!found.is_empty()).then(|| joined(found))
    }

    /// Returns a connection that nothing else uses now.
    async fn spare(&self) -> Option<Held> {
        let at_once = Timeouts { wait: Some(Duration::ZERO), create: Some(PATIENCE), recycle: None };
        // Contexts on the application's pool have none of ours.
        let user = self.application.is_none().then_some(&self.user);
        for pool in [Some(&self.engine), user].into_iter().flatten() {
            if let Ok(object) = pool.timeout_get(&at_once).await {
                return Some(Held::Ours(object));
            }
        }
        None
    }
}
