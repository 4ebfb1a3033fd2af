//! Runs one attempt of one job.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument as _;

use super::completer::Report;
use super::failing::{Decision, pause};
use super::incarnation::Incarnation;
use super::panic::catching_async;
use super::progress::Engine;
use super::registry::{Attempt, Ended, Kind, Slots};
use super::stats::add;
use crate::context::Context;
use crate::job::{Job, JobError, Outcome};
use crate::store::{Settlement, Store, Verdict};

/// How the handler came to its end.
enum Ending {
    Returned(Ended),
    TimedOut(Duration),
    /// Told to stop before it was done.
    Cancelled,
}

/// Runs a job to its recorded outcome. Its slots are free again when the outcome is handed in.
///
/// Thousands of these are made a second and each is moved several times until it runs, so it is kept small: not an `async fn`
/// around another future, which would hold it twice, and what few jobs need is boxed where they need it.
pub(super) fn run<S: Store>(
    node: Arc<Incarnation<S>>,
    kind: Arc<Kind<S>>,
    job: Job,
    slots: Arc<Slots>,
) -> impl Future<Output = ()> + Send {
    let span = tracing::info_span!("job", id = %job.id, kind = %job.kind, attempt = job.attempt);
    async move {
        let mut conflicts = 0;
        loop {
            let engine = Engine { jobs: &node.store, node: node.id, largest: node.messages.limits.payload };
            let mut context = node.messages.begin();
            let ending = execute(
                &kind,
                Attempt { job: &job, context: &mut context, engine, cancelled: &node.cancel, slots: &slots },
            )
            .await;
            if conclude(&node, &kind, &job, context, ending, conflicts).await {
                break;
            }
            conflicts += 1;
            Box::pin(pause(conflicts, &node.cancel)).await;
        }
        // Dispatchers do not wait for the slots of a kind, so they have to be told, whichever queue has such jobs.
        let limited = slots.kind.is_some();
        drop(slots);
        if limited {
            node.queues.values().for_each(|queue| queue.wake());
        }
    }
    .instrument(span)
}

async fn execute<S: Store>(kind: &Kind<S>, attempt: Attempt<'_, S>) -> Ending {
    let cancel = attempt.cancelled;
    let handler = catching_async(kind.handler.run(attempt));
    let limited = async {
        match kind.options.timeout {
            Some(limit) => tokio::time::timeout(limit, handler).await.map_err(|_| limit),
            None => Ok(handler.await),
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ending::Cancelled,
        ended = limited => match ended {
            Ok(ended) => Ending::Returned(ended),
            Err(limit) => Ending::TimedOut(limit),
        },
    }
}

/// Brings the outcome to the database. `false`: there is none yet, the handler is to be run again; its transaction is rolled back.
async fn conclude<S: Store>(
    node: &Arc<Incarnation<S>>,
    kind: &Kind<S>,
    job: &Job,
    context: Context<S>,
    ending: Ending,
    conflicts: u32,
) -> bool {
    let fence = job.fence();
    let failed = |error: &JobError| {
        let decision = node.failing.decide(error, job, &kind.options, conflicts);
        if decision == Decision::AtOnce {
            add(&node.counters.conflicts, 1);
            tracing::debug!(%error, "the handler lost a conflict and is run again");
        }
        failure(job, error, decision)
    };
    let report = match ending {
        Ending::Returned(Ok(Outcome::Done)) if context.is_used() => {
            match Box::pin(context.commit_job(node.id, fence)).await {
                Ok(accepted) => {
                    add(if accepted { &node.counters.done } else { &node.counters.refused }, 1);
                    if !accepted {
                        tracing::warn!("the job was no longer owned by this claim: its writes were rolled back");
                    }
                    node.in_flight.remove(std::iter::once(fence));
                    return true;
                }
                // If the answer to the commit got lost and it did take effect, the row is gone and this is refused.
                Err(error) => failed(&JobError::from(error)),
            }
        }
        Ending::Returned(ended) => {
            // Only `Done` commits. The transaction goes first, so that its locks do not outlive the outcome.
            if context.has_transaction()
                && let Err(error) = Box::pin(context.rollback()).await
            {
                tracing::debug!(%error, "the handler's transaction was not rolled back in good order");
            }
            match ended {
                Ok(Outcome::Done) => Some(Report::Done(fence)),
                Ok(Outcome::Retry) => failed(&JobError::new("the handler asked for a retry")),
                Ok(Outcome::Snooze(delay)) => Some(Report::Settled(Settlement::new(fence, Verdict::Snooze(delay)))),
                Ok(Outcome::Cancel(reason)) => {
                    tracing::info!(reason, "the handler cancelled its job");
                    Some(Report::Settled(Settlement::new(fence, Verdict::Cancel)))
                }
                Ok(Outcome::Dead(reason)) => failure(job, &JobError::new(reason), Decision::Never),
                Err(error) => failed(&error),
            }
        }
        Ending::TimedOut(limit) => {
            drop(context);
            failed(&JobError::new(format!("the handler did not finish within {limit:?}")))
        }
        Ending::Cancelled => {
            drop(context);
            Some(Report::Settled(Settlement::new(fence, Verdict::Release)))
        }
    };
    match report {
        Some(report) => node.reports.send(report).await,
        None => return false,
    }
    true
}

/// What a failed attempt means for the job. `None`: the attempt is not over.
fn failure(job: &Job, error: &JobError, decision: Decision) -> Option<Report> {
    let verdict = match decision {
        Decision::AtOnce => return None,
        Decision::Later(delay) => Verdict::Retry(delay),
        Decision::Never => Verdict::Dead,
    };
    let last = verdict == Verdict::Dead || job.attempt >= job.max_attempts;
    if last {
        tracing::error!(%error, "the job failed and becomes a dead letter");
    } else {
        tracing::warn!(%error, next = ?verdict, "the attempt failed");
    }
    Some(Report::Settled(Settlement::new(job.fence(), verdict).error(error.message(), error.detail_text())))
}
