//! The progress of running jobs.

use rusqlite::{OptionalExtension, named_params};
use serde_json::value::RawValue;

use super::rows::{count, timestamp};
use super::shared::Shared;
use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};
use crate::store::sections::section;
use crate::store::{JobProgress, ProgressUpdate};

const SQL: &str = include_str!("progress.sql");
const RECORD_PROGRESS: &str = section(SQL, "record_progress");
const PROGRESS: &str = section(SQL, "progress");
const PRUNE_PROGRESS: &str = section(SQL, "prune_progress");

impl Shared {
    pub(super) async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool> {
        let ProgressUpdate { percent, note, checkpoint } = update.clone();
        self.write("record the progress of a job", move |connection, now| {
            let params = named_params! {
                ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":node": node.0, ":percent": percent,
                ":note": note, ":checkpoint": checkpoint.as_ref().map(|json| json.get()), ":now": now,
            };
            Ok(connection.prepare_cached(RECORD_PROGRESS)?.execute(params)? == 1)
        })
        .await
    }

    pub(super) async fn progress(&self, id: JobId) -> Result<Option<JobProgress>> {
        self.check("read the progress of a job", move |connection, _| {
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

    pub(super) async fn prune_progress(&self, limit: usize) -> Result<u64> {
        self.write("prune progress", move |connection, _| {
            let params = named_params! { ":limit": count(limit) };
            Ok(connection.prepare_cached(PRUNE_PROGRESS)?.execute(params)? as u64)
        })
        .await
    }
}
