//! Rows that can't be read, such as a document whose numbers take a gigabyte when written out, and rows that no statement can carry on,
//! such as one whose counter is at its end. Each becomes a dead letter, so that its queue goes on.
//!
//! A row that this program can't interpret was already claimed, and is settled like any job. If the server can't send a row, or not in
//! time, or refuses what the statement makes of it, the whole statement fails and takes nothing. Then the rows that it would have found are
//! tested by bisection, and the statement is repeated without the faulty ones.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Error as PgError;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::client::Params;
use super::error::unanswered;
use super::halves::{Halves, Named};
use super::job_columns::JobPositions;
use super::rows;
use super::settle::settle;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result, warn_of};
use crate::job::{Fence, Job, JobId, NodeId};
use crate::store::unreadable::{BEGINNING, reason};
use crate::store::{Settlement, Verdict};

/// How long the search goes on once a row is removed. A check of the claims in flight may be waiting for this one, and until then the node
/// begins no claim of other queues.
const PATIENCE: Duration = Duration::from_secs(2);

/// The search gives up no sooner than this, while it has removed nothing. A claim that was given up keeps its rows locked until the server
/// has written out the one that it is at, which nothing interrupts: up to a gigabyte, and seconds of a slow server.
const WRITTEN_OUT: Duration = Duration::from_secs(10);

/// How soon the removal of a row is tried again that may be locked.
const AGAIN: Duration = Duration::from_millis(50);

/// No node has this number: the record of a row that was met by maintenance names it.
pub(super) const NO_NODE: NodeId = NodeId(0);

/// Returns why the server can't send a row or carry it on, or `None` if the error has another cause.
pub(super) fn refusal(error: &Error) -> Option<String> {
    let db = error.source()?.downcast_ref::<PgError>()?.as_db_error()?;
    let code = db.code();
    is_of_a_row(code).then(|| format!("{BEGINNING}{} (SQLSTATE {})", db.message(), code.code()))
}

/// Does the same where the others can go on without the row, so that only its own values make it a dead letter. A table of the application, which
/// refers to the row or to which a trigger writes, says nothing about them.
pub(super) fn refusal_of_values(shared: &Shared, error: &Error) -> Option<String> {
    let db = error.source()?.downcast_ref::<PgError>()?.as_db_error()?;
    // Since PostgreSQL 18 a foreign key that restricts has a code of its own.
    let refers = [SqlState::FOREIGN_KEY_VIOLATION, SqlState::RESTRICT_VIOLATION].contains(db.code());
    let is_ours = db.schema().is_none_or(|schema| schema == shared.config.schema);
    refusal(error).filter(|_| is_ours && !refers)
}

/// Returns whether an error concerns one row: its values, or a constraint of a table. A shortage of memory does not: the server may report it
/// for any row, for a while. Neither does a row that another transaction was faster to insert.
fn is_of_a_row(code: &SqlState) -> bool {
    let of_its_values = || ["22", "23", "54"].iter().any(|class| code.code().starts_with(class));
    *code == SqlState::DATA_CORRUPTED || *code != SqlState::UNIQUE_VIOLATION && of_its_values()
}

/// A row that a statement would find.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    fence: Fence,
    /// Unique to the row. A job that is sent again may have the same id and version.
    seq: i64,
    /// The node that owned it and is gone; zero if no node owns it.
    owner: i64,
}

impl Named for Found {
    fn id(&self) -> Uuid {
        self.fence.id.into()
    }
}

impl Found {
    /// Reads a row that no node owns.
    pub(super) fn read(row: &Row) -> Result<Self> {
        let fence = Fence::new(JobId::from(rows::get::<Uuid>(row, "id")?), rows::get(row, "version")?);
        Ok(Self { fence, seq: rows::get(row, "seq")?, owner: 0 })
    }

    /// Reads a row whose owner is gone.
    pub(super) fn read_lost(row: &Row) -> Result<Self> {
        Ok(Self { owner: rows::get(row, "owner")?, ..Self::read(row)? })
    }

    /// Returns its id, its version and its `seq`, as one array each.
    pub(super) fn columns(&self) -> (Vec<Uuid>, Vec<i64>, Vec<i64>) {
        (vec![self.fence.id.into()], vec![self.fence.version], vec![self.seq])
    }
}

/// Finds the rows that made a statement fail, and removes them. `true` means that some were removed and it took nothing, so the caller
/// should run it again. After a timeout the claim may have taken jobs without an answer, so the caller gets the timeout and looks for them.
///
/// Each row is removed as soon as it is found. Rows not found in time are left to the next failing claim: once a row was removed, the
/// caller waits no longer than [`PATIENCE`].
pub(super) async fn clear_away(
    shared: &Arc<Shared>,
    error: &Error,
    node: NodeId,
    found: impl Future<Output = Result<Vec<Found>>>,
) -> bool {
    search(shared, error, (node, 1), found).await
}

/// Does the same for a statement of maintenance, which costs the jobs no attempt.
pub(super) async fn clear_away_idle(
    shared: &Arc<Shared>,
    error: &Error,
    found: impl Future<Output = Result<Vec<Found>>>,
) -> bool {
    search(shared, error, (NO_NODE, 0), found).await
}

async fn search(
    shared: &Arc<Shared>,
    error: &Error,
    (node, cost): (NodeId, i32),
    found: impl Future<Output = Result<Vec<Found>>>,
) -> bool {
    let mut search = Search { shared, node, cost, began: Instant::now(), helped: None };
    if !search.may_be_of_a_row(error) {
        return false;
    }
    let searched = match found.await {
        Ok(found) => search.run(&found).await,
        Err(error) => Err(error),
    };
    if let Err(error) = searched {
        warn_of!(error, "whether there are more jobs that can't be read is not known");
    }
    search.helped.is_some() && error.kind() != ErrorKind::Timeout
}

struct Search<'a> {
    shared: &'a Arc<Shared>,
    node: NodeId,
    /// How many attempts it costs a job to be found.
    cost: i32,
    began: Instant,
    /// When the first row was removed.
    helped: Option<Instant>,
}

impl Search<'_> {
    /// Returns whether the statement may have failed because of one row. A row that the server can send may still be too much for the memory or
    /// time of either side. Such an error does not name a row, so only rows found too large are removed then.
    fn may_be_of_a_row(&self, error: &Error) -> bool {
        let short_of_memory = || {
            let db = error.source()?.downcast_ref::<PgError>()?.as_db_error()?;
            Some(*db.code() == SqlState::OUT_OF_MEMORY)
        };
        error.kind() == ErrorKind::Timeout || self.refusal(error).is_some() || short_of_memory() == Some(true)
    }

    /// Returns why a row is at fault. A claim can't go on without it, and maintenance can.
    fn refusal(&self, error: &Error) -> Option<String> {
        if self.cost == 0 { refusal_of_values(self.shared, error) } else { refusal(error) }
    }

    /// Tests rows by bisection, best first, down to the single ones that fail.
    async fn run(&mut self, found: &[Found]) -> Result<()> {
        let mut halves = Halves::of(found, self.longest());
        while let Some(part) = halves.next() {
            if self.is_over() {
                break;
            }
            match self.test(part).await {
                Ok(too_large) => self.dead_letter_all(part, &too_large).await?,
                Err(error) => {
                    let why = self.refusal(&error);
                    if why.is_none() && !may_be_of_rows(&error) {
                        return Err(error);
                    }
                    // One that the application refuses stays as it is.
                    if let (Some(one), Some(why)) = (halves.failed(part), why) {
                        self.dead_letter(*one, &why).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns which of these rows are too large. Fails if the server can't send one, or would refuse what is to become of it.
    async fn test(&self, part: &[Found]) -> Result<Vec<Row>> {
        let ids: Vec<Uuid> = part.iter().map(|found| found.fence.id.into()).collect();
        let (shared, tried) = (self.shared, "look for jobs that can't be carried on");
        if part.iter().any(|found| found.owner != 0) {
            return shared.rehearse(tried, &shared.sql.rehearse_release, &[&ids]).await.map(|()| Vec::new());
        }
        let largest = largest_taken(shared);
        let too_large =
            shared.engine("look for jobs that can't be read", &shared.sql.readable, &[&ids, &largest]).await?;
        shared.rehearse(tried, &shared.sql.rehearse_claim, &[&ids]).await?;
        Ok(too_large)
    }

    fn longest(&self) -> Duration {
        self.shared.call_timeout.max(WRITTEN_OUT)
    }

    fn is_over(&self) -> bool {
        self.began.elapsed() > self.longest() || self.helped.is_some_and(|at| at.elapsed() > PATIENCE)
    }

    async fn dead_letter_all(&mut self, part: &[Found], too_large: &[Row]) -> Result<()> {
        for row in too_large {
            let (id, bytes) = (JobId::from(rows::get::<Uuid>(row, "id")?), rows::get::<i64>(row, "bytes")?);
            let Some(one) = part.iter().find(|found| found.fence.id == id) else { continue };
            if self.is_over() {
                break;
            }
            self.dead_letter(*one, &format!("{BEGINNING}it has {bytes} bytes or more once it is written out")).await?;
        }
        Ok(())
    }

    async fn dead_letter(&mut self, one: Found, why: &str) -> Result<()> {
        let gone = loop {
            match dead_letter(self.shared, self.node, self.cost, one, why).await {
                // The server gave up the statement, most likely because the claim still locks the row. One without an answer is not
                // repeated: it may still be waiting, or have taken effect.
                Err(error) if may_be_locked(&error) && !self.is_over() => tokio::time::sleep(AGAIN).await,
                gone => break gone?,
            }
        };
        if gone {
            self.helped.get_or_insert_with(Instant::now);
        }
        Ok(())
    }
}

/// Returns whether the server gave up a statement that may have waited for a lock.
fn may_be_locked(error: &Error) -> bool {
    (error.is_undecided() || error.kind() == ErrorKind::Timeout) && !unanswered(error)
}

/// Returns the largest size of a row, in bytes when written out, that counts as a job. This is far above the sendable size, because JSON
/// grows when a database stores it.
fn largest_taken(shared: &Shared) -> i64 {
    const AT_LEAST: usize = 64 << 20;
    rows::count(shared.config.max_payload.saturating_mul(4).max(AT_LEAST))
}

/// Makes dead letters of rows, each only in the state in which it was found. Returns how many there were.
pub(super) async fn bury(shared: &Arc<Shared>, node: NodeId, cost: i32, found: &[Found], why: &str) -> Result<usize> {
    let fences: Vec<Fence> = found.iter().map(|found| found.fence).collect();
    let (ids, versions) = rows::fence_columns(&fences);
    let seqs: Vec<i64> = found.iter().map(|found| found.seq).collect();
    let reasons = vec![why; found.len()];
    let owner = found.first().map_or(0, |found| found.owner);
    let params: Params<'_> = &[&ids, &versions, &reasons, &node.0, &seqs, &owner, &cost];
    let gone =
        shared.engine("dead-letter a job that can't be read", &shared.sql.dead_letter_unreadable, params).await?;
    Ok(gone.len())
}

/// Makes a row a dead letter, or parks it. Returns `false` if another process was faster.
async fn dead_letter(shared: &Arc<Shared>, node: NodeId, cost: i32, found: Found, why: &str) -> Result<bool> {
    let Found { fence, seq, .. } = found;
    let id = fence.id;
    let error = match bury(shared, node, cost, &[found], why).await {
        Ok(gone) => {
            if gone > 0 {
                tracing::error!(%id, "{why}; the job became a dead letter");
            }
            return Ok(gone > 0);
        }
        Err(error) if error.is_retryable() => return Err(error),
        Err(error) => error,
    };
    let tried = "set a job aside that can't be read";
    let rows = shared.engine(tried, &shared.sql.park_unreadable, &[id.as_uuid(), &fence.version, &seq]).await?;
    if !rows.is_empty() {
        tracing::error!(
            %id, %error,
            "{why}; the job could not even be made a dead letter, and waits in a queue whose name begins with `unreadable:`",
        );
    }
    Ok(!rows.is_empty())
}

/// Does the same for a row of maintenance that was found to be at fault. One that can't even be parked is logged and left.
pub(super) async fn dead_letter_idle(shared: &Arc<Shared>, found: Found, why: &str) -> Result<bool> {
    match dead_letter(shared, NO_NODE, 0, found, why).await {
        Err(error) if !error.is_retryable() => {
            tracing::error!(id = %found.fence.id, %error, "{why}; the job can't be moved at all: delete it");
            Ok(false)
        }
        gone => gone,
    }
}

/// Reads the jobs of claimed rows, best first: an UPDATE returns rows in no guaranteed order. Those that can't be read become dead letters.
pub(super) async fn claimed(shared: &Arc<Shared>, node: NodeId, rows: &[Row]) -> Result<Vec<Job>> {
    let (jobs, others) = sort_out(rows)?;
    if !others.is_empty() {
        settled(&settle(shared, node, &others).await);
    }
    Ok(jobs)
}

/// Splits claimed rows into jobs, best first, and outcomes for those that can't be read.
pub(super) fn sort_out(rows: &[Row]) -> Result<(Vec<Job>, Vec<Settlement>)> {
    let (mut jobs, mut others) = (Vec::with_capacity(rows.len()), Vec::new());
    let Some(columns) = rows.first().map(JobPositions::of).transpose()? else { return Ok((jobs, others)) };
    for row in rows {
        match columns.read(row) {
            Ok(job) => jobs.push(job),
            Err(error) => {
                let fence = columns.fence(row)?;
                let why = reason(&error);
                tracing::error!(id = %fence.id, "{why}; the job becomes a dead letter");
                others.push(Settlement::new(fence, Verdict::Dead).error(&why, None));
            }
        }
    }
    jobs.sort_unstable_by_key(|job| (-job.priority, job.seq));
    Ok((jobs, others))
}

/// Looks at the answer to such outcomes. Without one, the rows are released like any row that a node owns but does not know, or when their
/// lease expires.
pub(super) fn settled(answer: &Result<Vec<JobId>>) {
    if let Err(error) = answer {
        warn_of!(error, "jobs that can't be read are not settled yet");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_about_a_row_dead_letters_nothing() {
        for other in [SqlState::OUT_OF_MEMORY, SqlState::UNIQUE_VIOLATION] {
            assert!(!is_of_a_row(&other));
        }
        let of_a_row =
            [SqlState::PROGRAM_LIMIT_EXCEEDED, SqlState::DATA_CORRUPTED, SqlState::CHARACTER_NOT_IN_REPERTOIRE];
        assert!(of_a_row.iter().all(is_of_a_row));
    }
}
