//! Events and replies: rows that are published as they are and removed once the broker has confirmed them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::parts::prefetch;
use super::portion::Portion;
use super::singly::{Fate, Row, Singly, UNANSWERED, pause};
use super::{Incarnation, direct, up};
use crate::backoff::Reconnect;
use crate::broker::{Broker, Lane, Outgoing, Reply, wire};
use crate::error::{Result, warn_of};
use crate::executor::completer::Report;
use crate::executor::jitter;
use crate::executor::stats::add;
use crate::job::{Job, REPLY_QUEUE};
use crate::store::{ClaimRequest, ScanPart, Settlement, Store, Verdict};

/// Relays one of the reserved queues until the node stops claiming.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>, queue: &'static str) {
    let stop = node.stop_claiming.clone();
    let portion = Portion::new(node.messages.shared.limits, 1);
    // Half of what may be in memory waits, the other half is on its way.
    let most = usize::from(prefetch(node.messages.shared.limits)) / 2;
    let (direct, waiting) = mpsc::channel(most);
    let mut relay =
        Relay { node: node.clone(), broker: broker.clone(), queue, portion, singly: Singly::default(), direct };
    tokio::select! {
        () = stop.cancelled() => {}
        () = relay.run() => {}
        () = direct::run(&node, &broker, waiting, most) => {}
    }
}

struct Relay<S: Store> {
    node: Arc<Incarnation<S>>,
    broker: Arc<Broker>,
    queue: &'static str,
    portion: Portion,
    singly: Singly,
    /// What goes to clients that wait without a queue.
    direct: mpsc::Sender<(Row, Outgoing)>,
}

/// What becomes of a row.
pub(super) enum End {
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
                Ok(true) => delays.reset(),
                Ok(false) => {
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

    /// Claims and publishes once. Returns whether there may be more.
    async fn round(&mut self) -> Result<bool> {
        if self.queue != REPLY_QUEUE {
            self.broker.ensure(&Lane::Events).await?;
        }
        let request = ClaimRequest {
            node: self.node.id,
            claim: self.node.next_claim(),
            queue: self.queue,
            kinds: None,
            limit: self.portion.count(),
            part: ScanPart::All,
            held_too: true,
            counted: &[],
            admitted_too: true,
        };
        let claiming = self.node.in_flight.claiming.clone().read_owned().await;
        let jobs = self.node.store.claim(&request).await?.jobs;
        self.node.in_flight.add(jobs.iter());
        drop(claiming);
        let more = jobs.len() == request.limit;
        self.portion.took(jobs.len(), jobs.iter().map(|job| job.payload.as_bytes().len()).sum());

        let (mut sent, mut messages) = (Vec::new(), Vec::new());
        for job in jobs {
            let row = Row::of(&job);
            match self.message(job) {
                Ok(Reply::Queue(message)) => {
                    messages.push((row.fence.id, message));
                    sent.push(row);
                }
                Ok(Reply::Direct(message)) => {
                    // As many wait as may: the others must not wait for them.
                    if let Err(TrySendError::Full((row, _)) | TrySendError::Closed((row, _))) =
                        self.direct.try_send((row, message))
                    {
                        self.report(&row, End::Later).await;
                    }
                }
                Err(why) => self.report(&row, End::Never(why.to_owned())).await,
            }
        }
        let fates = self.singly.publish(&self.broker, messages).await;
        for (row, fate) in sent.iter().zip(fates) {
            let end = match fate {
                Fate::Acked => End::Sent,
                Fate::Returned => End::Never("no queue took it".to_owned()),
                // If the broker has it after all, it gets it twice.
                Fate::Later => End::Later,
                Fate::Unanswered => End::Unanswered,
            };
            self.report(row, end).await;
        }
        Ok(more)
    }

    fn message(&self, job: Job) -> Result<Reply, &'static str> {
        let (names, config) = (self.broker.names(), self.broker.config());
        if self.queue == REPLY_QUEUE {
            wire::reply(names, config, job)
        } else {
            Ok(Reply::Queue(wire::event(names, job)))
        }
    }

    async fn report(&self, row: &Row, end: End) {
        report(&self.node, row, end).await;
    }
}

pub(super) async fn report<S: Store>(node: &Incarnation<S>, row: &Row, end: End) {
    let Row { fence, kind, attempt, to } = row;
    let settled = |verdict| Settlement::new(*fence, verdict);
    let report = match end {
        End::Sent => {
            add(&node.counters.relayed, 1);
            Report::Done(*fence)
        }
        End::Later => Report::Settled(settled(Verdict::Snooze(Duration::from_secs(1)))),
        End::Unanswered => {
            tracing::warn!(id = %fence.id, %kind, attempt, "a message was not relayed: {UNANSWERED}");
            Report::Settled(settled(Verdict::Retry(pause(*attempt))).error(UNANSWERED, None))
        }
        End::Never(why) => {
            let to = to.as_deref().unwrap_or_default();
            tracing::warn!(id = %fence.id, %kind, to, "a message can't be relayed: {why}; it becomes a dead letter");
            Report::Settled(settled(Verdict::Dead).error(&format!("{why}: {to:?}"), None))
        }
    };
    node.reports.send(report).await;
}
