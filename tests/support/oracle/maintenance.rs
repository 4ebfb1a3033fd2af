//! Timers are promoted. Nothing expires, is blocked or is kept: the cases about that run on databases alone.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jobwright::Result;
use jobwright::internal::SkewedRows;
use jobwright::internal::engine::{AdmitRequest, Admitted, Expired, Maintenance, Promoted};

use super::Oracle;
use super::model::JobTable;

#[async_trait]
impl Maintenance for Oracle {
    async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        let now = Timestamp::now();
        let mut state = self.lock();
        let mut timers: Vec<(Timestamp, i64)> = state
            .jobs
            .values()
            .filter_map(|row| match row.location {
                JobTable::Timer { due } => Some((due, row.seq)),
                _ => None,
            })
            .collect();
        timers.sort_unstable();
        let due = timers.iter().take_while(|(due, _)| *due <= now).count().min(limit);
        let next = timers.get(due).map(|(due, _)| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        let mut queues = BTreeSet::new();
        for (_, seq) in &timers[..due] {
            let row = state.jobs.get_mut(seq).unwrap();
            row.location = JobTable::Waiting;
            queues.insert(row.message.queue.clone());
        }
        Ok(Promoted { jobs: due as u64, queues: queues.into_iter().collect(), blocked: false, next })
    }

    async fn expire_jobs(&self, _: usize) -> Result<Expired> {
        Ok(Expired::default())
    }

    async fn admit(&self, _: &AdmitRequest<'_>) -> Result<Admitted> {
        Ok(Admitted::default())
    }

    async fn age_jobs(&self, _: usize) -> Result<u64> {
        Ok(0)
    }

    async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        Ok(Vec::new())
    }

    async fn prune_history(&self, _: Duration, _: usize) -> Result<u64> {
        Ok(0)
    }

    async fn prune_results(&self, _: usize) -> Result<u64> {
        Ok(0)
    }

    async fn prune_progress(&self, _: usize) -> Result<u64> {
        Ok(0)
    }

    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64> {
        Ok(self.lock().prune_submissions(age, limit))
    }

    async fn prune_rates(&self, _: usize) -> Result<u64> {
        Ok(0)
    }

    async fn prune_dead_letters(&self, _: Duration, _: usize) -> Result<u64> {
        panic!("the oracle keeps dead letters for ever")
    }

    async fn prune_audit(&self, _: Duration, _: usize) -> Result<u64> {
        panic!("the oracle keeps no audit")
    }
}
