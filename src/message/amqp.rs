use std::sync::Arc;

use async_trait::async_trait;

use super::flush::{Flush, Means};
use super::pipe::Pipe;
use super::{Handoff, MessageService, MessageServiceFactory, WhenFull};
use crate::error::Result;
use crate::job::{JobId, JobMessage, NewJob};
use crate::store::Store;

/// Flushes into the job table, and after the commit delivers through the broker.
///
/// What the broker can't take (it is not up, or its queue is full, or nobody consumes it) waits in the table like a message
/// of [`DbMessageService`](super::DbMessageService), so a context never notices whether there is a broker.
pub struct AmqpMessageService(Flush);

#[async_trait]
impl<S: Store> MessageService<S> for AmqpMessageService {
    fn send(&mut self, job: NewJob) -> Result<JobId> {
        self.0.send(job)
    }

    fn pending(&self) -> &[JobMessage] {
        self.0.messages()
    }

    async fn flush(&mut self, transaction: &mut S::Transaction) -> Result<()> {
        self.0.within(transaction).await
    }

    async fn flush_alone(&mut self) -> Result<()> {
        self.0.alone().await
    }

    fn when_full(&mut self, when_full: WhenFull) {
        self.0.when_full(when_full);
    }

    fn committed(&mut self) -> Handoff {
        self.0.committed()
    }
}

/// Opens [`AmqpMessageService`]s.
pub struct AmqpMessageServiceFactory {
    means: Means,
    pipe: Arc<Pipe>,
}

impl AmqpMessageServiceFactory {
    pub(super) fn new(means: Means, pipe: Arc<Pipe>) -> Self {
        Self { means: Means { pipe: Some(pipe.clone()), ..means }, pipe }
    }
}

impl<S: Store> MessageServiceFactory<S> for AmqpMessageServiceFactory {
    fn open(&self) -> Box<dyn MessageService<S>> {
        Box::new(AmqpMessageService(Flush::new(self.means.clone())))
    }

    fn describe(&self) -> String {
        format!("job table of {}, delivered through {}", self.means.jobs.describe(), self.pipe.broker().describe())
    }
}
