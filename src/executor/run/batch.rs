//! Runs one batch to its recorded outcomes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument as _;

use crate::context::Context;
use crate::executor::handler::batch::{Batch, BatchPlan};
use crate::executor::handler::middleware::around;
use crate::executor::handler::registry::KindHandler;
use crate::executor::kinds::kind::Kind;
use crate::executor::metrics::attempts::AttemptOutcome;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::completion::Completion;
use crate::executor::node::gathering::Member;
use crate::executor::panic::catching_async;
use crate::executor::run::end::{NO_MORE, completion, failure, free, job_span, outcome_of, rounded};
use crate::executor::run::rollback::{abandon, discard};
use crate::executor::run::timeout;
use crate::job::{Fence, HandlerResult, Job, JobError, Outcome};
use crate::store::Store;

/// How one job of a batch ended.
struct Came {
    /// Whether the handler said that it is done. `None`: a middleware decided without calling the handler.
    handler_done: Option<bool>,
    ended: HandlerResult,
}

/// How the call ended.
enum BatchEnd {
    /// The results of the jobs, in their order.
    Returned(Vec<Came>),
    TimedOut(Duration),
    Cancelled,
}

/// Runs a batch. The slots of its jobs are free again once their outcomes are handed in.
pub(crate) async fn run<S: Store>(
    node: Arc<Node>,
    handler: Arc<KindHandler<S>>,
    plan: Arc<BatchPlan<S>>,
    members: Vec<Member>,
) {
    let (jobs, slots): (Vec<_>, Vec<_>) = members.into_iter().map(|member| (member.job, member.slots)).unzip();
    let Some(first) = jobs.first() else { return };
    let span = tracing::error_span!("batch", kind = %first.kind, queue = %first.queue, jobs = jobs.len());
    let kind = &handler.kind;
    let run = async {
        let began = Instant::now();
        for job in &jobs {
            kind.metrics.started(job);
        }
        let (jobs, unread) = decoded(&node, jobs);
        let unread = unread.iter().map(|(job, error)| (job, failed(&node, kind, job, error))).collect();
        send(&node, kind, began, unread).await;
        if jobs.is_empty() {
            return;
        }
        let mut context = handler.messages.begin().of_handler();
        let ending = execute(&node, &handler, &plan, &jobs, &mut context).await;
        let ran = matches!(ending, BatchEnd::Returned(_));
        let left = conclude(&node, kind, &jobs, context, (ending, began)).await;
        send(&node, kind, began, left).await;
        tracing::debug!(took = ?rounded(began.elapsed()), "the batch ended");
        if ran {
            for job in &jobs {
                kind.breaker.ran(job.id, began);
            }
        }
    };
    run.instrument(span).await;
    free(&node, slots);
}

/// Returns the jobs as the handler is to see them, and those that can't be decoded.
fn decoded(node: &Node, jobs: Vec<Job>) -> (Vec<Job>, Vec<(Job, JobError)>) {
    let (mut good, mut unread) = (Vec::with_capacity(jobs.len()), Vec::new());
    for mut job in jobs {
        match node.codecs.open(&mut job) {
            Ok(()) => good.push(job),
            Err(why) => unread.push((job, why)),
        }
    }
    (good, unread)
}

async fn execute<S: Store>(
    node: &Node,
    handler: &KindHandler<S>,
    plan: &BatchPlan<S>,
    jobs: &[Job],
    context: &mut Context<S>,
) -> BatchEnd {
    let call = async {
        if handler.layers.is_empty() {
            return call(node, plan, jobs, context).await;
        }
        within(node, handler, plan, jobs, context).await
    };
    tokio::select! {
        biased;
        () = node.cancel.cancelled() => BatchEnd::Cancelled,
        ended = timeout::within(handler.kind.options.timeout, call) => match ended {
            Ok(results) => BatchEnd::Returned(results),
            Err(limit) => BatchEnd::TimedOut(limit),
        },
    }
}

/// Calls the handler once.
async fn call<S: Store>(node: &Node, plan: &BatchPlan<S>, jobs: &[Job], context: &mut Context<S>) -> Vec<Came> {
    let mut batch = Batch { jobs, context, cancelled: &node.cancel };
    let mut ended = catching_async(async { plan.handler.call(&mut batch).await }).await;
    let each = jobs.iter().map(|job| {
        let ended = match &mut ended {
            Ok(outcomes) => outcomes.take(job.id),
            Err(error) => Err(error.clone()),
        };
        Came { handler_done: Some(matches!(ended, Ok(Outcome::Done))), ended }
    });
    each.collect()
}

/// Runs each job through the middleware separately. Jobs that get to the handler wait there until all others have got there too, or will
/// not.
async fn within<S: Store>(
    node: &Node,
    handler: &KindHandler<S>,
    plan: &BatchPlan<S>,
    jobs: &[Job],
    context: &mut Context<S>,
) -> Vec<Came> {
    let (arrive, mut arrived) = mpsc::unbounded_channel();
    let each: Vec<_> = jobs
        .iter()
        .enumerate()
        .map(|(position, job)| {
            let arrive = arrive.clone();
            let program = async move {
                let (answer, ended) = oneshot::channel();
                let _ = arrive.send((position, answer));
                // Once all senders are dropped, no other job will come.
                drop(arrive);
                ended.await.unwrap_or_else(|_| Err(JobError::new("the batch handler did not finish")))
            };
            catching_async(around(&handler.layers, job, Box::pin(program)))
        })
        .collect();
    drop(arrive);
    let handle = async {
        let mut there = Vec::with_capacity(jobs.len());
        while let Some(one) = arrived.recv().await {
            there.push(one);
        }
        let mut said = vec![None; jobs.len()];
        if there.is_empty() {
            return said;
        }
        there.sort_by_key(|(position, _)| *position);
        let part: Vec<Job>;
        let called = if there.len() == jobs.len() {
            jobs
        } else {
            part = there.iter().map(|(position, _)| jobs[*position].clone()).collect();
            &part
        };
        let results = call(node, plan, called, context).await;
        for ((position, answer), result) in there.into_iter().zip(results) {
            said[position] = result.handler_done;
            // A middleware that no longer waits has decided without the handler.
            let _ = answer.send(result.ended);
        }
        said
    };
    let (ended, said) = tokio::join!(join_all(each), handle);
    ended.into_iter().zip(said).map(|(ended, handler_done)| Came { handler_done, ended }).collect()
}

/// Outcomes that are still to be recorded, each with its job.
type Left<'a> = Vec<(&'a Job, Completion)>;

async fn send(node: &Node, kind: &Kind, began: Instant, left: Left<'_>) {
    for (job, completion) in left {
        kind.metrics.finished(job, began, outcome_of(job, &completion));
        node.completions.send(completion).await;
    }
}

/// Brings the outcomes to the database if that takes a transaction of their own. Returns the outcomes that are left to be recorded.
async fn conclude<'a, S: Store>(
    node: &Arc<Node>,
    kind: &Kind,
    jobs: &'a [Job],
    context: Context<S>,
    (ending, began): (BatchEnd, Instant),
) -> Left<'a> {
    let all_failed = |error: &JobError| jobs.iter().map(|job| (job, failed(node, kind, job, error))).collect();
    match ending {
        // The program's message services take part. A panic of theirs must not leave the jobs with this node for the rest of the node's
        // life.
        BatchEnd::Returned(results) => {
            catching_async(async { Ok(returned(node, (kind, began), jobs, context, results).await) })
                .await
                .unwrap_or_else(|panic| all_failed(&panic))
        }
        BatchEnd::TimedOut(limit) => {
            abandon(context);
            all_failed(&JobError::new(format!("the batch handler did not finish within {limit:?}")))
        }
        BatchEnd::Cancelled => {
            abandon(context);
            jobs.iter().map(|job| (job, node.interrupted(job.fence()))).collect()
        }
    }
}

/// Commits if there is something to commit and all jobs are done. Returns what is left to be recorded.
async fn returned<'a, S: Store>(
    node: &Arc<Node>,
    (kind, began): (&Kind, Instant),
    jobs: &'a [Job],
    context: Context<S>,
    results: Vec<Came>,
) -> Left<'a> {
    if !context.has_writes() {
        discard(context).await;
        return settle(node, kind, jobs, results, |_| false);
    }
    let relies = |result: &Came| result.handler_done == Some(true) && matches!(result.ended, Ok(Outcome::Done));
    if results.iter().any(|result| result.handler_done.is_some() && !relies(result)) {
        discard(context).await;
        tracing::info!(
            "not all jobs of the batch are done: its transaction was rolled back, and those that are run again"
        );
        return settle(node, kind, jobs, results, relies);
    }
    let (part, rest): (Vec<_>, Vec<_>) = jobs.iter().zip(results).partition(|(_, result)| relies(result));
    let fences: Vec<Fence> = part.iter().map(|(job, _)| job.fence()).collect();
    let mut left: Left<'_> =
        rest.into_iter().map(|(job, result)| (job, recorded(node, kind, job, result.ended))).collect();
    match context.commit_jobs(node.id, &fences).await {
        Ok(true) => {
            add(&node.counters.done, fences.len());
            for (job, _) in &part {
                kind.metrics.finished(job, began, AttemptOutcome::Done);
            }
            node.wakeup.job_waiters.notify(fences.iter().map(|fence| fence.id));
            node.in_flight.remove(fences.into_iter());
        }
        Ok(false) => {
            tracing::warn!("a job of the batch was no longer owned by this claim: its transaction was rolled back");
            left.extend(part.iter().map(|(job, _)| (*job, node.give_back(job.fence(), ReleaseReason::RolledBack))));
        }
        // If the commit took effect and only its answer got lost, the rows are gone and these outcomes are refused.
        Err(error) => {
            let error = JobError::from(error);
            left.extend(part.iter().map(|(job, _)| (*job, failed(node, kind, job, &error))));
        }
    }
    left
}

/// Records each job separately. `again`: the job relied on what was rolled back.
fn settle<'a>(
    node: &Node,
    kind: &Kind,
    jobs: &'a [Job],
    results: Vec<Came>,
    again: impl Fn(&Came) -> bool,
) -> Left<'a> {
    let each = jobs.iter().zip(results).map(|(job, result)| {
        let rolled_back = again(&result);
        let left = if rolled_back {
            node.give_back(job.fence(), ReleaseReason::RolledBack)
        } else {
            recorded(node, kind, job, result.ended)
        };
        (job, left)
    });
    each.collect()
}

/// A batch is not run again at once: one that lost a conflict has failed.
fn recorded(node: &Node, kind: &Kind, job: &Job, ended: HandlerResult) -> Completion {
    let completion = job_span(job).in_scope(|| completion(node, kind, job, ended, NO_MORE));
    completion.unwrap_or_else(|| node.give_back(job.fence(), ReleaseReason::RolledBack))
}

fn failed(node: &Node, kind: &Kind, job: &Job, error: &JobError) -> Completion {
    let completion = job_span(job).in_scope(|| failure(node, kind, job, error, NO_MORE));
    completion.unwrap_or_else(|| node.give_back(job.fence(), ReleaseReason::RolledBack))
}
