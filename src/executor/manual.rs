//! A node that works on request, one step at a time: no tasks, no heartbeat, no monitor. It is for the test kit. The code that runs jobs
//! and records their outcomes is the ordinary one.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::executor::ExecutorBuilder;
use crate::executor::handler::job_context::Engine;
use crate::executor::handler::registry::{Attempt, KindHandler};
use crate::executor::node::Node;
use crate::executor::node::cancellations::{CancelSignal, Cancellations};
use crate::executor::node::completion::Completion;
use crate::executor::node::gathering::Member;
use crate::executor::node::slots::Slots;
use crate::executor::outcome::completer::Completer;
use crate::executor::outcome::waiting::Waiting;
use crate::executor::run::batch;
use crate::executor::run::gather::size;
use crate::executor::run::handlers::Handlers;
use crate::executor::run::worker::{self, AttemptEnd};
use crate::job::{Fence, HandlerResult, Job, JobError, JobId, NewJob, Outcome};
use crate::message::{MessageService, MessageServices};
use crate::store::{AdmitRequest, ClaimRequest, Settlement, Store, testing};

/// Longer than any test, because the lease is not renewed.
const LEASE: Duration = Duration::from_secs(24 * 3600);
/// The most jobs that an admission pass checks.
const ADMIT: usize = 500;
/// The most timers moved in one transaction.
const TIMERS: usize = 1000;

/// The result of a claim.
pub(crate) enum AttemptRecord {
    Done,
    Settled(Settlement),
    /// The outcome was refused: the claim was no longer current.
    Refused,
}

pub(crate) struct ManualExecutor<S: Store> {
    node: Arc<Node>,
    messages: MessageServices<S>,
    handlers: Arc<Handlers<S>>,
    kinds: Vec<String>,
    queues: Vec<String>,
    completer: Completer,
    inbox: mpsc::Receiver<Completion>,
}

impl<S: Store> ManualExecutor<S> {
    /// Creates the node. `around` wraps the service for all that handlers send, including what the program's own services send.
    pub(crate) async fn new<M: MessageService<S> + 'static>(
        mut builder: ExecutorBuilder<S>,
        around: impl Fn(Box<dyn MessageService<S>>) -> M + Send + Sync + 'static,
    ) -> Result<Self> {
        builder.messages = builder.messages.watch(around);
        let messages = builder.messages.clone();
        let (mut settings, handlers) = builder.settings()?;
        settings.node.lease = LEASE;
        crate::store::check_schema(&*settings.store).await?;
        let (id, _) = settings.register().await?;
        let (completions, inbox) = Completer::channel();
        // Jobs are claimed one at a time, without group runs.
        let node = settings.node(id, completions, Vec::new(), &CancellationToken::new());
        let completer = Completer {
            store: node.store.clone(),
            node: id,
            in_flight: node.in_flight.clone(),
            counters: node.counters.clone(),
            wakeup: node.wakeup.clone(),
            next: Weak::new(),
            finish: CancellationToken::new(),
            lost: CancellationToken::new(),
        };
        let mut queues: Vec<_> = node.queues.keys().cloned().collect();
        queues.sort();
        Ok(Self { kinds: node.kinds.keys().cloned().collect(), node, messages, handlers, queues, completer, inbox })
    }

    pub(crate) fn messages(&self) -> &MessageServices<S> {
        &self.messages
    }

    /// Moves due timers to the waiting jobs, and admits jobs that may start. Returns the time until there is more to do: a timer, or a
    /// limit that gets capacity as time passes.
    pub(crate) async fn prepare(&self) -> Result<Option<Duration>> {
        let mut timers = self.node.store.promote_due(TIMERS).await?;
        while timers.jobs >= TIMERS as u64 {
            timers = self.node.store.promote_due(TIMERS).await?;
        }
        let kinds = self.able();
        let request = AdmitRequest { limit: ADMIT, queues: &self.queues, kinds: Some(&kinds), counting: false };
        let mut admitted = self.node.store.admit(&request).await?;
        while admitted.more {
            admitted = self.node.store.admit(&request).await?;
        }
        Ok(timers.next.into_iter().chain(admitted.next).min())
    }

    /// Runs the next job, with others if its kind is run in batches and `together` is set. Returns nothing if no job waits.
    pub(crate) async fn step(&mut self, together: bool) -> Result<Vec<(Job, AttemptRecord)>> {
        for queue in self.queues.clone() {
            let Some(first) = self.claim(&queue, &self.able(), 1).await?.pop() else { continue };
            let handler = self.handler(&first.kind)?;
            let mut jobs = vec![first];
            if let Some(plan) = handler.batch.as_ref().filter(|_| together) {
                let size = size(&self.node, &handler.kind, plan.options, &queue);
                let same =
                    |name: &&String| self.handlers.0.get(*name).is_some_and(|other| Arc::ptr_eq(other, &handler));
                let names: Vec<_> = self.kinds.iter().filter(same).cloned().collect();
                jobs.extend(self.claim(&queue, &names, size - 1).await?);
            }
            return self.run(&queue, handler, jobs).await;
        }
        Ok(Vec::new())
    }

    /// Ends the pauses of kinds that this node could not run.
    pub(crate) fn resume(&self) {
        let now = Instant::now();
        self.node.breakers.due(now + LEASE).iter().for_each(|breaker| breaker.resume(now));
    }

    /// Returns the kinds that this node can't run at the moment, with the reasons.
    pub(crate) fn left_alone(&self) -> BTreeMap<String, (String, Instant)> {
        self.node.breakers.left_alone()
    }

    /// Returns the kinds that this node can run.
    fn able(&self) -> Vec<String> {
        let able = |name: &&String| self.node.kinds.get(*name).is_some_and(|kind| !kind.breaker.is_open());
        self.kinds.iter().filter(able).cloned().collect()
    }

    async fn claim(&self, queue: &str, kinds: &[String], limit: usize) -> Result<Vec<Job>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let claim = self.node.in_flight.begin_claim().await;
        let request = ClaimRequest::new(self.node.id, claim.number(), queue, limit).kinds(kinds).include_hidden(true);
        let jobs = self.node.store.claim(&request).await?.jobs;
        self.node.in_flight.add(jobs.iter());
        Ok(jobs)
    }

    fn handler(&self, name: &str) -> Result<Arc<KindHandler<S>>> {
        self.handlers.0.get(name).cloned().ok_or_else(|| {
            let known = if self.kinds.is_empty() { "none".to_owned() } else { self.kinds.join(", ") };
            Error::config(format!("there is no handler for jobs of kind {name:?}; there are handlers for: {known}"))
        })
    }

    async fn run(
        &mut self,
        queue: &str,
        handler: Arc<KindHandler<S>>,
        jobs: Vec<Job>,
    ) -> Result<Vec<(Job, AttemptRecord)>> {
        let mut members = Vec::with_capacity(jobs.len());
        for job in &jobs {
            members.push((job.clone(), self.slots(queue).await?));
        }
        let refused_before = self.node.counters.snapshot(0).refused;
        match &handler.batch {
            Some(plan) => {
                let members = members.into_iter().map(|(job, slots)| Member::new(job, slots)).collect();
                batch::run(self.node.clone(), handler.clone(), plan.clone(), members).await;
            }
            None => {
                for (job, slots) in members {
                    worker::run(self.node.clone(), handler.clone(), job, slots).await;
                }
            }
        }
        // A job with its own commit leaves no completion.
        let refused = self.node.counters.snapshot(0).refused > refused_before;
        let mut completions = Vec::new();
        while let Ok(completion) = self.inbox.try_recv() {
            completions.push(completion);
        }
        let told: Vec<(Fence, Option<Settlement>)> = completions
            .iter()
            .flat_map(|completion| match completion {
                Completion::Recorded(..) => Vec::new(),
                Completion::Done(fence) => vec![(*fence, None)],
                Completion::DoneInGroup(ended, _) => ended.iter().map(|fence| (*fence, None)).collect(),
                Completion::Settled(settlement) => vec![(settlement.fence, Some(settlement.clone()))],
            })
            .collect();
        let mut waiting = Waiting::default();
        let mut accepted: HashSet<JobId> =
            self.completer.write(&mut completions, &mut waiting).await.into_iter().collect();
        // A step ends when its outcomes are recorded, however long another transaction keeps a job locked. What the database refuses of every
        // job is not waited for: a test looks at what happened.
        while let Some(next) = waiting.held.next() {
            tokio::time::sleep_until(next).await;
            let mut due = self.completer.due(&mut waiting).await;
            accepted.extend(self.completer.write(&mut due, &mut waiting).await);
        }
        self.node.in_flight.ended_handlers.flush(&*self.node.store, self.node.id).await?;
        let codecs = &self.node.codecs;
        let each = jobs.into_iter().map(|mut job| {
            // As its handler got it. A job that its handler did not get stays as it is.
            let stored = job.clone();
            if codecs.open(&mut job).is_err() {
                job = stored;
            }
            let recorded = match told.iter().find(|(fence, _)| *fence == job.fence()) {
                None if refused => AttemptRecord::Refused,
                Some(_) if !accepted.contains(&job.id) => AttemptRecord::Refused,
                Some((_, Some(settlement))) => {
                    AttemptRecord::Settled(codecs.plain_settlement(settlement.clone(), &job.kind))
                }
                None | Some((_, None)) => AttemptRecord::Done,
            };
            (job, recorded)
        });
        Ok(each.collect())
    }

    async fn slots(&self, queue: &str) -> Result<Arc<Slots>> {
        let slot = match self.node.queues.get(queue) {
            Some(queue) => queue.take(1).await,
            None => None,
        };
        let slot = slot.ok_or_else(|| Error::config(format!("the executor does not work on the queue {queue:?}")))?;
        Ok(Slots::new(slot, None, None))
    }

    /// Runs a handler on a job that is stored nowhere, in the caller's context. Nothing is committed.
    pub(crate) async fn handle(&self, context: &mut Context<S>, job: NewJob) -> Result<HandlerResult> {
        let message = context.hooked(job)?.validate(self.node.job_limits)?;
        let handler = self.handler(&message.kind)?;
        context.run_handler();
        let queue = self.queues.first().cloned().unwrap_or_default();
        let slots = self.slots(&queue).await?;
        let job = testing::job(message, 0, 1, 1, jiff::Timestamp::now());
        let cancellations = Cancellations::default();
        let cancelled = CancelSignal { cancellations: &cancellations, fence: job.fence() };
        let engine = Engine { messages: &self.messages, node: self.node.id };
        let attempt = Attempt { job: &job, context, engine, cancelled, slots: &slots };
        Ok(match worker::execute(&handler, attempt).await {
            AttemptEnd::Returned(ended) => ended,
            AttemptEnd::DoneWithout => Ok(Outcome::Done),
            AttemptEnd::TimedOut(limit) => Err(JobError::new(format!("the handler did not finish within {limit:?}"))),
            AttemptEnd::Cancelled | AttemptEnd::Gone { .. } => Err(JobError::new("the handler was asked to stop")),
        })
    }

    /// Ends the node and releases what it may still own.
    pub(crate) async fn close(self) -> Result<()> {
        self.node.store.retire_node(self.node.id).await.map(drop)
    }
}
