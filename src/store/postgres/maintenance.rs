//! Acts on what becomes due, expires, may start, or is old: see `store::maintenance`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::around::{forget, may_be_of_rows};
use super::client::Params;
use super::database::Postgres;
use super::idle_timers::{IdleTimer, ids};
use super::parts::{Parts, turned};
use super::shared::Shared;
use super::unreadable::refusal;
use super::{admission, aging, clock, expiring, nodes, reconcile, rows, rules};
use crate::error::{Error, Result};
use crate::store::admission::LOOK_AHEAD;
use crate::store::reconcile::Reconciled;
use crate::store::{
    AdmitRequest, Admitted, Expired, Maintenance, MaintenanceDue, MaintenanceRequest, NodeHeartbeat, Promoted,
    SkewedRows,
};

const PROMOTE: &str = "promote due timers";

#[async_trait]
impl Maintenance for Postgres {
    async fn maintenance_due(&self, request: &MaintenanceRequest<'_>) -> Result<MaintenanceDue> {
        let (ahead, first) = (rows::micros(request.ahead), rows::count(LOOK_AHEAD));
        let node = request.node.map(|node| node.0);
        let params: Params<'_> = &[&ahead, &node, &request.queues, &request.kinds, &request.outbound, &first];
        let rows = self.0.engine("look for something to do", &self.0.sql.maintenance_due, params).await?;
        let row = rows::single(&rows)?;
        Ok(MaintenanceDue {
            timers: rows::get(row, "timers")?,
            expiry: rows::get(row, "expiry")?,
            admission: rows::get(row, "admission")?,
            schedules: rows::get(row, "schedules")?,
            external: rows::get(row, "external")?,
            suspects: rows::get(row, "suspects")?,
            reconciliation: rows::get(row, "reconciliation")?,
            queues: Some(rows::get::<Option<Vec<String>>>(row, "queues")?.unwrap_or_default()),
            rules: Some(rows::get(row, "rules")?),
            heartbeats: request.node.map(|_| heartbeats(row)).transpose()?,
            now: rows::get(row, "now")?,
        })
    }

    async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        match self.0.engine(PROMOTE, &self.0.sql.promote, &[&rows::count(limit)]).await {
            Ok(rows) => promoted(&rows),
            Err(error) if refusal(&error).is_some() || may_be_of_rows(&error) => {
                promote_in_parts(&self.0, limit, error).await
            }
            Err(error) => Err(error),
        }
    }

    async fn expire_jobs(&self, limit: usize) -> Result<Expired> {
        expiring::expire_jobs(&self.0, limit).await
    }

    async fn admit(&self, request: &AdmitRequest<'_>) -> Result<Admitted> {
        admission::admit(&self.0, request).await
    }

    async fn finish_rule_change(&self) -> Result<()> {
        rules::finish_change(&self.0).await
    }

    async fn age_jobs(&self, limit: usize) -> Result<u64> {
        aging::age_jobs(&self.0, limit).await
    }

    async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        clock::repair_clock(&self.0).await
    }

    async fn reconcile(&self, before: &Reconciled) -> Result<Reconciled> {
        reconcile::reconcile(&self.0, before).await
    }

    async fn prune_history(&self, age: Duration, limit: usize) -> Result<u64> {
        forget(&self.0, "prune the history", &self.0.sql.prune_history, &[&rows::micros(age)], limit).await
    }

    async fn prune_results(&self, limit: usize) -> Result<u64> {
        forget(&self.0, "prune results", &self.0.sql.prune_results, &[], limit).await
    }

    async fn prune_progress(&self, limit: usize) -> Result<u64> {
        forget(&self.0, "prune progress", &self.0.sql.prune_progress, &[], limit).await
    }

    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64> {
        forget(&self.0, "forget old submissions", &self.0.sql.prune_submissions, &[&rows::micros(age)], limit).await
    }

    async fn prune_rates(&self, limit: usize) -> Result<u64> {
        forget(&self.0, "forget old starts", &self.0.sql.prune_rate_log, &[], limit).await
    }

    async fn prune_keys(&self, limit: usize) -> Result<u64> {
        reconcile::prune_keys(&self.0, limit).await
    }

    async fn prune_dead_letters(&self, age: Duration, limit: usize) -> Result<u64> {
        forget(&self.0, "remove old dead letters", &self.0.sql.prune_dead_letters, &[&rows::micros(age)], limit).await
    }

    async fn prune_audit(&self, age: Duration, limit: usize) -> Result<u64> {
        forget(&self.0, "forget the old audit", &self.0.sql.prune_audit, &[&rows::micros(age)], limit).await
    }
}

/// Reads the heartbeats of the watched nodes, which come as columns.
fn heartbeats(row: &Row) -> Result<Vec<NodeHeartbeat>> {
    let nodes: Vec<i64> = rows::get(row, "nodes")?;
    let (heartbeats, leases): (Vec<i64>, Vec<i64>) = (rows::get(row, "heartbeats")?, rows::get(row, "leases_us")?);
    let dead: Vec<bool> = rows::get(row, "dead")?;
    let values = heartbeats.into_iter().zip(leases).zip(dead);
    let heartbeat = |(node, ((heartbeats, lease), dead))| nodes::heartbeat(node, heartbeats, lease, dead);
    Ok(nodes.into_iter().zip(values).map(heartbeat).collect())
}

/// Moves due timers of which some made the whole statement fail. Those whose values are at fault become dead letters.
async fn promote_in_parts(shared: &Arc<Shared>, limit: usize, error: Error) -> Result<Promoted> {
    let due = shared.engine("look for due timers", &shared.sql.due_timers, &[&rows::count(limit)]).await?;
    let due = turned(&due.iter().map(IdleTimer::read).collect::<Result<Vec<_>>>()?);
    let (mut all, mut removed) = (Promoted::default(), false);
    let mut parts = Parts::of(shared, PROMOTE, &due);
    while let Some(part) = parts.next() {
        match shared.engine(PROMOTE, &shared.sql.promote_named, &[&ids(part)]).await {
            Ok(rows) => {
                let some = promoted(&rows)?;
                all.jobs += some.jobs;
                all.queues.extend(some.queues);
                all.blocked |= some.blocked;
                all.next = some.next;
            }
            Err(error) => {
                if let Some((one, why)) = parts.failed(part, error)? {
                    removed |= parts.buried(one, one.dead_letter(shared, &why).await)?;
                }
            }
        }
    }
    if removed || all.jobs > 0 {
        // There may be more, and nothing is known of the others.
        all.next = Some(Duration::ZERO);
    } else if parts.left.is_none() {
        return Err(error);
    }
    Ok(all)
}

fn promoted(rows: &[Row]) -> Result<Promoted> {
    let row = rows::single(rows)?;
    let jobs: i64 = rows::get(row, "jobs")?;
    let queues: Option<Vec<String>> = rows::get(row, "queues")?;
    let next: Option<i64> = rows::get(row, "next_us")?;
    Ok(Promoted {
        jobs: jobs.unsigned_abs(),
        queues: queues.unwrap_or_default(),
        blocked: rows::get(row, "blocked")?,
        next: next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
    })
}
