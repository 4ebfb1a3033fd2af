//! Rows that can't be read, such as a document whose numbers are a gigabyte when they are written out: each becomes a dead letter, and its
//! queue goes on.
//!
//! What this program can't make sense of has been taken by then, and is settled as any job. Where the server can't send a row, or not in
//! time, the claim fails as a whole and took nothing: then the rows that it would have found are tried, in halves, and the claim is made once
//! more without those at fault.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Error as PgError;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::claim::{columns, job, settle};
use super::{Shared, external, rows};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Fence, Job, JobId, NodeId};
use crate::store::unreadable::{BEGINNING, reason};
use crate::store::{Settlement, Verdict};

/// How long the search goes on once something is gone. The node begins no claim of other queues while one waits to be told which are under way.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the server can't send what a row holds; `None`: it is about something else.
pub(super) fn refusal(error: &Error) -> Option<String> {
    let db = error.source()?.downcast_ref::<PgError>()?.as_db_error()?;
    let code = db.code();
    is_of_a_row(code).then(|| format!("{BEGINNING}{} (SQLSTATE {})", db.message(), code.code()))
}

/// A server that is short of memory says nothing about a row: it says so of any, for a while.
fn is_of_a_row(code: &SqlState) -> bool {
    *code == SqlState::DATA_CORRUPTED || code.code().starts_with("54") || code.code().starts_with("22")
}

/// A row that a claim would find.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    fence: Fence,
    /// Its own, unlike the id and the version, which a job that is sent anew may have again.
    seq: i64,
}

impl Found {
    pub(super) fn read(row: &Row) -> Result<Self> {
        let fence = Fence::new(JobId::from(rows::get::<Uuid>(row, 0)?), rows::get(row, 1)?);
        Ok(Self { fence, seq: rows::get(row, 2)? })
    }
}

/// Whether a claim may have failed for what a row holds. What the server can send may still be more than it, or we, can bear: such a claim
/// ends for lack of memory or time. That says nothing about a row, so only one that is found too large is moved then.
fn may_be_of_a_row(error: &Error) -> bool {
    let short_of_memory = || {
        let db = error.source()?.downcast_ref::<PgError>()?.as_db_error()?;
        Some(*db.code() == SqlState::OUT_OF_MEMORY)
    };
    error.kind() == ErrorKind::Timeout || refusal(error).is_some() || short_of_memory() == Some(true)
}

/// After a claim that failed: finds those of the rows that can't be sent, and moves them out of the way. `true`: some are gone and the claim
/// took nothing, so claim again. After a timeout it may have taken some, unheard: whoever asked is told of the timeout, and looks for them.
///
/// Each goes as soon as it is found, and what is not found in time is left to the next claim that fails: whoever waits for this one waits no
/// longer than [`PATIENCE`] once it has helped.
pub(super) async fn clear_away(
    shared: &Arc<Shared>,
    error: &Error,
    node: NodeId,
    found: impl Future<Output = Result<Vec<Found>>>,
) -> bool {
    if !may_be_of_a_row(error) {
        return false;
    }
    let mut search = Search { shared, node, began: Instant::now(), helped: None };
    let searched = match found.await {
        Ok(found) => search.run(&found).await,
        Err(error) => Err(error),
    };
    if let Err(error) = searched {
        tracing::warn!(%error, "whether there are more jobs that can't be read is not known");
    }
    search.helped.is_some() && error.kind() != ErrorKind::Timeout
}

struct Search<'a> {
    shared: &'a Arc<Shared>,
    node: NodeId,
    began: Instant,
    /// When the first was gone.
    helped: Option<Instant>,
}

impl Search<'_> {
    /// Tries rows in halves, best first, down to the single ones that fail.
    async fn run(&mut self, found: &[Found]) -> Result<()> {
        let mut left = vec![found];
        while let Some(part) = left.pop() {
            if self.is_over() {
                break;
            }
            let ids: Vec<Uuid> = part.iter().map(|found| found.fence.id.into()).collect();
            let (tried, largest) = ("look for jobs that can't be read", largest_taken(self.shared));
            let tried = self.shared.engine(tried, &self.shared.sql.readable, &[&ids, &largest]).await;
            match (tried, part) {
                (Ok(too_large), _) => self.bury_all(part, &too_large).await?,
                (Err(error), part) => match (refusal(&error), part) {
                    (None, _) => return Err(error),
                    (Some(_), []) => {}
                    (Some(why), [one]) => self.bury(*one, &why).await?,
                    (Some(_), several) => {
                        let (one, other) = several.split_at(several.len() / 2);
                        left.extend([other, one]);
                    }
                },
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.began.elapsed() > self.shared.call_timeout || self.helped.is_some_and(|at| at.elapsed() > PATIENCE)
    }

    async fn bury_all(&mut self, part: &[Found], too_large: &[Row]) -> Result<()> {
        for row in too_large {
            let (id, bytes) = (JobId::from(rows::get::<Uuid>(row, 0)?), rows::get::<i64>(row, 1)?);
            let Some(one) = part.iter().find(|found| found.fence.id == id) else { continue };
            if self.is_over() {
                break;
            }
            self.bury(*one, &format!("{BEGINNING}it has {bytes} bytes or more once it is written out")).await?;
        }
        Ok(())
    }

    async fn bury(&mut self, one: Found, why: &str) -> Result<()> {
        if bury(self.shared, self.node, one, why).await? {
            self.helped.get_or_insert_with(Instant::now);
        }
        Ok(())
    }
}

/// What is larger, in bytes once it is written out, is no job. Far from what may be sent: JSON grows when a database keeps it.
fn largest_taken(shared: &Shared) -> i64 {
    const AT_LEAST: usize = 64 << 20;
    rows::count(shared.config.max_payload.saturating_mul(4).max(AT_LEAST))
}

/// Out of the way, in one way or another. `false`: somebody else was faster.
async fn bury(shared: &Arc<Shared>, node: NodeId, Found { fence, seq }: Found, why: &str) -> Result<bool> {
    let id = fence.id;
    let (ids, versions) = columns(&[fence]);
    let tried = "bury a job that can't be read";
    let error = match shared
        .engine(tried, &shared.sql.bury_unreadable, &[&ids, &versions, &[why].as_slice(), &node.0, &[seq].as_slice()])
        .await
    {
        Ok(gone) => {
            if !gone.is_empty() {
                tracing::error!(%id, "{why}; the job became a dead letter");
            }
            return Ok(!gone.is_empty());
        }
        Err(error) if error.is_retryable() => return Err(error),
        Err(error) => error,
    };
    let rows = shared.engine(tried, &shared.sql.set_aside, &[id.as_uuid(), &fence.version, &seq]).await?;
    if !rows.is_empty() {
        tracing::error!(
            %id, %error,
            "{why}; the job could not even be made a dead letter, and waits in a queue whose name begins with `unreadable:`",
        );
    }
    Ok(!rows.is_empty())
}

/// Reads what was taken: jobs, and what is none.
pub(super) fn sort_out<'a>(
    rows: &'a [Row],
    queue: impl Fn(&'a Row) -> Result<&'a str>,
) -> Result<(Vec<Job>, Vec<Settlement>)> {
    let (mut jobs, mut others) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match queue(row).and_then(|queue| job(row, queue)) {
            Ok(job) => jobs.push(job),
            Err(error) => {
                let fence = Fence::new(JobId::from(rows::get::<Uuid>(row, 0)?), rows::get(row, 2)?);
                let why = reason(&error);
                tracing::error!(id = %fence.id, "{why}; the job becomes a dead letter");
                others.push(Settlement::new(fence, Verdict::Dead).error(&why, None));
            }
        }
    }
    jobs.sort_unstable_by_key(|job| (-job.priority, job.seq));
    Ok((jobs, others))
}

/// Makes dead letters of them. If that fails, they are given back as whatever a node owns and does not know, or when their lease is over.
pub(super) async fn settle_all(shared: &Arc<Shared>, node: Option<NodeId>, others: &[Settlement]) {
    if others.is_empty() {
        return;
    }
    let settled = match node {
        Some(node) => settle(shared, node, others).await,
        None => external::settle(shared, others).await,
    };
    if let Err(error) = settled {
        tracing::warn!(%error, "jobs that can't be read are not settled yet");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_short_of_memory_buries_nothing() {
        assert!(!is_of_a_row(&SqlState::OUT_OF_MEMORY));
        let of_a_row =
            [SqlState::PROGRAM_LIMIT_EXCEEDED, SqlState::DATA_CORRUPTED, SqlState::CHARACTER_NOT_IN_REPERTOIRE];
        assert!(of_a_row.iter().all(is_of_a_row));
    }
}
