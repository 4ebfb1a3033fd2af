//! Runs one attempt of one job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use super::cancellations::{Stop, Told};
use super::completer::Report;
use super::failing::{Decision, pause};
use super::hand_on::{Turn, turn};
use super::incarnation::Incarnation;
use super::middleware::around;
use super::panic::catching_async;
use super::progress::Engine;
use super::registry::{Attempt, Ended, Kind, Slots};
use super::stats::add;
use crate::context::Context;
use crate::job::{Fence, Job, JobError, Outcome, TraceContext};
use crate::store::{Removed, Settlement, Store, Verdict};

/// How the handler came to its end.
pub(super) enum Ending {
    Returned(Ended),
    /// What runs around the handler says that the job is done; the handler does not, so nothing of it is kept.
    DoneWithout,
    TimedOut(Duration),
    /// Told to stop before it was done.
    Cancelled,
    /// The job was cancelled, or taken away: there is nothing left to record an outcome of.
    Gone,
}

/// What is logged while a job runs is logged as part of this.
pub(super) fn job_span(job: &Job) -> tracing::Span {
    tracing::info_span!("job", id = %job.id, kind = %job.kind, queue = %job.queue, attempt = job.attempt,
        trace_id = job.trace().map(TraceContext::trace_id))
}

/// Runs a job to its recorded outcome. Its slots are free again when the outcome is handed in.
///
/// Thousands of these are made a second and each is moved several times until it runs, so it is kept small: not an `async fn`
/// around another future, which would hold it twice, and what few jobs need is boxed where they need it.
pub(super) fn run<S: Store>(
    node: Arc<Incarnation<S>>,
    kind: Arc<Kind<S>>,
    mut job: Job,
    slots: Arc<Slots>,
) -> impl Future<Output = ()> + Send {
    let span = job_span(&job);
    async move {
        if let Err(error) = node.messages.shared.codecs.open(&mut job) {
            Box::pin(unread(node, kind, job, error, slots)).await;
            return;
        }
        let began = Instant::now();
        let mut conflicts = 0;
        let report = loop {
            let engine = Engine { messages: &node.messages, node: node.id };
            let mut context = node.messages.begin();
            let cancelled = Stop { cancellations: &node.cancellations, fence: job.fence() };
            let attempt = Attempt { job: &job, context: &mut context, engine, cancelled, slots: &slots };
            let ending = execute(&kind, attempt).await;
            match conclude(&node, &kind, (&job, &slots, began), context, ending, conflicts).await {
                Conclusion::Over(report) => break report,
                Conclusion::Again => conflicts += 1,
            }
            Box::pin(pause(conflicts, &node.cancel)).await;
        };
        let follow = |fence| turn(&node, &job, &slots, began.elapsed()).map(|turn| Report::InTurn(vec![fence], turn));
        match report {
            Some(Report::Done(fence)) => node.reports.send(follow(fence).unwrap_or(Report::Done(fence))).await,
            Some(report) => node.reports.send(report).await,
            None => {}
        }
        free(&node, slots);
    }
    .instrument(span)
}

/// The same for a job that stands in a line, up to what is to be recorded of it; nothing if that has been done.
pub(super) async fn attempt<S: Store>(node: &Arc<Incarnation<S>>, mut job: Job, slots: &Arc<Slots>) -> Option<Report> {
    let Some(kind) = node.registry.get(&job.kind).cloned() else {
        // Can't happen: only registered kinds are asked for.
        return Some(Report::Settled(Settlement::new(job.fence(), Verdict::Release)));
    };
    if job.attempt > job.max_attempts {
        return Some(buried(node, &job));
    }
    let span = job_span(&job);
    async move {
        if let Err(error) = node.messages.shared.codecs.open(&mut job) {
            return failure(node, &kind, &job, &error, u32::MAX);
        }
        let began = Instant::now();
        let mut conflicts = 0;
        loop {
            let engine = Engine { messages: &node.messages, node: node.id };
            let mut context = node.messages.begin();
            let cancelled = Stop { cancellations: &node.cancellations, fence: job.fence() };
            let attempt = Attempt { job: &job, context: &mut context, engine, cancelled, slots };
            let ending = execute(&kind, attempt).await;
            match conclude(node, &kind, (&job, slots, began), context, ending, conflicts).await {
                Conclusion::Over(report) => return report,
                Conclusion::Again => conflicts += 1,
            }
            pause(conflicts, &node.cancel).await;
        }
    }
    .instrument(span)
    .await
}

/// What an attempt came to.
enum Conclusion {
    /// With what is still to be recorded.
    Over(Option<Report>),
    /// There is no outcome yet, the handler is to be run again; its transaction is rolled back.
    Again,
}

/// The payload can't be decoded: a failed attempt, because the key may be elsewhere or come later.
async fn unread<S: Store>(node: Arc<Incarnation<S>>, kind: Arc<Kind<S>>, job: Job, error: JobError, slots: Arc<Slots>) {
    if let Some(report) = failure(&node, &kind, &job, &error, u32::MAX) {
        node.reports.send(report).await;
    }
    free(&node, slots);
}

fn free<S: Store>(node: &Incarnation<S>, slots: Arc<Slots>) {
    // Dispatchers do not wait for the slots of a kind, so they have to be told, whichever queue has such jobs.
    let limited = slots.kind.is_some();
    drop(slots);
    if limited {
        node.queues.values().for_each(|queue| queue.wake());
    }
}

/// A job that has no attempt left was put off, because the outcome of its last one could not be recorded. Its handler does not run again.
pub(super) async fn bury<S: Store>(node: Arc<Incarnation<S>>, job: Job, slots: Arc<Slots>) {
    node.reports.send(buried(&node, &job)).await;
    free(&node, slots);
}

fn buried<S: Store>(node: &Incarnation<S>, job: &Job) -> Report {
    let error = JobError::new("no attempt is left, and the outcome of the last one could not be recorded");
    settled(node, job, &error, Verdict::Dead)
}

pub(super) async fn execute<S: Store>(kind: &Kind<S>, attempt: Attempt<'_, S>) -> Ending {
    let stop = attempt.cancelled;
    if !kind.layers.is_empty() {
        return Box::pin(execute_within(kind, attempt)).await;
    }
    let handler = catching_async(kind.handler.run(attempt));
    limited(kind, stop, handler).await
}

/// With what runs around it.
async fn execute_within<S: Store>(kind: &Kind<S>, attempt: Attempt<'_, S>) -> Ending {
    let (job, stop) = (attempt.job, attempt.cancelled);
    let done = AtomicBool::new(false);
    let handler = async {
        let ended = catching_async(kind.handler.run(attempt)).await;
        done.store(matches!(ended, Ok(Outcome::Done)), Ordering::Relaxed);
        ended
    };
    match limited(kind, stop, catching_async(around(&kind.layers, job, Box::pin(handler)))).await {
        Ending::Returned(Ok(Outcome::Done)) if !done.load(Ordering::Relaxed) => Ending::DoneWithout,
        ending => ending,
    }
}

/// Within the time it has.
async fn limited<S: Store>(kind: &Kind<S>, stop: Stop<'_>, handler: impl Future<Output = Ended>) -> Ending {
    let limited = async {
        match kind.options.timeout {
            Some(limit) => tokio::time::timeout(limit, handler).await.map_err(|_| limit),
            None => Ok(handler.await),
        }
    };
    tokio::pin!(limited);
    let told = tokio::select! {
        biased;
        told = stop.told() => told,
        ended = &mut limited => return match ended {
            Ok(ended) => Ending::Returned(ended),
            Err(limit) => Ending::TimedOut(limit),
        },
    };
    if told == Told::Node {
        return Ending::Cancelled;
    }
    // It has been told too, and may tidy up; then it is dropped.
    Box::pin(async {
        tokio::select! {
            _ = tokio::time::timeout(stop.grace(), limited) => {}
            () = stop.node().cancelled() => {}
        }
    })
    .await;
    Ending::Gone
}

/// Brings the outcome to the database, if that takes a transaction of its own.
async fn conclude<S: Store>(
    node: &Arc<Incarnation<S>>,
    kind: &Kind<S>,
    (job, slots, began): (&Job, &Arc<Slots>, Instant),
    context: Context<S>,
    ending: Ending,
    conflicts: u32,
) -> Conclusion {
    let fence = job.fence();
    let failed = |error: &JobError| failure(node, kind, job, error, conflicts);
    let report = match ending {
        Ending::Returned(Ok(Outcome::Done)) if context.is_used() => {
            // Message services of the program take part, and a panic of theirs must not leave the job with this node for as long as it lives.
            let committing = catching_async(async {
                Ok(match turn(node, job, slots, began.elapsed()) {
                    Some(turn) => commit_in_turn(node, fence, context, turn).await?,
                    None => (context.commit_job(node.id, fence).await?, None),
                })
            });
            match Box::pin(committing).await {
                Ok((accepted, turn)) => {
                    add(if accepted { &node.counters.done } else { &node.counters.refused }, 1);
                    node.messages.shared.wakeup.bells.ring([job.id]);
                    if accepted {
                        node.in_flight.remove(std::iter::once(fence));
                    } else {
                        tracing::warn!("the job was no longer owned by this claim: its writes were rolled back");
                        node.in_flight.leave(std::iter::once(fence));
                    }
                    return Conclusion::Over(turn.map(|turn| Report::InTurn(Vec::new(), turn)));
                }
                // If the answer to the commit got lost and it did take effect, the row is gone and this is refused.
                Err(error) => failed(&error),
            }
        }
        Ending::Returned(ended) => {
            // Only `Done` commits. The transaction goes first, so that its locks do not outlive the outcome.
            if context.has_transaction()
                && let Err(error) = Box::pin(context.rollback()).await
            {
                tracing::debug!(%error, "the handler's transaction was not rolled back in good order");
            }
            report(node, kind, job, ended, conflicts)
        }
        Ending::DoneWithout => {
            drop(context);
            Some(Report::Done(fence))
        }
        Ending::TimedOut(limit) => {
            drop(context);
            if job.admitted || job.terms.group.is_some() {
                // Its group is free when this is recorded, or the next one begins, so a thread that runs on has to end first.
                Box::pin(slots.attempt_ended(&node.cancel)).await;
            }
            failed(&JobError::new(format!("the handler did not finish within {limit:?}")))
        }
        Ending::Gone => {
            if context.has_transaction()
                && let Err(error) = Box::pin(context.rollback()).await
            {
                tracing::debug!(%error, "the handler's transaction was not rolled back in good order");
            }
            add(&node.counters.cancelled, 1);
            tracing::info!("the job was cancelled while it ran: what its handler did is not committed");
            // A thread may run on. If the node stops meanwhile it stays in hand, and what it held is free when the node is retired.
            if Box::pin(slots.attempt_ended(&node.cancel)).await {
                node.in_flight.leave(std::iter::once(fence));
            }
            return Conclusion::Over(None);
        }
        Ending::Cancelled => {
            drop(context);
            Some(Report::Settled(Settlement::new(fence, Verdict::Release)))
        }
    };
    report.map_or(Conclusion::Again, |report| Conclusion::Over(Some(report)))
}

/// Commits what a handler did, with the end of its job, and goes on with its group. Whether the claim was current.
async fn commit_in_turn<S: Store>(
    node: &Arc<Incarnation<S>>,
    fence: Fence,
    context: Context<S>,
    mut turn: Turn,
) -> crate::Result<(bool, Option<Turn>)> {
    // Known before the claim has a number: a look that comes later does not take it for lost.
    let lease = node.in_flight.lease(turn.group.lease);
    let removed = context.commit_in_turn(node.id, fence, &turn.group, node.next_claim()).await;
    match &removed {
        Ok(Removed::Leased) => {
            turn.leased(lease);
            return Ok((true, Some(turn)));
        }
        // It may have committed: the lease is left to a look.
        Err(error) if error.may_have_taken_effect() => drop(lease),
        Ok(_) | Err(_) => lease.free(),
    }
    removed.map(|removed| (removed == Removed::Gone, None))
}

/// What an attempt means for its job that leaves nothing to commit, after so many conflicts that it lost. `None`: it is not over.
pub(super) fn report<S: Store>(
    node: &Incarnation<S>,
    kind: &Kind<S>,
    job: &Job,
    ended: Ended,
    conflicts: u32,
) -> Option<Report> {
    let fence = job.fence();
    match ended {
        Ok(Outcome::Done) => Some(Report::Done(fence)),
        Ok(Outcome::Retry) => failure(node, kind, job, &JobError::new("the handler asked for a retry"), conflicts),
        Ok(Outcome::Snooze(delay)) => Some(Report::Settled(Settlement::new(fence, Verdict::Snooze(delay)))),
        Ok(Outcome::Cancel(reason)) => {
            tracing::info!(reason, "the handler cancelled its job");
            Some(Report::Settled(Settlement::new(fence, Verdict::Cancel)))
        }
        Ok(Outcome::Dead(reason)) => Some(settled(node, job, &JobError::new(reason), Verdict::Dead)),
        Err(error) => failure(node, kind, job, &error, conflicts),
    }
}

/// What a failed attempt means for the job. `None`: it is not over, the handler is to be run again.
pub(super) fn failure<S: Store>(
    node: &Incarnation<S>,
    kind: &Kind<S>,
    job: &Job,
    error: &JobError,
    conflicts: u32,
) -> Option<Report> {
    let verdict = match node.failing.decide(error, job, &kind.options, conflicts) {
        Decision::AtOnce => {
            add(&node.counters.conflicts, 1);
            tracing::debug!(%error, "the handler lost a conflict and is run again");
            return None;
        }
        Decision::Later(delay) => Verdict::Retry(delay),
        Decision::Never => Verdict::Dead,
    };
    Some(settled(node, job, error, verdict))
}

fn settled<S: Store>(node: &Incarnation<S>, job: &Job, error: &JobError, verdict: Verdict) -> Report {
    let last = verdict == Verdict::Dead || job.attempt >= job.max_attempts;
    if last {
        tracing::error!(%error, "the job failed and becomes a dead letter");
    } else {
        tracing::warn!(%error, next = ?verdict, "the attempt failed");
    }
    let settlement = Settlement::new(job.fence(), verdict).error(error.message(), error.detail_text());
    Report::Settled(node.messages.shared.codecs.settlement(settlement, &job.kind, &job.queue))
}
