//! Rows that can't be read, such as a document whose numbers are a gigabyte when they are written out: each becomes a dead letter, and its
//! queue goes on.
//!
//! What this program can't make sense of has been taken by then, and is settled as any job. Where the server can't send a row, the claim
//! fails as a whole and took nothing: then the rows that it would have found are tried, in halves, and the claim is made again without those
//! at fault.

use std::error::Error as _;
use std::sync::Arc;

use tokio_postgres::Error as PgError;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::claim::{columns, job, settle};
use super::{Shared, external, rows};
use crate::error::{Error, Result};
use crate::job::{Fence, Job, JobId, NodeId};
use crate::store::unreadable::{BEGINNING, reason};
use crate::store::{Settlement, Verdict};

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

/// After a claim that failed: finds those of the rows that can't be sent, and moves them out of the way. `true`: some are gone, claim again.
pub(super) async fn clear_away(
    shared: &Arc<Shared>,
    error: &Error,
    node: NodeId,
    found: impl Future<Output = Result<Vec<Found>>>,
) -> Result<bool> {
    if refusal(error).is_none() {
        return Ok(false);
    }
    let found = found.await?;
    let bad = at_fault(shared, &found).await?;
    let mut any = false;
    for (found, why) in bad {
        any |= bury(shared, node, found, &why).await?;
    }
    Ok(any)
}

/// Tries rows in halves, down to the single ones that fail.
async fn at_fault(shared: &Arc<Shared>, found: &[Found]) -> Result<Vec<(Found, String)>> {
    let (mut bad, mut left) = (Vec::new(), vec![found]);
    while let Some(part) = left.pop() {
        let ids: Vec<Uuid> = part.iter().map(|found| found.fence.id.into()).collect();
        let tried = shared.engine("look for jobs that can't be read", &shared.sql.readable, &[&ids]).await;
        let Err(error) = tried else { continue };
        let Some(why) = refusal(&error) else { return Err(error) };
        match part {
            [] => {}
            [one] => bad.push((*one, why)),
            several => {
                let (one, other) = several.split_at(several.len() / 2);
                left.extend([one, other]);
            }
        }
    }
    Ok(bad)
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
