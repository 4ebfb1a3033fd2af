//! The message service of RabbitMQ: rows are kept back for their deliveries, which go out once the commit is proven.

use std::sync::Arc;

use async_trait::async_trait;

use super::pipe::{Pipe, Pointer};
use super::{FlushInto, Handoff, MessageService, Written, hints};
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::Store;

/// Delivers what the inner service has written.
///
/// What the broker can't take (it is not up, or its queue is full, or nobody consumes it) waits in the table like any other message, so
/// nobody notices whether there is a broker.
pub(super) struct RabbitMqService<M> {
    inner: M,
    pipe: Arc<Pipe>,
}

impl<M> RabbitMqService<M> {
    pub(super) fn around(inner: M, pipe: Arc<Pipe>) -> Self {
        Self { inner, pipe }
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
        let owned = into.owned.as_ref().map_or(&[][..], |owned| &owned.positions);
        into.held = self.pipe.holds(self.inner.pending(), owned);
        self.inner.flush(into).await
    }

    fn committed(&mut self, mut written: Written) -> Handoff {
        let held: Vec<JobMessage> = written.messages.extract_if(.., |message| !message.hold.is_zero()).collect();
        // A time to live runs, however the message goes.
        self.pipe.wakeup.tell(hints(&held));
        let handoff = self.inner.committed(written);
        if held.is_empty() {
            return handoff;
        }
        let pointer = |JobMessage { id, queue, kind, .. }| Pointer { id, queue, kind };
        handoff.published(self.pipe.publish(held.into_iter().map(pointer).collect()))
    }
}
