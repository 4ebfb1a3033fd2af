use async_trait::async_trait;

use super::flush::{Flush, Means};
use super::{Handoff, MessageService, MessageServiceFactory, WhenFull};
use crate::error::Result;
use crate::job::{JobId, JobMessage, NewJob};
use crate::store::Store;

/// Flushes into the job table of the context's own database.
pub struct DbMessageService(Flush);

#[async_trait]
impl<S: Store> MessageService<S> for DbMessageService {
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

/// Opens [`DbMessageService`]s.
pub struct DbMessageServiceFactory(Means);

impl DbMessageServiceFactory {
    pub(super) fn new(means: Means) -> Self {
        Self(means)
    }
}

impl<S: Store> MessageServiceFactory<S> for DbMessageServiceFactory {
    fn open(&self) -> Box<dyn MessageService<S>> {
        Box::new(DbMessageService(Flush::new(self.0.clone())))
    }

    fn describe(&self) -> String {
        format!("job table of {}", self.0.jobs.describe())
    }
}
