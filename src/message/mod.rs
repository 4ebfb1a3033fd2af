//! Message services: what collects a context's messages and flushes them when it commits.
//!
//! ```text
//!  Context::send ─▶ MessageService::send        checks and collects; nothing leaves
//!  Context::commit ─▶ MessageService::flush     one statement in the context's transaction
//!                  ─▶ COMMIT, proven
//!                  ─▶ MessageService::committed hand-over, delivery, wake-up
//!  dropped, rolled back, failed                 the messages are discarded
//! ```
//!
//! [`DbMessageService`] flushes into the job table. [`AmqpMessageService`] does the same and delivers through a broker once the
//! commit is proven: a row decides what exists, a broker only who works how soon. Which way a message goes is decided anew for
//! each commit, so both change over to the other while running, and there is nothing to move.

mod amqp;
mod bells;
mod db;
mod enlist;
pub(crate) mod flush;
mod handoff;
mod hooks;
pub(crate) mod local;
pub(crate) mod pipe;
mod results;
mod room;
mod schedules;
mod services;
mod together;
mod wakeup;

use async_trait::async_trait;

pub use self::amqp::{AmqpMessageService, AmqpMessageServiceFactory};
pub use self::db::{DbMessageService, DbMessageServiceFactory};
pub use self::enlist::{Enlisted, Flushed};
pub use self::handoff::{Handoff, WentTo};
pub(crate) use self::hooks::{AfterCommit, Hooks};
pub use self::results::Awaited;
pub use self::room::WhenFull;
pub use self::schedules::ScheduleService;
pub use self::services::MessageServices;
pub(crate) use self::wakeup::WakeUp;
use crate::codec::Codecs;
pub use crate::error::BoxError;
use crate::error::Result;
use crate::job::{JobId, JobMessage, Limits, NewJob};
use crate::store::Store;

/// Collects the messages of one context and flushes them with its commit. jBPM's `MessageService`, with a commit protocol.
#[async_trait]
pub trait MessageService<S: Store>: Send {
    /// Checks a message and collects it.
    ///
    /// # Errors
    /// When the message is refused ([`is_invalid`](crate::Error::is_invalid)); what was collected before stays.
    fn send(&mut self, job: NewJob) -> Result<JobId>;

    /// What a commit would flush now, in the order of sending.
    fn pending(&self) -> &[JobMessage];

    /// Writes what was collected into an open transaction, with one statement however much it is.
    async fn flush(&mut self, transaction: &mut S::Transaction) -> Result<()>;

    /// The same in a transaction of its own, for a context that opened none: one round trip.
    async fn flush_alone(&mut self) -> Result<()>;

    /// What a flush does when a queue is full. Without a call it refuses.
    fn when_full(&mut self, when_full: WhenFull) {
        let _ = when_full;
    }

    /// The transaction has really committed: now, and only now, others may hear of it. Does not wait for it.
    fn committed(&mut self) -> Handoff;
}

/// Opens a message service for each context.
pub trait MessageServiceFactory<S: Store>: Send + Sync + 'static {
    /// A service for one context.
    fn open(&self) -> Box<dyn MessageService<S>>;

    /// Where messages go, for people.
    fn describe(&self) -> String;
}

/// What was collected so far.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    limits: Limits,
    codecs: Codecs,
    messages: Vec<JobMessage>,
    /// So many of them are as they are to be stored.
    encoded: usize,
}

impl Collected {
    pub(crate) fn new(limits: Limits, codecs: Codecs) -> Self {
        Self { limits, codecs, messages: Vec::new(), encoded: 0 }
    }

    pub(crate) fn send(&mut self, job: NewJob) -> Result<JobId> {
        let message = job.validate(self.limits)?;
        let id = message.id;
        self.messages.push(message);
        Ok(id)
    }

    /// Makes them what is to be stored. At the flush and not before: what is looked at until then is plain, and what is rolled back was
    /// never encoded.
    pub(crate) fn encode(&mut self) -> Result<()> {
        if !self.codecs.is_empty() {
            for message in &mut self.messages[self.encoded..] {
                self.codecs.message(message)?;
                self.encoded += 1;
            }
        }
        Ok(())
    }

    pub(crate) fn messages(&self) -> &[JobMessage] {
        &self.messages
    }

    pub(crate) fn messages_mut(&mut self) -> &mut [JobMessage] {
        &mut self.messages
    }

    pub(crate) fn take(&mut self) -> Vec<JobMessage> {
        self.encoded = 0;
        std::mem::take(&mut self.messages)
    }
}
