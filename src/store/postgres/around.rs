//! Statements that forget old rows, a batch at a time, and go around rows that can't be removed.
//!
//! A trigger or a foreign key of the application may refuse the removal of one row, for ever or for as long as another transaction runs. The
//! others are removed nevertheless. The statement is tried with half as many rows, down to the one at fault, which is then passed over. The next run
//! goes on behind the rows that were passed over, until it comes to the end of what is old; the run after that tries them again.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Error as PgError;
use tokio_postgres::types::ToSql;

use super::rows;
use super::shared::Shared;
use super::statements::Statement;
use crate::error::{Error, ErrorKind, Result};

/// How long one run goes on, once a row made its statement fail.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns whether a statement may have failed on account of some of its rows: the server refused what it does to them, or another transaction
/// holds a lock that one of them needs. A server that lets nobody in (a password, a name) has seen none of them.
pub(super) fn may_be_of_rows(error: &Error) -> bool {
    let answered = error.source().is_some_and(|source| source.downcast_ref::<PgError>().is_some_and(is_answer));
    answered && !error.refuses_all() && (error.is_undecided() || !error.is_retryable())
}

/// Returns whether the server gave up a statement that took too long.
fn is_slow(error: &Error) -> bool {
    let answered = error.source().and_then(|source| source.downcast_ref::<PgError>()).is_some_and(is_answer);
    answered && error.kind() == ErrorKind::Timeout && !error.is_undecided()
}

fn is_answer(error: &PgError) -> bool {
    error.as_db_error().is_some()
}

/// Forgets at most `limit` rows. The last two parameters of the statement are how many rows it takes, and how many it passes over before. It
/// answers how many there were. Returns how many were forgotten.
///
/// # Errors
/// As the statement, unless some of its rows are to blame.
pub(super) async fn forget(
    shared: &Arc<Shared>,
    tried: &'static str,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
    limit: usize,
) -> Result<u64> {
    let began = Instant::now();
    let name = statement.name;
    let known = shared.passed_over.of(name);
    let most = rows::count(limit);
    let (mut part, mut over, mut forgotten) = (most, known.unwrap_or(0), 0);
    let (mut refused, mut slow) = (None, false);
    loop {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().copied().chain([&part as _, &over as _]).collect();
        match shared.engine(tried, statement, &params).await {
            Ok(answer) => {
                let gone = rows::single_count(&answer)?;
                forgotten += gone;
                let left = most - rows::count(usize::try_from(forgotten).unwrap_or(limit));
                if gone < part.unsigned_abs() {
                    // The end of what is old. The rows that were passed over are tried again in the next run.
                    over = 0;
                    break;
                }
                if left <= 0 {
                    break;
                }
                part = (2 * part).min(left);
            }
            Err(error) if !may_be_of_rows(&error) && !is_slow(&error) => return Err(error),
            Err(error) => {
                slow |= is_slow(&error);
                // A single row that takes too long says nothing about that row: the whole table may be locked.
                if part == 1 && !is_slow(&error) {
                    over += 1;
                } else {
                    part = (part / 2).max(1);
                }
                refused.get_or_insert(error);
            }
        }
        // What a trigger makes slow is tried until something is forgotten, or the next run would begin with as many rows.
        let tried_all = forgotten > 0 || !slow || part == 1;
        if refused.is_some() && began.elapsed() > PATIENCE && tried_all {
            break;
        }
    }
    if slow && forgotten == 0 {
        // Perhaps no row is to blame, and the whole table is locked.
        return refused.map_or(Ok(0), Err);
    }
    match &refused {
        Some(error) if known.is_none() => tracing::warn!(
            %error,
            "could not {tried} all at once: some rows are refused and tried again later; the others are done"
        ),
        Some(error) => tracing::debug!(%error, over, "could still not {tried} all at once"),
        None => {}
    }
    // Known as long as rows are refused, so that this is said once.
    let refuses = refused.is_some() || known.is_some_and(|known| known > 0);
    shared.passed_over.set(name, refuses.then_some(over));
    Ok(forgotten)
}
