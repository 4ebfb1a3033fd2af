//! One outcome of a job, which a node runs or which is handed out. It names its claim, and changes nothing if that claim is no longer current.

use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::error::Work;
use super::history::Memory;
use super::rows::{Micros, attempt_error, micros, with_error};
use crate::job::{Fence, NodeId};
use crate::store::broker::EXTERNAL_NODE;
use crate::store::sections::section;
use crate::store::{HistoryOutcome, Settlement, Verdict};

const SQL: &str = include_str!("settle.sql");
const COMPLETE: &str = section(SQL, "complete");
const TAKEN_ROW: &str = section(SQL, "taken_row");
const DEFER: &str = section(SQL, "defer");
const RELEASE: &str = section(SQL, "release");
const BURY: &str = section(SQL, "bury");
const TAKE_BACK: &str = section(SQL, "take_back");
const REMOVE: &str = section(SQL, "remove");

/// `visible_at` of a suspect (`suspects` in claim.sql) that runs, and runs alone. A row that has an owner needs no such time, and each claim sets it.
pub(super) const RUNS_ALONE: Micros = -1;

/// The key that suspects are blocked on.
const ALONE: &str = "alone";

/// Removes a finished job. Returns `false` if the claim is no longer current.
pub(super) fn complete_one(
    connection: &Connection,
    node: NodeId,
    fence: Fence,
    memory: Memory,
) -> rusqlite::Result<bool> {
    if memory.keeps(HistoryOutcome::Done) {
        let Some(row) = TakenRow::find(connection, Some(node), fence)? else { return Ok(false) };
        memory.remember(connection, row.seq, HistoryOutcome::Done, None)?;
    }
    let params = named_params! { ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":node": node.0 };
    Ok(connection.prepare_cached(COMPLETE)?.execute(params)? == 1)
}

/// Records one outcome, of a node or (`None`) of an external worker. Returns `false` if its claim is no longer current.
pub(super) fn settle_one(
    connection: &Connection,
    owner: Option<NodeId>,
    settlement: &Settlement,
    memory: Memory,
) -> Work<bool> {
    let now = memory.now;
    let Some(row) = TakenRow::find(connection, owner, settlement.fence)? else {
        return Ok(false);
    };
    let errors = match attempt_error(settlement, row.attempt, owner.unwrap_or(EXTERNAL_NODE), now)? {
        Some(error) => Some(with_error(row.errors.as_deref(), error)?),
        None => row.errors.clone(),
    };
    let errors = errors.as_deref();
    let given_back = row.attempt.saturating_sub(1);
    if let Some(ending) = ending(&settlement.verdict, row.attempt >= row.max_attempts) {
        memory.remember(connection, row.seq, ending, settlement.error.as_deref())?;
    }
    match settlement.verdict {
        Verdict::Retry(_) if row.attempt >= row.max_attempts => {
            row.bury(connection, errors, settlement.error.as_deref().unwrap_or("attempts exhausted"), now)?;
        }
        Verdict::Retry(delay) => row.defer(connection, row.attempt, errors, now.saturating_add(micros(delay)))?,
        Verdict::Snooze(delay) => row.defer(connection, given_back, errors, now.saturating_add(micros(delay)))?,
        Verdict::Release => row.release(connection, given_back, errors)?,
        Verdict::Cancel => row.remove(connection)?,
        Verdict::Dead => {
            row.bury(connection, errors, settlement.error.as_deref().unwrap_or("no reason was given"), now)?;
        }
    }
    Ok(true)
}

/// Returns the outcome that a verdict records, or `None` if it ends nothing because the attempt is given back.
fn ending(verdict: &Verdict, spent: bool) -> Option<HistoryOutcome> {
    match verdict {
        Verdict::Retry(_) => Some(if spent { HistoryOutcome::Dead } else { HistoryOutcome::Failed }),
        Verdict::Dead => Some(HistoryOutcome::Dead),
        Verdict::Cancel => Some(HistoryOutcome::Cancelled),
        Verdict::Snooze(_) | Verdict::Release => None,
    }
}

/// The columns that decide what happens next to a job that was claimed or handed out.
pub(super) struct TakenRow {
    pub(super) seq: i64,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) errors: Option<String>,
    /// Whether it was claimed as a suspect, and its node runs nothing else.
    pub(super) runs_alone: bool,
    /// Whether it holds a group or permits.
    pub(super) admitted: bool,
}

impl TakenRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get("seq")?,
            attempt: row.get("attempt")?,
            max_attempts: row.get("max_attempts")?,
            errors: row.get("errors")?,
            runs_alone: row.get::<_, Option<Micros>>("visible_at")? == Some(RUNS_ALONE),
            admitted: row.get("admitted")?,
        })
    }

    /// Finds the job of a claim that a node made, or (`None`) of a hand-out.
    pub(super) fn find(connection: &Connection, owner: Option<NodeId>, fence: Fence) -> rusqlite::Result<Option<Self>> {
        let owner = owner.map(|node| node.0);
        let params = named_params! { ":id": fence.id.as_uuid().as_bytes(), ":version": fence.version, ":owner": owner };
        connection.prepare_cached(TAKEN_ROW)?.query_row(params, Self::read).optional()
    }

    /// Makes the job a timer.
    fn defer(
        &self,
        connection: &Connection,
        attempt: u32,
        errors: Option<&str>,
        due_at: Micros,
    ) -> rusqlite::Result<()> {
        let params = named_params! { ":seq": self.seq, ":attempt": attempt, ":errors": errors, ":due_at": due_at };
        connection.prepare_cached(DEFER)?.execute(params)?;
        self.take_back(connection)
    }

    /// Makes the job a dead letter.
    pub(super) fn bury(
        &self,
        connection: &Connection,
        errors: Option<&str>,
        reason: &str,
        now: Micros,
    ) -> rusqlite::Result<()> {
        let params = named_params! { ":seq": self.seq, ":errors": errors, ":reason": reason, ":now": now };
        connection.prepare_cached(BURY)?.execute(params)?;
        self.take_back(connection)
    }

    /// Makes the job wait again. A suspect stays one.
    pub(super) fn release(&self, connection: &Connection, attempt: u32, errors: Option<&str>) -> rusqlite::Result<()> {
        self.release_as(connection, attempt, errors, self.runs_alone)
    }

    /// Makes the job wait again, to be claimed alone if it is a suspect.
    pub(super) fn release_as(
        &self,
        connection: &Connection,
        attempt: u32,
        errors: Option<&str>,
        suspect: bool,
    ) -> rusqlite::Result<()> {
        let blocked_on = suspect.then_some(ALONE);
        let params =
            named_params! { ":seq": self.seq, ":attempt": attempt, ":errors": errors, ":blocked_on": blocked_on };
        connection.prepare_cached(RELEASE)?.execute(params)?;
        Ok(())
    }

    pub(super) fn remove(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.prepare_cached(REMOVE)?.execute(named_params! { ":seq": self.seq })?;
        Ok(())
    }

    /// Takes back what the job held, which most jobs do not.
    fn take_back(&self, connection: &Connection) -> rusqlite::Result<()> {
        if self.admitted {
            connection.prepare_cached(TAKE_BACK)?.execute(named_params! { ":seq": self.seq })?;
        }
        Ok(())
    }
}
