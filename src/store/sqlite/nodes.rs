//! Nodes: their leases, and what they leave behind.

use std::num::NonZeroU32;
use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::Inner;
use super::beacons::{Beacons, Sign};
use super::failure::Work;
use super::history::{Memory, Place};
use super::parts::{Statement, statement};
use super::rows::{count, deaths, fence_lists, micros, timestamp, with_error};
use super::settle::OwnedRow;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{AttemptError, ClaimNumber, Fence, JobId, NodeId, draw_node};
use crate::store::{Ending, NodeInfo, Pulse, Released};

const NODE_ALIVE: &str = include_str!("sql/node_alive.sql");
const REGISTER_NODE: &str = include_str!("sql/register_node.sql");
const REPORT_BROKER: &str = include_str!("sql/report_broker.sql");
const RETIRE_NODE: &str = include_str!("sql/retire_node.sql");
const FORGET_NODES: &str = include_str!("sql/forget_nodes.sql");
const PULSES: &str = include_str!("sql/pulses.sql");
const DECLARE_DEAD: &str = include_str!("sql/declare_dead.sql");
const RELEASE_CLAIMED: &str = include_str!("sql/release_claimed.sql");
static UNKNOWN_CHECK: Statement = statement!("sql/unknown_check.sql");
static RELEASE_UNKNOWN: Statement = statement!("sql/release_unknown.sql");
static UNKNOWN_ENDINGS: Statement = statement!("sql/unknown_endings.sql");
const HANDLER_ENDED: &str = include_str!("sql/handler_ended.sql");
const LOST_ENDINGS: &str = include_str!("sql/lost_endings.sql");
const LOST_CHECK: &str = include_str!("sql/lost_check.sql");
const LOST_ROWS: &str = include_str!("sql/lost_rows.sql");

/// Why a job became a dead letter when its last attempt ended with its node.
const OWNER_LOST: &str = "owner lost";

/// Whether a node may own jobs.
pub(super) fn is_alive(connection: &Connection, node: NodeId) -> rusqlite::Result<bool> {
    connection.prepare_cached(NODE_ALIVE)?.query_row(named_params! { ":node": node.0 }, |row| row.get(0))
}

/// Fails for a node that claims and may not: were it told of nothing, it would claim nothing for ever and never hear why.
pub(super) fn may_own(connection: &Connection, node: NodeId) -> Work<()> {
    if is_alive(connection, node)? {
        return Ok(());
    }
    let text = format!("node {node} is unknown to the database, or was declared dead: an executor registers anew");
    Err(Error::new(ErrorKind::LeaseLost, text).into())
}

impl Inner {
    pub(super) async fn register_node(&self, info: &NodeInfo) -> Result<NodeId> {
        if info.lease < Duration::from_secs(1) {
            return Err(Error::invalid(format!("the lease of a node is {:?}; use 1s or more", info.lease)));
        }
        let info = info.clone();
        let beacons = self.beacons.clone();
        self.write("register a node", move |connection, now| {
            let registered: Vec<i64> = pulses(connection, &beacons)?.iter().map(|pulse| pulse.node.0).collect();
            beacons.clean(&registered);
            loop {
                let node = draw_node();
                // Before the row: whoever sees that finds the file locked.
                if registered.contains(&node) || !beacons.light(node)? {
                    continue;
                }
                connection.prepare_cached(REGISTER_NODE)?.execute(named_params! {
                    ":node": node, ":name": info.name, ":host": info.host, ":pid": info.pid,
                    ":lease": micros(info.lease), ":now": now,
                })?;
                return Ok(NodeId(node));
            }
        })
        .await
    }

    /// Reads, and writes to the node's file: whoever has the write lock does not keep a node from living. Looks too whether the file is still
    /// the one that was opened, because SQLite does not.
    pub(super) async fn heartbeat(&self, node: NodeId) -> Result<bool> {
        let (beacons, identity, path) = (self.beacons.clone(), self.identity, self.path.clone());
        self.check("renew the lease of a node", move |connection, _| {
            identity.still_at(&path)?;
            Ok(is_alive(connection, node)? && beacons.beat(node.0)?)
        })
        .await
    }

    /// One transaction: a claim is before it, or finds the node gone.
    pub(super) async fn retire_node(&self, node: NodeId) -> Result<u64> {
        let beacons = self.beacons.clone();
        self.write("retire a node", move |connection, now| {
            connection.prepare_cached(RETIRE_NODE)?.execute(named_params! { ":node": node.0, ":now": now })?;
            let released = release_unknown(connection, node, &fence_lists(&[]), None)?;
            forget(connection, &beacons)?;
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

    pub(super) async fn pulses(&self) -> Result<Vec<Pulse>> {
        let beacons = self.beacons.clone();
        self.check("look at the heartbeats of all nodes", move |connection, _| Ok(pulses(connection, &beacons)?)).await
    }

    /// Whoever was silent may have spoken while this waited for the write lock, so each is looked at again.
    pub(super) async fn declare_dead(&self, silent: &[Pulse]) -> Result<Vec<NodeId>> {
        if silent.is_empty() {
            return Ok(Vec::new());
        }
        let (beacons, silent) = (self.beacons.clone(), silent.to_vec());
        self.write("declare nodes dead", move |connection, now| {
            let mut declared = Vec::new();
            for pulse in silent {
                let sign = beacons.look(pulse.node.0);
                if sign.ended || sign.beat == pulse.beat {
                    let params = named_params! { ":node": pulse.node.0, ":now": now };
                    if connection.prepare_cached(DECLARE_DEAD)?.execute(params)? == 1 {
                        declared.push(pulse.node);
                    }
                }
            }
            Ok(declared)
        })
        .await
    }

    pub(super) async fn release_unknown(
        &self,
        node: NodeId,
        known: &[Fence],
        before: Option<ClaimNumber>,
    ) -> Result<u64> {
        let tried = "give back jobs that are not in hand";
        let known = fence_lists(known);
        let asked = known.clone();
        let any = self
            .check(tried, move |connection, _| {
                let (ids, versions) = &asked;
                asks(connection, &UNKNOWN_CHECK, named_params! { ":node": node.0, ":ids": ids, ":versions": versions })
            })
            .await?;
        if !any {
            return Ok(0);
        }
        self.write(tried, move |connection, _| Ok(release_unknown(connection, node, &known, before)?)).await
    }

    pub(super) async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        let ids = ids.to_vec();
        self.write("give back jobs whose claim got lost on the way", move |connection, _| {
            let mut released = 0;
            for id in ids {
                let params = named_params! { ":node": node.0, ":claim": claim.get(), ":id": id.as_uuid().as_bytes() };
                released += connection.prepare_cached(RELEASE_CLAIMED)?.execute(params)? as u64;
                handler_ended(connection, Some(node), Fence::new(id, claim.get()))?;
            }
            Ok(released)
        })
        .await
    }

    pub(super) async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        let tried = "release the jobs of dead nodes";
        if !self.check(tried, |connection, _| asks(connection, LOST_CHECK, &[])).await? {
            return Ok(Released::default());
        }
        let (keep, beacons) = (self.history.keep, self.beacons.clone());
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
            released.ended = forget(connection, &beacons)?;
            Ok(released)
        })
        .await
    }

    pub(super) async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64> {
        if fences.is_empty() {
            return Ok(0);
        }
        let fences = fences.to_vec();
        self.write("free what handlers held", move |connection, _| {
            let mut ended = 0;
            for fence in fences {
                ended += u64::from(handler_ended(connection, Some(node), fence)?);
            }
            Ok(ended)
        })
        .await
    }
}

/// What the handler of a cancelled job held is free. `None`: it was an external worker's. `false`: there is none that held anything.
pub(super) fn handler_ended(connection: &Connection, node: Option<NodeId>, fence: Fence) -> rusqlite::Result<bool> {
    let params = named_params! {
        ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":node": node.map(|node| node.0),
    };
    Ok(connection.prepare_cached(HANDLER_ENDED)?.execute(params)? > 0)
}

/// Forgets dead nodes that own nothing any more, and removes their files. Returns how many handlers of cancelled jobs dead nodes had: what they held
/// is free.
fn forget(connection: &Connection, beacons: &Beacons) -> rusqlite::Result<u64> {
    let ended = connection.prepare_cached(LOST_ENDINGS)?.execute([])? as u64;
    let mut statement = connection.prepare_cached(FORGET_NODES)?;
    let forgotten = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    // Should the transaction not be committed, the files are missed by nobody: these nodes are dead.
    for node in forgotten {
        beacons.remove(node);
    }
    Ok(ended)
}

/// Gives back what a node owns, but for what is in `known` (see [`fence_lists`]), and what claims took that began after `before`.
fn release_unknown(
    connection: &Connection,
    node: NodeId,
    (ids, versions): &(Vec<u8>, String),
    before: Option<ClaimNumber>,
) -> rusqlite::Result<u64> {
    let before = before.map(ClaimNumber::get);
    let params = named_params! { ":node": node.0, ":ids": ids, ":versions": versions, ":before": before };
    connection.prepare_cached(&UNKNOWN_ENDINGS)?.execute(params)?;
    Ok(connection.prepare_cached(&RELEASE_UNKNOWN)?.execute(params)? as u64)
}

fn pulses(connection: &Connection, beacons: &Beacons) -> rusqlite::Result<Vec<Pulse>> {
    let mut statement = connection.prepare_cached(PULSES)?;
    let nodes = statement.query_map([], |row| {
        let (node, lease, dead): (i64, i64, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Sign { beat, ended } = beacons.look(node);
        let lease = Duration::from_micros(lease.max(0).unsigned_abs());
        Ok(Pulse { node: NodeId(node), beat, lease, ended, dead })
    })?;
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
