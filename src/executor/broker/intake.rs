//! Jobs that external producers submit.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, Incoming, QueueRole, Refusal, wire};
use crate::error::Result;
use crate::executor::broker::bisect;
use crate::executor::broker::full_queues::{self, DeferredSubmissions, IntakeDecision, ParsedSubmission};
use crate::executor::broker::intake_rate::IntakeRate;
use crate::executor::broker::mode::{alive, up};
use crate::executor::broker::rejection::{Rejection, RejectionSink};
use crate::executor::broker::stop::between_calls;
use crate::executor::broker::undecided::UndecidedSubmissions;
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::job::Submission;
use crate::message::hints;
use crate::store::Received;

/// Takes in submissions until the node stops claiming.
pub(crate) async fn run(node: Arc<Node>, broker: Arc<Broker>) {
    let stop = &node.stop_claiming;
    let both = async {
        tokio::join!(take(&node, &broker), stop.run_until_cancelled(prepare(&broker)));
    };
    between_calls(stop, Box::pin(both)).await;
}

/// Declares the queue for refused submissions; the consumer of the submission queue declares that one. Without it a bad submission could
/// only be given back to the broker, which delivers it again at once. If declaring is not permitted, one warning is logged.
async fn prepare(broker: &Broker) {
    let mut delays = Reconnect::new(Duration::from_secs(5));
    loop {
        up(broker).await;
        match broker.ensure(&QueueRole::Submissions).await {
            Ok(()) => return,
            Err(error) if error.is_retryable() => tokio::time::sleep(delays.next_delay()).await,
            Err(error) => {
                tracing::warn!(%error, "refused submissions can't be moved to their queue");
                return;
            }
        }
    }
}

async fn take(node: &Arc<Node>, broker: &Arc<Broker>) {
    let (limits, prefetch) = (node.job_limits, bisect::prefetch(node.job_limits));
    let mut subscription = broker.subscribe_carefully(broker.names().submit(), prefetch, limits.payload);
    let acks = subscription.acks();
    let mut buffer = Vec::new();
    let mut intake_rate = IntakeRate::new(broker.config(), Instant::now());
    let rejections = RejectionSink::new(broker.clone(), acks.clone());
    let (deferred, undecided) = (DeferredSubmissions::new(prefetch), UndecidedSubmissions::default());
    let stop = &node.stop_claiming;
    let mut intake = Intake { node, broker, acks, rejections, deferred, undecided };
    loop {
        let look = intake.deferred.next().into_iter().chain(intake.undecided.next()).min();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            // Earlier submissions come first. Those that arrive meanwhile wait behind them.
            () = tokio::time::sleep_until(look.unwrap_or_else(Instant::now).into()), if look.is_some() => {
                intake.look_again().await;
                continue;
            }
            came = subscription.recv_many(&mut buffer, intake_rate.most()) => if came == 0 { return },
        }
        for some in bisect::batches(std::mem::take(&mut buffer)) {
            let bytes = some.iter().map(Incoming::weight).sum();
            let pause = tokio::time::sleep(intake_rate.take(some.len(), bytes, Instant::now()));
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
            intake.take_in(some).await;
        }
    }
}

struct Intake<'a> {
    node: &'a Arc<Node>,
    broker: &'a Arc<Broker>,
    acks: Acks,
    rejections: RejectionSink,
    deferred: DeferredSubmissions,
    undecided: UndecidedSubmissions,
}

impl Intake<'_> {
    async fn take_in(&mut self, came: Vec<Incoming>) {
        let (node, broker) = (self.node, self.broker);
        let rules = broker.config().submit_rules.as_ref();
        let (mut parsed, mut aside) = (Vec::new(), Vec::new());
        for message in came {
            self.undecided.on_channel(message.tag.generation);
            let read = wire::submission(&message, node.job_limits);
            let allowed = read.and_then(|submission| wire::allowed(&message, &submission, rules).map(|()| submission));
            match allowed.and_then(|submission| encoded(node, submission)) {
                Ok(submission) => {
                    let submission = self.deferred.parsed(message, submission);
                    if self.undecided.holds_up(&submission.submission.message) {
                        self.wait(submission);
                    } else {
                        parsed.push(submission);
                    }
                }
                Err(why) => aside.push(Rejection::rejected(broker.names(), message, &why)),
            }
        }
        let parsed = self.admit(parsed, &mut aside).await;
        self.store(parsed, aside).await;
    }

    /// Checks again the submissions that wait for capacity, and tries those again that wait for other transactions.
    async fn look_again(&mut self) {
        let mut waiting = self.undecided.due(Instant::now());
        if self.deferred.next().is_some_and(|look| look <= Instant::now()) {
            waiting.extend(self.deferred.take());
        }
        let mut aside = Vec::new();
        let ready = self.admit(waiting, &mut aside).await;
        self.put(aside).await;
        for some in bisect::in_order(ready, |parsed| &parsed.message) {
            if self.node.stop_claiming.is_cancelled() {
                return;
            }
            // Earlier submissions may have used up the capacity.
            let mut aside = Vec::new();
            let parsed = self.admit(some, &mut aside).await;
            self.store(parsed, aside).await;
        }
    }

    /// Returns the submissions whose queues have capacity.
    async fn admit(&mut self, parsed: Vec<ParsedSubmission>, aside: &mut Vec<Rejection>) -> Vec<ParsedSubmission> {
        let full = full_queues::full(self.node.store.as_ref(), &parsed).await;
        let mut ready = Vec::new();
        for parsed in parsed {
            match self.deferred.decide(&full, &parsed, Instant::now()) {
                IntakeDecision::Stored => ready.push(parsed),
                IntakeDecision::Deferred => {
                    self.acks.waits(parsed.message.tag);
                    self.deferred.put(parsed);
                }
                IntakeDecision::Refused => {
                    let why = Refusal::full(&parsed.submission.message.queue);
                    aside.push(Rejection::rejected(self.broker.names(), parsed.message, &why));
                }
            }
        }
        ready
    }

    /// Makes a submission wait for another transaction. Returns whether that is news.
    fn wait(&mut self, parsed: ParsedSubmission) -> bool {
        self.acks.waits(parsed.message.tag);
        self.undecided.put(parsed, Instant::now())
    }

    /// Stores the good submissions and rejects the others.
    async fn store(&mut self, parsed: Vec<ParsedSubmission>, mut aside: Vec<Rejection>) {
        let (messages, submissions): (Vec<_>, Vec<_>) = parsed.into_iter().map(ParsedSubmission::split).unzip();
        let NotStored { mut refused, mut undecided } =
            store(self.node, self.broker, &messages, &submissions, &self.acks).await;
        let mut news = Vec::new();
        for (index, (seen, submission)) in messages.into_iter().zip(submissions).enumerate() {
            if let Some(why) = refused.remove(&index) {
                aside.push(Rejection::rejected(self.broker.names(), seen.0, &why));
            } else if let Some(held_by) = undecided.remove(&index) {
                let id = submission.message.id;
                // It has not waited for capacity.
                if self.wait(ParsedSubmission::joined((seen.0, Instant::now()), submission)) {
                    news.push((id, held_by));
                }
            }
        }
        if let Some((id, held_by)) = news.first() {
            tracing::warn!(
                n = news.len(), submission = %id, held_by,
                "submissions wait: another transaction holds their id or unique key and has not ended; the others go on"
            );
        }
        self.put(aside).await;
    }

    async fn put(&self, aside: Vec<Rejection>) {
        if aside.is_empty() {
            return;
        }
        self.node.counters.messages_refused.add(aside.iter().map(|aside| aside.reason));
        // This costs nothing if the queue was seen before and nothing was returned since. If it fails, publishing to the queue logs the
        // reason.
        if let Err(error) = self.broker.ensure(&QueueRole::Submissions).await {
            tracing::debug!(%error, "could not check the queue of refused submissions");
        }
        // Waited for, so that a producer of nothing but invalid messages is slowed down.
        self.rejections.put(aside).await;
    }
}

/// Encodes a submission for storage. Its digest was taken before, because equal contents are not encoded alike, and a repeated submission
/// is one job.
fn encoded(node: &Node, submission: Submission) -> Result<Submission, Refusal> {
    let mut submission = submission;
    node.codecs.message(&mut submission.message).map_err(|error| Refusal::not_stored(&error))?;
    Ok(submission)
}

/// What was not stored, by its index.
#[derive(Default)]
struct NotStored {
    /// Submissions that were refused, with the reasons.
    refused: HashMap<usize, Refusal>,
    /// Submissions that wait for another transaction, with a description of it.
    undecided: HashMap<usize, String>,
}

/// Stores submissions and acks those stored.
async fn store(
    node: &Arc<Node>,
    broker: &Broker,
    messages: &[(Incoming, Instant)],
    submissions: &[Submission],
    acks: &Acks,
) -> NotStored {
    let mut not_stored = NotStored::default();
    let receive = |part: Range<usize>| node.store.receive(&submissions[part]);
    let done = |part: Range<usize>, outcome: Result<Vec<Received>>| {
        let answers = match outcome {
            Ok(answers) => answers,
            Err(error) => return drop(not_stored.refused.insert(part.start, Refusal::not_stored(&error))),
        };
        let (mut stored, mut tags) = (Vec::new(), Vec::new());
        for (index, answer) in part.zip(answers) {
            match answer {
                Received::Stored(_) => stored.push(&submissions[index].message),
                Received::Known(id) => tracing::debug!(%id, "a submission came again"),
                Received::Conflict(id) => {
                    not_stored.refused.insert(index, Refusal::conflict(id));
                    continue;
                }
                Received::Undecided { held_by, .. } => {
                    not_stored.undecided.insert(index, held_by);
                    continue;
                }
            }
            tags.push(messages[index].0.tag);
        }
        add(&node.counters.submitted, stored.len());
        acks.ack(tags);
        node.wakeup.notify(hints(stored));
    };
    bisect::in_parts("store submissions", submissions.len(), receive, || alive(node, broker), done).await;
    not_stored
}
