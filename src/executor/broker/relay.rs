//! Events and replies: rows that are published as they are and removed once the broker has confirmed them.

use std::sync::Arc;
use std::time::Duration;

use super::{BATCH, Incarnation, up};
use crate::backoff::Reconnect;
use crate::broker::{Broker, Lane, Outgoing, Published, wire};
use crate::error::{Result, warn_of};
use crate::executor::completer::Report;
use crate::executor::jitter;
use crate::executor::stats::add;
use crate::job::{Job, REPLY_QUEUE, REPLY_TO};
use crate::store::{ClaimRequest, ScanPart, Settlement, Store, Verdict};

/// Relays one of the reserved queues until the node stops claiming.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>, queue: &'static str) {
    let stop = node.stop_claiming.clone();
    let relay = Relay { node, broker, queue };
    tokio::select! {
        () = stop.cancelled() => {}
        () = relay.run() => {}
    }
}

struct Relay<S: Store> {
    node: Arc<Incarnation<S>>,
    broker: Arc<Broker>,
    queue: &'static str,
}

impl<S: Store> Relay<S> {
    async fn run(&self) {
        let mut delays = Reconnect::new(Duration::from_secs(5));
        loop {
            up(&self.broker).await;
            match self.round().await {
                Ok(BATCH) => delays.reset(),
                Ok(_) => {
                    delays.reset();
                    self.node.rung(self.queue, jitter(self.node.poll_interval)).await;
                }
                Err(error) => {
                    warn_of!(error, queue = self.queue, "messages could not be relayed; trying again");
                    self.node.claim_failed(&error);
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    }

    /// Claims and publishes once. Returns how many.
    async fn round(&self) -> Result<usize> {
        if self.queue != REPLY_QUEUE {
            self.broker.ensure(&Lane::Events).await?;
        }
        let request = ClaimRequest {
            node: self.node.id,
            claim: self.node.next_claim(),
            queue: self.queue,
            kinds: None,
            limit: BATCH,
            part: ScanPart::All,
            held_too: true,
        };
        let claiming = self.node.in_flight.claiming.clone().read_owned().await;
        let jobs = self.node.store.claim(&request).await?.jobs;
        self.node.in_flight.add(jobs.iter());
        drop(claiming);

        let (mut sent, mut messages) = (Vec::new(), Vec::new());
        for job in &jobs {
            match self.message(job) {
                Some(message) => {
                    sent.push(job);
                    messages.push(message);
                }
                None => self.report(job, Err("the message does not say where it is to go")).await,
            }
        }
        let outcomes = self.broker.publish(messages).await;
        for (job, outcome) in sent.into_iter().zip(outcomes) {
            match outcome {
                Published::Acked => self.report(job, Ok(Verdict::Release)).await,
                Published::Returned => self.report(job, Err("no queue took it")).await,
                // Later, at no attempt. If the broker has it after all, it gets it twice.
                Published::Nacked | Published::Unknown | Published::NotSent => {
                    self.report(job, Ok(Verdict::Snooze(Duration::from_secs(1)))).await;
                }
            }
        }
        Ok(jobs.len())
    }

    fn message(&self, job: &Job) -> Option<Outgoing> {
        let names = self.broker.names();
        if self.queue == REPLY_QUEUE { wire::reply(names, job) } else { Some(wire::event(names, job)) }
    }

    async fn report(&self, job: &Job, end: Result<Verdict, &str>) {
        let report = match end {
            Ok(Verdict::Release) => {
                add(&self.node.counters.relayed, 1);
                Report::Done(job.fence())
            }
            Ok(verdict) => Report::Settled(Settlement::new(job.fence(), verdict)),
            Err(why) => {
                let to = job.headers.get(REPLY_TO).map(String::as_str).unwrap_or_default();
                tracing::warn!(id = %job.id, kind = %job.kind, to, "a message can't be relayed: {why}; it becomes a dead letter");
                let why = format!("{why}: {to:?}");
                Report::Settled(Settlement::new(job.fence(), Verdict::Dead).error(&why, None))
            }
        };
        self.node.reports.send(report).await;
    }
}
