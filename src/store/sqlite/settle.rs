//! Outcomes of jobs. Each names its claim, and changes nothing if that claim is no longer current.

use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::error::Work;
use super::history::{Memory, SourceTable};
use super::rows::{Micros, attempt_error, fence_lists, job_id, micros, with_error};
use super::shared::Shared;
use super::statements::{STILL_OWNED, Statement, statement};
use super::unreadable::Unreadable;
use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};
use crate::store::{HistoryOutcome, Settlement, Verdict};

static COMPLETE_ALL: Statement = statement!("sql/complete_all.sql");
static REMEMBER_ALL: Statement = LazyLock::new(|| SourceTable::JOB.remember(STILL_OWNED));
const COMPLETE: &str = include_str!("sql/complete.sql");
const OWNED_ROW: &str = include_str!("sql/owned_row.sql");
static JOB_TO_TIMER: Statement = statement!("sql/job_to_timer.sql");
static JOB_TO_DEAD: Statement = statement!("sql/job_to_dead.sql");
pub(super) const REMOVE_JOB: &str = include_str!("sql/remove_job.sql");
const PUT_OFF: &str = include_str!("sql/put_off.sql");
const RELEASE_JOB: &str = include_str!("sql/release_job.sql");
static JOB_TO_SUSPECT: Statement = statement!("sql/job_to_suspect.sql");

/// `visible_at` of a suspect (suspects.rs) that runs, and runs alone. A row that has an owner needs no such time, and each claim sets it.
pub(super) const RUNS_ALONE: Micros = -1;

impl Shared {
    pub(super) async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
        if fences.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, versions) = fence_lists(fences);
        let keep = self.history.keep;
        self.write("complete jobs", move |connection, now| {
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

    pub(super) async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()> {
        self.write("put a job off", move |connection, now| {
            let params = named_params! {
                ":node": node.0, ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":until": now.saturating_add(micros(by)),
            };
            connection.prepare_cached(PUT_OFF)?.execute(params)?;
            Ok(())
        })
        .await
    }

    pub(super) async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let settlements = settlements.to_vec();
        let keep = self.history.keep;
        self.write("record outcomes", move |connection, now| {
            let memory = Memory { keep, now };
            let mut accepted = Vec::with_capacity(settlements.len());
            for settlement in &settlements {
                if settle_one(connection, node, settlement, memory)? {
                    accepted.push(settlement.fence.id);
                }
            }
            Ok(accepted)
        })
        .await
    }
}

/// Removes a finished job. Returns `false` if the claim is no longer current.
pub(super) fn complete_one(
    connection: &Connection,
    node: NodeId,
    fence: Fence,
    memory: Memory,
) -> rusqlite::Result<bool> {
    if memory.keeps(HistoryOutcome::Done) {
        let Some(row) = OwnedRow::find(connection, node, fence)? else { return Ok(false) };
        memory.remember(connection, SourceTable::JOB, row.seq, HistoryOutcome::Done, None)?;
    }
    let params = named_params! { ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":node": node.0 };
    Ok(connection.prepare_cached(COMPLETE)?.execute(params)? == 1)
}

fn settle_one(connection: &Connection, node: NodeId, settlement: &Settlement, memory: Memory) -> Work<bool> {
    let now = memory.now;
    let fence = settlement.fence;
    let Some(row) = OwnedRow::find(connection, node, fence)? else {
        return Ok(false);
    };
    let errors = match attempt_error(settlement, row.attempt, node, now)? {
        Some(error) => Some(with_error(row.errors.as_deref(), error)?),
        None => row.errors.clone(),
    };
    let errors = errors.as_deref();
    let given_back = row.attempt.saturating_sub(1);
    if let Some(ending) = ending(&settlement.verdict, row.attempt >= row.max_attempts) {
        memory.remember(connection, SourceTable::JOB, row.seq, ending, settlement.error.as_deref())?;
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

/// Moves a claimed row that can't be read to `dead_letter_job`.
pub(super) fn dead_letter_unreadable(
    connection: &Connection,
    node: NodeId,
    row: &Unreadable,
    memory: Memory,
) -> Work<()> {
    row.dead_letter(connection, SourceTable::JOB, node, memory, |errors| {
        let owned = OwnedRow { seq: row.seq, attempt: 0, max_attempts: 0, errors: None, runs_alone: false };
        owned.dead_letter(connection, Some(errors), &row.why, memory.now)
    })
}

/// Returns the outcome that a verdict records, or `None` if it ends nothing because the attempt is given back.
pub(super) fn ending(verdict: &Verdict, spent: bool) -> Option<HistoryOutcome> {
    match verdict {
        Verdict::Retry(_) => Some(if spent { HistoryOutcome::Dead } else { HistoryOutcome::Failed }),
        Verdict::Dead => Some(HistoryOutcome::Dead),
        Verdict::Cancel => Some(HistoryOutcome::Cancelled),
        Verdict::Snooze(_) | Verdict::Release => None,
    }
}

/// The columns that decide what happens next to an owned job.
pub(super) struct OwnedRow {
    pub(super) seq: i64,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) errors: Option<String>,
    /// Whether it was claimed as a suspect, and its node runs nothing else.
    pub(super) runs_alone: bool,
}

impl OwnedRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get("seq")?,
            attempt: row.get("attempt")?,
            max_attempts: row.get("max_attempts")?,
            errors: row.get("errors")?,
            runs_alone: row.get::<_, Option<Micros>>("visible_at")? == Some(RUNS_ALONE),
        })
    }

    fn find(connection: &Connection, node: NodeId, fence: Fence) -> rusqlite::Result<Option<Self>> {
        let params = named_params! { ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":node": node.0 };
        connection.prepare_cached(OWNED_ROW)?.query_row(params, Self::read).optional()
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
            .prepare_cached(&JOB_TO_TIMER)?
            .execute(named_params! { ":seq": self.seq, ":attempt": attempt, ":errors": errors, ":due_at": due_at })?;
        self.remove(connection)
    }

    /// Moves the job to `dead_letter_job`.
    pub(super) fn dead_letter(
        &self,
        connection: &Connection,
        errors: Option<&str>,
        reason: &str,
        now: Micros,
    ) -> rusqlite::Result<()> {
        connection
            .prepare_cached(&JOB_TO_DEAD)?
            .execute(named_params! { ":seq": self.seq, ":errors": errors, ":reason": reason, ":now": now })?;
        self.remove(connection)
    }

    /// Makes the job wait again. A suspect stays one.
    pub(super) fn release(&self, connection: &Connection, attempt: u32, errors: Option<&str>) -> rusqlite::Result<()> {
        connection
            .prepare_cached(RELEASE_JOB)?
            .execute(named_params! { ":seq": self.seq, ":attempt": attempt, ":errors": errors })?;
        if self.runs_alone { self.suspect(connection) } else { Ok(()) }
    }

    /// Makes a suspect of a job that has no owner any more: it is claimed alone from now on.
    pub(super) fn suspect(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.prepare_cached(&JOB_TO_SUSPECT)?.execute(named_params! { ":seq": self.seq })?;
        // The row is deleted last: the trigger then sees that the job only moved, and releases nothing.
        self.remove(connection)
    }

    fn remove(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.prepare_cached(REMOVE_JOB)?.execute(named_params! { ":seq": self.seq })?;
        Ok(())
    }
}
