//! Messages that nobody can use: kept aside with the reason, then acked.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::{Acks, Broker, Incoming, Names, Outgoing, Published, Refusal, Tag, wire};

/// How long a message waits that can't be put aside at the moment, before the broker gets it back.
const PAUSE: Duration = Duration::from_secs(1);

/// A message on its way to where it is kept.
pub(super) struct Aside {
    message: Outgoing,
    tag: Tag,
}

impl Aside {
    /// For the queue of what nobody can use.
    pub(super) fn dead(names: &Names, message: &Incoming, why: &Refusal) -> Self {
        tracing::warn!(reason = why.reason, error = %why.text, "a message can't be used; it goes to {}", names.dead());
        Self { message: wire::dead(names, message, why), tag: message.tag }
    }

    /// For the queue of reports that were refused.
    pub(super) fn report(names: &Names, message: &Incoming, why: &Refusal) -> Self {
        tracing::warn!(reason = why.reason, error = %why.text, "a report is refused; it goes to {}", names.rejected_reports());
        Self { message: wire::rejected_report(names, message, why), tag: message.tag }
    }

    /// For the queue of submissions that were refused.
    pub(super) fn rejected(names: &Names, message: &Incoming, why: &Refusal) -> Self {
        tracing::warn!(reason = why.reason, error = %why.text, "a submission is refused; it goes to {}", names.rejected());
        Self { message: wire::rejected(names, message, why), tag: message.tag }
    }
}

/// Publishes them where they are kept, and acks those that have arrived there. The others go back to their queue after a while.
pub(super) async fn set_aside(broker: Arc<Broker>, acks: Acks, aside: Vec<Aside>) {
    let (messages, tags): (Vec<_>, Vec<_>) = aside.into_iter().map(|aside| (aside.message, aside.tag)).unzip();
    let outcomes = broker.publish(messages).await;
    let (kept, back): (Vec<_>, Vec<_>) =
        tags.into_iter().zip(outcomes).partition(|(_, outcome)| *outcome == Published::Acked);
    acks.ack(kept.into_iter().map(|(tag, _)| tag));
    if !back.is_empty() {
        tracing::warn!(
            messages = back.len(),
            "messages that can't be used could not be put aside: is the broker's queue for them there? (`jobwright broker check`)"
        );
        // Not at once: they come back at once.
        tokio::time::sleep(PAUSE).await;
        for (tag, _) in back {
            acks.requeue(tag);
        }
    }
}
