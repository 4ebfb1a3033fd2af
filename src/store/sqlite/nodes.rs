//! Nodes: their leases, and what they leave behind.

use std::num::NonZeroU32;
use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::failure::Work;
use super::history::{Memory, Place};
use super::rows::{count, deaths, id_list, micros, timestamp, with_error};
use super::settle::OwnedRow;
use super::{Inner, take_numbers};
use crate::error::{Error, Result};
use crate::job::{AttemptError, JobId, NodeId};
use crate::store::{Ending, NodeInfo, Released};

const NODE_ALIVE: &str = include_str!("sql/node_alive.sql");
const REGISTER_NODE: &str = include_str!("sql/register_node.sql");
const HEARTBEAT: &str = include_str!("sql/heartbeat.sql");
const REPORT_BROKER: &str = include_str!("sql/report_broker.sql");
pub(super) const RETIRE_NODE: &str = include_str!("sql/retire_node.sql");
const FORGET_NODES: &str = include_str!("sql/forget_nodes.sql");
const EXPIRED_CHECK: &str = include_str!("sql/expired_check.sql");
const EXPIRE_NODES: &str = include_str!("sql/expire_nodes.sql");
const DEAD_NODES: &str = include_str!("sql/dead_nodes.sql");
const UNKNOWN_CHECK: &str = include_str!("sql/unknown_check.sql");
const RELEASE_UNKNOWN: &str = include_str!("sql/release_unknown.sql");
const LOST_CHECK: &str = include_str!("sql/lost_check.sql");
const LOST_ROWS: &str = include_str!("sql/lost_rows.sql");

/// Why a job became a dead letter when its last attempt ended with its node.
const OWNER_LOST: &str = "owner lost";

/// Whether a node may own jobs.
pub(super) fn is_alive(connection: &Connection, node: NodeId) -> rusqlite::Result<bool> {
    connection.prepare_cached(NODE_ALIVE)?.query_row(named_params! { ":node": node.0 }, |row| row.get(0))
}

impl Inner {
    pub(super) async fn register_node(&self, info: &NodeInfo) -> Result<NodeId> {
        if info.lease < Duration::from_secs(1) {
            return Err(Error::invalid(format!("the lease of a node is {:?}; use 1s or more", info.lease)));
        }
        let info = info.clone();
        self.write("register a node", move |connection, now| {
            let node = take_numbers(connection, "node", 1)?;
            connection.prepare_cached(REGISTER_NODE)?.execute(named_params! {
                ":node": node, ":name": info.name, ":host": info.host, ":pid": info.pid,
                ":lease": micros(info.lease), ":now": now,
            })?;
            Ok(NodeId(node))
        })
        .await
    }

    pub(super) async fn heartbeat(&self, node: NodeId) -> Result<bool> {
        self.write("renew the lease of a node", move |connection, now| {
            Ok(connection.prepare_cached(HEARTBEAT)?.execute(named_params! { ":node": node.0, ":now": now })? == 1)
        })
        .await
    }

    /// One transaction: a claim is before it, or finds the node gone.
    pub(super) async fn retire_node(&self, node: NodeId) -> Result<u64> {
        self.write("retire a node", move |connection, now| {
            connection.prepare_cached(RETIRE_NODE)?.execute(named_params! { ":node": node.0, ":now": now })?;
            let released = release_unknown(connection, node, &id_list(&[]))?;
            connection.prepare_cached(FORGET_NODES)?.execute([])?;
            Ok(released)
        })
        .await
    }

    pub(super) async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()> {
        let mode = mode.map(str::to_owned);
        self.write("report the broker's mode", move |connection, _| {
            connection.prepare_cached(REPORT_BROKER)?.execute(named_params! { ":node": node.0, ":broker": mode })?;
            Ok(())
        })
        .await
    }

    pub(super) async fn expire_nodes(&self) -> Result<Vec<NodeId>> {
        let tried = "declare nodes dead";
        let (late, dead) = self
            .check(tried, |connection, now| {
                let late = asks(connection, EXPIRED_CHECK, named_params! { ":now": now })?;
                Ok((late, dead_nodes(connection)?))
            })
            .await?;
        if !late {
            return Ok(dead);
        }
        self.write(tried, |connection, now| {
            connection.prepare_cached(EXPIRE_NODES)?.execute(named_params! { ":now": now })?;
            Ok(dead_nodes(connection)?)
        })
        .await
    }

    pub(super) async fn release_unknown(&self, node: NodeId, known: &[JobId]) -> Result<u64> {
        let tried = "give back jobs that are not in hand";
        let known = id_list(known);
        let asked = known.clone();
        let any = self
            .check(tried, move |connection, _| {
                asks(connection, UNKNOWN_CHECK, named_params! { ":node": node.0, ":known": asked })
            })
            .await?;
        if !any {
            return Ok(0);
        }
        self.write(tried, move |connection, _| Ok(release_unknown(connection, node, &known)?)).await
    }

    pub(super) async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        let tried = "release the jobs of dead nodes";
        if !self.check(tried, |connection, _| asks(connection, LOST_CHECK, &[])).await? {
            return Ok(Released::default());
        }
        let keep = self.history.keep;
        self.write(tried, move |connection, now| {
            let memory = Memory { keep, now };
            let mut statement = connection.prepare_cached(LOST_ROWS)?;
            let lost = statement.query_map(named_params! { ":limit": count(limit) }, |row| {
                let row_left =
                    OwnedRow { seq: row.get(0)?, attempt: row.get(1)?, max_attempts: row.get(2)?, errors: row.get(3)? };
                Ok(Lost { row: row_left, owner: row.get(4)?, name: row.get(5)?, condemned: row.get(6)? })
            })?;
            // Read first: the rows are changed under the same index.
            let lost = lost.collect::<rusqlite::Result<Vec<Lost>>>()?;
            let mut released = Released::default();
            for lost in &lost {
                if lost.release(connection, quarantine, memory)? {
                    released.waiting += 1;
                } else {
                    released.dead += 1;
                }
            }
            connection.prepare_cached(FORGET_NODES)?.execute([])?;
            Ok(released)
        })
        .await
    }
}

/// Gives back what a node owns, but for what is in `known` (see [`id_list`]).
fn release_unknown(connection: &Connection, node: NodeId, known: &str) -> rusqlite::Result<u64> {
    let params = named_params! { ":node": node.0, ":known": known };
    Ok(connection.prepare_cached(RELEASE_UNKNOWN)?.execute(params)? as u64)
}

fn dead_nodes(connection: &Connection) -> rusqlite::Result<Vec<NodeId>> {
    let mut statement = connection.prepare_cached(DEAD_NODES)?;
    let nodes = statement.query_map([], |row| row.get(0).map(NodeId))?;
    nodes.collect()
}

/// A job whose owner is gone.
struct Lost {
    row: OwnedRow,
    owner: i64,
    name: Option<String>,
    condemned: bool,
}

impl Lost {
    /// Puts it back, its attempt spent. `false`: that was the last, or one death too many; it is a dead letter now.
    fn release(&self, connection: &Connection, quarantine: Option<NonZeroU32>, memory: Memory) -> Work<bool> {
        let now = memory.now;
        let node = self.owner;
        let why = match &self.name {
            Some(name) if self.condemned => format!("node {node} ({name}) was declared dead by hand"),
            Some(name) => format!("node {node} ({name}) did not renew its lease"),
            None => format!("node {node} is unknown"),
        };
        let error = AttemptError {
            attempt: self.row.attempt,
            at: timestamp(now)?,
            node,
            error: format!("{OWNER_LOST}: {why}"),
            detail: None,
        };
        let remember = |ending| memory.remember(connection, Place::JOB, self.row.seq, ending, Some(&error.error));
        let errors = with_error(self.row.errors.as_deref(), error.clone())?;
        let died = deaths(&errors, OWNER_LOST);
        if quarantine.is_some_and(|limit| died >= limit.get()) {
            remember(Ending::Dead)?;
            let reason = format!("quarantined: its process died {died} times while it ran");
            self.row.bury(connection, Some(&errors), &reason, now)?;
            return Ok(false);
        }
        let again = self.row.attempt < self.row.max_attempts;
        remember(if again { Ending::Lost } else { Ending::Dead })?;
        if again {
            self.row.release(connection, self.row.attempt, Some(&errors))?;
        } else {
            self.row.bury(connection, Some(&errors), OWNER_LOST, now)?;
        }
        Ok(again)
    }
}

/// A question with yes or no as its answer.
fn asks(connection: &Connection, sql: &str, params: &[(&str, &dyn rusqlite::ToSql)]) -> Work<bool> {
    Ok(connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
}
