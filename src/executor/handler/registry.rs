//! What runs the jobs of each kind.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::future::ready;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::executor::handler::batch::BatchPlan;
use crate::executor::handler::command::Command;
use crate::executor::handler::job_context::{Engine, JobContext};
use crate::executor::handler::middleware::Layer;
use crate::executor::kinds::kind::Kind;
use crate::executor::node::cancellations::CancelSignal;
use crate::executor::node::slots::Slots;
use crate::executor::panic::{catching, catching_blocking};
use crate::job::{HandlerResult, Job, JobError};
use crate::message::MessageServices;
use crate::store::Store;

/// What a handler gets to run one attempt.
pub(crate) struct Attempt<'a, S: Store> {
    pub(crate) job: &'a Job,
    pub(crate) context: &'a mut Context<S>,
    pub(crate) engine: Engine<'a, S>,
    pub(crate) cancelled: CancelSignal<'a>,
    /// The slots of the attempt. Code that may still run when the attempt's future is dropped keeps a clone.
    pub(crate) slots: &'a Arc<Slots>,
}

/// Runs one attempt, independent of the handler's own types.
pub(crate) trait Handler<S: Store>: Send + Sync {
    fn run<'a>(&'a self, attempt: Attempt<'a, S>) -> BoxFuture<'a, HandlerResult>;
}

/// A kind with what runs its jobs.
pub(crate) struct KindHandler<S: Store> {
    pub(crate) kind: Arc<Kind>,
    /// Makes the units of work of its handler.
    pub(crate) messages: MessageServices<S>,
    /// The code of the program.
    pub(crate) program: Arc<dyn Handler<S>>,
    /// The middleware around the handler, in this order.
    pub(crate) layers: Arc<[Arc<dyn Layer>]>,
    /// How its jobs are run in batches, if they are.
    pub(crate) batch: Option<Arc<BatchPlan<S>>>,
}

/// Values for handlers, one of each type.
#[derive(Default, Clone)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<A: Send + Sync + 'static>(&mut self, state: A) {
        self.0.insert(TypeId::of::<A>(), Arc::new(state));
    }

    pub(crate) fn get<A: Send + Sync + 'static>(&self, kind: &str) -> Result<Arc<A>> {
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
pub(crate) struct CommandHandler<C, A> {
    pub(crate) state: Arc<A>,
    pub(crate) command: PhantomData<fn() -> C>,
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
pub(crate) struct JobHandler<F>(pub(crate) F);

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
pub(crate) struct ContextHandler<F>(pub(crate) F);

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
pub(crate) struct BlockingHandler<F>(pub(crate) Arc<F>);

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
            catching_blocking(|| handler(&job))
        };
        Box::pin(async move {
            match tokio::task::spawn_blocking(run).await {
                Ok(ended) => ended,
                Err(error) => Err(JobError::new(format!("the blocking handler did not finish: {error}"))),
            }
        })
    }
}
