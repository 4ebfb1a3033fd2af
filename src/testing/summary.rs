use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::describe;
use crate::executor::by_hand::Recorded;
use crate::job::{Job, JobId};
use crate::store::{JobState, JobSummary, Verdict};

/// One attempt that a [`Runner`](super::Runner) ran.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The job, as its handler got it.
    pub job: Job,
    /// What was recorded.
    pub end: End,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// Done: removed, and what its handler wrote and sent is committed.
    Done,
    /// Failed, and tried again after this long.
    Failed {
        /// What is on the job's record.
        error: String,
        /// The delay of the next attempt.
        again: Duration,
    },
    /// A dead letter, for this reason.
    Dead(String),
    /// Not now: again after this long.
    Snoozed(Duration),
    /// Removed as no longer wanted.
    Cancelled,
    /// Given back at no attempt: another job of its batch failed.
    GivenBack,
    /// The outcome was refused, because the job was removed or taken by others meanwhile. Nothing was committed.
    Refused,
}

impl Ran {
    pub(super) fn new(job: Job, recorded: Recorded) -> Self {
        let end = match recorded {
            Recorded::Done => End::Done,
            Recorded::Refused => End::Refused,
            Recorded::Settled(settled) => {
                let error = settled.error.unwrap_or_default();
                match settled.verdict {
                    Verdict::Retry(_) if job.attempt >= job.max_attempts => End::Dead(error),
                    Verdict::Retry(again) => End::Failed { error, again },
                    Verdict::Snooze(delay) => End::Snoozed(delay),
                    Verdict::Release => End::GivenBack,
                    Verdict::Cancel => End::Cancelled,
                    Verdict::Dead => End::Dead(error),
                }
            }
        };
        Self { job, end }
    }

    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        self.end == End::Done
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { kind, attempt, max_attempts, payload, .. } = &self.job;
        write!(f, "{kind} (attempt {attempt} of {max_attempts}): ")?;
        match &self.end {
            End::Done => write!(f, "done")?,
            End::Failed { error, again } => write!(f, "FAILED, again after {again:?}: {error}")?,
            End::Dead(error) => write!(f, "DEAD: {error}")?,
            End::Snoozed(delay) => write!(f, "snoozed for {delay:?}")?,
            End::Cancelled => write!(f, "cancelled")?,
            End::GivenBack => write!(f, "given back, because another job of its batch failed")?,
            End::Refused => write!(f, "REFUSED: it was no longer owned")?,
        }
        write!(f, "\n      {}", describe::payload(payload))
    }
}

/// What a drain did. As text it lists all of it.
#[derive(Clone, Debug, Default)]
#[must_use = "a drain tells of failures only here: `expect_done` says that there must be none"]
pub struct Summary {
    /// All attempts, in their order.
    pub ran: Vec<Ran>,
    /// Jobs that wait and were not run: of queues or kinds that the executor does not know, paused, or blocked by a limit or their
    /// group.
    pub waiting: Vec<JobSummary>,
    /// Jobs that are due later.
    pub timers: Vec<JobSummary>,
}

impl Summary {
    /// How many jobs are done.
    pub fn done(&self) -> usize {
        self.ran.iter().filter(|ran| ran.is_done()).count()
    }

    /// The attempts of this kind.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Ran> {
        self.ran.iter().filter(move |ran| ran.job.kind == kind)
    }

    /// Every job that ran is done, whatever attempts it took, and nothing waits that the executor does not know. (What is due later may, but not a job
    /// whose attempts failed: [`drain_through`](super::Runner::drain_through) runs its next ones.)
    ///
    /// # Panics
    /// When that is not so, with a list of all there was.
    #[track_caller]
    pub fn expect_done(&self) -> &Self {
        // By the last attempt of each: a handler may send a job of the same id again.
        let last: HashMap<JobId, &Ran> = self.ran.iter().map(|ran| (ran.job.id, ran)).collect();
        let bad = last.values().filter(|ran| !ran.is_done()).count();
        assert!(bad == 0, "{bad} of {} jobs did not end with `Done`:\n{self}", last.len());
        self.expect_nothing_waits()
    }

    /// As [`expect_done`](Self::expect_done), and no attempt failed on the way.
    ///
    /// # Panics
    /// When that is not so, with a list of all there was.
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
        if self.ran.is_empty() {
            writeln!(f, "  nothing was run")?;
        }
        for ran in &self.ran {
            writeln!(f, "  {ran}")?;
        }
        for job in &self.waiting {
            let how = if job.state == JobState::Blocked { "BLOCKED" } else { "WAITS" };
            writeln!(f, "  {} in {}: {how}", job.kind, job.queue)?;
        }
        for job in &self.timers {
            let due = job.due_at.map_or_else(|| "later".to_owned(), |at| at.to_string());
            writeln!(f, "  {} in {}: due {due}", job.kind, job.queue)?;
        }
        Ok(())
    }
}
