//! Outcomes of jobs that nodes run. Each names its claim, and changes nothing if that claim is no longer current.

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, named_params};
use serde_json::value::RawValue;

use super::database::Sqlite;
use super::history::{Memory, remember_where};
use super::rows::{fence_lists, job_id, micros, timestamp};
use super::settle::settle_one;
use super::statements::{Statement, render, statement};
use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};
use crate::store::sections::section;
use crate::store::{HistoryOutcome, JobProgress, Outcomes, ProgressUpdate, Settlement};

const SQL: &str = include_str!("outcomes.sql");
static COMPLETE_ALL: Statement = statement!(SQL, "complete_all");
static REMEMBER_ALL: Statement = LazyLock::new(|| render(&remember_where("{still_owned}")));
const PUT_OFF: &str = section(SQL, "put_off");
const HANDLER_ENDED: &str = section(SQL, "handler_ended");
const IS_CURRENT: &str = section(SQL, "is_current");
const RECORD_PROGRESS: &str = section(SQL, "record_progress");
const PROGRESS: &str = section(SQL, "progress");

#[async_trait]
impl Outcomes for Sqlite {
    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
        if fences.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, versions) = fence_lists(fences);
        let keep = self.0.history.keep;
        self.0.write("complete jobs", move |connection, now| {
            if (Memory { keep, now }).keeps(HistoryOutcome::Done) {
                connection.prepare_cached(&REMEMBER_ALL)?.execute(named_params! {
                    ":ids": ids, ":versions": versions, ":node": node.0, ":outcome": HistoryOutcome::Done.as_str(), ":now": now, ":why": None::<&str>,
                })?;
            }
            let mut statement = connection.prepare_cached(&COMPLETE_ALL)?;
            let removed = named_params! { ":ids": ids, ":versions": versions, ":node": node.0 };
            Ok(statement.query_map(removed, |row| job_id(row, "id"))?.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let settlements = settlements.to_vec();
        let keep = self.0.history.keep;
        self.0
            .write("record outcomes", move |connection, now| {
                let memory = Memory { keep, now };
                let mut accepted = Vec::with_capacity(settlements.len());
                for settlement in &settlements {
                    if settle_one(connection, Some(node), settlement, memory)? {
                        accepted.push(settlement.fence.id);
                    }
                }
                Ok(accepted)
            })
            .await
    }

    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()> {
        self.0.write("postpone a job", move |connection, now| {
            let params = named_params! {
                ":node": node.0, ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":until": now.saturating_add(micros(by)),
            };
            connection.prepare_cached(PUT_OFF)?.execute(params)?;
            Ok(())
        })
        .await
    }

    async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64> {
        if fences.is_empty() {
            return Ok(0);
        }
        let fences = fences.to_vec();
        self.0
            .write("free groups and permits of handlers", move |connection, _| {
                let mut ended = 0;
                for fence in fences {
                    ended += u64::from(handler_ended(connection, Some(node), fence)?);
                }
                Ok(ended)
            })
            .await
    }

    async fn stale_claims(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>> {
        let fences = fences.to_vec();
        self.0
            .check("look for cancelled jobs", move |connection, _| {
                let mut statement = connection.prepare_cached(IS_CURRENT)?;
                let mut stale_claims = Vec::new();
                for fence in fences {
                    let id = fence.id.as_uuid().as_bytes();
                    if !statement.exists(named_params! { ":id": id, ":version": fence.version, ":node": node.0 })? {
                        stale_claims.push(fence);
                    }
                }
                Ok(stale_claims)
            })
            .await
    }

    async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool> {
        let ProgressUpdate { percent, note, checkpoint } = update.clone();
        self.0.write("record the progress of a job", move |connection, now| {
            let params = named_params! {
                ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":node": node.0, ":percent": percent,
                ":note": note, ":checkpoint": checkpoint.as_ref().map(|json| json.get()), ":now": now,
            };
            Ok(connection.prepare_cached(RECORD_PROGRESS)?.execute(params)? == 1)
        })
        .await
    }

    async fn progress(&self, id: JobId) -> Result<Option<JobProgress>> {
        self.0
            .check("read the progress of a job", move |connection, _| {
                let read = |row: &rusqlite::Row<'_>| {
                    let checkpoint: Option<String> = row.get("checkpoint")?;
                    Ok(JobProgress {
                        percent: row.get("percent")?,
                        note: row.get("note")?,
                        // It was written as JSON; invalid data from another writer is left out.
                        checkpoint: checkpoint.and_then(|text| RawValue::from_string(text).ok()),
                        at: timestamp(row.get("at")?)?,
                    })
                };
                let params = named_params! { ":id": id.as_uuid().as_bytes() };
                Ok(connection.prepare_cached(PROGRESS)?.query_row(params, read).optional()?)
            })
            .await
    }
}

/// Releases what the ended handler of a cancelled job held. `node` is `None` for an external worker. Returns `false` if it held nothing.
pub(super) fn handler_ended(connection: &Connection, node: Option<NodeId>, fence: Fence) -> rusqlite::Result<bool> {
    let params = named_params! {
        ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":node": node.map(|node| node.0),
    };
    Ok(connection.prepare_cached(HANDLER_ENDED)?.execute(params)? > 0)
}
