//! Nodes: their leases, and the jobs that they leave behind.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, named_params};

use super::claim::{is_alive, release_unknown};
use super::database::Sqlite;
use super::error::Work;
use super::history::Memory;
use super::liveness_files::{Liveness, LivenessFiles};
use super::rows::{count, deaths, fence_lists, micros, timestamp, with_error};
use super::settle::TakenRow;
use super::shared::Shared;
use super::statements::asks;
use crate::config::Access;
use crate::error::{Error, Result};
use crate::job::{AttemptError, EVENT_QUEUE, NodeId, REPLY_QUEUE, draw_node};
use crate::store::sections::section;
use crate::store::{HistoryOutcome, NodeHeartbeat, NodeInfo, Nodes, Released, ServerIdentity};

const SQL: &str = include_str!("nodes.sql");
const REGISTER_NODE: &str = section(SQL, "register_node");
const REPORT_BROKER: &str = section(SQL, "report_broker");
const REPORT_LEFT_ALONE: &str = section(SQL, "report_left_alone");
const REPORT_FAILING: &str = section(SQL, "report_failing");
const RETIRE_NODE: &str = section(SQL, "retire_node");
const FORGET_NODES: &str = section(SQL, "forget_nodes");
const NODE_HEARTBEATS: &str = section(SQL, "node_heartbeats");
const DECLARE_DEAD: &str = section(SQL, "declare_dead");
const LOST_TERMINATING: &str = section(SQL, "lost_terminating");
const LOST_CHECK: &str = section(SQL, "lost_check");
const LOST_ROWS: &str = section(SQL, "lost_rows");

/// The reason of a dead letter whose last attempt ended with its node.
const OWNER_LOST: &str = "owner lost";
/// How the error of a death ends that is held against a job.
const ALONE: &str = " while this job ran alone";

#[async_trait]
impl Nodes for Sqlite {
    async fn register_node(&self, info: &NodeInfo) -> Result<NodeId> {
        if info.lease < Duration::from_secs(1) {
            return Err(Error::invalid(format!("the lease of a node is {:?}; use 1s or more", info.lease)));
        }
        let (info, serves) = (info.clone(), info.serves_text());
        let liveness_files = self.0.liveness_files.clone();
        self.0
            .write("register a node", move |connection, now| {
                let registered: Vec<i64> = registered(connection)?.iter().map(|node| node.id).collect();
                liveness_files.clean(&registered);
                loop {
                    let node = draw_node();
                    // Created before the row, so that a process that sees the row finds the file locked.
                    if registered.contains(&node) || !liveness_files.create(node)? {
                        continue;
                    }
                    connection.prepare_cached(REGISTER_NODE)?.execute(named_params! {
                        ":node": node, ":name": info.name, ":host": info.host, ":pid": info.pid,
                        ":lease": micros(info.lease), ":now": now, ":serves": serves,
                    })?;
                    return Ok(NodeId(node));
                }
            })
            .await
    }

    /// Reads the database, and writes only to the node's file, so that another holder of the write lock can't stop heartbeats. Also checks
    /// that the file is still the one that was opened, because SQLite does not.
    async fn heartbeat(&self, node: NodeId) -> Result<bool> {
        let (liveness_files, identity, place) = (self.0.liveness_files.clone(), self.0.identity, self.0.place.clone());
        self.0
            .check("renew the lease of a node", move |connection, _| {
                identity.still_at(&place)?;
                Ok(is_alive(connection, node)? && liveness_files.heartbeat(node.0)?)
            })
            .await
    }

    /// Returns `None`: there is only one file, and no failover that could lose commits.
    async fn identity(&self) -> Result<Option<ServerIdentity>> {
        Ok(None)
    }

    /// Uses one transaction: a claim commits before it, or finds the node gone.
    async fn retire_node(&self, node: NodeId) -> Result<u64> {
        let retire = self.0.write("retire a node", move |connection, now| {
            connection.prepare_cached(RETIRE_NODE)?.execute(named_params! { ":node": node.0, ":now": now })?;
            let released = release_unknown(connection, node, &fence_lists(&[]), None)?;
            Ok((released, forget(connection)?))
        });
        let (released, forgotten) = retire.await?;
        self.0.remove_files(forgotten.nodes).await;
        Ok(released)
    }

    async fn detached(&self) -> Result<Arc<dyn Nodes>> {
        let Shared { place, identity, call_timeout, connect_timeout, history, .. } = &*self.0;
        let same = Some((place.clone(), *identity));
        let path = place.path().to_owned();
        Ok(Arc::new(
            Sqlite::open_path(path, same, Access::Existing, *call_timeout, *connect_timeout, history.clone()).await?,
        ))
    }

    fn reconnect(&self) {}

    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()> {
        let mode = mode.map(str::to_owned);
        self.0
            .write("report the broker's mode", move |connection, _| {
                connection
                    .prepare_cached(REPORT_BROKER)?
                    .execute(named_params! { ":node": node.0, ":broker": mode })?;
                Ok(())
            })
            .await
    }

    async fn report_left_alone(&self, node: NodeId, kinds: Option<&str>) -> Result<()> {
        let kinds = kinds.map(str::to_owned);
        self.0
            .write("report the kinds left alone", move |connection, _| {
                let params = named_params! { ":node": node.0, ":kinds": kinds };
                connection.prepare_cached(REPORT_LEFT_ALONE)?.execute(params)?;
                Ok(())
            })
            .await
    }

    async fn report_failing(&self, node: NodeId, tasks: Option<&str>) -> Result<()> {
        let tasks = tasks.map(str::to_owned);
        self.0
            .write("report the tasks that fail", move |connection, _| {
                let params = named_params! { ":node": node.0, ":tasks": tasks };
                connection.prepare_cached(REPORT_FAILING)?.execute(params)?;
                Ok(())
            })
            .await
    }

    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>> {
        let liveness_files = self.0.liveness_files.clone();
        self.0
            .check("look at the heartbeats of all nodes", move |connection, _| {
                Ok(node_heartbeats(connection, &liveness_files)?)
            })
            .await
    }

    /// A silent node may have sent a heartbeat while this waited for the write lock, so each is checked again.
    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>> {
        if silent.is_empty() {
            return Ok(Vec::new());
        }
        let (liveness_files, silent) = (self.0.liveness_files.clone(), silent.to_vec());
        self.0
            .write("declare nodes dead", move |connection, now| {
                let mut declared = Vec::new();
                for current in node_heartbeats(connection, &liveness_files)? {
                    let is_silent =
                        |seen: &NodeHeartbeat| seen.node == current.node && seen.heartbeats == current.heartbeats;
                    let was_asked = |seen: &NodeHeartbeat| seen.node == current.node;
                    if silent.iter().any(is_silent) || current.ended && silent.iter().any(was_asked) {
                        let params = named_params! { ":node": current.node.0, ":now": now };
                        if connection.prepare_cached(DECLARE_DEAD)?.execute(params)? == 1 {
                            declared.push(current.node);
                        }
                    }
                }
                Ok(declared)
            })
            .await
    }

    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        self.0.release_lost(limit, quarantine).await
    }
}

impl Shared {
    /// Removes the files of forgotten nodes. This comes after the commit: if a node without a file stayed registered, nothing would show that it is dead.
    async fn remove_files(&self, nodes: Vec<i64>) {
        if nodes.is_empty() {
            return;
        }
        let liveness_files = self.liveness_files.clone();
        let removing =
            tokio::task::spawn_blocking(move || nodes.into_iter().for_each(|node| liveness_files.remove(node)));
        // What is left behind, the next registration removes.
        let _ = removing.await;
    }

    pub(super) async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        let tried = "release the jobs of dead nodes";
        if !self.check(tried, |connection, _| Ok(asks(connection, LOST_CHECK, &[])?)).await? {
            return Ok(Released::default());
        }
        let keep = self.history.keep;
        let release = self.write(tried, move |connection, now| {
            let memory = Memory { keep, now };
            let mut statement = connection.prepare_cached(LOST_ROWS)?;
            let lost = statement.query_map(named_params! { ":limit": count(limit) }, |row| {
                Ok(Lost {
                    row: TakenRow::read(row)?,
                    queue: row.get("queue")?,
                    owner: row.get("lock_owner")?,
                    name: row.get("name")?,
                    evicted: row.get("evicted")?,
                })
            })?;
            // Read completely first, because changing rows changes the index that the query reads.
            let lost = lost.collect::<rusqlite::Result<Vec<Lost>>>()?;
            let mut released = Released::default();
            for lost in &lost {
                if lost.release(connection, quarantine, memory)? {
                    released.waiting += 1;
                } else {
                    released.dead += 1;
                }
            }
            let forgotten = forget(connection)?;
            released.ended = forgotten.ended;
            Ok((released, forgotten.nodes))
        });
        let (released, forgotten) = release.await?;
        self.remove_files(forgotten).await;
        Ok(released)
    }
}

/// The dead nodes that were forgotten.
struct Forgotten {
    nodes: Vec<i64>,
    /// The number of their handlers of cancelled jobs.
    ended: u64,
}

/// Forgets dead nodes that own nothing any more, and releases what their handlers of cancelled jobs held.
fn forget(connection: &Connection) -> rusqlite::Result<Forgotten> {
    let ended = connection.prepare_cached(LOST_TERMINATING)?.execute([])? as u64;
    let mut statement = connection.prepare_cached(FORGET_NODES)?;
    let nodes = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    Ok(Forgotten { nodes, ended })
}

/// A row of the table of nodes.
struct Registered {
    id: i64,
    lease: Duration,
    started_at: i64,
    dead: bool,
}

fn registered(connection: &Connection) -> rusqlite::Result<Vec<Registered>> {
    let mut statement = connection.prepare_cached(NODE_HEARTBEATS)?;
    let nodes = statement.query_map([], |row| {
        Ok(Registered {
            id: row.get("id")?,
            lease: Duration::from_micros(row.get::<_, i64>("lease")?.max(0).unsigned_abs()),
            started_at: row.get("started_at")?,
            dead: row.get("dead")?,
        })
    })?;
    nodes.collect()
}

/// Returns the heartbeats of the nodes that can be judged by them. A node whose file can't be read, or was never seen here, is left out: no
/// node is declared dead for the lack of a sign that it could not give, or that this process could not see.
fn node_heartbeats(connection: &Connection, liveness_files: &LivenessFiles) -> rusqlite::Result<Vec<NodeHeartbeat>> {
    let all = registered(connection)?;
    liveness_files.retain_known(|id| all.iter().any(|node| node.id == id));
    Ok(all.iter().filter_map(|node| node.heartbeat(liveness_files)).collect())
}

impl Registered {
    fn heartbeat(&self, liveness_files: &LivenessFiles) -> Option<NodeHeartbeat> {
        const NONE: (i64, bool) = (-1, false);
        let (heartbeats, ended) = match liveness_files.look(self.id) {
            Liveness::Found { heartbeats, ended } => (heartbeats, ended),
            Liveness::Removed => NONE,
            _ if self.dead => NONE,
            // Nobody can be alive in a copy for having been alive in its original.
            Liveness::NeverSeen if liveness_files.copied_after(self.started_at) => NONE,
            Liveness::NeverSeen | Liveness::Unreadable => {
                self.report_hidden(liveness_files);
                return None;
            }
        };
        let (node, lease, dead) = (NodeId(self.id), self.lease, self.dead);
        Some(NodeHeartbeat { node, heartbeats, lease, ended, dead })
    }

    fn report_hidden(&self, liveness_files: &LivenessFiles) {
        let Some(file) = liveness_files.first_report(self.id) else { return };
        tracing::warn!(
            node = self.id,
            file = %file.display(),
            "a node is registered whose file was never seen here or can't be read, so nothing shows whether it lives, and it keeps its jobs: \
             if its process runs (`jobwright nodes list`), stop it and let it open the database by the same path and as the same user \
             as this one; if not, run `jobwright nodes evict NODE`"
        );
    }
}

/// A job whose owner is gone.
struct Lost {
    row: TakenRow,
    queue: String,
    owner: i64,
    name: Option<String>,
    evicted: bool,
}

impl Lost {
    /// Releases the job with its attempt spent. Returns `false` if that was the last attempt, or one death too many: the job is a dead letter
    /// then. A node that a person declared dead, or that is unknown here, says nothing about its jobs.
    fn release(&self, connection: &Connection, quarantine: Option<NonZeroU32>, memory: Memory) -> Work<bool> {
        let now = memory.now;
        let node = self.owner;
        let died = self.name.is_some() && !self.evicted;
        let proof = died && self.row.runs_alone;
        let why = match &self.name {
            Some(name) if self.evicted => format!("node {node} ({name}) was declared dead by hand"),
            Some(name) => format!("node {node} ({name}) did not renew its lease"),
            None => format!("node {node} is unknown"),
        };
        let alone = if proof { ALONE } else { "" };
        let error = AttemptError {
            attempt: self.row.attempt,
            at: timestamp(now)?,
            node,
            error: format!("{OWNER_LOST}: {why}{alone}"),
            detail: None,
        };
        let remember = |ending| memory.remember(connection, self.row.seq, ending, Some(&error.error));
        let errors = with_error(self.row.errors.as_deref(), error.clone())?;
        let proofs = deaths(&errors, OWNER_LOST, ALONE);
        if proof && quarantine.is_some_and(|limit| proofs >= limit.get()) {
            remember(HistoryOutcome::Dead)?;
            let reason = format!("quarantined: its process died {proofs} times while it ran alone");
            self.row.bury(connection, Some(&errors), &reason, now)?;
            return Ok(false);
        }
        let again = self.row.attempt < self.row.max_attempts;
        remember(if again { HistoryOutcome::Lost } else { HistoryOutcome::Dead })?;
        if again {
            // Events and replies are published and not run: what publishes them claims no suspects.
            let is_run = ![EVENT_QUEUE, REPLY_QUEUE].contains(&self.queue.as_str());
            let suspect = self.row.runs_alone || died && is_run && quarantine.is_some();
            self.row.release_as(connection, self.row.attempt, Some(&errors), suspect)?;
        } else {
            self.row.bury(connection, Some(&errors), OWNER_LOST, now)?;
        }
        Ok(again)
    }
}
