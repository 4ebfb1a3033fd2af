//! Runs the attempts of single jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use crate::context::Context;
use crate::executor::groups::follow::group_run;
use crate::executor::handler::job_context::Engine;
use crate::executor::handler::middleware::around;
use crate::executor::handler::registry::{Attempt, KindHandler};
use crate::executor::kinds::failure_policy::pause;
use crate::executor::kinds::kind::Kind;
use crate::executor::metrics::attempts::AttemptOutcome;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::cancellations::{CancelReason, CancelSignal};
use crate::executor::node::completion::Completion;
use crate::executor::node::group_run::GroupRun;
use crate::executor::node::slots::Slots;
use crate::executor::panic::catching_async;
use crate::executor::run::end::{NO_MORE, completion, failure, free, job_span, note_end, outcome_of, settled};
use crate::executor::run::rollback::{abandon, discard};
use crate::executor::run::timeout::within;
use crate::job::{Fence, HandlerResult, Job, JobError, Outcome};
use crate::store::{Removed, Store, Verdict};

/// How a handler's run ended.
pub(crate) enum AttemptEnd {
    Returned(HandlerResult),
    /// A middleware says that the job is done and the handler does not, so nothing of the handler's work is kept.
    DoneWithout,
    TimedOut(Duration),
    /// It was cancelled before it was done.
    Cancelled,
    /// The job was cancelled or taken away: there is no outcome left to record. `returned`: and the handler has ended by itself.
    Gone {
        returned: bool,
    },
}

/// Runs a job to its recorded outcome. Its slots are free again once the outcome is handed in.
///
/// Thousands of these futures are made a second, and each is moved several times before it runs, so it is kept small. It is not an `async
/// fn` around another future, which would hold it twice, and what few jobs need is boxed where it is needed.
pub(crate) fn run<S: Store>(
    node: Arc<Node>,
    handler: Arc<KindHandler<S>>,
    mut job: Job,
    slots: Arc<Slots>,
) -> impl Future<Output = ()> + Send {
    let span = job_span(&job);
    async move {
        let began = Instant::now();
        handler.kind.metrics.started(&job);
        if let Err(error) = node.codecs.open(&mut job) {
            Box::pin(unread(node, handler.kind.clone(), job, error, (slots, began))).await;
            return;
        }
        let completion = attempts(&node, &handler, &job, &slots, began).await;
        let follow = |fence| {
            group_run(&node, &job, &slots, began.elapsed())
                .map(|group_run| Completion::DoneInGroup(vec![fence], group_run))
        };
        match completion {
            Some(Completion::Done(fence)) => {
                node.completions.send(follow(fence).unwrap_or(Completion::Done(fence))).await;
            }
            Some(completion) => node.completions.send(completion).await,
            None => {}
        }
        free(&node, [slots]);
    }
    .instrument(span)
}

/// Runs a job of a group run, up to what is to be recorded of it; `None` if that has been done.
pub(crate) async fn attempt<S: Store>(
    node: &Arc<Node>,
    handler: Arc<KindHandler<S>>,
    mut job: Job,
    slots: &Arc<Slots>,
) -> Option<Completion> {
    if job.attempt > job.max_attempts {
        return Some(dead_lettered(node, &job));
    }
    let span = job_span(&job);
    async move {
        let began = Instant::now();
        handler.kind.metrics.started(&job);
        if let Err(error) = node.codecs.open(&mut job) {
            return undecoded(node, &handler.kind, &job, &error, began);
        }
        attempts(node, &handler, &job, slots, began).await
    }
    .instrument(span)
    .await
}

/// Runs the handler, again at once after each lost conflict, up to what is to be recorded of it; `None` if that has been done. The job is
/// borrowed, so that its future is not held twice.
async fn attempts<S: Store>(
    node: &Arc<Node>,
    handler: &KindHandler<S>,
    job: &Job,
    slots: &Arc<Slots>,
    began: Instant,
) -> Option<Completion> {
    let mut conflicts = 0;
    loop {
        let engine = Engine { messages: &handler.messages, node: node.id };
        let mut context = handler.messages.begin().of_handler();
        let cancelled = CancelSignal { cancellations: &node.cancellations, fence: job.fence() };
        let attempt = Attempt { job, context: &mut context, engine, cancelled, slots };
        let ending = execute(handler, attempt).await;
        let ran = matches!(ending, AttemptEnd::Returned(_) | AttemptEnd::DoneWithout);
        match conclude(node, &handler.kind, (job, slots, began), context, ending, conflicts).await {
            Conclusion::Over(completion, outcome) => {
                if ran {
                    handler.kind.breaker.ran(job.id, began);
                }
                note_end(&handler.kind, job, outcome, began);
                return completion;
            }
            Conclusion::Again => conflicts += 1,
        }
        Box::pin(pause(conflicts, &node.cancel)).await;
    }
}

/// The conclusion of an attempt.
enum Conclusion {
    /// The attempt is over, with what is still to be recorded.
    Over(Option<Completion>, AttemptOutcome),
    /// There is no outcome yet. The handler runs again, and its transaction is rolled back.
    Again,
}

/// Fails an attempt whose payload can't be decoded: another node may have the encryption key, or it may come later.
async fn unread(node: Arc<Node>, kind: Arc<Kind>, job: Job, error: JobError, (slots, began): (Arc<Slots>, Instant)) {
    if let Some(completion) = undecoded(&node, &kind, &job, &error, began) {
        node.completions.send(completion).await;
    }
    free(&node, [slots]);
}

fn undecoded(node: &Node, kind: &Kind, job: &Job, error: &JobError, began: Instant) -> Option<Completion> {
    let completion = failure(node, kind, job, error, NO_MORE)?;
    note_end(kind, job, outcome_of(job, &completion), began);
    Some(completion)
}

/// Dead-letters a job that has no attempt left. It was put off because the outcome of its last attempt could not be recorded. Its handler
/// does not run again.
pub(crate) async fn dead_letter(node: Arc<Node>, job: Job, slots: Arc<Slots>) {
    node.completions.send(dead_lettered(&node, &job)).await;
    free(&node, [slots]);
}

/// Makes a job wait again that this node has claimed and can't run.
pub(crate) async fn give_back(node: Arc<Node>, job: Job, slots: Arc<Slots>) {
    node.completions.send(node.give_back(job.fence(), ReleaseReason::LeftAlone)).await;
    free(&node, [slots]);
}

fn dead_lettered(node: &Node, job: &Job) -> Completion {
    let error = JobError::new("no attempt is left, and the outcome of the last one could not be recorded");
    settled(node, job, &error, Verdict::Dead)
}

pub(crate) async fn execute<S: Store>(handler: &KindHandler<S>, attempt: Attempt<'_, S>) -> AttemptEnd {
    let stop = attempt.cancelled;
    if !handler.layers.is_empty() {
        return Box::pin(execute_within(handler, attempt)).await;
    }
    limited(&handler.kind, stop, catching_async(handler.program.run(attempt))).await
}

/// Runs a handler with the middleware around it.
async fn execute_within<S: Store>(handler: &KindHandler<S>, attempt: Attempt<'_, S>) -> AttemptEnd {
    let (job, stop) = (attempt.job, attempt.cancelled);
    let done = AtomicBool::new(false);
    let program = async {
        let ended = catching_async(handler.program.run(attempt)).await;
        done.store(matches!(ended, Ok(Outcome::Done)), Ordering::Relaxed);
        ended
    };
    match limited(&handler.kind, stop, catching_async(around(&handler.layers, job, Box::pin(program)))).await {
        AttemptEnd::Returned(Ok(Outcome::Done)) if !done.load(Ordering::Relaxed) => AttemptEnd::DoneWithout,
        ending => ending,
    }
}

/// Runs a handler within its timeout.
async fn limited(kind: &Kind, stop: CancelSignal<'_>, handler: impl Future<Output = HandlerResult>) -> AttemptEnd {
    let limited = within(kind.options.timeout, handler);
    tokio::pin!(limited);
    let told = tokio::select! {
        biased;
        told = stop.cancelled() => told,
        ended = &mut limited => return match ended {
            // A handler that asks (`JobContext::is_cancelled`) may see it before this task is woken for it.
            Ok(_) if stop.is_stale() => AttemptEnd::Gone { returned: true },
            Ok(ended) => AttemptEnd::Returned(ended),
            Err(limit) => AttemptEnd::TimedOut(limit),
        },
    };
    if told == CancelReason::NodeStopping {
        return AttemptEnd::Cancelled;
    }
    // The handler was cancelled too, and may clean up. Then it is dropped.
    let returned = Box::pin(async {
        tokio::select! {
            ended = tokio::time::timeout(stop.grace(), limited) => matches!(ended, Ok(Ok(_))),
            () = stop.node().cancelled() => false,
        }
    })
    .await;
    AttemptEnd::Gone { returned }
}

/// Brings the outcome to the database if that takes its own transaction.
async fn conclude<S: Store>(
    node: &Arc<Node>,
    kind: &Kind,
    (job, slots, began): (&Job, &Arc<Slots>, Instant),
    context: Context<S>,
    ending: AttemptEnd,
    conflicts: u32,
) -> Conclusion {
    let fence = job.fence();
    let failed = |error: &JobError| failure(node, kind, job, error, conflicts);
    let completion = match ending {
        AttemptEnd::Returned(Ok(Outcome::Done)) if context.is_used() => {
            // The program's message services take part. A panic of theirs must not leave the job with this node for the rest of the node's
            // life.
            let committing = catching_async(async {
                Ok(match group_run(node, job, slots, began.elapsed()) {
                    Some(group_run) => commit_and_claim_next(node, fence, context, group_run).await?,
                    None => (context.commit_job(node.id, fence).await?, None),
                })
            });
            match Box::pin(committing).await {
                Ok((accepted, group_run)) => {
                    if accepted {
                        add(&node.counters.done, 1);
                    } else {
                        node.counters.refused.add_many(AttemptOutcome::Done.as_str(), 1);
                    }
                    node.wakeup.job_waiters.notify([job.id]);
                    if accepted {
                        node.in_flight.remove(std::iter::once(fence));
                    } else {
                        tracing::warn!("the job was no longer owned by this claim: its writes were rolled back");
                        node.in_flight.leave(std::iter::once(fence));
                    }
                    let next = group_run.map(|group_run| Completion::DoneInGroup(Vec::new(), group_run));
                    let outcome = if accepted { AttemptOutcome::Done } else { AttemptOutcome::Lost };
                    return Conclusion::Over(next, outcome);
                }
                // If the commit took effect and only its answer got lost, the row is gone and this outcome is refused.
                Err(error) => failed(&error),
            }
        }
        AttemptEnd::Returned(ended) => {
            // Only `Done` commits.
            discard(context).await;
            completion(node, kind, job, ended, conflicts)
        }
        AttemptEnd::DoneWithout => {
            abandon(context);
            Some(Completion::Done(fence))
        }
        AttemptEnd::TimedOut(limit) => {
            abandon(context);
            if job.admitted || job.options.group.is_some() {
                // Recording this frees its group or starts the group's next job. So a thread that still runs has to end first.
                Box::pin(slots.attempt_ended(&node.cancel)).await;
            }
            failed(&JobError::new(format!("the handler did not finish within {limit:?}")))
        }
        AttemptEnd::Gone { returned } => {
            if returned {
                discard(context).await;
            } else {
                abandon(context);
            }
            add(&node.counters.cancelled, 1);
            tracing::info!("the job was cancelled while it ran: the writes of its handler are not committed");
            // A thread may still run. If the node stops meanwhile, the job stays in flight, and what it held is freed when the node is
            // retired.
            if Box::pin(slots.attempt_ended(&node.cancel)).await {
                node.in_flight.leave(std::iter::once(fence));
            }
            return Conclusion::Over(None, AttemptOutcome::Lost);
        }
        AttemptEnd::Cancelled => {
            abandon(context);
            Some(node.interrupted(job.fence()))
        }
    };
    completion.map_or(Conclusion::Again, |completion| {
        let outcome = outcome_of(job, &completion);
        Conclusion::Over(Some(completion), outcome)
    })
}

/// Commits what a handler did, with the end of its job, and continues its group. Returns whether the claim was current.
async fn commit_and_claim_next<S: Store>(
    node: &Arc<Node>,
    fence: Fence,
    context: Context<S>,
    mut group_run: GroupRun,
) -> crate::Result<(bool, Option<GroupRun>)> {
    let lease = node.in_flight.lease(group_run.group.lease);
    let removed = context.commit_and_claim_next(node.id, fence, &group_run.group, lease.number()).await;
    match &removed {
        Ok(Removed::Leased) => {
            group_run.leased(lease);
            return Ok((true, Some(group_run)));
        }
        // It may have committed: reconciliation decides about the lease.
        Err(error) if error.may_have_taken_effect() => drop(lease),
        Ok(_) | Err(_) => lease.free(),
    }
    removed.map(|removed| (removed == Removed::Gone, None))
}
