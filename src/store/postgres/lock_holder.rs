//! The transactions of others that hold locks, as errors and logs name them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_postgres::Row;

use super::rows;
use crate::error::Result;
use crate::job::JobId;

/// How often the same holder is named in the log.
const ONCE_IN: Duration = Duration::from_secs(60);

/// The holders that were named lately.
#[derive(Debug, Default)]
pub(super) struct LockHolders(Mutex<HashMap<String, Instant>>);

impl LockHolders {
    /// Returns whether to name a holder in the log: not if it was named a short time ago.
    pub(super) fn is_news(&self, holders: &str, now: Instant) -> bool {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, at| now.duration_since(*at) < ONCE_IN);
        let news = !named.contains_key(holders);
        if news {
            named.insert(holders.to_owned(), now);
        }
        news
    }
}

/// The jobs that admission passes leave out, because another transaction had locked them.
#[derive(Debug, Default)]
pub(super) struct HeldCandidates(Mutex<HashSet<JobId>>);

impl HeldCandidates {
    pub(super) fn get(&self) -> Vec<JobId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    pub(super) fn set(&self, held: HashSet<JobId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }
}

/// Describes a transaction that holds a lock: its process, its program and what it does, or the name that it was prepared under.
pub(super) fn holder(row: &Row) -> Result<Option<String>> {
    if let Some(gid) = rows::get::<Option<String>>(row, "gid")? {
        return Ok(Some(format!(
            "the prepared transaction {gid:?} (`commit prepared` or `rollback prepared` ends it)"
        )));
    }
    let Some(pid) = rows::get::<Option<i32>>(row, "pid")?.filter(|pid| *pid != 0) else { return Ok(None) };
    let told: Vec<String> = [
        rows::get::<Option<String>>(row, "application_name")?.filter(|name| !name.is_empty()),
        rows::get(row, "state")?,
        rows::get::<Option<f64>>(row, "seconds")?.map(|seconds| format!("for {seconds:.0} s")),
    ]
    .into_iter()
    .flatten()
    .collect();
    // A role without `pg_read_all_stats` does not see what others do.
    Ok(Some(if told.is_empty() { format!("pid {pid}") } else { format!("pid {pid} ({})", told.join(", ")) }))
}

/// Joins the descriptions of several holders.
pub(super) fn joined(holders: impl IntoIterator<Item = String>) -> String {
    let mut holders: Vec<String> = holders.into_iter().collect();
    holders.sort();
    holders.dedup();
    if holders.is_empty() { "a transaction that could not be found".to_owned() } else { holders.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_once_a_minute() {
        let (holders, now) = (LockHolders::default(), Instant::now());
        assert!(holders.is_news("pid 1", now));
        assert!(!holders.is_news("pid 1", now + Duration::from_secs(59)));
        assert!(holders.is_news("pid 2", now + Duration::from_secs(59)));
        assert!(holders.is_news("pid 1", now + Duration::from_secs(61)));
    }
}
