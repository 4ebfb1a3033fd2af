//! Regular work on the tables: due timers and the progress of jobs that are gone. The other kinds are done beside their statements.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, named_params};

use super::database::Sqlite;
use super::rows::{Micros, count};
use super::shared::Shared;
use super::statements::{Statement, statement};
use crate::error::Result;
use crate::store::reconcile::Reconciled;
use crate::store::sections::section;
use crate::store::{
    AdmitRequest, Admitted, Expired, Maintenance, MaintenanceDue, MaintenanceRequest, OverdueWork, Promoted, SkewedRows,
};

const SQL: &str = include_str!("maintenance.sql");
const NEXT_TIMER: &str = section(SQL, "next_timer");
const PROMOTE: &str = section(SQL, "promote");
static OVERDUE_WORK: Statement = statement!(SQL, "overdue_work");
const PRUNE_PROGRESS: &str = section(SQL, "prune_progress");

impl Shared {
    pub(super) async fn overdue_work(&self) -> Result<OverdueWork> {
        self.query("look for overdue work", |connection, now| {
            let late = |due: Option<Micros>| {
                Some(now - due?).filter(|late| *late >= 0).map(|late| Duration::from_micros(late.unsigned_abs()))
            };
            Ok(connection.prepare_cached(&OVERDUE_WORK)?.query_row([], |row| {
                Ok(OverdueWork {
                    timers: late(row.get("timers")?),
                    expiry: late(row.get("expiry")?),
                    external: late(row.get("external")?),
                })
            })?)
        })
        .await
    }
}

#[async_trait]
impl Maintenance for Sqlite {
    /// Reports everything as possibly due: the separate checks only read the file, which costs no round trip.
    async fn maintenance_due(&self, _: &MaintenanceRequest<'_>) -> Result<MaintenanceDue> {
        Ok(MaintenanceDue { now: Some(Timestamp::now()), ..MaintenanceDue::ANY })
    }

    async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        let tried = "promote due timers";
        let next = self.0.check(tried, |connection, now| Ok(next_timer(connection, now)?)).await?;
        if next.is_none_or(|wait| wait > Duration::ZERO) || limit == 0 {
            return Ok(Promoted { next, ..Promoted::default() });
        }
        let limit = count(limit);
        self.0
            .write(tried, move |connection, now| {
                let mut promote = connection.prepare_cached(PROMOTE)?;
                let mut moved = promote.query(named_params! { ":now": now, ":limit": limit })?;
                let (mut jobs, mut blocked, mut queues) = (0, false, BTreeSet::new());
                while let Some(row) = moved.next()? {
                    jobs += 1;
                    if row.get("blocked")? {
                        blocked = true;
                    } else {
                        queues.insert(row.get::<_, String>("queue")?);
                    }
                }
                let next = next_timer(connection, now)?;
                Ok(Promoted { jobs, queues: queues.into_iter().collect(), blocked, next })
            })
            .await
    }

    async fn expire_jobs(&self, limit: usize) -> Result<Expired> {
        self.0.expire_jobs(limit).await
    }

    async fn admit(&self, request: &AdmitRequest<'_>) -> Result<Admitted> {
        self.0.admit(request).await
    }

    async fn age_jobs(&self, limit: usize) -> Result<u64> {
        self.0.age_jobs(limit).await
    }

    async fn reconcile(&self, before: &Reconciled) -> Result<Reconciled> {
        self.0.reconcile(before).await
    }

    async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        self.0.repair_clock().await
    }

    async fn prune_history(&self, age: Duration, limit: usize) -> Result<u64> {
        self.0.prune_history(age, limit).await
    }

    async fn prune_results(&self, limit: usize) -> Result<u64> {
        self.0.prune_results(limit).await
    }

    async fn prune_progress(&self, limit: usize) -> Result<u64> {
        self.0
            .write("prune progress", move |connection, _| {
                let params = named_params! { ":limit": count(limit) };
                Ok(connection.prepare_cached(PRUNE_PROGRESS)?.execute(params)? as u64)
            })
            .await
    }

    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64> {
        self.0.prune_submissions(age, limit).await
    }

    async fn prune_rates(&self, limit: usize) -> Result<u64> {
        self.0.prune_rates(limit).await
    }

    async fn prune_dead_letters(&self, age: Duration, limit: usize) -> Result<u64> {
        self.0.prune_dead_letters(age, limit).await
    }

    async fn prune_audit(&self, age: Duration, limit: usize) -> Result<u64> {
        self.0.prune_audit(age, limit).await
    }
}

/// Returns how long until the next timer is due: zero if it is overdue.
fn next_timer(connection: &Connection, now: i64) -> rusqlite::Result<Option<Duration>> {
    let due_at: Option<i64> = connection.prepare_cached(NEXT_TIMER)?.query_row([], |row| row.get(0))?;
    Ok(due_at.map(|due_at| Duration::from_micros(u64::try_from(due_at.saturating_sub(now)).unwrap_or(0))))
}
