use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::config::ExecutorConfig;
use crate::error::{Error, Result};
use crate::executor::handler::batch::{Batch, BatchHandler, BatchOptions, BatchOutcomes, BatchPlan};
use crate::executor::handler::middleware::{Layer, Middleware};
use crate::executor::handler::registry::{
    BlockingHandler, CommandHandler, ContextHandler, Handler, JobHandler, KindHandler, States,
};
use crate::executor::handler::single::Single;
use crate::executor::kinds::breaker::{Breakers, Check};
use crate::executor::kinds::failure_policy::FailurePolicy;
use crate::executor::kinds::kind::{Kind, Kinds};
use crate::executor::lifecycle::settings::Settings;
use crate::executor::metrics::attempts::KindMetrics;
use crate::executor::node_info;
use crate::executor::run::handlers::Handlers;
use crate::executor::{Classifier, Command, CommandExecutor, ExternalQueue, JobContext, KindOptions};
use crate::job::{DEFAULT_QUEUE, HandlerResult, Job, JobError, RetryAdvice, RetryPolicy};
use crate::message::MessageServices;
use crate::store::Store;
use crate::store::postgres::Postgres;

/// How many jobs of a queue run at the same time by default.
const DEFAULT_CONCURRENCY: usize = 10;

type MakeHandler<S> = Box<dyn FnOnce(&States) -> Result<Arc<dyn Handler<S>>> + Send>;

/// A handler that still lacks its state.
struct Planned<S: Store> {
    names: Vec<String>,
    options: KindOptions,
    make: MakeHandler<S>,
    batch: Option<Arc<BatchPlan<S>>>,
}

/// Builds a [`CommandExecutor`].
#[must_use = "an executor runs after `start`"]
pub struct ExecutorBuilder<S: Store = Postgres> {
    pub(crate) messages: MessageServices<S>,
    config: ExecutorConfig,
    planned: Vec<Planned<S>>,
    states: States,
    queues: BTreeMap<String, usize>,
    external: Vec<ExternalQueue>,
    options: HashMap<String, KindOptions>,
    checks: HashMap<String, Check>,
    layers: Vec<Arc<dyn Layer>>,
    failure_policy: FailurePolicy,
    idle: bool,
}

impl<S: Store> fmt::Debug for ExecutorBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorBuilder")
            .field("messages", &self.messages)
            .field("config", &self.config)
            .field("queues", &self.queues)
            .field("external", &self.external)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<S: Store> ExecutorBuilder<S> {
    pub(crate) fn new(messages: MessageServices<S>) -> Self {
        Self {
            messages,
            config: ExecutorConfig::default(),
            planned: Vec::new(),
            states: States::default(),
            queues: BTreeMap::new(),
            external: Vec::new(),
            options: HashMap::new(),
            checks: HashMap::new(),
            layers: Vec::new(),
            failure_policy: FailurePolicy {
                classifier: None,
                kinds: HashMap::new(),
                queues: HashMap::new(),
                default: RetryPolicy::default(),
                conflicts: 0,
            },
            idle: false,
        }
    }

    /// Sets name, lease, poll interval, and how many conflicts and node deaths are tolerated. (`grace` is what a program passes to
    /// [`CommandExecutor::shutdown`].)
    pub fn config(mut self, config: ExecutorConfig) -> Self {
        self.config = config;
        self
    }

    /// Runs the jobs of a command.
    pub fn command<C: Command<S>>(mut self) -> Self {
        self.planned.push(Planned {
            names: std::iter::once(C::KIND).chain(C::ALIASES.iter().copied()).map(str::to_owned).collect(),
            options: C::options(),
            make: Box::new(|states| {
                let state = states.get::<C::State>(C::KIND)?;
                Ok(Arc::new(CommandHandler::<C, C::State> { state, command: PhantomData }))
            }),
            batch: None,
        });
        self
    }

    /// Passes a value to the handlers whose state has its type.
    pub fn state<A: Send + Sync + 'static>(mut self, state: A) -> Self {
        self.states.insert(state);
        self
    }

    /// Runs jobs of a kind with a closure that needs only the job.
    ///
    /// ```no_run
    /// # async fn f(messages: jobwright::MessageServices) -> jobwright::Result<()> {
    /// use jobwright::{CommandExecutor, Job, Outcome};
    ///
    /// let executor = CommandExecutor::builder(messages)
    ///     .handle("greet", |job: Job| async move {
    ///         println!("hello {}", job.payload.as_str().unwrap_or("stranger"));
    ///         Ok(Outcome::Done)
    ///     })
    ///     .start().await?;
    /// # Ok(()) }
    /// ```
    pub fn handle<F, R>(self, kind: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Job) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.plan(kind, Arc::new(JobHandler(handler)))
    }

    /// Runs jobs of a kind with a closure that uses the context: `|cx| Box::pin(async move { … })`.
    ///
    /// The box is needed because the future borrows the context, and stable Rust can't yet require of an async closure that its future may move
    /// between threads. A [`Command`] needs none.
    pub fn handle_with<F>(self, kind: impl Into<String>, handler: F) -> Self
    where
        F: for<'b> Fn(&'b mut JobContext<'_, (), S>) -> BoxFuture<'b, HandlerResult> + Send + Sync + 'static,
    {
        self.plan(kind, Arc::new(ContextHandler(handler)))
    }

    /// Runs jobs of a kind with a closure that may block its thread. It can't be interrupted: after its timeout, or after the node lost its
    /// lease, it runs on to its end, and its outcome is refused.
    pub fn handle_blocking<F>(self, kind: impl Into<String>, handler: F) -> Self
    where
        F: Fn(&Job) -> HandlerResult + Send + Sync + 'static,
    {
        self.plan(kind, Arc::new(BlockingHandler(Arc::new(handler))))
    }

    fn plan(mut self, kind: impl Into<String>, handler: Arc<dyn Handler<S>>) -> Self {
        self.planned.push(Planned {
            names: vec![kind.into()],
            options: KindOptions::default(),
            make: Box::new(|_| Ok(handler)),
            batch: None,
        });
        self
    }

    /// Runs many jobs of a kind at a time: `|batch| Box::pin(async move { … })`. Each keeps its slot, its claim and its outcome. An error,
    /// a panic or the timeout fails all of them. [`Batch`] describes what the handler may commit.
    ///
    /// ```no_run
    /// # async fn f(messages: jobwright::MessageServices) -> jobwright::Result<()> {
    /// use jobwright::{BatchOptions, CommandExecutor};
    ///
    /// let executor = CommandExecutor::builder(messages)
    ///     .handle_batch("index", BatchOptions::new(100), |batch| Box::pin(async move {
    ///         let ids: Vec<i64> = batch.jobs().iter().filter_map(|job| job.payload.decode().ok()).collect();
    ///         batch.transaction().await?.execute("insert into indexed select unnest($1::int8[])", &[&ids]).await?;
    ///         Ok(batch.all_done())
    ///     }))
    ///     .queue("default", 200)
    ///     .start().await?;
    /// # Ok(()) }
    /// ```
    pub fn handle_batch<F>(mut self, kind: impl Into<String>, options: BatchOptions, handler: F) -> Self
    where
        F: for<'b> Fn(&'b mut Batch<'_, S>) -> BoxFuture<'b, Result<BatchOutcomes, JobError>> + Send + Sync + 'static,
    {
        let handler: Arc<dyn BatchHandler<S>> = Arc::new(handler);
        let single = Arc::new(Single(handler.clone()));
        self.planned.push(Planned {
            names: vec![kind.into()],
            options: KindOptions::default(),
            make: Box::new(|_| Ok(single)),
            batch: Some(Arc::new(BatchPlan { options, handler })),
        });
        self
    }

    /// Runs a middleware around every attempt of every kind. The first one added is the outermost. It does not see jobs of external
    /// workers.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.layers.push(Arc::new(middleware));
        self
    }

    /// Sets timeout, retry delays and concurrency of a kind, overriding the kind's own. Queue, priority and attempts apply when a job is
    /// sent, and have no effect here. With an [external queue](Self::external_queue) it also works for kinds without a handler here: retry
    /// delays and classifier then apply to the failures that external workers report.
    pub fn kind_options(mut self, kind: impl Into<String>, options: KindOptions) -> Self {
        self.options.insert(kind.into(), options);
        self
    }

    /// Checks whether this node can run a kind: `Err(reason)` if it can't. The node then leaves the kind alone, as after
    /// [`RetryAdvice::NotHere`]. The check is asked at the start, and before the node takes such jobs again after a pause. It may block its
    /// thread for a short time.
    pub fn check_kind<F>(mut self, kind: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Result<(), String> + Send + Sync + 'static,
    {
        self.checks.insert(kind.into(), Check { ask: Box::new(check), decides: false });
        self
    }

    /// The same for a check that knows at any time whether this node can run the kind, and answers at once, because something else finds it out. It decides
    /// alone: it is asked twice a second while the node leaves the kind alone, and no job that is given back with
    /// [`RetryAdvice::NotHere`] is ever to blame. For the program.
    #[doc(hidden)]
    pub fn watch_kind<F>(mut self, kind: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Result<(), String> + Send + Sync + 'static,
    {
        self.checks.insert(kind.into(), Check { ask: Box::new(check), decides: true });
        self
    }

    /// Runs up to `concurrency` jobs of a queue at the same time. Without any call, the queue `default` runs with 10.
    pub fn queue(mut self, name: impl Into<String>, concurrency: usize) -> Self {
        self.queues.insert(name.into(), concurrency);
        self
    }

    /// Sets the delay between attempts of a queue's jobs, for kinds that do not set their own ([`KindOptions::retry`]). It applies to
    /// external queues too.
    pub fn queue_retry(mut self, name: impl Into<String>, retry: RetryPolicy) -> Self {
        self.failure_policy.queues.insert(name.into(), retry);
        self
    }

    /// Decides what errors of handlers, and errors reported by external workers, mean for kinds that do not decide it themselves
    /// ([`KindOptions::classify`]).
    ///
    /// ```no_run
    /// # fn f(messages: jobwright::MessageServices) {
    /// use jobwright::{CommandExecutor, Job, JobError, RetryAdvice};
    ///
    /// let builder = CommandExecutor::builder(messages).classify(|error: &JobError, _job: &Job| {
    ///     if error.message().contains("unknown customer") { RetryAdvice::Never } else { error.advice() }
    /// });
    /// # }
    /// ```
    pub fn classify(mut self, classify: impl Fn(&JobError, &Job) -> RetryAdvice + Send + Sync + 'static) -> Self {
        self.failure_policy.classifier = Some(Classifier::new(classify));
        self
    }

    /// Leaves the jobs of a queue to external workers. Over the broker it hands them out, and records what the workers report; while the broker is not up,
    /// the jobs wait. Without a broker, on PostgreSQL, workers take them by SQL (`jobwright.take`). With one they may do so as well.
    pub fn external_queue(mut self, queue: ExternalQueue) -> Self {
        self.external.push(queue);
        self
    }

    /// Confirms that this executor runs no jobs.
    ///
    /// It maintains the database (timers, schedules, admission, jobs of dead nodes, old rows). With a broker it also takes in submissions
    /// and sends events and replies. Without this call, an executor with neither a handler nor an external queue is refused.
    pub fn without_handlers(mut self) -> Self {
        self.idle = true;
        self
    }

    /// Registers the node and starts to run jobs. It returns when the slots are open: from then on it claims jobs at once, and commits in this process
    /// can hand theirs over as soon as its first claim has found no others. If the database goes away meanwhile, it returns after
    /// [`call_timeout`](crate::DatabaseConfig::call_timeout), with an executor that goes on trying.
    ///
    /// # Errors
    /// When the configuration is invalid, the database can't be reached, or its schema is not the one this build needs.
    pub async fn start(self) -> Result<CommandExecutor<S>> {
        let messages = self.messages.clone();
        let (settings, _) = self.settings()?;
        CommandExecutor::start(settings, messages).await
    }

    /// Checks the configuration, and gives the handlers their state.
    pub(crate) fn settings(self) -> Result<(Settings, Arc<Handlers<S>>)> {
        self.config.validate()?;
        let Self {
            messages,
            config,
            planned,
            states,
            mut queues,
            external,
            mut options,
            mut checks,
            layers,
            mut failure_policy,
            idle,
        } = self;
        let layers: Arc<[_]> = layers.into();
        failure_policy.conflicts = config.conflict_retries;
        if queues.is_empty() && external.is_empty() {
            queues.insert(DEFAULT_QUEUE.to_owned(), DEFAULT_CONCURRENCY);
        }
        let (mut kinds, mut handlers) = (Kinds::new(), Handlers::default());
        let mut breakers = Breakers::default();
        for Planned { names, options: defaults, make, batch } in planned {
            if let Some(plan) = &batch {
                plan.options.validate(&names[0])?;
            }
            let options = names.iter().find_map(|name| options.remove(name)).unwrap_or(defaults);
            let slots = match options.concurrency {
                Some(0) => {
                    return Err(Error::config(format!(
                        "the concurrency of kind {:?} is 0; leave it out or use 1 or more",
                        names[0]
                    )));
                }
                Some(n) => Some(Arc::new(Semaphore::new(n.min(Semaphore::MAX_PERMITS)))),
                None => None,
            };
            let check = names.iter().find_map(|name| checks.remove(name));
            let breaker = breakers.add(&names[0], check);
            let metrics = KindMetrics::new(&names[0], queues.keys());
            let kind = Arc::new(Kind { options, slots, breaker, is_batched: batch.is_some(), metrics });
            let (messages, layers) = (messages.clone(), layers.clone());
            let handler =
                Arc::new(KindHandler { kind: kind.clone(), messages, program: make(&states)?, layers, batch });
            for name in names {
                handlers.0.insert(name.clone(), handler.clone());
                if kinds.insert(name.clone(), kind.clone()).is_some() {
                    return Err(Error::config(format!("two handlers are registered for the kind {name:?}")));
                }
            }
        }
        if let Some(unknown) = checks.keys().next() {
            return Err(Error::config(format!(
                "a check is set for the kind {unknown:?}, but no handler is registered for it"
            )));
        }
        // Kinds run by external workers have no handler here, but may have a policy.
        if let Some(unknown) = options.keys().next().filter(|_| external.is_empty()) {
            return Err(Error::config(format!(
                "options are set for the kind {unknown:?}, but no handler is registered for it"
            )));
        }
        failure_policy.kinds = options;
        let by_sql = messages.shared.jobs.is_open_to_sql();
        check_external(&external, &queues, messages.shared.broker().map(|broker| broker.limit()), by_sql)?;
        if let Some((name, n)) = queues.iter().find(|(_, n)| **n == 0 || **n > 1_000_000) {
            return Err(Error::config(format!("the concurrency of queue {name:?} is {n}; use 1 to 1000000")));
        }
        check_idle(kinds.is_empty() && external.is_empty(), idle)?;
        let stall_timeout = config.stall_limit();
        let node = node_info::describe(config.name, config.lease, node_info::serves(&queues, &kinds, &external));
        let handlers = Arc::new(handlers);
        let shared = &messages.shared;
        let settings = Settings {
            store: shared.jobs.clone(),
            schedules: shared.schedules.clone(),
            wakeup: shared.wakeup.clone(),
            broker: shared.broker().cloned(),
            codecs: shared.codecs.clone(),
            job_limits: shared.limits,
            intake: shared.intake,
            call_timeout: shared.call_timeout,
            cancel_grace: config.cancel_grace,
            stall_timeout,
            kinds: Arc::new(kinds),
            work: handlers.clone(),
            breakers: Arc::new(breakers),
            queues: queues.into_iter().collect(),
            external,
            node,
            poll_interval: config.poll_interval,
            failure_policy: Arc::new(failure_policy),
            quarantine: NonZeroU32::new(config.quarantine_after),
            counters: Arc::default(),
            failing: Mutex::default(),
            sent: shared.sent.clone(),
            vitals: Arc::default(),
            grace: Mutex::new(config.grace),
        };
        Ok((settings, handlers))
    }
}

/// Checks that an executor has something to run, unless it was said that it is idle.
fn check_idle(runs_nothing: bool, idle: bool) -> Result<()> {
    match (runs_nothing, idle) {
        (true, false) => Err(Error::config(
            "the executor has no handler, so it would run nothing: register handlers (`command`, `handle`), or call `without_handlers()` if it is \
             only for maintenance and the broker",
        )),
        (false, true) => Err(Error::config("`without_handlers()` was called on an executor that has something to run")),
        _ => Ok(()),
    }
}

/// Checks the external queues. `limit`: how much a queue of the broker takes, if there is a broker. `by_sql`: whether workers get along without one.
fn check_external(
    external: &[ExternalQueue],
    queues: &BTreeMap<String, usize>,
    limit: Option<u32>,
    by_sql: bool,
) -> Result<()> {
    for (position, queue) in external.iter().enumerate() {
        let name = queue.name();
        if limit.is_none() && !by_sql {
            let remedy = if cfg!(feature = "rabbitmq") {
                "set `broker.url` (AMQP_URL), and give it to `MessageServices::with_broker`"
            } else {
                "build with jobwright's feature `rabbitmq`, and use `MessageServices::with_broker`"
            };
            return Err(Error::config(format!(
                "the jobs of queue {name:?} are for external workers, but there is no broker, and an embedded database has no workers by SQL: {remedy}"
            )));
        }
        queue.validate(limit.unwrap_or(u32::MAX))?;
        if queues.contains_key(name) || external[..position].iter().any(|other| other.name() == name) {
            return Err(Error::config(format!(
                "queue {name:?} is named twice; its jobs are run either here or by external workers"
            )));
        }
    }
    Ok(())
}

impl<S: Store> CommandExecutor<S> {
    /// Returns a builder for an executor that runs the jobs of these message services.
    pub fn builder(messages: MessageServices<S>) -> ExecutorBuilder<S> {
        ExecutorBuilder::new(messages)
    }
}
