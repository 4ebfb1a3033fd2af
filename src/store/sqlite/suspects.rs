//! Jobs whose process died while they ran. They wait among the blocked jobs, blocked on a key of their own, so that no ordinary claim reads
//! them. While one of them runs, its row has a mark ([`RUNS_ALONE`]) that every other claim removes.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, named_params};

use super::error::Work;
use super::history::Memory;
use super::job_columns::JobPositions;
use super::nodes::may_own;
use super::rows::{attempts, count, job_id};
use super::settle::{RUNS_ALONE, dead_letter_unreadable};
use super::shared::Shared;
use super::statements::{Statement, statement};
use super::unreadable::sort_out;
use crate::error::{Error, Result};
use crate::job::{Job, JobId};
use crate::store::{Acquitted, ClaimRequest, Suspect};

static SUSPECTS: Statement = statement!("sql/suspects.sql");
static BEST_SUSPECTS: Statement = statement!("sql/best_suspects.sql");
static SUSPECT_TO_JOB: Statement = statement!("sql/suspect_to_job.sql");
static CLAIM_SUSPECT: Statement = statement!("sql/claim_suspect.sql");
const ACQUIT_RUNNING: &str = include_str!("sql/acquit_running.sql");
const REMOVE_SUSPECT: &str = include_str!("sql/remove_suspect.sql");

/// Moves a suspect to `jobwright_job`. Returns its queue, or `None` if it is a suspect no more.
fn to_job(connection: &Connection, id: JobId) -> rusqlite::Result<Option<String>> {
    let id = named_params! { ":id": id.as_uuid().as_bytes() };
    let queue = connection.prepare_cached(&SUSPECT_TO_JOB)?.query_row(id, |row| row.get(0)).optional()?;
    connection.prepare_cached(REMOVE_SUSPECT)?.execute(id)?;
    Ok(queue)
}

impl Shared {
    pub(super) async fn suspects(
        &self,
        queues: &[String],
        kinds: Option<&[String]>,
        limit: usize,
    ) -> Result<Vec<Suspect>> {
        let (queues, kinds) = (as_json(queues)?, kinds.map(as_json).transpose()?);
        self.check("look for suspects", move |connection, now| {
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

    pub(super) async fn acquit(&self, ids: &[JobId]) -> Result<Acquitted> {
        if ids.is_empty() {
            return Ok(Acquitted::default());
        }
        let ids = ids.to_vec();
        self.write("acquit suspects", move |connection, _| {
            let mut queues: BTreeSet<String> = BTreeSet::new();
            for id in ids {
                let running = named_params! { ":id": id.as_uuid().as_bytes(), ":mark": RUNS_ALONE };
                queues.extend(
                    connection.prepare_cached(ACQUIT_RUNNING)?.query_row(running, |row| row.get(0)).optional()?,
                );
                queues.extend(to_job(connection, id)?);
            }
            // There is one writer: no row is locked by another.
            Ok(Acquitted { queues: queues.into_iter().collect(), locked: 0 })
        })
        .await
    }

    /// Claims suspects. Hidden rows and ranges mean nothing here: suspects are few, and were claimed before.
    pub(super) async fn claim_suspects(&self, request: &ClaimRequest<'_>) -> Result<Vec<Job>> {
        let kinds = request.kinds.map(as_json).transpose()?;
        let (node, claim, queue) = (request.node, request.claim, request.queue.to_owned());
        let (limit, keep) = (count(request.limit), self.history.keep);
        self.write("claim suspects", move |connection, now| {
            may_own(connection, node)?;
            let mut best = connection.prepare_cached(&BEST_SUSPECTS)?;
            let params = named_params! { ":queue": queue, ":kinds": kinds, ":now": now, ":limit": limit };
            let ids = best.query_map(params, |row| job_id(row, "id"))?.collect::<rusqlite::Result<Vec<_>>>()?;
            let mut statement = connection.prepare_cached(&CLAIM_SUSPECT)?;
            let columns = JobPositions::of(&statement)?;
            let mut jobs = Vec::with_capacity(ids.len());
            for id in ids {
                if to_job(connection, id)?.is_none() {
                    continue;
                }
                let params = named_params! {
                    ":node": node.0, ":claim": claim.get(), ":now": now, ":id": id.as_uuid().as_bytes(), ":mark": RUNS_ALONE,
                };
                let (taken, unreadable) = sort_out(&columns, &mut statement.query(params)?)?;
                jobs.extend(taken);
                for row in &unreadable {
                    dead_letter_unreadable(connection, node, row, Memory { keep, now })?;
                }
            }
            Work::Ok(jobs)
        })
        .await
    }
}

fn as_json(names: &[String]) -> Result<String> {
    serde_json::to_string(names)
        .map_err(|error| Error::invalid("names of queues or kinds can't be written as JSON").with_source(error))
}
