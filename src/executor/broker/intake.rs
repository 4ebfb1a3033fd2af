//! Jobs that foreign producers submit.

use std::sync::Arc;
use std::time::Duration;

use super::refuse::{self, Aside};
use super::{BATCH, Incarnation, insist, up};
use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, Incoming, Lane, Refusal, wire};
use crate::error::Result;
use crate::executor::stats::add;
use crate::job::Submission;
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
    let mut subscription = broker.subscribe_carefully(broker.names().submit(), BATCH as u16);
    let acks = subscription.acks();
    let mut buffer = Vec::new();
    while subscription.recv_many(&mut buffer, BATCH).await > 0 {
        for some in super::parts(&mut buffer) {
            take_in(node, broker, some, &acks).await;
        }
        buffer.clear();
    }
}

async fn take_in<S: Store>(node: &Arc<Incarnation<S>>, broker: &Arc<Broker>, messages: &[Incoming], acks: &Acks) {
    let mut aside = Vec::new();
    let mut good: Vec<(&Incoming, Submission)> = Vec::new();
    for message in messages {
        let read = wire::submission(message, node.messages.limits);
        let rules = broker.config().submit_rules.as_ref();
        match read.and_then(|submission| wire::allowed(&submission, rules).map(|()| submission)) {
            Ok(submission) => good.push((message, submission)),
            Err(why) => aside.push(Aside::rejected(broker.names(), message, &why)),
        }
    }
    if store(node, broker, &good, acks, &mut aside).await.is_err() {
        // One of them the database does not take: one by one, so that it does not hold up the others.
        for (message, submission) in good {
            if let Err(error) = store(node, broker, &[(message, submission)], acks, &mut aside).await {
                let why = Refusal { reason: "not-stored", text: error.to_string() };
                aside.push(Aside::rejected(broker.names(), message, &why));
            }
        }
    }
    if !aside.is_empty() {
        add(&node.counters.messages_refused, aside.len());
        // It costs nothing if it was seen before and nothing was returned since. If it fails, they can't be put aside, which is said there.
        if let Err(error) = broker.ensure(&Lane::Submissions).await {
            tracing::debug!(%error, "the queue of refused submissions was not looked at");
        }
        // Waited for: a producer of rubbish alone is slowed down by it.
        refuse::set_aside(broker.clone(), acks.clone(), aside).await;
    }
}

/// Stores a batch, acks what is stored, and puts aside what is in conflict.
async fn store<S: Store>(
    node: &Arc<Incarnation<S>>,
    broker: &Broker,
    batch: &[(&Incoming, Submission)],
    acks: &Acks,
    aside: &mut Vec<Aside>,
) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let submissions: Vec<Submission> = batch.iter().map(|(_, submission)| submission.clone()).collect();
    let answers = insist("store submissions", || node.store.receive(&submissions)).await?;
    let mut stored = Vec::new();
    for ((message, submission), answer) in batch.iter().zip(answers) {
        match answer {
            Received::Stored(_) => {
                add(&node.counters.submitted, 1);
                stored.push(&submission.message);
            }
            Received::Known(id) => tracing::debug!(%id, "a submission came again"),
            Received::Conflict(id) => {
                aside.push(Aside::rejected(broker.names(), message, &Refusal::conflict(id)));
                continue;
            }
        }
        acks.ack([message.tag]);
    }
    node.messages.wakeup.tell(hints(stored));
    Ok(())
}
