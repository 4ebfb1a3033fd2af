//! Deliveries of a broker: claims rows by name, and reveals hidden rows whose delivery will not come.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, named_params};

use super::history::Memory;
use super::job_columns::JobPositions;
use super::nodes::may_own;
use super::rows::name_list;
use super::shared::Shared;
use super::statements::{Statement, statement};
use super::unreadable::sort_out;
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, Job, JobId, NodeId};
use crate::store::sections::section;

const SQL: &str = include_str!("delivered.sql");
static CLAIM_DELIVERED: Statement = statement!(SQL, "claim_delivered");
const UNHIDE: &str = section(SQL, "unhide");

impl Shared {
    pub(super) async fn claim_delivered(
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
        let (deliveries, keep) = (deliveries.to_vec(), self.history.keep);
        self.write("claim delivered jobs", move |connection, now| {
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

    pub(super) async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids = ids.to_vec();
        self.write("end the head start of deliveries", move |connection, _| {
            let mut statement = connection.prepare_cached(UNHIDE)?;
            let mut queues = BTreeSet::new();
            for id in ids {
                let params = named_params! { ":id": id.as_uuid().as_bytes() };
                queues.extend(statement.query_row(params, |row| row.get::<_, String>(0)).optional()?);
            }
            Ok(queues.into_iter().collect())
        })
        .await
    }
}
