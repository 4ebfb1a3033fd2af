//! Claims jobs, and gives back those whose claim nobody knows of.
//!
//! A job whose process died while it ran is a suspect. Suspects wait among the blocked jobs, blocked on a key of their own, so that no ordinary claim
//! reads them. While one of them runs, its row has a mark ([`RUNS_ALONE`]) that every other claim removes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, named_params};

use super::database::Sqlite;
use super::error::Work;
use super::history::Memory;
use super::job_columns::JobPositions;
use super::outcomes::handler_ended;
use super::rows::{attempts, count, fence_lists, job_id, name_list};
use super::settle::RUNS_ALONE;
use super::shared::Shared;
use super::statements::{Statement, asks, statement};
use super::unreadable::sort_out;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimNumber, Fence, Job, JobId, NodeId};
use crate::store::sections::section;
use crate::store::{Acquitted, ClaimRequest, Claimed, Claims, ScanRange, Suspect};

const SQL: &str = include_str!("claim.sql");
const NODE_ALIVE: &str = section(SQL, "node_alive");
static CLAIM_CHECK: Statement = statement!(SQL, "claim_check");
static CLAIM: Statement = statement!(SQL, "claim");
static CLAIM_DELIVERED: Statement = statement!(SQL, "claim_delivered");
static SUSPECTS: Statement = statement!(SQL, "suspects");
static CLAIM_SUSPECTS: Statement = statement!(SQL, "claim_suspects");
const ACQUIT: &str = section(SQL, "acquit");
static UNKNOWN_TERMINATING: Statement = statement!(SQL, "unknown_terminating");
static RELEASE_UNKNOWN: Statement = statement!(SQL, "release_unknown");
static UNKNOWN_CHECK: Statement = statement!(SQL, "unknown_check");
static RELEASE_CLAIMED: Statement = statement!(SQL, "release_claimed");

/// How long a claim that meets nothing but rows that can't be read goes on: a sender of many must not make a queue look empty.
const PATIENCE: Duration = Duration::from_secs(1);

/// The parameters of a claim's three arms.
#[derive(Clone, Copy)]
struct Arms {
    /// Better ranks are scanned completely.
    rank: i32,
    /// In this rank, the scan starts after this number,
    after: i64,
    /// and ends with this one.
    until: i64,
    /// Whether worse ranks are scanned too.
    worse: bool,
}

impl Arms {
    /// Of several cursors only the last is used. The index contains only waiting rows, so scanning more than necessary costs little.
    fn of(range: &ScanRange<'_>) -> Self {
        // Sorts before every row: ranks are negated priorities, which are 16 bits wide.
        let all = Self { rank: -32_769, after: 0, until: i64::MAX, worse: true };
        match range {
            ScanRange::All => all,
            ScanRange::After { cursors, .. } => {
                cursors.last().map_or(all, |cursor| Self { rank: cursor.rank.into(), after: cursor.seq, ..all })
            }
            ScanRange::UpTo(last) => Self { rank: last.rank.into(), after: i64::MIN, until: last.seq, worse: false },
        }
    }
}

#[async_trait]
impl Claims for Sqlite {
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed> {
        let jobs = if request.suspects { self.0.claim_suspects(request).await? } else { self.0.claim(request).await? };
        Ok(Claimed { jobs, reserved_from: None, allowed: None })
    }

    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>> {
        if deliveries.is_empty() {
            return Ok(Vec::new());
        }
        let kinds = kinds.map(name_list).transpose()?;
        let (deliveries, keep) = (deliveries.to_vec(), self.0.history.keep);
        self.0.write("claim delivered jobs", move |connection, now| {
            may_own(connection, node)?;
            let mut statement = connection.prepare_cached(&CLAIM_DELIVERED)?;
            let columns = JobPositions::of(&statement)?;
            let mut jobs = Vec::with_capacity(deliveries.len());
            // A row that an earlier delivery of the batch claimed has an owner by now, so none is claimed twice.
            for Fence { id, version, .. } in deliveries {
                let params = named_params! {
                    ":node": node.0, ":claim": claim.get(), ":now": now, ":id": id.as_uuid().as_bytes(), ":version": version, ":kinds": kinds,
                };
                let (taken, unreadable) = sort_out(&columns, &mut statement.query(params)?)?;
                jobs.extend(taken);
                for row in &unreadable {
                    row.bury(connection, node, Memory { keep, now })?;
                }
            }
            jobs.sort_unstable_by_key(|job| (-i32::from(job.priority), job.seq));
            Ok(jobs)
        })
        .await
    }

    async fn suspects(&self, queues: &[String], kinds: Option<&[String]>, limit: usize) -> Result<Vec<Suspect>> {
        let (queues, kinds) = (name_list(queues)?, kinds.map(name_list).transpose()?);
        self.0
            .check("look for suspects", move |connection, now| {
                let mut statement = connection.prepare_cached(&SUSPECTS)?;
                let params = named_params! { ":queues": queues, ":kinds": kinds, ":now": now, ":limit": count(limit) };
                let found = statement.query_map(params, |row| {
                    Ok(Suspect {
                        id: job_id(row, "id")?,
                        version: row.get("version")?,
                        attempt: attempts(row, "attempt")?,
                        queue: row.get("queue")?,
                        kind: row.get("kind")?,
                        needs_permits: row.get("needs_permits")?,
                    })
                })?;
                Ok(found.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    async fn acquit(&self, ids: &[JobId]) -> Result<Acquitted> {
        if ids.is_empty() {
            return Ok(Acquitted::default());
        }
        let ids = ids.to_vec();
        self.0
            .write("acquit suspects", move |connection, _| {
                let mut statement = connection.prepare_cached(ACQUIT)?;
                let mut queues: BTreeSet<String> = BTreeSet::new();
                for id in ids {
                    let params = named_params! { ":id": id.as_uuid().as_bytes(), ":mark": RUNS_ALONE };
                    queues.extend(statement.query_row(params, |row| row.get(0)).optional()?);
                }
                // There is one writer: no row is locked by another.
                Ok(Acquitted { queues: queues.into_iter().collect(), locked: 0 })
            })
            .await
    }

    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64> {
        let tried = "give back jobs that no handler runs";
        let known = fence_lists(known);
        let asked = known.clone();
        let any = self
            .0
            .check(tried, move |connection, _| {
                let (ids, versions) = &asked;
                let params = named_params! { ":node": node.0, ":ids": ids, ":versions": versions };
                Ok(asks(connection, &UNKNOWN_CHECK, params)?)
            })
            .await?;
        if !any {
            return Ok(0);
        }
        self.0.write(tried, move |connection, _| Ok(release_unknown(connection, node, &known, before)?)).await
    }

    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        let ids = ids.to_vec();
        self.0
            .write("release jobs whose claim was lost on the way", move |connection, _| {
                let mut released = 0;
                for id in ids {
                    let params =
                        named_params! { ":node": node.0, ":claim": claim.get(), ":id": id.as_uuid().as_bytes() };
                    released += connection.prepare_cached(&RELEASE_CLAIMED)?.execute(params)? as u64;
                    handler_ended(connection, Some(node), Fence::new(id, claim.get()))?;
                }
                Ok(released)
            })
            .await
    }
}

impl Shared {
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Vec<Job>> {
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        let tried = "claim jobs";
        let (node, claim) = (request.node.0, request.claim.get());
        let (queue, limit) = (request.queue.to_owned(), count(request.limit));
        let Arms { rank, after, until, worse } = Arms::of(&request.range);
        let kinds = request.kinds.map(name_list).transpose()?;

        let (include_hidden, keep) = (request.include_hidden, self.history.keep);
        let looked_for = (queue.clone(), kinds.clone());
        let found = self
            .check(tried, move |connection, now| {
                let (queue, kinds) = looked_for;
                let params = named_params! {
                    ":queue": queue, ":kinds": kinds, ":rank": rank, ":after": after, ":until": until, ":worse": worse, ":now": now,
                    ":include_hidden": include_hidden,
                };
                Ok(asks(connection, &CLAIM_CHECK, params)?)
            })
            .await?;
        if !found {
            return Ok(Vec::new());
        }
        self.write(tried, move |connection, now| {
            may_own(connection, NodeId(node))?;
            let mut statement = connection.prepare_cached(&CLAIM)?;
            let params = named_params! {
                ":node": node, ":claim": claim, ":now": now, ":queue": queue, ":kinds": kinds, ":rank": rank, ":after": after, ":until": until,
                ":worse": worse, ":limit": limit, ":include_hidden": include_hidden,
            };
            let columns = JobPositions::of(&statement)?;
            let began = Instant::now();
            loop {
                let (jobs, unreadable) = sort_out(&columns, &mut statement.query(params)?)?;
                for row in &unreadable {
                    row.bury(connection, NodeId(node), Memory { keep, now })?;
                }
                if !jobs.is_empty() || unreadable.is_empty() || began.elapsed() > PATIENCE {
                    return Ok(jobs);
                }
            }
        })
        .await
    }

    /// Claims suspects. Hidden rows and ranges mean nothing here: suspects are few, and were claimed before.
    async fn claim_suspects(&self, request: &ClaimRequest<'_>) -> Result<Vec<Job>> {
        let kinds = request.kinds.map(name_list).transpose()?;
        let (node, claim, queue) = (request.node, request.claim, request.queue.to_owned());
        let (limit, keep) = (count(request.limit), self.history.keep);
        self.write("claim suspects", move |connection, now| {
            may_own(connection, node)?;
            let mut statement = connection.prepare_cached(&CLAIM_SUSPECTS)?;
            let params = named_params! {
                ":node": node.0, ":claim": claim.get(), ":now": now, ":queue": queue, ":kinds": kinds, ":limit": limit, ":mark": RUNS_ALONE,
            };
            let columns = JobPositions::of(&statement)?;
            let (jobs, unreadable) = sort_out(&columns, &mut statement.query(params)?)?;
            for row in &unreadable {
                row.bury(connection, node, Memory { keep, now })?;
            }
            Work::Ok(jobs)
        })
        .await
    }
}

/// Returns whether a node may own jobs.
pub(super) fn is_alive(connection: &Connection, node: NodeId) -> rusqlite::Result<bool> {
    asks(connection, NODE_ALIVE, named_params! { ":node": node.0 })
}

/// Fails if a node may not own jobs. Without the error, such a node would claim nothing forever and never learn why.
fn may_own(connection: &Connection, node: NodeId) -> Work<()> {
    if is_alive(connection, node)? {
        return Ok(());
    }
    let text = format!("node {node} is unknown to the database, or was declared dead: an executor registers again");
    Err(Error::new(ErrorKind::LeaseLost, text).into())
}

/// Releases what a node owns, except the claims in `known` (see [`fence_lists`]) and those of claim calls that began after `before`.
pub(super) fn release_unknown(
    connection: &Connection,
    node: NodeId,
    (ids, versions): &(Vec<u8>, String),
    before: Option<ClaimNumber>,
) -> rusqlite::Result<u64> {
    let before = before.map(ClaimNumber::get);
    let params = named_params! { ":node": node.0, ":ids": ids, ":versions": versions, ":before": before };
    connection.prepare_cached(&UNKNOWN_TERMINATING)?.execute(params)?;
    Ok(connection.prepare_cached(&RELEASE_UNKNOWN)?.execute(params)? as u64)
}
