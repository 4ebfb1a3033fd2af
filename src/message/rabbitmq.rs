//! The message service of RabbitMQ: it hides rows for their deliveries, which are published once the commit is proven.

use std::sync::Arc;

use async_trait::async_trait;

use super::delivery_publisher::{DeliveryPublisher, HiddenRow};
use super::{CommitReceipt, FlushInto, MessageService, Written, hints};
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::Store;

/// Delivers the messages that the inner service has written.
///
/// When the broker can't take a message (it is down, or its queue is full or has no consumer), the message waits in the table like any
/// other. Applications don't notice whether there is a broker.
pub(super) struct RabbitMqService<M> {
    inner: M,
    delivery_publisher: Arc<DeliveryPublisher>,
}

impl<M> RabbitMqService<M> {
    pub(super) fn around(inner: M, delivery_publisher: Arc<DeliveryPublisher>) -> Self {
        Self { inner, delivery_publisher }
    }
}

#[async_trait]
impl<S: Store, M: MessageService<S>> MessageService<S> for RabbitMqService<M> {
    fn inner(&self) -> Option<&dyn MessageService<S>> {
        Some(&self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<S>> {
        Some(&mut self.inner)
    }

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        let owned = |id| into.owned.as_ref().is_some_and(|owned| owned.ids.contains(&id));
        into.hidden = self.delivery_publisher.select_rows(self.inner.pending(), owned);
        self.inner.flush(into).await
    }

    fn committed(&mut self, mut written: Written) -> CommitReceipt {
        let hidden: Vec<JobMessage> =
            written.messages.extract_if(.., |message| !message.hidden_for.is_zero()).collect();
        // A time to live runs whichever way the message goes.
        self.delivery_publisher.wakeup.notify(hints(&hidden));
        let receipt = self.inner.committed(written);
        if hidden.is_empty() {
            return receipt;
        }
        let pointer = |JobMessage { id, queue, kind, .. }| HiddenRow { id, queue, kind };
        receipt.published(self.delivery_publisher.publish(hidden.into_iter().map(pointer).collect()))
    }
}
