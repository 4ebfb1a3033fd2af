//! The result of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::delivery::site::Site;
use crate::delivery::worker_process::Told;

/// Watches the highest number of waiting jobs.
pub(super) struct HighWater {
    most: Arc<AtomicI64>,
    task: JoinHandle<()>,
}

impl HighWater {
    pub(super) fn start(client: tokio_postgres::Client) -> Self {
        let most = Arc::new(AtomicI64::new(0));
        let seen = most.clone();
        let task = tokio::spawn(async move {
            while let Ok(row) = client.query_one("select count(*) from job", &[]).await {
                seen.fetch_max(row.get(0), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        Self { most, task }
    }

    pub(super) fn end(self) -> i64 {
        self.task.abort();
        self.most.load(Ordering::Relaxed)
    }
}

/// Waits until no job is left except dead letters.
pub(super) async fn empty(site: &Site, patience: Duration) -> bool {
    let client = site.db.client().await;
    let end = Instant::now() + patience;
    let left = "select (select count(*) from job) + (select count(*) from timer_job)";
    while client.query_one(left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        if Instant::now() > end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    true
}

/// Committed jobs compared with those that took effect.
#[derive(Debug)]
pub(super) struct Outcome {
    sent: i64,
    applied: i64,
    lost: i64,
    doubled: i64,
    /// Jobs that took effect without being sent.
    invented: i64,
    dead: i64,
}

impl Outcome {
    pub(super) fn assert(&self, seed: u64) {
        let Self { sent, applied, lost, doubled, invented, dead } = self;
        assert!(
            sent == applied && *sent > 0 && [lost, doubled, invented, dead] == [&0; 4],
            "{self:?} (JOBWRIGHT_SOAK_SEED={seed})"
        );
    }
}

pub(super) async fn check(site: &Site) -> Outcome {
    let client = site.db.client().await;
    let count = async |sql: &str| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    Outcome {
        sent: count("select count(*) from sent").await,
        applied: count("select count(*) from ledger").await,
        // Sorted, not `not in`, which would compare each with each.
        lost: count("select count(*) from (select id::text from sent except select line from ledger) lost").await,
        doubled: count("select count(*) from (select from ledger group by line having count(*) > 1) twice").await,
        invented: count("select count(*) from (select line from ledger except select id::text from sent) more").await,
        dead: count("select count(*) from dead_letter_job").await,
    }
}

pub(super) struct Summary {
    pub(super) seconds: Duration,
    pub(super) until_empty: Duration,
    pub(super) backlog: i64,
    pub(super) faults: BTreeMap<String, u64>,
    pub(super) crew: Told,
    pub(super) outcome: Outcome,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, until_empty, backlog, faults, crew, outcome } = self;
        writeln!(f, "soak, {:.1} s with faults", seconds.as_secs_f64())?;
        writeln!(f, "  committed            {} ({:.0}/s)", outcome.sent, outcome.sent as f64 / seconds.as_secs_f64())?;
        writeln!(f, "  applied              {}", outcome.applied)?;
        let Outcome { lost, doubled, invented, dead, .. } = outcome;
        writeln!(f, "  lost {lost}, twice {doubled}, invented {invented}, dead letters {dead}")?;
        writeln!(f, "  commits refused      {} jobs", crew.failed)?;
        writeln!(
            f,
            "  commits in doubt     {} jobs (the database knows: they are among the committed, or not)",
            crew.in_doubt
        )?;
        writeln!(
            f,
            "  claimed              {} ({} delivered, {} by the table)",
            crew.claimed,
            crew.delivered,
            crew.claimed - crew.delivered
        )?;
        writeln!(f, "  stale deliveries     {}", crew.stale)?;
        writeln!(f, "  outcomes refused     {}", crew.refused)?;
        writeln!(f, "  backlog at most      {backlog}")?;
        writeln!(f, "  empty after          {:.1} s", until_empty.as_secs_f64())?;
        writeln!(f, "  faults               {}", faults.values().sum::<u64>())?;
        for (name, count) in faults {
            writeln!(f, "    {count:4} {name}")?;
        }
        Ok(())
    }
}
