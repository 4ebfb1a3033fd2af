//! Jobs that foreign producers submit.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::refuse::{Aside, Shelf};
use super::room::{self, Fate, Held};
use super::{BATCH, Incarnation, alive, parts, up};
use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, Incoming, Lane, Refusal, wire};
use crate::error::Result;
use crate::executor::stats::add;
use crate::job::{Due, Submission};
use crate::message::flush::hints;
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
    let (limits, prefetch) = (node.messages.limits, parts::prefetch(node.messages.limits));
    let mut subscription = broker.subscribe_carefully(broker.names().submit(), prefetch, limits.payload);
    let acks = subscription.acks();
    let mut buffer = Vec::new();
    let shelf = Shelf::new(broker.clone(), acks.clone());
    let mut pace = Pace::new(broker.config(), Instant::now());
    let mut held = Held::new(prefetch);
    loop {
        let look = held.next();
        tokio::select! {
            came = subscription.recv_many(&mut buffer, BATCH) => if came == 0 { return },
            () = tokio::time::sleep_until(look.unwrap_or_else(tokio::time::Instant::now)), if look.is_some() => {}
        }
        let bytes = buffer.iter().map(Incoming::weight).sum();
        tokio::time::sleep(pace.take(buffer.len(), bytes, Instant::now())).await;
        let mut all = held.take();
        all.append(&mut buffer);
        for some in parts::batches(all) {
            take_in(node, broker, some, &acks, &shelf, &mut held).await;
        }
    }
}

async fn take_in<S: Store>(
    node: &Arc<Incarnation<S>>,
    broker: &Arc<Broker>,
    came: Vec<Incoming>,
    acks: &Acks,
    shelf: &Shelf,
    held: &mut Held,
) {
    let mut aside = Vec::new();
    let rules = broker.config().submit_rules.as_ref();
    let mut good = Vec::new();
    for message in came {
        let read = wire::submission(&message, node.messages.limits);
        let allowed = read.and_then(|submission| wire::allowed(&submission, rules).map(|()| submission));
        match allowed.and_then(|submission| encoded(node, submission)) {
            Ok(submission) => good.push((message, submission)),
            Err(why) => aside.push(Aside::rejected(broker.names(), message, &why)),
        }
    }
    let full = room::full(node.store.as_ref(), good.iter().map(|(_, submission)| &submission.message)).await;
    let (mut messages, mut submissions) = (Vec::new(), Vec::new());
    for (message, submission) in good {
        let queue = &submission.message.queue;
        // What is due later takes no room yet.
        let fate = if submission.message.due == Due::Now {
            held.fate(&full, queue, message.received.elapsed())
        } else {
            Fate::Stored
        };
        match fate {
            Fate::Stored => {
                messages.push(message);
                submissions.push(submission);
            }
            Fate::Held => {
                acks.waits(message.tag);
                held.put(queue, message);
            }
            Fate::Refused => aside.push(Aside::rejected(broker.names(), message, &Refusal::full(queue))),
        }
    }
    let mut refused = store(node, broker, &messages, &submissions, acks).await.into_iter().peekable();
    for (index, message) in messages.into_iter().enumerate() {
        if let Some((_, why)) = refused.next_if(|(refused, _)| *refused == index) {
            aside.push(Aside::rejected(broker.names(), message, &why));
        }
    }
    if !aside.is_empty() {
        add(&node.counters.messages_refused, aside.len());
        // It costs nothing if it was seen before and nothing was returned since. If it fails, they can't be put aside, which is said there.
        if let Err(error) = broker.ensure(&Lane::Submissions).await {
            tracing::debug!(%error, "the queue of refused submissions was not looked at");
        }
        // Waited for: a producer of rubbish alone is slowed down by it.
        shelf.put(aside).await;
    }
}

/// As it is to be stored. Its digest was taken before: what is sent twice is one job, and no two contents are encoded alike.
fn encoded<S: Store>(node: &Incarnation<S>, submission: Submission) -> Result<Submission, Refusal> {
    let Submission { message, digest } = submission;
    let message = node.messages.codecs.message(message).map_err(|error| Refusal::not_stored(&error))?;
    Ok(Submission { message, digest })
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
        node.messages.wakeup.tell(hints(stored));
    };
    parts::in_parts("store submissions", submissions.len(), receive, || alive(node, broker), done).await;
    refused
}
