//! Jobs that are handed out to external workers.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, named_params};

use super::database::Sqlite;
use super::error::Work;
use super::history::Memory;
use super::insert::insert;
use super::job_columns::JobPositions;
use super::outcomes::handler_ended;
use super::rows::{count, micros, timestamp, with_error};
use super::settle::{TakenRow, settle_one};
use super::shared::Shared;
use super::statements::{Statement, asks, statement};
use super::unreadable::sort_out;
use crate::error::Result;
use crate::job::{
    AttemptError, CORRELATION_ID, Fence, HandOutNumber, Job, JobId, JobMessage, Payload, REPLY_OF, REPLY_QUEUE,
    REPLY_TO, ReportKey,
};
use crate::store::broker::{EXTERNAL_NODE, LEASE_EXPIRED, NO_ANSWER};
use crate::store::sections::section;
use crate::store::{
    Completed, Extension, External, ExternalDone, HistoryOutcome, JobDetail, JobState, Operator, Released, Settlement,
};

const SQL: &str = include_str!("external.sql");
static HAND_OUT_CHECK: Statement = statement!(SQL, "hand_out_check");
static HAND_OUT: Statement = statement!(SQL, "hand_out");
const WHAT_TO_REPLY: &str = section(SQL, "what_to_reply");
const LATE_CHECK: &str = section(SQL, "late_check");
const LATE_LEASES: &str = section(SQL, "late_leases");
const LATE_TERMINATING: &str = section(SQL, "late_terminating");
pub(super) const REPORT_KEY: &str = section(SQL, "report_key");
const EXTEND: &str = section(SQL, "extend");

#[async_trait]
impl External for Sqlite {
    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>> {
        let tried = "hand jobs out to external workers";
        let (queue, asked) = (queue.to_owned(), queue.to_owned());
        let any = self
            .0
            .check(tried, move |connection, _| {
                Ok(asks(connection, &HAND_OUT_CHECK, named_params! { ":queue": asked })?)
            })
            .await?;
        if !any || limit == 0 {
            return Ok(Vec::new());
        }
        let keep = self.0.history.keep;
        self.0.write(tried, move |connection, now| {
            let mut statement = connection.prepare_cached(&HAND_OUT)?;
            let params = named_params! {
                ":queue": queue, ":limit": count(limit), ":lease": micros(lease), ":now": now, ":token": token.get(),
            };
            let columns = JobPositions::of(&statement)?;
            let (jobs, unreadable) = sort_out(&columns, &mut statement.query(params)?)?;
            for row in &unreadable {
                row.bury(connection, EXTERNAL_NODE, Memory { keep, now })?;
            }
            Ok(jobs)
        })
        .await
    }

    async fn report_key(&self) -> Result<ReportKey> {
        let read = |connection: &Connection, _: i64| {
            Ok(connection.prepare_cached(REPORT_KEY)?.query_row((), |row| row.get::<_, [u8; 32]>(0))?)
        };
        self.0.query("read the key of reports", read).await.map(ReportKey::new)
    }

    async fn take_back(&self, fences: &[Fence]) -> Result<u64> {
        self.0
            .each("take back jobs that were handed out", fences, |connection, fence, _| {
                let Some(row) = TakenRow::find(connection, None, *fence)? else {
                    return refused(connection, *fence);
                };
                row.release(connection, row.attempt.saturating_sub(1), row.errors.as_deref())?;
                Ok(Some(fence.id))
            })
            .await
            .map(|accepted| accepted.len() as u64)
    }

    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed> {
        let completed = self.0.each("complete jobs of external workers", done, |connection, done, memory| {
            let Some(row) = TakenRow::find(connection, None, done.fence)? else {
                return refused(connection, done.fence);
            };
            memory.remember(connection, row.seq, HistoryOutcome::Done, None)?;
            let reply = reply(connection, row.seq, done)?;
            row.remove(connection)?;
            let replies = reply.is_some();
            if let Some(reply) = reply {
                insert(connection, &[reply], None, memory.now)?;
            }
            Ok(Some((done.fence.id, replies, row.admitted)))
        });
        let completed = completed.await?;
        Ok(Completed {
            replies: completed.iter().any(|(_, replies, _)| *replies),
            unblocks: completed.len() < done.len() || completed.iter().any(|(_, _, unblocks)| *unblocks),
            ids: completed.into_iter().map(|(id, _, _)| id).collect(),
        })
    }

    async fn handed_out(&self, fence: Fence) -> Result<Option<JobDetail>> {
        let found = self.show(fence.id).await?;
        Ok(found.filter(|detail| detail.summary.state == JobState::External && detail.version == fence.version))
    }

    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        self.0
            .each("record outcomes of external workers", settlements, |connection, settlement, memory| {
                let settled = settle_one(connection, None, settlement, memory)?;
                if settled { Ok(Some(settlement.fence.id)) } else { refused(connection, settlement.fence) }
            })
            .await
    }

    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>> {
        self.0
            .each("extend leases of external workers", extensions, |connection, extension, Memory { now, .. }| {
                let Fence { id, version, .. } = extension.fence;
                let params = named_params! {
                    ":id": id.as_uuid().as_bytes(), ":version": version,
                    ":now": now, ":lease": extension.lease.map(micros),
                };
                Ok((connection.prepare_cached(EXTEND)?.execute(params)? == 1).then_some(id))
            })
            .await
    }

    async fn expire_external(&self, limit: usize) -> Result<Released> {
        let tried = "release jobs of late external workers";
        let any = self
            .0
            .check(tried, |connection, now| Ok(asks(connection, LATE_CHECK, named_params! { ":now": now })?))
            .await?;
        if !any {
            return Ok(Released::default());
        }
        let keep = self.0.history.keep;
        self.0
            .write(tried, move |connection, now| {
                let memory = Memory { keep, now };
                let mut statement = connection.prepare_cached(LATE_LEASES)?;
                let late =
                    statement.query_map(named_params! { ":now": now, ":limit": count(limit) }, TakenRow::read)?;
                // Read completely first, because releasing rows changes the index that the query reads.
                let late = late.collect::<rusqlite::Result<Vec<TakenRow>>>()?;
                let ended = connection.prepare_cached(LATE_TERMINATING)?.execute(named_params! { ":now": now })? as u64;
                let mut released = Released { ended, ..Released::default() };
                for row in &late {
                    let error = AttemptError {
                        attempt: row.attempt,
                        at: timestamp(now)?,
                        node: EXTERNAL_NODE.0,
                        error: NO_ANSWER.to_owned(),
                        detail: None,
                    };
                    let errors = with_error(row.errors.as_deref(), error)?;
                    let again = row.attempt < row.max_attempts;
                    let ending = if again { HistoryOutcome::Lost } else { HistoryOutcome::Dead };
                    memory.remember(connection, row.seq, ending, Some(NO_ANSWER))?;
                    if again {
                        row.release(connection, row.attempt, Some(&errors))?;
                        released.waiting += 1;
                    } else {
                        row.bury(connection, Some(&errors), LEASE_EXPIRED, now)?;
                        released.dead += 1;
                    }
                }
                Ok(released)
            })
            .await
    }
}

impl Shared {
    /// Runs `one` for each item, in one transaction, and returns the accepted results.
    async fn each<T: Clone + Send + 'static, A: Send + 'static>(
        &self,
        tried: &'static str,
        all: &[T],
        one: fn(&Connection, &T, Memory) -> Work<Option<A>>,
    ) -> Result<Vec<A>> {
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let (all, keep) = (all.to_vec(), self.history.keep);
        self.write(tried, move |connection, now| {
            let memory = Memory { keep, now };
            let mut accepted = Vec::with_capacity(all.len());
            for each in &all {
                accepted.extend(one(connection, each, memory)?);
            }
            Ok(accepted)
        })
        .await
    }
}

/// Handles a rejected report. A worker whose report is no longer accepted has ended, so a cancelled job's permits and keys are released.
fn refused<A>(connection: &Connection, fence: Fence) -> Work<Option<A>> {
    handler_ended(connection, None, fence)?;
    Ok(None)
}

/// Returns the reply message, if the job asks for one.
fn reply(connection: &Connection, seq: i64, done: &ExternalDone) -> rusqlite::Result<Option<JobMessage>> {
    let (kind, headers): (String, Option<String>) = connection
        .prepare_cached(WHAT_TO_REPLY)?
        .query_row(named_params! { ":seq": seq }, |row| Ok((row.get("kind")?, row.get("headers")?)))?;
    let asked: BTreeMap<String, String> =
        headers.and_then(|headers| serde_json::from_str(&headers).ok()).unwrap_or_default();
    let Some(reply_to) = asked.get(REPLY_TO) else { return Ok(None) };
    let mut headers =
        BTreeMap::from([(REPLY_TO.to_owned(), reply_to.clone()), (REPLY_OF.to_owned(), done.fence.id.to_string())]);
    headers.extend(asked.get(CORRELATION_ID).map(|correlation| (CORRELATION_ID.to_owned(), correlation.clone())));
    let nothing = || Payload::Json(serde_json::value::RawValue::NULL.to_owned());
    let payload = done.result.clone().unwrap_or_else(nothing);
    Ok(Some(JobMessage { headers, ..JobMessage::new(kind, REPLY_QUEUE.to_owned(), payload) }))
}
