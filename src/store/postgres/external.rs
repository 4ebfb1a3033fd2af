//! Jobs that are handed out to external workers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::admin::detail;
use super::around::may_be_of_rows;
use super::claim::waiting_in;
use super::database::Postgres;
use super::halves::Named;
use super::outcomes::handlers_ended;
use super::parts::{Parts, turned};
use super::range::Ranges;
use super::rows;
use super::settle::{SettlementColumns, first_of_each, take_chunk, verdict};
use super::shared::Shared;
use super::types::JsonParam;
use super::unreadable::{Found, clear_away, refusal, settled, sort_out};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{DEFAULT_MAX_ATTEMPTS, Fence, HandOutNumber, Job, JobId, Payload, REPLY_QUEUE, ReportKey};
use crate::store::broker::{EXTERNAL_NODE, LEASE_EXPIRED, NO_ANSWER};
use crate::store::statement_size::ByteBudget;
use crate::store::{Completed, Extension, External, ExternalDone, JobDetail, Released, ScanRange, Settlement};

const RELEASE_LATE: &str = "release jobs of late external workers";

#[async_trait]
impl External for Postgres {
    fn is_open_to_sql(&self) -> bool {
        true
    }

    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>> {
        let shared = &self.0;
        let tried = "hand jobs out to external workers";
        let (limit, lease, token) = (rows::count(limit), rows::micros(lease), token.get());
        let params: [&(dyn ToSql + Sync); 4] = [&queue, &limit, &lease, &token];
        let take = || shared.engine_once(tried, &shared.sql.hand_out, &params);
        let everywhere = Ranges::of(&ScanRange::All, None);
        let waiting = waiting_in(shared, queue, &everywhere, None, true, limit);
        let rows = match take().await {
            Err(error) if clear_away(shared, &error, EXTERNAL_NODE, waiting).await => take().await?,
            taken => taken?,
        };
        let (jobs, unreadable) = sort_out(&rows)?;
        if !unreadable.is_empty() {
            settled(&settle(shared, &unreadable).await);
        }
        Ok(jobs)
    }

    async fn report_key(&self) -> Result<ReportKey> {
        let rows = self.0.engine("read the key of reports", &self.0.sql.report_key, &[]).await?;
        let key = rows::get::<&[u8]>(rows::single(&rows)?, 0)?;
        key.try_into()
            .map(ReportKey::new)
            .map_err(|_| Error::new(ErrorKind::Schema, "the key in the table report_key is not 32 bytes long"))
    }

    async fn take_back(&self, fences: &[Fence]) -> Result<u64> {
        let (ids, versions) = rows::fence_columns(fences);
        let take = async |sql| self.0.engine("take back jobs that were handed out", sql, &[&ids, &versions]).await;
        let mut taken = take(&self.0.sql.take_back).await?.len();
        if taken < fences.len() {
            // Some are gone, or locked. Those are waited for only now, when the others wait no more.
            taken += take(&self.0.sql.take_back_locked).await?.len();
        }
        refused(&self.0, fences.iter().copied(), taken).await?;
        Ok(taken as u64)
    }

    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed> {
        let mut completed = Completed::default();
        let mut left: Vec<&ExternalDone> = done.iter().collect();
        while !left.is_empty() {
            let mut round = first_of_each(&mut left, |one| one.fence.id);
            let mut room = ByteBudget::default();
            let fit = round
                .iter()
                .take_while(|one| room.takes(one.result.as_ref().map_or(0, |result| result.as_bytes().len())));
            let fit = fit.count();
            // The rest goes before what is left, because the first report on a job counts.
            left.splice(..0, round.split_off(fit));
            for row in complete_chunk(&self.0, &round).await? {
                completed.ids.push(JobId::from(rows::get::<Uuid>(&row, "id")?));
                completed.replies |= rows::get::<bool>(&row, "replies")?;
                completed.unblocks |= rows::get::<bool>(&row, "admitted")?;
            }
        }
        refused(&self.0, done.iter().map(|one| one.fence), completed.ids.len()).await?;
        completed.unblocks |= completed.ids.len() < done.len();
        Ok(completed)
    }

    async fn handed_out(&self, fence: Fence) -> Result<Option<JobDetail>> {
        let params: [&(dyn ToSql + Sync); 2] = [fence.id.as_uuid(), &fence.version];
        let rows = self.0.engine("read a job that was handed out", &self.0.sql.show_external, &params).await?;
        rows.first().map(|row| detail(row, None)).transpose()
    }

    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        settle(&self.0, settlements).await
    }

    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>> {
        let shared = &self.0;
        let mut accepted = Vec::with_capacity(extensions.len());
        let mut left: Vec<&Extension> = extensions.iter().collect();
        while !left.is_empty() {
            let round = first_of_each(&mut left, |one| one.fence.id);
            let fences: Vec<Fence> = round.iter().map(|one| one.fence).collect();
            let (ids, versions) = rows::fence_columns(&fences);
            let leases: Vec<Option<i64>> = round.iter().map(|one| one.lease.map(rows::micros)).collect();
            let rows = shared
                .engine("extend leases of external workers", &shared.sql.extend_external, &[&ids, &versions, &leases])
                .await?;
            accepted.extend(rows::job_ids(&rows)?);
        }
        Ok(accepted)
    }

    async fn expire_external(&self, limit: usize) -> Result<Released> {
        let late = self.0.engine("look for leases of external workers", &self.0.sql.external_late, &[]).await?;
        if !rows::get::<bool>(rows::single(&late)?, 0)? {
            return Ok(Released::default());
        }
        match release_late(&self.0, limit, None).await {
            Err(error) if refusal(&error).is_some() || may_be_of_rows(&error) => {
                release_late_in_parts(&self.0, limit, error).await
            }
            released => released,
        }
    }
}

/// Records outcomes, also those of hand-outs whose rows can't be read.
async fn settle(shared: &Arc<Shared>, settlements: &[Settlement]) -> Result<Vec<JobId>> {
    let mut accepted = Vec::with_capacity(settlements.len());
    let mut left: Vec<&Settlement> = settlements.iter().collect();
    while !left.is_empty() {
        let round = take_chunk(&mut left);
        let SettlementColumns { ids, versions, errors, details } = SettlementColumns::new(&round);
        let (verdicts, delays): (Vec<&str>, Vec<i64>) = round.iter().map(|s| verdict(&s.verdict)).unzip();
        let rows = shared
            .engine(
                "record outcomes of external workers",
                &shared.sql.settle_external,
                &[&ids, &versions, &verdicts, &delays, &errors, &details],
            )
            .await?;
        accepted.extend(rows::job_ids(&rows)?);
    }
    refused(shared, settlements.iter().map(|one| one.fence), accepted.len()).await?;
    Ok(accepted)
}

/// Handles rejected reports. A worker whose report is no longer accepted has ended, so a cancelled job's permits and keys are released.
async fn refused(shared: &Arc<Shared>, fences: impl Iterator<Item = Fence>, accepted: usize) -> Result<()> {
    let fences: Vec<Fence> = fences.collect();
    if accepted < fences.len() {
        handlers_ended(shared, None, &fences).await?;
    }
    Ok(())
}

async fn complete_chunk(shared: &Arc<Shared>, round: &[&ExternalDone]) -> Result<Vec<Row>> {
    let fences: Vec<Fence> = round.iter().map(|one| one.fence).collect();
    let (ids, versions) = rows::fence_columns(&fences);
    // Each job might need a reply; only the rows say which ones do.
    let replies: Vec<Uuid> = round.iter().map(|_| JobId::new().into()).collect();
    let mut payloads = Vec::with_capacity(round.len());
    let mut bodies = Vec::with_capacity(round.len());
    let mut content_types = Vec::with_capacity(round.len());
    for one in round {
        let (payload, body, content_type) = match &one.result {
            None => (Some("null"), None, None),
            Some(Payload::Json(raw)) => (Some(raw.get()), None, None),
            Some(Payload::Bytes { content_type, body }) => (None, Some(body.as_slice()), Some(content_type.as_str())),
        };
        payloads.push(payload.map(JsonParam));
        bodies.push(body);
        content_types.push(content_type);
    }
    let attempts = i32::try_from(DEFAULT_MAX_ATTEMPTS).unwrap_or(i32::MAX);
    shared
        .engine(
            "complete jobs of external workers",
            &shared.sql.complete_external,
            &[&ids, &versions, &replies, &payloads, &bodies, &content_types, &REPLY_QUEUE, &attempts],
        )
        .await
}

/// Releases late hand-outs of which some made the whole statement fail. Those whose values are at fault become dead letters.
async fn release_late_in_parts(shared: &Arc<Shared>, limit: usize, error: Error) -> Result<Released> {
    let late = shared.engine("look for late external workers", &shared.sql.late, &[&rows::count(limit)]).await?;
    let late = turned(&late.iter().map(Found::read).collect::<Result<Vec<_>>>()?);
    let mut all = Released::default();
    let mut parts = Parts::of(shared, RELEASE_LATE, &late);
    while let Some(part) = parts.next() {
        let ids: Vec<Uuid> = part.iter().map(Named::id).collect();
        match release_late(shared, limit, Some(&ids)).await {
            Ok(some) => {
                all.waiting += some.waiting;
                all.dead += some.dead;
                all.ended += some.ended;
            }
            Err(error) => {
                if let Some((one, why)) = parts.failed(part, error)? {
                    all.dead += u64::from(parts.buried(one, bury_handed_out(shared, one, &why).await)?);
                }
            }
        }
    }
    if all == Released::default() && parts.left.is_none() { Err(error) } else { Ok(all) }
}

async fn bury_handed_out(shared: &Arc<Shared>, found: Found, why: &str) -> Result<bool> {
    let (ids, versions, seqs) = found.columns();
    let reasons = [why];
    let params: [&(dyn ToSql + Sync); 5] = [&ids, &versions, &seqs, &reasons.as_slice(), &EXTERNAL_NODE.0];
    let tried = "dead-letter a job that can't be taken back";
    let gone = !shared.engine(tried, &shared.sql.dead_letter_external, &params).await?.is_empty();
    if gone {
        tracing::error!(id = %found.id(), "{why}; the job became a dead letter");
    }
    Ok(gone)
}

async fn release_late(shared: &Arc<Shared>, limit: usize, ids: Option<&[Uuid]>) -> Result<Released> {
    let params: [&(dyn ToSql + Sync); 4] = [&rows::count(limit), &NO_ANSWER, &LEASE_EXPIRED, &ids];
    let rows = shared.engine_once(RELEASE_LATE, &shared.sql.expire_external, &params).await?;
    let row = rows::single(&rows)?;
    let number = |column| rows::get::<i64>(row, column).map(i64::unsigned_abs);
    Ok(Released { waiting: number("waiting")?, dead: number("dead")?, ended: number("ended")? })
}
