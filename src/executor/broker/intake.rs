//! Jobs that foreign producers submit.

use std::sync::Arc;

use super::refuse::{self, Aside};
use super::{BATCH, Incarnation, insist};
use crate::broker::{Acks, Broker, Incoming, Refusal, wire};
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
        () = take(&node, &broker) => {}
    }
}

async fn take<S: Store>(node: &Arc<Incarnation<S>>, broker: &Arc<Broker>) {
    let mut subscription = broker.subscribe(broker.names().submit(), BATCH as u16);
    let acks = subscription.acks();
    let mut buffer = Vec::new();
    while subscription.recv_many(&mut buffer, BATCH).await > 0 {
        let mut aside = Vec::new();
        let mut good: Vec<(&Incoming, Submission)> = Vec::new();
        for message in &buffer {
            match wire::submission(message, node.messages.limits) {
                Ok(submission) => good.push((message, submission)),
                Err(why) => aside.push(Aside::rejected(broker.names(), message, &why)),
            }
        }
        if store(node, broker, &good, &acks, &mut aside).await.is_err() {
            // One of them the database does not take: one by one, so that it does not hold up the others.
            for (message, submission) in good {
                if let Err(error) = store(node, broker, &[(message, submission)], &acks, &mut aside).await {
                    let why = Refusal { reason: "not-stored", text: error.to_string() };
                    aside.push(Aside::rejected(broker.names(), message, &why));
                }
            }
        }
        if !aside.is_empty() {
            add(&node.counters.messages_refused, aside.len());
            // Waited for: a producer of rubbish alone is slowed down by it.
            refuse::set_aside(broker.clone(), acks.clone(), aside).await;
        }
        buffer.clear();
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
