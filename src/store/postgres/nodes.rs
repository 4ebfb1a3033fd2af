//! Nodes: their heartbeats, and the jobs that they leave behind.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::claim::{pages, release_free};
use super::database::Postgres;
use super::halves::Named;
use super::parts::in_parts_of;
use super::rows;
use super::shared::Shared;
use super::unreadable::{Found, clear_away_idle};
use super::walk::Pages;
use crate::config::DatabaseConfig;
use crate::error::{ErrorKind, Result};
use crate::job::{NodeId, draw_node};
use crate::store::{NodeHeartbeat, NodeInfo, Nodes, Released, ServerIdentity};

/// What a release of jobs of dead nodes is called in messages.
const RELEASE_LOST: &str = "release jobs of dead nodes";

#[async_trait]
impl Nodes for Postgres {
    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId> {
        let lease = i64::try_from(node.lease.as_micros()).unwrap_or(i64::MAX);
        let serves = node.serves_text();
        loop {
            let id = draw_node();
            let params: [&(dyn ToSql + Sync); 6] = [&node.name, &node.host, &i64::from(node.pid), &lease, &id, &serves];
            if !self.0.engine("register the node", &self.0.sql.register_node, &params).await?.is_empty() {
                return Ok(NodeId(id));
            }
        }
    }

    async fn heartbeat(&self, node: NodeId) -> Result<bool> {
        let rows = self.0.engine("renew the node's lease", &self.0.sql.heartbeat, &[&node.0]).await?;
        Ok(!rows.is_empty())
    }

    async fn identity(&self) -> Result<Option<ServerIdentity>> {
        let rows = self.0.engine("ask which server this is", &self.0.sql.server, &[]).await?;
        identity(rows::single(&rows)?).map(Some)
    }

    async fn heartbeat_and_identity(&self, node: NodeId) -> Result<(bool, Option<ServerIdentity>)> {
        let rows = self.0.engine("renew the node's lease", &self.0.sql.heartbeat_and_server, &[&node.0]).await?;
        let row = rows::single(&rows)?;
        Ok((rows::get(row, "renewed")?, Some(identity(row)?)))
    }

    async fn retire_node(&self, node: NodeId) -> Result<u64> {
        let shared = &self.0;
        shared.engine("retire the node", &shared.sql.retire_node, &[&node.0]).await?;
        // Claims and commits of this node may still be running though no one waits for their answers. Any that begin after this find the node
        // dead.
        let waited = claims_ended(shared, node).await;
        let (released, held) = release_free(shared, node, &[], None).await?;
        match (waited, held) {
            (Ok(()), None) => {
                shared.engine("forget the retired node", &shared.sql.forget_nodes, &[&vec![node.0]]).await?;
            }
            // It stays on the list of dead nodes, and monitors release the jobs that are free later.
            (Ok(()), Some(error)) => {
                tracing::warn!(%node, %error, "jobs of this node are locked by another transaction, or the application refuses to let them go; monitors release them when that has ended");
            }
            (Err(error), _) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Busy) => tracing::warn!(
                %node,
                "a transaction that hands jobs to this node is open for longer than database.call_timeout; monitors release the jobs that it leaves"
            ),
            (Err(error), _) => return Err(error),
        }
        Ok(released)
    }

    async fn detached(&self) -> Result<Arc<dyn Nodes>> {
        let config = DatabaseConfig { max_connections: 1, ..self.0.config.clone() };
        let (target, sql) = (self.0.target.clone(), self.0.sql.clone());
        Ok(Arc::new(Postgres::connect_to(&config, target, (&self.0.label, sql), None).await?))
    }

    fn reconnect(&self) {
        for pool in [&self.0.engine, &self.0.user] {
            pool.retain(|_, _| false);
        }
    }

    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()> {
        self.0.engine("report the broker's mode", &self.0.sql.report_broker, &[&node.0, &mode]).await.map(drop)
    }

    async fn report_left_alone(&self, node: NodeId, kinds: Option<&str>) -> Result<()> {
        self.0.engine("report the kinds left alone", &self.0.sql.report_left_alone, &[&node.0, &kinds]).await.map(drop)
    }

    async fn report_failing(&self, node: NodeId, tasks: Option<&str>) -> Result<()> {
        self.0.engine("report the tasks that fail", &self.0.sql.report_failing, &[&node.0, &tasks]).await.map(drop)
    }

    async fn takes_writes(&self) -> Result<()> {
        self.0.engine_once("see whether the tables take writes", &self.0.sql.takes_writes, &[]).await.map(drop)
    }

    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>> {
        let rows = self.0.engine("look at the heartbeats of all nodes", &self.0.sql.node_heartbeats, &[]).await?;
        rows.iter().map(read_heartbeat).collect()
    }

    async fn watched_heartbeats(&self, me: NodeId) -> Result<Vec<NodeHeartbeat>> {
        let rows =
            self.0.engine("look at the heartbeats of other nodes", &self.0.sql.watched_heartbeats, &[&me.0]).await?;
        rows.iter().map(read_heartbeat).collect()
    }

    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>> {
        let (ids, heartbeats): (Vec<i64>, Vec<i64>) = silent.iter().map(|seen| (seen.node.0, seen.heartbeats)).unzip();
        let answer = self.0.engine("declare nodes dead", &self.0.sql.declare_dead, &[&ids, &heartbeats]).await?;
        answer.iter().map(|row| rows::get(row, 0).map(NodeId)).collect()
    }

    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        release_lost(&self.0, limit, quarantine).await
    }
}

fn identity(row: &Row) -> Result<ServerIdentity> {
    Ok(ServerIdentity { history: rows::get(row, "history")?, started: rows::get(row, "started")? })
}

fn read_heartbeat(row: &Row) -> Result<NodeHeartbeat> {
    let (node, heartbeats) = (rows::get(row, "id")?, rows::get(row, "heartbeats")?);
    Ok(heartbeat(node, heartbeats, rows::get(row, "lease_us")?, rows::get(row, "dead")?))
}

/// Returns a heartbeat as the tables have it: the lease in microseconds.
pub(super) fn heartbeat(node: i64, heartbeats: i64, lease: i64, dead: bool) -> NodeHeartbeat {
    let lease = Duration::from_micros(lease.max(0).unsigned_abs());
    NodeHeartbeat { node: NodeId(node), heartbeats, lease, ended: false, dead }
}

/// Waits until no claim of a dead node is under way. Whatever other roles hold means nothing.
async fn claims_ended(shared: &Arc<Shared>, node: NodeId) -> Result<()> {
    let end = Instant::now() + shared.call_timeout;
    loop {
        match shared.engine_once("wait for claims under way", &shared.sql.wait_for_node, &[&node.0]).await {
            Err(error) if error.is_undecided() => {
                let idle = shared.engine("wait for claims under way", &shared.sql.idle_of, &[&vec![node.0]]).await?;
                if !idle.is_empty() {
                    return Ok(());
                }
                if Instant::now() >= end {
                    return Err(error);
                }
            }
            waited => return waited.map(drop),
        }
    }
}

pub(super) async fn release_lost(
    shared: &Arc<Shared>,
    limit: usize,
    quarantine: Option<NonZeroU32>,
) -> Result<Released> {
    let deaths = quarantine.map(|n| i64::from(n.get()));
    // Read before the walk: from here on these nodes own nothing that the walk could miss.
    let quiet = rows::numbers(&shared.engine("look for nodes to forget", &shared.sql.idle_nodes, &[]).await?)?;
    let mut all = Released::default();
    for range in pages(shared).await? {
        let left = limit - usize::try_from(all.total()).unwrap_or(usize::MAX).min(limit);
        let (left_over, from, to) = (rows::count(left), range.from(), range.to());
        let params: [&(dyn ToSql + Sync); 4] = [&left_over, &deaths, &from, &to];
        let whole: [&(dyn ToSql + Sync); 5] = [&left_over, &deaths, &from, &to, &None::<Vec<Uuid>>];
        let release = || shared.engine_once(RELEASE_LOST, &shared.sql.release_lost, &whole);
        let answers = match release().await {
            Err(error) if clear_away_idle(shared, &error, lost(shared, left, &range)).await => vec![release().await?],
            Err(error) if may_be_of_rows(&error) => {
                let found = lost(shared, left, &range).await?;
                let found: Vec<Uuid> = found.iter().map(Named::id).collect();
                in_parts_of(shared, RELEASE_LOST, (&shared.sql.release_lost, &params), &found).await?.0
            }
            answer => vec![answer?],
        };
        for answer in answers {
            let row = rows::single(&answer)?;
            all.waiting += rows::get::<i64>(row, "waiting")?.unsigned_abs();
            all.dead += rows::get::<i64>(row, "dead")?.unsigned_abs();
        }
        if all.total() >= limit as u64 {
            shared.walked.stopped_in(&range);
            return Ok(all);
        }
    }
    forget(shared, quiet).await?;
    // Comes last: a cancellation that found its node alive was committed before the node was forgotten.
    all.ended =
        shared.engine("free groups and permits of lost handlers", &shared.sql.lost_terminating, &[]).await?.len()
            as u64;
    Ok(all)
}

/// Lists the jobs that a release would find in a range.
async fn lost(shared: &Arc<Shared>, limit: usize, range: &Pages) -> Result<Vec<Found>> {
    let params: [&(dyn ToSql + Sync); 3] = [&rows::count(limit), &range.from(), &range.to()];
    let rows = shared.engine("look for rows that dead nodes own", &shared.sql.lost, &params).await?;
    rows.iter().map(Found::read_lost).collect()
}

/// Forgets dead nodes that own nothing any more. The first walk skipped rows locked by other transactions, so a second one looks for them.
async fn forget(shared: &Arc<Shared>, mut quiet: Vec<i64>) -> Result<()> {
    if quiet.is_empty() {
        return Ok(());
    }
    for range in pages(shared).await? {
        let params: [&(dyn ToSql + Sync); 3] = [&quiet, &range.from(), &range.to()];
        let owning = rows::numbers(&shared.engine("look for jobs of dead nodes", &shared.sql.owners, &params).await?)?;
        let owning: HashSet<i64> = owning.into_iter().collect();
        quiet.retain(|node| !owning.contains(node));
    }
    shared.engine("forget dead nodes", &shared.sql.forget_nodes, &[&quiet]).await.map(drop)
}
