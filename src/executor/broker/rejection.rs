//! Messages that can't be used: published to a queue of rejected messages with the reason, then acked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, Incoming, Names, Outgoing, Published, Refusal, Tag, wire};
use crate::executor::broker::bisect;

/// Longest time that a message waits that can't be rejected at the moment, before it goes back to the broker.
const PAUSE: Duration = Duration::from_secs(30);

/// A message on its way to a queue of rejected messages.
pub(crate) struct Rejection {
    message: Outgoing,
    tag: Tag,
    pub(crate) reason: &'static str,
}

impl Rejection {
    /// Rejects a message that can't be used.
    pub(crate) fn dead(names: &Names, message: Incoming, why: &Refusal) -> Self {
        tracing::warn!(reason = why.reason, error = %why.text, "a message can't be used; it goes to {}", names.dead());
        let tag = message.tag;
        Self { message: wire::dead(names, message, why), tag, reason: why.reason }
    }

    /// Rejects a report that was refused.
    pub(crate) fn report(names: &Names, message: Incoming, why: &Refusal) -> Self {
        tracing::warn!(reason = why.reason, error = %why.text, "a report is refused; it goes to {}", names.rejected_reports());
        let tag = message.tag;
        Self { message: wire::rejected_report(names, message, why), tag, reason: why.reason }
    }

    /// Rejects a submission that was refused.
    pub(crate) fn rejected(names: &Names, message: Incoming, why: &Refusal) -> Self {
        tracing::warn!(reason = why.reason, error = %why.text, "a submission is refused; it goes to {}", names.rejected());
        let tag = message.tag;
        Self { message: wire::rejected(names, message, why), tag, reason: why.reason }
    }
}

/// Rejects messages of one subscription.
#[derive(Clone)]
pub(crate) struct RejectionSink {
    broker: Arc<Broker>,
    acks: Acks,
    /// Pauses, longer each time that no message can be rejected: a message given back arrives again at once, and counts as delivered.
    delays: Arc<Mutex<Reconnect>>,
}

impl RejectionSink {
    pub(crate) fn new(broker: Arc<Broker>, acks: Acks) -> Self {
        Self { broker, acks, delays: Arc::new(Mutex::new(Reconnect::new(PAUSE))) }
    }

    /// Publishes the messages to their queues, and acks those that have arrived there. The others go back to their source queue after a
    /// pause, which no caller waits for. A message whose confirm is lost is kept twice, with the same properties.
    pub(crate) async fn put(&self, aside: Vec<Rejection>) {
        let mut back = Vec::new();
        for part in bisect::cut(aside, |aside| aside.message.body.len()) {
            let (messages, tags): (Vec<_>, Vec<_>) = part.into_iter().map(|aside| (aside.message, aside.tag)).unzip();
            let outcomes = self.broker.publish(messages).await;
            let (kept, left): (Vec<_>, Vec<_>) =
                tags.into_iter().zip(outcomes).partition(|(_, outcome)| *outcome == Published::Acked);
            self.acks.ack(kept.into_iter().map(|(tag, _)| tag));
            back.extend(left.into_iter().map(|(tag, _)| tag));
        }
        let pause = {
            let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
            if back.is_empty() {
                return delays.reset();
            }
            delays.next_delay()
        };
        tracing::warn!(
            messages = back.len(),
            "unusable messages could not be moved to the broker's queue for them: check that it exists and is not full (`jobwright broker check`)"
        );
        for tag in &back {
            self.acks.waits(*tag);
        }
        let acks = self.acks.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            for tag in back {
                acks.requeue(tag);
            }
        });
    }
}
