//! The innermost message service: rows of the job table.

use std::sync::Arc;

use async_trait::async_trait;

use super::pipe::HOLD;
use super::{FlushInto, Handoff, MessageService, Shared, WentTo, Written, hints};
use crate::error::Result;
use crate::job::{Job, JobId, JobMessage, NewJob};
use crate::store::{JobWriter, Store};

/// Checks and collects messages, writes them with one statement, and wakes executors up once that is committed.
pub(super) struct TableService<S: Store> {
    shared: Arc<Shared<S>>,
    messages: Vec<JobMessage>,
    /// So many of them are as they are to be stored.
    encoded: usize,
}

impl<S: Store> TableService<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Self { shared, messages: Vec::new(), encoded: 0 }
    }

    /// Makes them what is to be stored. At the flush and not before: what is looked at until then is plain, and what is rolled back was
    /// never encoded.
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
        // Taken first: after an error they are nobody's.
        let (owned, held) = (into.owned.take(), std::mem::take(&mut into.held));
        if self.messages.is_empty() {
            return Ok(Written::nothing());
        }
        self.encode()?;
        for position in held {
            self.messages[position].hold = HOLD;
        }
        let inserted = if let Some(transaction) = into.open() {
            transaction.insert(&self.messages, owned.as_ref()).await?
        } else {
            into.begin_alone();
            let inserted = match &owned {
                Some(owned) => self.shared.jobs.insert(&self.messages, Some(owned)).await,
                None => self.shared.together.insert(&self.messages).await,
            };
            into.end_alone(&inserted);
            inserted?
        };
        self.encoded = 0;
        Ok(Written::new(std::mem::take(&mut self.messages), inserted))
    }

    fn committed(&mut self, written: Written) -> Handoff {
        self.shared.wakeup.tell(hints(&written.messages));
        let table = written.messages.len();
        Handoff::known(WentTo { table, ..WentTo::default() }).kept_back(written.kept)
    }
}
