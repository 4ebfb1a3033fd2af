//! Removes rows that are no longer needed: old history, results whose time is over, progress of jobs that are gone, ids of submissions, and
//! starts that no rate counts any more. If configured, also old dead letters and old audit entries.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backoff::{between, jitter};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::executor::metrics::stats::Counters;
use crate::store::Maintenance;

/// How long the ids of submissions are remembered. A producer that sends the same id again later makes a new job.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often an executor prunes.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1200);
/// The most rows removed in one transaction.
const BATCH: usize = 2000;
/// The pause between two transactions, so that a large backlog holds up no other work: about 20,000 rows a second.
const PAUSE: Duration = Duration::from_millis(100);

/// Removes old rows. Every node does. They need no leader, because a pruner skips rows that another one is removing.
pub(crate) struct Pruner {
    store: Arc<dyn Maintenance>,
    counters: Arc<Counters>,
    /// What could not be removed, as far as that was logged.
    told: BTreeSet<&'static str>,
}

impl Pruner {
    pub(crate) fn new(store: Arc<dyn Maintenance>, counters: Arc<Counters>) -> Self {
        Self { store, counters, told: BTreeSet::new() }
    }

    /// Returns how long the first run waits: not all nodes prune at once, nor at their start.
    pub(crate) fn first() -> Duration {
        between(INTERVAL / 20, INTERVAL)
    }
}

impl Periodic for Pruner {
    const FAILED: &'static str = "old rows could not be removed";

    async fn run(&mut self) -> Result<Next> {
        let more = prune_batch(&*self.store, &self.counters, &mut self.told).await?;
        Ok(Next::After(if more { PAUSE } else { jitter(INTERVAL) }))
    }
}

/// Removes one batch of each. Returns whether there may be more.
async fn prune_batch(store: &dyn Maintenance, counters: &Counters, told: &mut BTreeSet<&'static str>) -> Result<bool> {
    let kept = store.history_config();
    let mut pruning = Pruning { told, failed: None };
    let history = pruning.done(store.prune_history(kept.retention, BATCH).await, "the history")?;
    let results = pruning.done(store.prune_results(BATCH).await, "results")?;
    let progress = pruning.done(store.prune_progress(BATCH).await, "the progress of jobs that are gone")?;
    let submissions = pruning.done(store.prune_submissions(REMEMBERED, BATCH).await, "ids of submissions")?;
    let starts = pruning.done(store.prune_rates(BATCH).await, "starts that no rate counts")?;
    let keys = pruning.done(store.prune_keys(BATCH).await, "unique keys without a job")?;
    // These two need rights that not every executor has.
    let dead_letters = match kept.dead_letters {
        Some(age) => pruning.done(store.prune_dead_letters(age, BATCH).await, "history.dead_letters")?,
        None => 0,
    };
    if dead_letters > 0 {
        // Logged, because an operator may still have needed them.
        tracing::info!(dead_letters, "removed dead letters that were older than `history.dead_letters`");
        counters.dead_letters_removed.fetch_add(dead_letters, Ordering::Relaxed);
    }
    let audit = match kept.audit {
        Some(age) => pruning.done(store.prune_audit(age, BATCH).await, "history.audit")?,
        None => 0,
    };
    if audit > 0 {
        tracing::info!(entries = audit, "removed entries of the audit that were older than `history.audit`");
        counters.audit_removed.fetch_add(audit, Ordering::Relaxed);
    }
    if let Some(error) = pruning.failed {
        return Err(error);
    }
    Ok([history, results, progress, submissions, starts, keys, dead_letters, audit]
        .into_iter()
        .any(|removed| removed >= BATCH as u64))
}

/// One round. What can't be removed of one sort must not keep the others.
struct Pruning<'a> {
    told: &'a mut BTreeSet<&'static str>,
    /// The first failure that may be over soon.
    failed: Option<Error>,
}

impl Pruning<'_> {
    /// Returns how many were removed. A failure that lasts, such as that of a missing right, is logged once.
    ///
    /// # Errors
    /// When the database can't be reached at all.
    fn done(&mut self, removed: Result<u64>, what: &'static str) -> Result<u64> {
        match removed {
            Ok(removed) => {
                self.told.remove(what);
                return Ok(removed);
            }
            Err(error) if error.kind() == ErrorKind::Unreachable => return Err(error),
            Err(error) if error.is_retryable() => drop(self.failed.get_or_insert(error)),
            Err(error) => {
                if !error.is_already_logged() && self.told.insert(what) {
                    tracing::warn!(%error, what, "rows past their retention could not be removed");
                }
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use rusqlite::Connection;

    use super::{Counters, prune_batch};
    use crate::config::{DatabaseConfig, HistoryConfig};
    use crate::store::Operator as _;
    use crate::store::sqlite::Sqlite;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// Inserts a dead letter and an audit entry of each of these ages in days, and prunes once. Returns what is left of both.
    async fn left(history: HistoryConfig, ages: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let path = std::env::temp_dir().join(format!("jobwright-{}.db", uuid::Uuid::new_v4()));
        let config = DatabaseConfig { history, ..DatabaseConfig::url(format!("sqlite:{}", path.display())) };
        let store = Sqlite::open(&config).await.unwrap();
        store.migrate().await.unwrap();
        let file = Connection::open(&path).unwrap();
        let at = "(unixepoch() - ?1 * 86400) * 1000000";
        for age in ages {
            let dead = format!(
                "insert into jobwright_job (seq, state, version, dead_at, created_at, id, attempt, max_attempts, rank, kind, queue, reason, payload)
                 values (?1, 'dead', 1, {at}, {at}, randomblob(16), 1, 1, 1, 'k', 'q', 'no', '1')"
            );
            file.execute(&dead, [age]).unwrap();
            let audit =
                format!("insert into jobwright_audit (id, at, who, action, what) values (?1, {at}, 'ann', 'a', '1')");
            file.execute(&audit, [age]).unwrap();
        }
        let counters = Counters::default();
        assert!(!prune_batch(&store, &counters, &mut BTreeSet::new()).await.unwrap());
        let rows = |sql: &str| -> Vec<i64> {
            file.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let dead = rows("select seq from jobwright_job order by 1");
        let audit = rows("select id from jobwright_audit order by 1");
        let counted = counters.snapshot(0);
        assert_eq!(counted.dead_letters_removed, (ages.len() - dead.len()) as u64);
        assert_eq!(counted.audit_removed, (ages.len() - audit.len()) as u64);
        drop((store, file));
        let _ = std::fs::remove_file(path);
        (dead, audit)
    }

    #[tokio::test]
    async fn the_audit_is_kept_for_a_year_and_dead_letters_for_ever() {
        assert_eq!(left(HistoryConfig::default(), &[1, 364, 366, 9999]).await, (vec![1, 364, 366, 9999], vec![1, 364]));
    }

    #[tokio::test]
    async fn both_are_kept_as_long_as_is_said() {
        let config = |audit, dead_letters| HistoryConfig { audit, dead_letters, ..HistoryConfig::default() };
        let ages = [1, 364, 366];
        assert_eq!(left(config(None, Some(2 * DAY)), &ages).await, (vec![1], vec![1, 364, 366]));
        assert_eq!(left(config(Some(2 * DAY), Some(365 * DAY)), &ages).await, (vec![1, 364], vec![1]));
    }

    #[tokio::test]
    async fn starts_that_no_rate_counts_are_forgotten() {
        let path = std::env::temp_dir().join(format!("jobwright-{}.db", uuid::Uuid::new_v4()));
        let store = Sqlite::open(&DatabaseConfig::url(format!("sqlite:{}", path.display()))).await.unwrap();
        store.migrate().await.unwrap();
        let file = Connection::open(&path).unwrap();
        file.execute(
            "insert into jobwright_rate_log (key, at, n) values ('q:a', 1, 5), ('q:b', unixepoch() * 1000000, 5)",
            [],
        )
        .unwrap();
        prune_batch(&store, &Counters::default(), &mut BTreeSet::new()).await.unwrap();
        let left: String =
            file.query_row("select group_concat(key) from jobwright_rate_log", [], |row| row.get(0)).unwrap();
        assert_eq!(left, "q:b");
        drop((store, file));
        let _ = std::fs::remove_file(path);
    }
}
