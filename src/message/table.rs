//! The innermost message service: rows of the job table.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{CommitReceipt, FlushInto, MessageService, RouteCounts, Shared, Written, hints};
use crate::error::Result;
use crate::job::{Job, JobId, JobMessage, NewJob};
use crate::store::{JobWriter, Store};

/// How long a row is hidden for its delivery. It is long enough for handlers that take a few milliseconds to work off a full queue of the
/// broker, and short enough that a lost delivery is no outage.
pub(crate) const HEAD_START: Duration = Duration::from_secs(5);

/// Checks and collects messages, writes them with one statement, and wakes executors once that is committed.
pub(super) struct TableService<S: Store> {
    shared: Arc<Shared<S>>,
    messages: Vec<JobMessage>,
    /// How many of the messages are already encoded for storage.
    encoded: usize,
}

impl<S: Store> TableService<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Self { shared, messages: Vec::new(), encoded: 0 }
    }

    /// Encodes the messages for storage. It runs at the flush and not before: pending messages are shown in plain form, and messages that
    /// are rolled back are never encoded.
    fn encode(&mut self) -> Result<()> {
        if !self.shared.codecs.is_empty() {
            for message in &mut self.messages[self.encoded..] {
                self.shared.codecs.message(message)?;
                self.encoded += 1;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl<S: Store> MessageService<S> for TableService<S> {
    fn send(&mut self, job: NewJob, _: Option<&Job>) -> Result<JobId> {
        let message = job.validate(self.shared.limits)?;
        let id = message.id;
        self.messages.push(message);
        Ok(id)
    }

    fn pending(&self) -> &[JobMessage] {
        &self.messages
    }

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        // Taken first, so that nothing of it is left after an error.
        let (owned, mut hidden) = (into.owned.take(), std::mem::take(&mut into.hidden));
        if self.messages.is_empty() {
            return Ok(Written::nothing());
        }
        self.encode()?;
        for message in self.messages.iter_mut().filter(|message| hidden.remove(&message.id)) {
            message.hidden_for = HEAD_START;
        }
        let inserted = if let Some(transaction) = into.open() {
            transaction.insert(&self.messages, owned.as_ref()).await?
        } else {
            into.begin_own_commit()?;
            let inserted = match &owned {
                Some(owned) => self.shared.jobs.insert(&self.messages, Some(owned)).await,
                None => self.shared.commit_batcher.insert(&self.messages).await,
            };
            into.end_own_commit(&inserted);
            inserted?
        };
        self.encoded = 0;
        Ok(Written::new(std::mem::take(&mut self.messages), inserted))
    }

    fn committed(&mut self, written: Written) -> CommitReceipt {
        self.shared.wakeup.notify(hints(&written.messages));
        let table = written.messages.len();
        CommitReceipt::known(RouteCounts { table, ..RouteCounts::default() })
            .with_duplicates(written.duplicates)
            .with_known(written.known)
    }
}
