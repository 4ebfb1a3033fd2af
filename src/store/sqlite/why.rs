//! The facts about jobs that do not run.

use std::time::Duration;

use rusqlite::types::{FromSqlError, ValueRef};
use rusqlite::{OptionalExtension as _, Row, named_params};
use serde::de::DeserializeOwned;

use super::liveness_files::LivenessFiles;
use super::rows::{Micros, job_id, nearest, number};
use super::shared::Shared;
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::sections::section;
use crate::store::{Holder, JobPosition, JobState, KeyQuestion, KeyUse, ServingNode, WaitingClass};

const SQL: &str = include_str!("why.sql");
const SERVING_NODES: &str = section(SQL, "serving_nodes");
const JOB_POSITION: &str = section(SQL, "job_position");
const KEY_USE: &str = section(SQL, "key_use");
const KEY_HOLDERS: &str = section(SQL, "key_holders");
const WAITING_CLASSES: &str = section(SQL, "waiting_classes");

impl Shared {
    pub(super) async fn serving_nodes(&self) -> Result<Vec<ServingNode>> {
        let files = self.liveness_files.clone();
        self.query("list nodes", move |connection, _| {
            let mut nodes = connection.prepare_cached(SERVING_NODES)?;
            Ok(nodes.query_map([], |row| node(row, &files))?.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    pub(super) async fn position(&self, id: JobId) -> Result<JobPosition> {
        self.query("find out where a job is", move |connection, now| {
            let now = nearest(now);
            let read = |row: &Row<'_>| {
                // A suspect that runs alone has a number there that is no time.
                let hidden_until = row.get::<_, Option<Micros>>("visible_at")?.filter(|at| *at > 0);
                Ok(JobPosition {
                    now,
                    hidden_until: hidden_until.map(nearest),
                    lease_until: row.get::<_, Option<Micros>>("lease_until")?.map(nearest),
                    worker: None,
                    admitted: row.get("admitted")?,
                    before: number(row, "before")?,
                    running: number(row, "running")?,
                })
            };
            let mut statement = connection.prepare_cached(JOB_POSITION)?;
            let found = statement.query_row(named_params! { ":id": id.as_uuid().as_bytes() }, read).optional()?;
            let gone = JobPosition {
                now,
                hidden_until: None,
                lease_until: None,
                worker: None,
                admitted: false,
                before: 0,
                running: 0,
            };
            Ok(found.unwrap_or(gone))
        })
        .await
    }

    pub(super) async fn key_uses(&self, asked: &[KeyQuestion]) -> Result<Vec<KeyUse>> {
        let asked = asked.to_vec();
        self.query("look at permits", move |connection, now| {
            let mut uses = connection.prepare_cached(KEY_USE)?;
            let mut holders = connection.prepare_cached(KEY_HOLDERS)?;
            let mut all = Vec::new();
            for KeyQuestion { key, period } in asked {
                let holders = holders.query_map(named_params! { ":key": key }, holder)?;
                let holders = holders.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?;
                let after = now.saturating_sub(period);
                all.push(uses.query_row(named_params! { ":key": key, ":after": after }, |row| {
                    Ok(KeyUse {
                        key: key.clone(),
                        taken: number(row, "taken")?,
                        holders,
                        starts: number(row, "starts")?,
                        first_start: row.get::<_, Option<Micros>>("first_start")?.map(nearest),
                    })
                })?);
            }
            Ok(all)
        })
        .await
    }

    pub(super) async fn waiting_classes(&self, queue: Option<&str>, kind: Option<&str>) -> Result<Vec<WaitingClass>> {
        let (queue, kind) = (queue.map(str::to_owned), kind.map(str::to_owned));
        self.query("sort the waiting jobs", move |connection, _| {
            let mut classes = connection.prepare_cached(WAITING_CLASSES)?;
            let read = |row: &Row<'_>| Ok(WaitingClass { jobs: number(row, "jobs")?, first: job_id(row, "first")? });
            let found = classes.query_map(named_params! { ":queue": queue, ":kind": kind }, read)?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }
}

fn node(row: &Row<'_>, files: &LivenessFiles) -> rusqlite::Result<ServingNode> {
    let id = row.get("id")?;
    let dead = row.get("dead")?;
    let lease = u64::try_from(row.get::<_, Micros>("lease")?).unwrap_or(0);
    let silent = files.last(id).map(|last| last.elapsed().unwrap_or_default());
    Ok(ServingNode {
        id: NodeId(id),
        name: row.get("name")?,
        dead,
        alive: !dead && silent.is_some_and(|silent| silent < 2 * Duration::from_micros(lease)),
        broker: row.get("broker")?,
        serves: json(row, "serves")?,
        left_alone: json(row, "left_alone")?,
        failing: json(row, "failing")?,
    })
}

/// `None`: the permit's holder has gone since, or never was; a look for such permits takes it back.
fn holder(row: &Row<'_>) -> rusqlite::Result<Option<Holder>> {
    if row.get_ref("handler_of")? != ValueRef::Null {
        return Ok(Some(Holder::Handler { id: job_id(row, "handler_of")? }));
    }
    let Some(kind) = row.get("kind")? else { return Ok(None) };
    let state: String = row.get("state")?;
    let state: JobState = state.parse().map_err(|_| FromSqlError::InvalidType)?;
    let since = row.get::<_, Option<Micros>>("since")?.map(nearest);
    Ok(Some(Holder::Job { id: job_id(row, "job_id")?, kind, state, since }))
}

/// Reads a node's description of itself. It is shown to people: a part that can't be read is left out.
pub(super) fn json<T: DeserializeOwned + Default>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    let text: Option<String> = row.get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}
