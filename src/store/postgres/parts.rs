//! Statements on many jobs of which some make the whole statement fail: they are run for parts of the jobs, down to the single ones at fault.
//!
//! A job whose values are at fault is no job for anybody, and its caller makes it a dead letter. A job that a trigger or a foreign key of the
//! application refuses, or that needs a lock that another transaction holds, may be fine for all others: it stays as it is, and the next run tries
//! it again. Both may come together, so each part is judged by its own error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::client::Params;
use super::halves::{Halves, Named};
use super::shared::Shared;
use super::statements::Statement;
use super::unreadable::refusal_of_values;
use crate::error::{Error, ErrorKind, Result};

/// How long one run goes on once a job was left as it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// A run of a statement for parts of some jobs.
pub(super) struct Parts<'a, J> {
    shared: &'a Shared,
    tried: &'static str,
    began: Instant,
    halves: Halves<'a, J>,
    /// Why the part failed that was tried last, unless one was tried since.
    cut_off: Option<Error>,
    /// Why jobs were left as they are, if any were: the reason of one that others have locked, or else the first one.
    pub(super) left: Option<Error>,
}

impl<'a, J: Named> Parts<'a, J> {
    /// Begins a run for all these jobs, which the caller has [`turned`].
    pub(super) fn of(shared: &'a Shared, tried: &'static str, jobs: &'a [J]) -> Self {
        Self {
            shared,
            tried,
            began: Instant::now(),
            halves: Halves::of(jobs, shared.call_timeout),
            cut_off: None,
            left: None,
        }
    }

    /// Returns the next part, until all were tried. Once a job was left, it goes on for some seconds only.
    pub(super) fn next(&mut self) -> Option<&'a [J]> {
        let is_over = self.left.is_some() && self.began.elapsed() > PATIENCE;
        let next = if is_over { None } else { self.halves.next() };
        match next {
            Some(_) => self.cut_off = None,
            // Time is over: what is left of the last part was not tried.
            None => self.left = self.left.take().or(self.cut_off.take()),
        }
        next
    }

    /// Says that the statement failed for this part. Returns its job and the reason if the job's values are at fault: its caller makes it a dead
    /// letter, or leaves it with [`leave`](Self::leave).
    ///
    /// # Errors
    /// That error, unless some of the jobs are to blame.
    pub(super) fn failed(&mut self, part: &'a [J], error: Error) -> Result<Option<(J, String)>> {
        let why = refusal_of_values(self.shared, &error);
        if why.is_none() && !may_be_of_rows(&error) {
            return Err(error);
        }
        match (self.halves.failed(part), why) {
            (Some(one), Some(why)) => Ok(Some((*one, why))),
            (Some(one), None) => {
                self.leave(*one, error);
                Ok(None)
            }
            (None, _) => {
                self.cut_off = Some(error);
                Ok(None)
            }
        }
    }

    /// Looks at what came of a job whose values are at fault. Returns whether it is gone.
    ///
    /// # Errors
    /// That of the answer, unless the job is to blame.
    pub(super) fn buried(&mut self, one: J, answer: Result<bool>) -> Result<bool> {
        match answer {
            Err(error) if may_be_of_rows(&error) => {
                self.leave(one, error);
                Ok(false)
            }
            answer => answer,
        }
    }

    /// Leaves a job as it is. That is said once in a while.
    pub(super) fn leave(&mut self, one: J, error: Error) {
        let (id, tried) = (one.id(), self.tried);
        if self.shared.lock_holders.is_news(&format!("{tried} {id}"), Instant::now()) {
            tracing::warn!(
                %id, %error,
                "could not {tried} for this job: it stays as it is and is tried again; the others go on"
            );
        }
        if self.left.as_ref().is_none_or(|first| error.is_undecided() && !first.is_undecided()) {
            self.left = Some(error);
        }
    }
}

/// Runs a statement for parts of these jobs, which are its last parameter. Returns its answers, and why jobs were left as they are.
///
/// # Errors
/// As the statement, unless some of its jobs are to blame.
pub(super) async fn in_parts_of(
    shared: &Arc<Shared>,
    tried: &'static str,
    (statement, params): (&Statement, Params<'_>),
    ids: &[Uuid],
) -> Result<(Vec<Vec<Row>>, Option<Error>)> {
    let ids = turned(ids);
    let mut answers = Vec::new();
    let mut parts = Parts::of(shared, tried, &ids);
    while let Some(part) = parts.next() {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().copied().chain([&part as _]).collect();
        match shared.engine(tried, statement, &params).await {
            Ok(answer) => answers.push(answer),
            Err(error) => {
                if let Some((one, why)) = parts.failed(part, error)? {
                    parts.leave(one, Error::new(ErrorKind::Database, why));
                }
            }
        }
    }
    Ok((answers, parts.left))
}

/// Begins each run with another job: one that takes too long for all of them, because the server is slow, must not leave the same ones for the next.
pub(super) fn turned<J: Named>(jobs: &[J]) -> Vec<J> {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let mut jobs = jobs.to_vec();
    if !jobs.is_empty() {
        // Multiples of this odd number, shifted, are spread over all remainders (Knuth's multiplicative hash).
        let first = (RUNS.fetch_add(1, Ordering::Relaxed).wrapping_mul(2_654_435_761) >> 16) % jobs.len();
        jobs.rotate_left(first);
    }
    jobs
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
        assert!(turned::<Uuid>(&[]).is_empty());
    }
}
