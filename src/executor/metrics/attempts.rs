//! Counters of the attempts of a kind in a queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::executor::metrics::histogram::Times;
use crate::executor::metrics::snapshot::JobMetrics;
use crate::job::Job;

/// How an attempt ended, in the words of metrics and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// The job is done.
    Done,
    /// The attempt failed, and there will be another.
    Retry,
    /// The handler asked to be called later.
    Snooze,
    /// The handler cancelled its job.
    Cancel,
    /// The job becomes a dead letter.
    Dead,
    /// The job was given back, without costing an attempt.
    Released,
    /// The claim was no longer current: the job was cancelled, or another node has it. Nothing was committed.
    Lost,
}

impl AttemptOutcome {
    pub(crate) const ALL: [Self; 7] =
        [Self::Done, Self::Retry, Self::Snooze, Self::Cancel, Self::Dead, Self::Released, Self::Lost];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retry => "retry",
            Self::Snooze => "snooze",
            Self::Cancel => "cancel",
            Self::Dead => "dead",
            Self::Released => "released",
            Self::Lost => "lost",
        }
    }
}

/// The jobs of one kind in each queue that the executor serves. There are as many as the program has kinds and queues, whatever is sent.
#[derive(Debug)]
pub(crate) struct KindMetrics {
    kind: String,
    queues: Box<[(String, Counters)]>,
}

#[derive(Debug, Default)]
struct Counters {
    started: AtomicU64,
    finished: [AtomicU64; AttemptOutcome::ALL.len()],
    wait: Times,
    run: Times,
    end_to_end: Times,
}

impl KindMetrics {
    pub(crate) fn new<'a>(kind: &str, queues: impl Iterator<Item = &'a String>) -> Self {
        Self { kind: kind.to_owned(), queues: queues.map(|queue| (queue.clone(), Counters::default())).collect() }
    }

    /// Returns the kind: the first of its names.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the counters of a job. A test kit may run jobs of any queue, which nobody watches.
    fn of(&self, job: &Job) -> Option<&Counters> {
        self.queues.iter().find(|(queue, _)| *queue == job.queue).map(|(_, counters)| counters)
    }

    /// Counts an attempt that begins.
    pub(crate) fn started(&self, job: &Job) {
        let Some(counters) = self.of(job) else { return };
        counters.started.fetch_add(1, Ordering::Relaxed);
        if job.attempt <= 1 {
            counters.wait.add(since_flush(job));
        }
    }

    /// Counts an attempt that has ended.
    pub(crate) fn finished(&self, job: &Job, began: Instant, outcome: AttemptOutcome) {
        let Some(counters) = self.of(job) else { return };
        counters.finished[outcome as usize].fetch_add(1, Ordering::Relaxed);
        counters.run.add(began.elapsed());
        if outcome == AttemptOutcome::Done {
            counters.end_to_end.add(since_flush(job));
        }
    }

    /// Reads the counters of each queue in which an attempt has begun.
    pub(crate) fn read(&self) -> impl Iterator<Item = JobMetrics> {
        self.queues.iter().filter_map(|(queue, counters)| {
            let started = counters.started.load(Ordering::Relaxed);
            let finished = AttemptOutcome::ALL.iter().zip(&counters.finished);
            (started > 0).then(|| JobMetrics {
                queue: queue.clone(),
                kind: self.kind.clone(),
                started,
                finished: finished.map(|(outcome, count)| (outcome.as_str(), count.load(Ordering::Relaxed))).collect(),
                wait: counters.wait.read(),
                run: counters.run.read(),
                end_to_end: counters.end_to_end.read(),
            })
        })
    }
}

/// Returns the time since the flush: the clock of this host against the database's, so as exact as both agree.
fn since_flush(job: &Job) -> Duration {
    let micros = Timestamp::now().as_microsecond().saturating_sub(job.created_at.as_microsecond());
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_is_at_its_place() {
        for (place, outcome) in AttemptOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
    }
}
