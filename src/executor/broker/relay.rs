//! Events and replies: rows that are published as they are and removed once the broker has confirmed them.

use std::sync::Arc;
use std::time::Duration;

use super::singly::{Fate, Singly, UNANSWERED, pause};
use super::{BATCH, Incarnation, up};
use crate::backoff::Reconnect;
use crate::broker::{Broker, Direct, Lane, Reply, wire};
use crate::error::{Result, warn_of};
use crate::executor::completer::Report;
use crate::executor::jitter;
use crate::executor::stats::add;
use crate::job::{Job, REPLY_QUEUE, REPLY_TO};
use crate::store::{ClaimRequest, ScanPart, Settlement, Store, Verdict};

/// Relays one of the reserved queues until the node stops claiming.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>, queue: &'static str) {
    let stop = node.stop_claiming.clone();
    let mut relay = Relay { node, broker, queue, singly: Singly::default() };
    tokio::select! {
        () = stop.cancelled() => {}
        () = relay.run() => {}
    }
}

struct Relay<S: Store> {
    node: Arc<Incarnation<S>>,
    broker: Arc<Broker>,
    queue: &'static str,
    singly: Singly,
}

/// What becomes of a row.
enum End {
    /// It is out.
    Sent,
    /// Again later, at no attempt.
    Later,
    /// The broker did not answer: again later, if it has attempts left.
    Unanswered,
    /// It can't go out, for this reason.
    Never(String),
}

impl<S: Store> Relay<S> {
    async fn run(&mut self) {
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
    async fn round(&mut self) -> Result<usize> {
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

        let (mut sent, mut messages, mut direct) = (Vec::new(), Vec::new(), Vec::new());
        for job in &jobs {
            match self.message(job) {
                Ok(Reply::Queue(message)) => {
                    sent.push(job);
                    messages.push((job.id, message));
                }
                Ok(Reply::Direct(message)) => direct.push((job, message)),
                Err(why) => self.report(job, End::Never(why.to_owned())).await,
            }
        }
        let fates = self.singly.publish(&self.broker, messages).await;
        for (job, fate) in sent.into_iter().zip(fates) {
            let end = match fate {
                Fate::Acked => End::Sent,
                Fate::Returned => End::Never("no queue took it".to_owned()),
                // If the broker has it after all, it gets it twice.
                Fate::Later => End::Later,
                Fate::Unanswered => End::Unanswered,
            };
            self.report(job, end).await;
        }
        for (job, message) in direct {
            let end = match self.broker.publish_directly(&message).await {
                Direct::Delivered => End::Sent,
                Direct::NotSent => End::Later,
                Direct::Lost(why) => End::Never(why),
            };
            self.report(job, end).await;
        }
        Ok(jobs.len())
    }

    fn message(&self, job: &Job) -> Result<Reply, &'static str> {
        let (names, config) = (self.broker.names(), self.broker.config());
        if self.queue == REPLY_QUEUE {
            wire::reply(names, config, job)
        } else {
            Ok(Reply::Queue(wire::event(names, job)))
        }
    }

    async fn report(&self, job: &Job, end: End) {
        let settled = |verdict| Settlement::new(job.fence(), verdict);
        let report = match end {
            End::Sent => {
                add(&self.node.counters.relayed, 1);
                Report::Done(job.fence())
            }
            End::Later => Report::Settled(settled(Verdict::Snooze(Duration::from_secs(1)))),
            End::Unanswered => {
                tracing::warn!(id = %job.id, kind = %job.kind, attempt = job.attempt, "a message was not relayed: {UNANSWERED}");
                Report::Settled(settled(Verdict::Retry(pause(job.attempt))).error(UNANSWERED, None))
            }
            End::Never(why) => {
                let to = job.headers.get(REPLY_TO).map(String::as_str).unwrap_or_default();
                tracing::warn!(id = %job.id, kind = %job.kind, to, "a message can't be relayed: {why}; it becomes a dead letter");
                Report::Settled(settled(Verdict::Dead).error(&format!("{why}: {to:?}"), None))
            }
        };
        self.node.reports.send(report).await;
    }
}
