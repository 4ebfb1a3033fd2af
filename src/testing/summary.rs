use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::{Occurrence, describe};
use crate::executor::manual::AttemptRecord;
use crate::job::{Job, JobId};
use crate::store::{JobState, JobSummary, Verdict, Why};

/// One attempt that a [`Runner`](super::Runner) ran.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobRun {
    /// The job, as its handler received it.
    pub job: Job,
    /// The recorded outcome.
    pub end: RunOutcome,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// Done: the job was removed, and its handler's writes and messages are committed.
    Done,
    /// Failed, and retried after this delay.
    Failed {
        /// The error on the job's record.
        error: String,
        /// The delay of the next attempt.
        again: Duration,
    },
    /// A dead letter, for this reason.
    Dead(String),
    /// Snoozed: tried again after this long.
    Snoozed(Duration),
    /// Removed as no longer wanted.
    Cancelled,
    /// Given back without spending an attempt, because another job of its batch failed, or because the handler said that this node can't run
    /// its kind ([`JobError::not_here`](crate::JobError::not_here)).
    GivenBack,
    /// The outcome was refused, because the job was removed or claimed by another node meanwhile. Nothing was committed.
    Refused,
}

impl JobRun {
    pub(super) fn new(job: Job, recorded: AttemptRecord) -> Self {
        let end = match recorded {
            AttemptRecord::Done => RunOutcome::Done,
            AttemptRecord::Refused => RunOutcome::Refused,
            AttemptRecord::Settled(settled) => {
                let error = settled.error.unwrap_or_default();
                match settled.verdict {
                    Verdict::Retry(_) if job.attempt >= job.max_attempts => RunOutcome::Dead(error),
                    Verdict::Retry(again) => RunOutcome::Failed { error, again },
                    Verdict::Snooze(delay) => RunOutcome::Snoozed(delay),
                    Verdict::Release => RunOutcome::GivenBack,
                    Verdict::Cancel => RunOutcome::Cancelled,
                    Verdict::Dead => RunOutcome::Dead(error),
                }
            }
        };
        Self { job, end }
    }

    /// Whether the job is done.
    pub fn is_done(&self) -> bool {
        self.end == RunOutcome::Done
    }
}

impl fmt::Display for JobRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { kind, attempt, max_attempts, payload, .. } = &self.job;
        write!(f, "{kind} (attempt {attempt} of {max_attempts}): ")?;
        match &self.end {
            RunOutcome::Done => write!(f, "done")?,
            RunOutcome::Failed { error, again } => write!(f, "FAILED, again after {again:?}: {error}")?,
            RunOutcome::Dead(error) => write!(f, "DEAD: {error}")?,
            RunOutcome::Snoozed(delay) => write!(f, "snoozed for {delay:?}")?,
            RunOutcome::Cancelled => write!(f, "cancelled")?,
            RunOutcome::GivenBack => {
                write!(f, "given back: another job of its batch failed, or this node can't run its kind")?;
            }
            RunOutcome::Refused => write!(f, "REFUSED: it was no longer owned")?,
        }
        write!(f, "\n      {}", describe::payload(payload))
    }
}

/// What a drain did. Its text form lists all of it.
#[derive(Clone, Debug, Default)]
#[must_use = "a drain tells of failures only here: `expect_done` says that there must be none"]
#[non_exhaustive]
pub struct Summary {
    /// All attempts, in their order.
    pub ran: Vec<JobRun>,
    /// What schedules did in the time that [`drain_through`](super::Runner::drain_through) let pass, in order.
    pub fired: Vec<Occurrence>,
    /// Jobs that were waiting but did not run: their queue or kind is unknown to the executor, or they are paused, or blocked by a limit or
    /// their group.
    pub waiting: Vec<JobSummary>,
    /// Why they did not, as [`Admin::why`](crate::admin::Admin::why) says: of the first twenty.
    pub why: Vec<Why>,
    /// Jobs that are due later.
    pub timers: Vec<JobSummary>,
}

impl Summary {
    /// Returns how many jobs are done.
    pub fn done(&self) -> usize {
        self.ran.iter().filter(|ran| ran.is_done()).count()
    }

    /// Returns the attempts of this kind.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a JobRun> {
        self.ran.iter().filter(move |ran| ran.job.kind == kind)
    }

    /// Asserts that every job that ran is done, whatever attempts it took, and that no waiting job was left. (Jobs due later may remain,
    /// but not a job whose attempts failed: [`drain_through`](super::Runner::drain_through) runs its next attempts.)
    ///
    /// # Panics
    /// When that is not so, with a list of everything.
    #[track_caller]
    pub fn expect_done(&self) -> &Self {
        // By the last attempt of each job: a handler may send a job of the same id again.
        let last: HashMap<JobId, &JobRun> = self.ran.iter().map(|ran| (ran.job.id, ran)).collect();
        let bad = last.values().filter(|ran| !ran.is_done()).count();
        assert!(bad == 0, "{bad} of {} jobs did not end with `Done`:\n{self}", last.len());
        self.expect_nothing_waits()
    }

    /// Asserts the same as [`expect_done`](Self::expect_done), and that no attempt failed on the way.
    ///
    /// # Panics
    /// When that is not so, with a list of everything.
    #[track_caller]
    pub fn expect_first_try(&self) -> &Self {
        let bad = self.ran.iter().filter(|ran| !ran.is_done()).count();
        assert!(bad == 0, "{bad} of {} attempts did not end with `Done`:\n{self}", self.ran.len());
        self.expect_nothing_waits()
    }

    #[track_caller]
    fn expect_nothing_waits(&self) -> &Self {
        assert!(
            self.waiting.is_empty(),
            "{} jobs wait that the executor has no handler for, that are in a queue it does not work on, or may not start:\n{self}",
            self.waiting.len()
        );
        self
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for occurrence in &self.fired {
            writeln!(f, "  {occurrence}")?;
        }
        if self.ran.is_empty() {
            writeln!(f, "  nothing was run")?;
        }
        for ran in &self.ran {
            writeln!(f, "  {ran}")?;
        }
        for job in &self.waiting {
            let how = if job.state == JobState::Blocked { "BLOCKED" } else { "WAITS" };
            write!(f, "  {} in {}: {how}", job.kind, job.queue)?;
            let why = self.why.iter().find(|why| why.id == job.id);
            for reason in why.iter().flat_map(|why| &why.reasons) {
                write!(f, "\n      {reason}")?;
            }
            writeln!(f)?;
        }
        for job in &self.timers {
            let due = job.due_at.map_or_else(|| "later".to_owned(), |at| at.to_string());
            writeln!(f, "  {} in {}: due {due}", job.kind, job.queue)?;
        }
        Ok(())
    }
}
