//! What external workers report.

use std::sync::Arc;

use super::refuse::{self, Aside};
use super::{BATCH, Incarnation, insist};
use crate::broker::{Broker, ExternalReport, Incoming, Refusal, wire};
use crate::error::Result;
use crate::executor::stats::add;
use crate::job::{Fence, REPLY_QUEUE, RetryAdvice, RetryPolicy};
use crate::store::{Extension, ExternalDone, Hint, Settlement, Store, Verdict};

/// Records reports until the node stops claiming.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>) {
    let stop = node.stop_claiming.clone();
    tokio::select! {
        () = stop.cancelled() => {}
        () = record(&node, &broker) => {}
    }
}

async fn record<S: Store>(node: &Arc<Incarnation<S>>, broker: &Arc<Broker>) {
    let mut subscription = broker.subscribe(broker.names().reply(), BATCH as u16);
    let acks = subscription.acks();
    let mut buffer = Vec::new();
    while subscription.recv_many(&mut buffer, BATCH).await > 0 {
        let mut aside = Vec::new();
        let mut batch = Batch::default();
        let mut tags = Vec::new();
        for message in &buffer {
            match wire::report(message, node.messages.limits) {
                Ok(report) => {
                    tags.push(message.tag);
                    batch.add(report);
                }
                Err(why) => aside.push(Aside::dead(broker.names(), message, &why)),
            }
        }
        match batch.store(node).await {
            Ok(()) => acks.ack(tags),
            // One of them the database does not take: one by one, so that it does not hold up the others.
            Err(_) => aside.extend(one_by_one(node, broker, &buffer, &acks).await),
        }
        if !aside.is_empty() {
            add(&node.counters.messages_refused, aside.len());
            tokio::spawn(refuse::set_aside(broker.clone(), acks.clone(), aside));
        }
        buffer.clear();
    }
}

async fn one_by_one<S: Store>(
    node: &Arc<Incarnation<S>>,
    broker: &Broker,
    messages: &[Incoming],
    acks: &crate::broker::Acks,
) -> Vec<Aside> {
    let mut aside = Vec::new();
    for message in messages {
        // Those that can't be read are aside already.
        let Ok(report) = wire::report(message, node.messages.limits) else { continue };
        let mut batch = Batch::default();
        batch.add(report);
        match batch.store(node).await {
            Ok(()) => acks.ack([message.tag]),
            Err(error) => {
                let why = Refusal { reason: "not-stored", text: error.to_string() };
                aside.push(Aside::dead(broker.names(), message, &why));
            }
        }
    }
    aside
}

/// Reports, by what they ask for.
#[derive(Default)]
struct Batch {
    extensions: Vec<Extension>,
    done: Vec<ExternalDone>,
    failed: Vec<Settlement>,
}

impl Batch {
    fn add(&mut self, report: ExternalReport) {
        match report {
            ExternalReport::Done { fence, result } => self.done.push(ExternalDone { fence, result }),
            ExternalReport::Extend { fence, lease } => self.extensions.push(Extension { fence, lease }),
            ExternalReport::Failed { fence, error, detail, advice } => {
                let settlement = Settlement::new(fence, verdict(fence, advice)).error(&error, detail.as_deref());
                self.failed.push(settlement);
            }
        }
    }

    /// Records all of them, as often as it takes. Safe to repeat: what was recorded is refused the next time.
    async fn store<S: Store>(&self, node: &Arc<Incarnation<S>>) -> Result<()> {
        let store = &node.store;
        // Extensions first: a worker extends before it ends.
        if !self.extensions.is_empty() {
            let accepted =
                insist("extend leases of external workers", || store.extend_external(&self.extensions)).await?;
            late(node, "extend", self.extensions.len() - accepted.len());
        }
        if !self.done.is_empty() {
            let accepted = insist("record what external workers did", || store.complete_external(&self.done)).await?;
            add(&node.counters.reported, accepted.len());
            late(node, "done", self.done.len() - accepted.len());
            // Those that asked for a reply have left one.
            node.messages.wakeup.tell([Hint::Queue(REPLY_QUEUE.to_owned())]);
        }
        if !self.failed.is_empty() {
            let accepted =
                insist("record failures of external workers", || store.settle_external(&self.failed)).await?;
            add(&node.counters.reported, accepted.len());
            late(node, "failed", self.failed.len() - accepted.len());
            node.messages.wakeup.tell([Hint::Timer]);
        }
        if !self.done.is_empty() || !self.failed.is_empty() {
            // What they held may be what others wait for.
            node.in_flight.gate.notify_one();
        }
        Ok(())
    }
}

fn late<S: Store>(node: &Incarnation<S>, what: &str, n: usize) {
    if n > 0 {
        add(&node.counters.reports_refused, n);
        tracing::info!(
            what,
            n,
            "reports of external workers were refused: they came twice, or after their lease had ended"
        );
    }
}

/// What a failure means for the job. The policy knows the attempts by the version, which counts the hand-outs.
fn verdict(fence: Fence, advice: RetryAdvice) -> Verdict {
    match advice {
        RetryAdvice::ByPolicy | RetryAdvice::Conflict => {
            Verdict::Retry(RetryPolicy::default().delay(u32::try_from(fence.version.max(1)).unwrap_or(u32::MAX)))
        }
        RetryAdvice::After(delay) => Verdict::Retry(delay),
        RetryAdvice::Never => Verdict::Dead,
    }
}
