//! Jobs that are handed out to external workers.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::error::Work;
use super::history::{Memory, SourceTable};
use super::insert::insert;
use super::job_columns::JobPositions;
use super::nodes::handler_ended;
use super::rows::{Micros, attempt_error, count, micros, timestamp, with_error};
use super::settle::{REMOVE_JOB, ending};
use super::shared::Shared;
use super::statements::{Statement, statement};
use super::unreadable::sort_out;
use crate::error::Result;
use crate::job::{
    AttemptError, CORRELATION_ID, Fence, HandOutNumber, Job, JobId, JobMessage, Payload, REPLY_OF, REPLY_QUEUE,
    REPLY_TO, ReportKey,
};
use crate::store::broker::{EXTERNAL_NODE, LEASE_EXPIRED, NO_ANSWER};
use crate::store::{Completed, Extension, ExternalDone, HistoryOutcome, Released, Settlement, Verdict};

static HAND_OUT_CHECK: Statement = statement!("sql/hand_out_check.sql");
static HAND_OUT: Statement = statement!("sql/hand_out.sql");
const EXTERNAL_ROW: &str = include_str!("sql/external_row.sql");
const LATE_CHECK: &str = include_str!("sql/external_late_check.sql");
const LATE: &str = include_str!("sql/external_late.sql");
const LATE_TERMINATING: &str = include_str!("sql/late_terminating.sql");
static TO_JOB: Statement = statement!("sql/external_to_job.sql");
static TO_TIMER: Statement = statement!("sql/external_to_timer.sql");
static TO_DEAD: Statement = statement!("sql/external_to_dead.sql");
const REMOVE: &str = include_str!("sql/remove_external.sql");
pub(super) const REPORT_KEY: &str = include_str!("sql/report_key.sql");
const EXTEND: &str = include_str!("sql/extend_external.sql");

impl Shared {
    pub(super) async fn hand_out(
        &self,
        queue: &str,
        limit: usize,
        lease: Duration,
        token: HandOutNumber,
    ) -> Result<Vec<Job>> {
        let tried = "hand jobs out to external workers";
        let (queue, asked) = (queue.to_owned(), queue.to_owned());
        let any = self
            .check(tried, move |connection, _| {
                let mut statement = connection.prepare_cached(&HAND_OUT_CHECK)?;
                Ok(statement.query_row(named_params! { ":queue": asked }, |row| row.get::<_, bool>(0))?)
            })
            .await?;
        if !any || limit == 0 {
            return Ok(Vec::new());
        }
        let keep = self.history.keep;
        self.write(tried, move |connection, now| {
            let mut statement = connection.prepare_cached(&HAND_OUT)?;
            let params = named_params! {
                ":queue": queue, ":limit": count(limit), ":lease": micros(lease), ":now": now, ":token": token.get(),
            };
            let columns = JobPositions::of(&statement)?;
            let (jobs, unreadable) = sort_out(&columns, &mut statement.query(params)?)?;
            let mut remove = connection.prepare_cached(REMOVE_JOB)?;
            for seq in jobs.iter().map(|job| job.seq).chain(unreadable.iter().map(|row| row.seq)) {
                remove.execute(named_params! { ":seq": seq })?;
            }
            for row in &unreadable {
                row.dead_letter(connection, SourceTable::EXTERNAL, EXTERNAL_NODE, Memory { keep, now }, |errors| {
                    dead_letter(connection, row.seq, Some(errors), &row.why, now)
                })?;
            }
            Ok(jobs)
        })
        .await
    }

    pub(super) async fn report_key(&self) -> Result<ReportKey> {
        let read = |connection: &Connection, _: i64| {
            Ok(connection.prepare_cached(REPORT_KEY)?.query_row((), |row| row.get::<_, [u8; 32]>(0))?)
        };
        self.query("read the key of reports", read).await.map(ReportKey::new)
    }

    pub(super) async fn take_back(&self, fences: &[Fence]) -> Result<u64> {
        self.each("take back jobs that were handed out", fences, |connection, fence, _| {
            let Some(row) = External::find(connection, *fence)? else { return refused(connection, *fence) };
            row.release(connection, row.attempt.saturating_sub(1), row.errors.as_deref())?;
            Ok(Some(fence.id))
        })
        .await
        .map(|accepted| accepted.len() as u64)
    }

    pub(super) async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed> {
        let completed = self.each("complete jobs of external workers", done, |connection, done, memory| {
            let Some(row) = External::find(connection, done.fence)? else { return refused(connection, done.fence) };
            memory.remember(connection, SourceTable::EXTERNAL, row.seq, HistoryOutcome::Done, None)?;
            row.remove(connection)?;
            let reply = row.reply(done);
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

    pub(super) async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        self.each("record outcomes of external workers", settlements, |connection, settlement, memory| {
            let settled = settle_one(connection, settlement, memory)?;
            if settled { Ok(Some(settlement.fence.id)) } else { refused(connection, settlement.fence) }
        })
        .await
    }

    pub(super) async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>> {
        self.each("extend leases of external workers", extensions, |connection, extension, Memory { now, .. }| {
            let Fence { id, version, .. } = extension.fence;
            let params = named_params! {
                ":id": id.as_uuid().as_bytes(), ":version": version,
                ":now": now, ":lease": extension.lease.map(micros),
            };
            Ok((connection.prepare_cached(EXTEND)?.execute(params)? == 1).then_some(id))
        })
        .await
    }

    pub(super) async fn expire_external(&self, limit: usize) -> Result<Released> {
        let tried = "release what external workers did not answer for";
        let any = self
            .check(tried, |connection, now| {
                let mut statement = connection.prepare_cached(LATE_CHECK)?;
                Ok(statement.query_row(named_params! { ":now": now }, |row| row.get::<_, bool>(0))?)
            })
            .await?;
        if !any {
            return Ok(Released::default());
        }
        let keep = self.history.keep;
        self.write(tried, move |connection, now| {
            let memory = Memory { keep, now };
            let mut statement = connection.prepare_cached(LATE)?;
            let late = statement.query_map(named_params! { ":now": now, ":limit": count(limit) }, External::read)?;
            // Read completely first, because removing rows changes the index that the query reads.
            let late = late.collect::<rusqlite::Result<Vec<External>>>()?;
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
                memory.remember(connection, SourceTable::EXTERNAL, row.seq, ending, Some(NO_ANSWER))?;
                if again {
                    row.release(connection, row.attempt, Some(&errors))?;
                    released.waiting += 1;
                } else {
                    row.dead_letter(connection, Some(&errors), LEASE_EXPIRED, now)?;
                    released.dead += 1;
                }
            }
            Ok(released)
        })
        .await
    }

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

fn settle_one(connection: &Connection, settlement: &Settlement, memory: Memory) -> Work<bool> {
    let now = memory.now;
    let Some(row) = External::find(connection, settlement.fence)? else {
        return Ok(false);
    };
    let errors = match attempt_error(settlement, row.attempt, EXTERNAL_NODE, now)? {
        Some(error) => Some(with_error(row.errors.as_deref(), error)?),
        None => row.errors.clone(),
    };
    let errors = errors.as_deref();
    let given_back = row.attempt.saturating_sub(1);
    if let Some(ending) = ending(&settlement.verdict, row.attempt >= row.max_attempts) {
        memory.remember(connection, SourceTable::EXTERNAL, row.seq, ending, settlement.error.as_deref())?;
    }
    match settlement.verdict {
        Verdict::Retry(_) if row.attempt >= row.max_attempts => {
            row.dead_letter(connection, errors, settlement.error.as_deref().unwrap_or("attempts exhausted"), now)?;
        }
        Verdict::Retry(delay) => row.defer(connection, row.attempt, errors, now.saturating_add(micros(delay)))?,
        Verdict::Snooze(delay) => row.defer(connection, given_back, errors, now.saturating_add(micros(delay)))?,
        Verdict::Release => row.release(connection, given_back, errors)?,
        Verdict::Cancel => row.remove(connection)?,
        Verdict::Dead => {
            row.dead_letter(connection, errors, settlement.error.as_deref().unwrap_or("no reason was given"), now)?;
        }
    }
    Ok(true)
}

/// The columns that decide what happens next to a job that was handed out.
struct External {
    seq: i64,
    attempt: u32,
    max_attempts: u32,
    errors: Option<String>,
    kind: String,
    headers: Option<String>,
    /// Whether the job holds a group or permits.
    admitted: bool,
}

impl External {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get("seq")?,
            attempt: row.get("attempt")?,
            max_attempts: row.get("max_attempts")?,
            errors: row.get("errors")?,
            kind: row.get("kind")?,
            headers: row.get("headers")?,
            admitted: row.get("admitted")?,
        })
    }

    fn find(connection: &Connection, fence: Fence) -> rusqlite::Result<Option<Self>> {
        let params = named_params! { ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version };
        connection.prepare_cached(EXTERNAL_ROW)?.query_row(params, Self::read).optional()
    }

    /// Returns the reply message, if one was asked for.
    fn reply(&self, done: &ExternalDone) -> Option<JobMessage> {
        let asked: BTreeMap<String, String> = serde_json::from_str(self.headers.as_deref()?).ok()?;
        let mut headers = BTreeMap::from([
            (REPLY_TO.to_owned(), asked.get(REPLY_TO)?.clone()),
            (REPLY_OF.to_owned(), done.fence.id.to_string()),
        ]);
        headers.extend(asked.get(CORRELATION_ID).map(|correlation| (CORRELATION_ID.to_owned(), correlation.clone())));
        let nothing = || Payload::Json(serde_json::value::RawValue::NULL.to_owned());
        let payload = done.result.clone().unwrap_or_else(nothing);
        Some(JobMessage { headers, ..JobMessage::new(self.kind.clone(), REPLY_QUEUE.to_owned(), payload) })
    }

    /// Moves the job back to the waiting ones.
    fn release(&self, connection: &Connection, attempt: u32, errors: Option<&str>) -> rusqlite::Result<()> {
        connection
            .prepare_cached(&TO_JOB)?
            .execute(named_params! { ":seq": self.seq, ":attempt": attempt, ":errors": errors })?;
        self.remove(connection)
    }

    /// Moves the job to `timer_job`.
    fn defer(
        &self,
        connection: &Connection,
        attempt: u32,
        errors: Option<&str>,
        due_at: Micros,
    ) -> rusqlite::Result<()> {
        connection
            .prepare_cached(&TO_TIMER)?
            .execute(named_params! { ":seq": self.seq, ":attempt": attempt, ":errors": errors, ":due_at": due_at })?;
        self.remove(connection)
    }

    /// Moves the job to `dead_letter_job`.
    fn dead_letter(
        &self,
        connection: &Connection,
        errors: Option<&str>,
        reason: &str,
        now: Micros,
    ) -> rusqlite::Result<()> {
        dead_letter(connection, self.seq, errors, reason, now)
    }

    fn remove(&self, connection: &Connection) -> rusqlite::Result<()> {
        remove(connection, self.seq)
    }
}

fn dead_letter(
    connection: &Connection,
    seq: i64,
    errors: Option<&str>,
    reason: &str,
    now: Micros,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&TO_DEAD)?
        .execute(named_params! { ":seq": seq, ":errors": errors, ":reason": reason, ":now": now })?;
    remove(connection, seq)
}

fn remove(connection: &Connection, seq: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(REMOVE)?.execute(named_params! { ":seq": seq })?;
    Ok(())
}
