//! Jobs that foreign producers submit.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::refuse::{Aside, Shelf};
use super::room::{self, Fate, Good, Held};
use super::{Incarnation, alive, parts, up};
use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, Incoming, Lane, Refusal, wire};
use crate::error::Result;
use crate::executor::stats::add;
use crate::job::Submission;
use crate::message::hints;
use crate::store::{Received, Store};

/// Takes in submissions until the node stops claiming.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>) {
    let stop = node.stop_claiming.clone();
    tokio::select! {
        () = stop.cancelled() => {}
        ((), ()) = async { tokio::join!(take(&node, &broker), prepare(&broker)) } => {}
    }
}

/// Declares what submissions need besides their queue, which whoever consumes it declares: the queue of those that are refused. Without it
/// a bad one could only be given back to the broker, which delivers it again at once. Whoever may not declare is told so, once.
async fn prepare(broker: &Broker) {
    let mut delays = Reconnect::new(Duration::from_secs(5));
    loop {
        up(broker).await;
        match broker.ensure(&Lane::Submissions).await {
            Ok(()) => return,
            Err(error) if error.is_retryable() => tokio::time::sleep(delays.next_delay()).await,
            Err(error) => {
                tracing::warn!(%error, "submissions that are refused can't be put aside");
                return;
            }
        }
    }
}

async fn take<S: Store>(node: &Arc<Incarnation<S>>, broker: &Arc<Broker>) {
    let (limits, prefetch) = (node.messages.shared.limits, parts::prefetch(node.messages.shared.limits));
    let mut subscription = broker.subscribe_carefully(broker.names().submit(), prefetch, limits.payload);
    let acks = subscription.acks();
    let mut buffer = Vec::new();
    let mut pace = Pace::new(broker.config(), Instant::now());
    let shelf = Shelf::new(broker.clone(), acks.clone());
    let mut intake = Intake { node, broker, acks, shelf, held: Held::new(prefetch) };
    loop {
        let look = intake.held.next();
        tokio::select! {
            biased;
            // Those that came before first. What comes meanwhile waits behind them.
            () = tokio::time::sleep_until(look.unwrap_or_else(Instant::now).into()), if look.is_some() => {
                intake.look_again().await;
                continue;
            }
            came = subscription.recv_many(&mut buffer, pace.most()) => if came == 0 { return },
        }
        for some in parts::batches(std::mem::take(&mut buffer)) {
            let bytes = some.iter().map(Incoming::weight).sum();
            tokio::time::sleep(pace.take(some.len(), bytes, Instant::now())).await;
            intake.take_in(some).await;
        }
    }
}

struct Intake<'a, S: Store> {
    node: &'a Arc<Incarnation<S>>,
    broker: &'a Arc<Broker>,
    acks: Acks,
    shelf: Shelf,
    held: Held,
}

impl<S: Store> Intake<'_, S> {
    async fn take_in(&mut self, came: Vec<Incoming>) {
        let (node, broker) = (self.node, self.broker);
        let rules = broker.config().submit_rules.as_ref();
        let (mut good, mut aside) = (Vec::new(), Vec::new());
        for message in came {
            let read = wire::submission(&message, node.messages.shared.limits);
            let allowed = read.and_then(|submission| wire::allowed(&submission, rules).map(|()| submission));
            match allowed.and_then(|submission| encoded(node, submission)) {
                Ok(submission) => good.push(self.held.good(message, submission)),
                Err(why) => aside.push(Aside::rejected(broker.names(), message, &why)),
            }
        }
        let good = self.admit(good, &mut aside).await;
        self.store(good, aside).await;
    }

    /// At those that wait for room.
    async fn look_again(&mut self) {
        let waiting = self.held.take();
        let mut aside = Vec::new();
        let ready = self.admit(waiting, &mut aside).await;
        self.put(aside).await;
        for some in parts::in_order(ready, |good| &good.message) {
            // Those before them may have taken all the room.
            let mut aside = Vec::new();
            let good = self.admit(some, &mut aside).await;
            self.store(good, aside).await;
        }
    }

    /// Those whose queues have room.
    async fn admit(&mut self, good: Vec<Good>, aside: &mut Vec<Aside>) -> Vec<Good> {
        let full = room::full(self.node.store.as_ref(), &good).await;
        let mut ready = Vec::new();
        for good in good {
            match self.held.fate(&full, &good, Instant::now()) {
                Fate::Stored => ready.push(good),
                Fate::Held => {
                    self.acks.waits(good.message.tag);
                    self.held.put(good);
                }
                Fate::Refused => {
                    let why = Refusal::full(&good.submission.message.queue);
                    aside.push(Aside::rejected(self.broker.names(), good.message, &why));
                }
            }
        }
        ready
    }

    /// Stores what is good, and puts aside the rest.
    async fn store(&self, good: Vec<Good>, mut aside: Vec<Aside>) {
        let (messages, submissions): (Vec<_>, Vec<_>) =
            good.into_iter().map(|good| (good.message, good.submission)).unzip();
        let stored = store(self.node, self.broker, &messages, &submissions, &self.acks).await;
        let mut refused = stored.into_iter().peekable();
        for (index, message) in messages.into_iter().enumerate() {
            if let Some((_, why)) = refused.next_if(|(refused, _)| *refused == index) {
                aside.push(Aside::rejected(self.broker.names(), message, &why));
            }
        }
        self.put(aside).await;
    }

    async fn put(&self, aside: Vec<Aside>) {
        if aside.is_empty() {
            return;
        }
        add(&self.node.counters.messages_refused, aside.len());
        // It costs nothing if it was seen before and nothing was returned since. If it fails, they can't be put aside, which is said there.
        if let Err(error) = self.broker.ensure(&Lane::Submissions).await {
            tracing::debug!(%error, "the queue of refused submissions was not looked at");
        }
        // Waited for: a producer of rubbish alone is slowed down by it.
        self.shelf.put(aside).await;
    }
}

/// As it is to be stored. Its digest was taken before: what is sent twice is one job, and no two contents are encoded alike.
fn encoded<S: Store>(node: &Incarnation<S>, submission: Submission) -> Result<Submission, Refusal> {
    let mut submission = submission;
    node.messages.shared.codecs.message(&mut submission.message).map_err(|error| Refusal::not_stored(&error))?;
    Ok(submission)
}

/// Stores them and acks what is stored. Returns which are not, and why, in their order.
async fn store<S: Store>(
    node: &Arc<Incarnation<S>>,
    broker: &Broker,
    messages: &[Incoming],
    submissions: &[Submission],
    acks: &Acks,
) -> Vec<(usize, Refusal)> {
    let mut refused = Vec::new();
    let receive = |part: Range<usize>| node.store.receive(&submissions[part]);
    let done = |part: Range<usize>, outcome: Result<Vec<Received>>| {
        let answers = match outcome {
            Ok(answers) => answers,
            Err(error) => return refused.push((part.start, Refusal::not_stored(&error))),
        };
        let (mut stored, mut tags) = (Vec::new(), Vec::new());
        for (index, answer) in part.zip(answers) {
            match answer {
                Received::Stored(_) => stored.push(&submissions[index].message),
                Received::Known(id) => tracing::debug!(%id, "a submission came again"),
                Received::Conflict(id) => {
                    refused.push((index, Refusal::conflict(id)));
                    continue;
                }
            }
            tags.push(messages[index].tag);
        }
        add(&node.counters.submitted, stored.len());
        acks.ack(tags);
        node.messages.shared.wakeup.tell(hints(stored));
    };
    parts::in_parts("store submissions", submissions.len(), receive, || alive(node, broker), done).await;
    refused
}
