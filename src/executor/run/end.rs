//! What a call that leaves nothing to commit means for its jobs, and what is free after it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::executor::kinds::breaker::Refused;
use crate::executor::kinds::failure_policy::RetryDecision;
use crate::executor::kinds::kind::Kind;
use crate::executor::metrics::attempts::AttemptOutcome;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::completion::Completion;
use crate::executor::node::slots::Slots;
use crate::job::{HandlerResult, Job, JobError, Outcome, TraceContext};
use crate::store::{Settlement, Verdict};

/// As a number of lost conflicts: the handler is not run again at once.
pub(crate) const NO_MORE: u32 = u32::MAX;

/// Returns the span for what is logged while a job runs. Its level is that of errors, so that a line about a job names the job whatever the filter of
/// the program lets through.
pub(crate) fn job_span(job: &Job) -> tracing::Span {
    tracing::error_span!("job", id = %job.id, kind = %job.kind, queue = %job.queue, attempt = job.attempt,
        trace_id = job.trace().map(TraceContext::trace_id))
}

/// Returns what an attempt that leaves nothing to commit means for its job, after `conflicts` lost conflicts. `None`: the attempt is not
/// over.
pub(crate) fn completion(
    node: &Node,
    kind: &Kind,
    job: &Job,
    ended: HandlerResult,
    conflicts: u32,
) -> Option<Completion> {
    let fence = job.fence();
    match ended {
        Ok(Outcome::Done) => Some(Completion::Done(fence)),
        Ok(Outcome::Retry) => failure(node, kind, job, &JobError::new("the handler asked for a retry"), conflicts),
        Ok(Outcome::Snooze(delay)) => Some(Completion::Settled(Settlement::new(fence, Verdict::Snooze(delay)))),
        Ok(Outcome::Cancel(reason)) => {
            tracing::info!(reason, "the handler cancelled its job");
            Some(Completion::Settled(Settlement::new(fence, Verdict::Cancel)))
        }
        Ok(Outcome::Dead(reason)) => Some(settled(node, job, &JobError::new(reason), Verdict::Dead)),
        Err(error) => failure(node, kind, job, &error, conflicts),
    }
}

/// Returns what a failed attempt means for the job. `None`: the attempt is not over, the handler runs again.
pub(crate) fn failure(node: &Node, kind: &Kind, job: &Job, error: &JobError, conflicts: u32) -> Option<Completion> {
    let verdict = match node.failure_policy.decide(error, job, &kind.options, conflicts) {
        RetryDecision::AtOnce => {
            add(&node.counters.conflicts, 1);
            tracing::debug!(%error, "the handler lost a conflict and is run again");
            return None;
        }
        RetryDecision::Later(delay) => Verdict::Retry(delay),
        RetryDecision::NotHere => match kind.breaker.refuse(job.id, error.message(), Instant::now()) {
            Refused::Back => return Some(node.give_back(job.fence(), ReleaseReason::LeftAlone)),
            Refused::Later(delay) => {
                return Some(Completion::Settled(Settlement::new(job.fence(), Verdict::Snooze(delay))));
            }
            Refused::Failed => Verdict::Retry(node.failure_policy.delay(job, &kind.options)),
        },
        RetryDecision::Never => Verdict::Dead,
    };
    Some(settled(node, job, error, verdict))
}

pub(crate) fn settled(node: &Node, job: &Job, error: &JobError, verdict: Verdict) -> Completion {
    let last = verdict == Verdict::Dead || job.attempt >= job.max_attempts;
    if last {
        add(&node.counters.dead, 1);
        tracing::error!(%error, "the job failed and becomes a dead letter");
    } else {
        let left = job.max_attempts - job.attempt;
        let retry_in = if let Verdict::Retry(delay) = verdict { Some(rounded(delay)) } else { None };
        let retry_in = retry_in.map(tracing::field::debug);
        tracing::warn!(%error, retry_in, attempts_left = left, "the attempt failed");
    }
    let settlement = Settlement::new(job.fence(), verdict).error(error.message(), error.detail_text());
    Completion::Settled(node.codecs.settlement(settlement, &job.kind, &job.queue))
}

/// Returns how an attempt ended whose outcome is still to be recorded.
pub(crate) fn outcome_of(job: &Job, completion: &Completion) -> AttemptOutcome {
    match completion {
        Completion::Done(_) | Completion::DoneInGroup(..) | Completion::Recorded(..) => AttemptOutcome::Done,
        // Its last attempt: the store makes it a dead letter.
        Completion::Settled(Settlement { verdict: Verdict::Retry(_), .. }) if job.attempt >= job.max_attempts => {
            AttemptOutcome::Dead
        }
        Completion::Settled(settlement) => settled_as(&settlement.verdict),
    }
}

/// Returns the outcome that a verdict is.
pub(crate) fn settled_as(verdict: &Verdict) -> AttemptOutcome {
    match verdict {
        Verdict::Retry(_) => AttemptOutcome::Retry,
        Verdict::Snooze(_) => AttemptOutcome::Snooze,
        Verdict::Cancel => AttemptOutcome::Cancel,
        Verdict::Dead => AttemptOutcome::Dead,
        Verdict::Release => AttemptOutcome::Released,
    }
}

/// Counts an attempt that has ended, and writes a line for whoever follows jobs at the level of `debug`.
pub(crate) fn note_end(kind: &Kind, job: &Job, outcome: AttemptOutcome, began: Instant) {
    kind.metrics.finished(job, began, outcome);
    tracing::debug!(outcome = outcome.as_str(), took = ?rounded(began.elapsed()), "the attempt ended");
}

/// Rounds a time for a log: nobody needs more than milliseconds.
pub(crate) fn rounded(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Frees the slots of jobs whose outcomes were handed in.
pub(crate) fn free(node: &Node, slots: impl IntoIterator<Item = Arc<Slots>>) {
    // Dispatchers do not wait for the slots of a kind, so those of all queues are woken: any of them may have such jobs.
    if slots.into_iter().fold(false, |limited, slots| limited | slots.kind.is_some()) {
        node.queues.values().for_each(|queue| queue.wake());
    }
}
