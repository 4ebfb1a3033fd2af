//! Statements on many jobs of which some make the whole statement fail, through no fault that this program knows: a trigger of the application
//! that refuses what is done to them, a foreign key, or a lock that one of them needs.
//!
//! Such a job is no dead letter, because it may be fine for all others. The statement goes on around it: all these statements pass over
//! locked rows. So the rows are tried in halves, while another transaction locks all others, down to the single ones at fault.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::client::Params;
use super::engine_transaction::EngineTransaction;
use super::halves::Halves;
use super::shared::Shared;
use super::statements::Statement;
use crate::error::{Error, Result};

/// How long one run goes on.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a statement that failed for some of these jobs, for parts of them. Returns the answers of the parts for which it succeeded. The jobs at
/// fault stay as they are, and the next run tries them again.
///
/// # Errors
/// As the statement, unless some of its rows are to blame.
pub(super) async fn in_parts(
    shared: &Arc<Shared>,
    tried: &'static str,
    (statement, params): (&Statement, Params<'_>),
    found: &[Uuid],
) -> Result<Vec<Vec<Row>>> {
    let found = turned(found);
    let mut halves = Halves::of(&found, PATIENCE);
    let mut answers = Vec::new();
    while let Some(part) = halves.next() {
        let mine: HashSet<&Uuid> = part.iter().collect();
        let others: Vec<Uuid> = found.iter().filter(|id| !mine.contains(id)).copied().collect();
        let aside = EngineTransaction::begin(shared, "hold jobs aside").await?;
        aside.query(&shared.sql.hold_rows, &[&others]).await?;
        let answer = shared.engine_once(tried, statement, params).await;
        aside.roll_back().await?;
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) if !may_be_of_rows(&error) => return Err(error),
            Err(error) => {
                if let Some(id) = halves.failed(part) {
                    left(shared, tried, *id, &error);
                }
            }
        }
    }
    Ok(answers)
}

/// Runs a statement for these jobs, which are its last parameter, in parts if it fails for some of them. Returns the answers of the parts for which it succeeded.
///
/// # Errors
/// As the statement, unless some of its rows are to blame.
pub(super) async fn in_parts_of(
    shared: &Arc<Shared>,
    tried: &'static str,
    (statement, params): (&Statement, Params<'_>),
    ids: &[Uuid],
) -> Result<Vec<Vec<Row>>> {
    let ids = turned(ids);
    let mut halves = Halves::of(&ids, PATIENCE);
    let mut answers = Vec::new();
    while let Some(part) = halves.next() {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().copied().chain([&part as _]).collect();
        match shared.engine(tried, statement, &params).await {
            Ok(answer) => answers.push(answer),
            Err(error) if !may_be_of_rows(&error) => return Err(error),
            Err(error) => {
                if let Some(id) = halves.failed(part) {
                    left(shared, tried, *id, &error);
                }
            }
        }
    }
    Ok(answers)
}

/// Begins each run with another job: one that takes too long for all of them, because the server is slow, must not leave the same ones for the next.
fn turned(ids: &[Uuid]) -> Vec<Uuid> {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let mut ids = ids.to_vec();
    if !ids.is_empty() {
        // Multiples of this odd number, shifted, are spread over all remainders (Knuth's multiplicative hash).
        let first = (RUNS.fetch_add(1, Ordering::Relaxed).wrapping_mul(2_654_435_761) >> 16) % ids.len();
        ids.rotate_left(first);
    }
    ids
}

/// Says once in a while that a job is left as it is.
fn left(shared: &Shared, tried: &'static str, id: Uuid, error: &Error) {
    if shared.lock_holders.is_news(&format!("{tried} {id}"), Instant::now()) {
        tracing::warn!(%id, %error, "could not {tried} for this job: it stays as it is and is tried again; the others go on");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_is_the_first_in_some_run() {
        let ids: Vec<Uuid> = (0..10).map(Uuid::from_u128).collect();
        let mut firsts = HashSet::new();
        for _ in 0..20 {
            let turned = turned(&ids);
            firsts.insert(turned[0]);
            assert_eq!(turned.iter().collect::<HashSet<_>>(), ids.iter().collect());
        }
        assert!(firsts.len() >= 5, "{firsts:?}");
        assert!(turned(&[]).is_empty());
    }
}
