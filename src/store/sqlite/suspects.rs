//! Jobs whose process died while they ran. They wait among the blocked jobs, blocked on a key of their own, so that no ordinary claim reads
//! them. While one of them runs, its row has a mark ([`RUNS_ALONE`]) that every other claim removes.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, named_params};

use super::error::Work;
use super::history::Memory;
use super::job_columns::JobPositions;
use super::nodes::may_own;
use super::rows::{attempts, count, job_id, name_list};
use super::settle::RUNS_ALONE;
use super::shared::Shared;
use super::statements::{Statement, statement};
use super::unreadable::sort_out;
use crate::error::Result;
use crate::job::{Job, JobId};
use crate::store::sections::section;
use crate::store::{Acquitted, ClaimRequest, Suspect};

const SQL: &str = include_str!("suspects.sql");
static SUSPECTS: Statement = statement!(SQL, "suspects");
static CLAIM_SUSPECTS: Statement = statement!(SQL, "claim_suspects");
const ACQUIT: &str = section(SQL, "acquit");

impl Shared {
    pub(super) async fn suspects(
        &self,
        queues: &[String],
        kinds: Option<&[String]>,
        limit: usize,
    ) -> Result<Vec<Suspect>> {
        let (queues, kinds) = (name_list(queues)?, kinds.map(name_list).transpose()?);
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

    /// Claims suspects. Hidden rows and ranges mean nothing here: suspects are few, and were claimed before.
    pub(super) async fn claim_suspects(&self, request: &ClaimRequest<'_>) -> Result<Vec<Job>> {
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
