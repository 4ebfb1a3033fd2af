//! Which kinds of jobs this process can run, and how.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::future::ready;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::batch::BatchPlan;
use super::cancellations::CancelSignal;
use super::limits::Running;
use super::middleware::Layer;
use super::panic::catching;
use super::progress::Engine;
use super::{Command, JobContext, KindOptions};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::{Job, JobError, Outcome};
use crate::store::Store;

/// The result of one attempt.
pub(super) type HandlerResult = Result<Outcome, JobError>;

/// What a handler gets to run one attempt.
pub(super) struct Attempt<'a, S: Store> {
    pub(super) job: &'a Job,
    pub(super) context: &'a mut Context<S>,
    pub(super) engine: Engine<'a, S>,
    pub(super) cancelled: CancelSignal<'a>,
    /// The slots of the attempt. Code that may still run when the attempt's future is dropped keeps a clone.
    pub(super) slots: &'a Arc<Slots>,
}

/// Runs one attempt, independent of the handler's own types.
pub(super) trait Handler<S: Store>: Send + Sync {
    fn run<'a>(&'a self, attempt: Attempt<'a, S>) -> BoxFuture<'a, HandlerResult>;
}

/// The slots that a job and the jobs of its group that follow it hold: one of its queue, and one of its kind if that has a limit.
#[derive(Debug)]
pub(super) struct Slots {
    _queue: OwnedSemaphorePermit,
    pub(super) kind: Option<OwnedSemaphorePermit>,
    _running: Option<Running>,
    /// When they were taken.
    since: Instant,
    /// Threads of blocking handlers, which may outlive their attempt.
    threads: OnceLock<TaskTracker>,
}

impl Slots {
    /// Creates the slots of a job. `running`: the limits that its claim counted.
    pub(super) fn new(
        queue: OwnedSemaphorePermit,
        kind: Option<OwnedSemaphorePermit>,
        running: Option<Running>,
    ) -> Arc<Self> {
        Arc::new(Self { _queue: queue, kind, _running: running, since: Instant::now(), threads: OnceLock::new() })
    }

    /// Returns whether another job may follow in them: within this time of the first, and with no thread still running.
    pub(super) fn has_time(&self, turn: Duration) -> bool {
        self.threads.get().is_none() && self.since.elapsed() < turn
    }

    /// Waits until nothing of the attempt runs any more. `false`: `stop` came first.
    pub(super) async fn attempt_ended(&self, stop: &CancellationToken) -> bool {
        let Some(threads) = self.threads.get() else { return true };
        threads.close();
        tokio::select! {
            biased;
            () = threads.wait() => true,
            () = stop.cancelled() => false,
        }
    }
}

/// A kind of job, ready to run.
pub(super) struct Kind<S: Store> {
    pub(super) handler: Arc<dyn Handler<S>>,
    pub(super) options: KindOptions,
    /// Bounds how many run at the same time, if the kind has its own limit.
    pub(super) slots: Option<Arc<Semaphore>>,
    /// The middleware around the handler, in this order.
    pub(super) layers: Arc<[Arc<dyn Layer>]>,
    /// How its jobs are run in batches, if they are.
    pub(super) batch: Option<Arc<BatchPlan<S>>>,
}

/// All kinds, by each of their names.
pub(super) type Registry<S> = HashMap<String, Arc<Kind<S>>>;

/// Values for handlers, one of each type.
#[derive(Default, Clone)]
pub(super) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(super) fn insert<A: Send + Sync + 'static>(&mut self, state: A) {
        self.0.insert(TypeId::of::<A>(), Arc::new(state));
    }

    pub(super) fn get<A: Send + Sync + 'static>(&self, kind: &str) -> Result<Arc<A>> {
        if let Some(state) = self.0.get(&TypeId::of::<A>()).and_then(|state| state.clone().downcast().ok()) {
            return Ok(state);
        }
        // `()` is the state of handlers that need none.
        let nothing: Arc<dyn Any + Send + Sync> = Arc::new(());
        nothing.downcast().map_err(|_| {
            Error::config(format!(
                "the handler of {kind:?} needs a state of type {}: give it with `.state(…)` before `.start()`",
                type_name::<A>()
            ))
        })
    }
}

/// A command's handler.
pub(super) struct CommandHandler<C, A> {
    pub(super) state: Arc<A>,
    pub(super) command: PhantomData<fn() -> C>,
}

impl<S: Store, C: Command<S>> Handler<S> for CommandHandler<C, C::State> {
    fn run<'a>(&'a self, attempt: Attempt<'a, S>) -> BoxFuture<'a, HandlerResult> {
        let Attempt { job, context, engine, cancelled, .. } = attempt;
        Box::pin(async move {
            let command: C = job
                .payload
                .decode()
                .map_err(|e| JobError::new(format!("the payload is not a {:?} command: {e}", C::KIND)))?;
            command.execute(&mut JobContext { job, state: &*self.state, context, engine, cancelled }).await
        })
    }
}

/// A closure that gets the job alone.
pub(super) struct JobHandler<F>(pub(super) F);

impl<S, F, R> Handler<S> for JobHandler<F>
where
    S: Store,
    F: Fn(Job) -> R + Send + Sync,
    R: Future<Output = HandlerResult> + Send + 'static,
{
    fn run<'a>(&'a self, attempt: Attempt<'a, S>) -> BoxFuture<'a, HandlerResult> {
        // The closure runs before there is a future that could be watched.
        match catching(|| (self.0)(attempt.job.clone())) {
            Ok(handler) => Box::pin(handler),
            Err(panic) => Box::pin(ready(Err(panic))),
        }
    }
}

/// A closure that gets the context.
pub(super) struct ContextHandler<F>(pub(super) F);

impl<S, F> Handler<S> for ContextHandler<F>
where
    S: Store,
    F: for<'b> Fn(&'b mut JobContext<'_, (), S>) -> BoxFuture<'b, HandlerResult> + Send + Sync,
{
    fn run<'a>(&'a self, attempt: Attempt<'a, S>) -> BoxFuture<'a, HandlerResult> {
        let Attempt { job, context, engine, cancelled, .. } = attempt;
        Box::pin(async move { (self.0)(&mut JobContext { job, state: &(), context, engine, cancelled }).await })
    }
}

/// A closure that blocks its thread. It gets one of the runtime's blocking threads, so it stops neither other jobs nor the executor. But it
/// can't be interrupted.
pub(super) struct BlockingHandler<F>(pub(super) Arc<F>);

impl<S, F> Handler<S> for BlockingHandler<F>
where
    S: Store,
    F: Fn(&Job) -> HandlerResult + Send + Sync + 'static,
{
    fn run<'a>(&'a self, attempt: Attempt<'a, S>) -> BoxFuture<'a, HandlerResult> {
        let (handler, job, slots) = (self.0.clone(), attempt.job.clone(), attempt.slots.clone());
        let thread = slots.threads.get_or_init(TaskTracker::new).token();
        let run = move || {
            // A thread that outlives its timeout still occupies the node: its slot becomes free when it really ends.
            let (_slots, _thread) = (slots, thread);
            super::panic::catching_blocking(|| handler(&job))
        };
        Box::pin(async move {
            match tokio::task::spawn_blocking(run).await {
                Ok(ended) => ended,
                Err(error) => Err(JobError::new(format!("the blocking handler did not finish: {error}"))),
            }
        })
    }
}
