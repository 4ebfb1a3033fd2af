//! Events and replies: rows that are published as they are, and removed once the broker has confirmed them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::backoff::Reconnect;
use crate::broker::{Broker, Outgoing, QueueRole, Reply, wire};
use crate::error::{Result, warn_of};
use crate::executor::broker::batch_sizer::BatchSizer;
use crate::executor::broker::bisect::prefetch;
use crate::executor::broker::direct;
use crate::executor::broker::isolating_publisher::{IsolatingPublisher, PublishOutcome, Row};
use crate::executor::broker::mode::up;
use crate::executor::broker::relay_outcome::{RelayOutcome, record};
use crate::executor::broker::stop::between_calls;
use crate::executor::node::Node;
use crate::job::{Job, REPLY_QUEUE};
use crate::store::nodes::CLAIMS;
use crate::store::{ClaimRequest, ScanRange};

/// Its failure, for the log and for the node's row.
const FAILED: &str = "messages could not be relayed";

/// Relays one of the reserved queues until the node stops claiming.
pub(crate) async fn run(node: Arc<Node>, broker: Arc<Broker>, queue: &'static str) {
    let stop = &node.stop_claiming;
    let batch_sizer = BatchSizer::new(node.job_limits, 1);
    // Of what may be in memory, half waits and the other half is on its way.
    let most = usize::from(prefetch(node.job_limits)) / 2;
    let (direct, waiting) = mpsc::channel(most);
    let mut relay = Relay {
        node: node.clone(),
        broker: broker.clone(),
        queue,
        batch_sizer,
        isolating_publisher: IsolatingPublisher::default(),
        direct,
    };
    // The end of the relay drops the sender, which ends the other.
    let relayed = async move { relay.run().await };
    let both = async {
        tokio::join!(relayed, direct::run(&node, &broker, waiting, most));
    };
    between_calls(stop, Box::pin(both)).await;
}

struct Relay {
    node: Arc<Node>,
    broker: Arc<Broker>,
    queue: &'static str,
    batch_sizer: BatchSizer,
    isolating_publisher: IsolatingPublisher,
    /// Messages for clients that wait without a queue.
    direct: mpsc::Sender<(Row, Outgoing)>,
}

impl Relay {
    async fn run(&mut self) {
        let node = self.node.clone();
        let stop = &node.stop_claiming;
        let mut delays = Reconnect::new(Duration::from_secs(5));
        let mut state = node.failing.task(CLAIMS, Some(self.queue), FAILED);
        // A stop cuts only waits short: the broker may have a message that it has not confirmed yet.
        loop {
            if !self.broker.is_up() {
                // That is told elsewhere.
                state.succeeded();
            }
            if stop.run_until_cancelled(up(&self.broker)).await.is_none() {
                return;
            }
            let relayed = self.relay_batch().await;
            if relayed.is_ok() {
                delays.reset();
                state.succeeded();
            }
            match relayed {
                Ok(true) => {}
                Ok(false) => {
                    stop.run_until_cancelled(node.woken_for(self.queue)).await;
                }
                Err(error) => {
                    warn_of!(error, queue = self.queue, "{FAILED}; trying again");
                    state.failed(&error);
                    node.claim_failed(&error);
                    stop.run_until_cancelled(tokio::time::sleep(delays.next_delay())).await;
                }
            }
        }
    }

    /// Claims and publishes one batch. Returns whether there may be more.
    async fn relay_batch(&mut self) -> Result<bool> {
        if self.queue != REPLY_QUEUE {
            self.broker.ensure(&QueueRole::Events).await?;
        }
        let claim = self.node.in_flight.begin_claim().await;
        let request = ClaimRequest {
            node: self.node.id,
            claim: claim.number(),
            queue: self.queue,
            kinds: None,
            limit: self.batch_sizer.count(),
            range: ScanRange::All,
            include_hidden: true,
            counted: &[],
            admitted_too: true,
            suspects: false,
        };
        let jobs = self.node.store.claim(&request).await?.jobs;
        self.node.in_flight.add_messages(jobs.iter());
        drop(claim);
        let more = jobs.len() == request.limit;
        self.batch_sizer.took(jobs.len(), jobs.iter().map(|job| job.payload.as_bytes().len()).sum());

        let (mut sent, mut messages) = (Vec::new(), Vec::new());
        for job in jobs {
            let row = Row::of(&job);
            match self.message(job) {
                Ok(Reply::Queue(message)) => {
                    messages.push((row.fence.id, message));
                    sent.push(row);
                }
                Ok(Reply::Direct(message)) => {
                    // The channel is full. The other rows must not wait for it.
                    if let Err(TrySendError::Full((row, _)) | TrySendError::Closed((row, _))) =
                        self.direct.try_send((row, message))
                    {
                        self.report(&row, RelayOutcome::Later).await;
                    }
                }
                Err(why) => self.report(&row, RelayOutcome::Never(why.to_owned())).await,
            }
        }
        let outcomes = self.isolating_publisher.publish(&self.broker, messages, &self.node.stop_claiming).await;
        for (row, outcome) in sent.iter().zip(outcomes) {
            let end = match outcome {
                PublishOutcome::Acked => RelayOutcome::Sent,
                PublishOutcome::Returned => RelayOutcome::Never("no queue took it".to_owned()),
                // If the broker has the message after all, it gets it twice.
                PublishOutcome::Later => RelayOutcome::Later,
                PublishOutcome::Refused(why) => RelayOutcome::Refused(why),
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

    async fn report(&self, row: &Row, end: RelayOutcome) {
        record(&self.node, row, end).await;
    }
}
