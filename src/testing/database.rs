use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::place::Place;
use super::{Inline, Runner, Stored};
use crate::codec::Codec;
use crate::config::DatabaseConfig;
use crate::error::Result;
use crate::executor::{CommandExecutor, ExecutorBuilder};
use crate::job::{JobMessage, Limits, NewJob};
use crate::message::MessageServices;
use crate::store::{AnyStore, Hint, JobDetail, JobFilter, Page, Postgres, Store};

/// Jobs read at a time.
const PAGE: usize = 1000;

mod sealed {
    use std::time::Duration;

    pub trait Travel {
        fn travel(&self, by: Duration) -> impl Future<Output = crate::Result<()>> + Send;
    }
}

/// A store whose timers can be moved.
pub trait TestStore: Store + sealed::Travel {}

impl<S: Store + sealed::Travel> TestStore for S {}

impl sealed::Travel for Postgres {
    async fn travel(&self, by: Duration) -> Result<()> {
        Self::travel(self, by).await
    }
}

#[cfg(feature = "sqlite")]
impl sealed::Travel for crate::Sqlite {
    async fn travel(&self, by: Duration) -> Result<()> {
        Self::travel(self, by).await
    }
}

impl sealed::Travel for AnyStore {
    async fn travel(&self, by: Duration) -> Result<()> {
        match self {
            Self::Postgres(store) => store.travel(by).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.travel(by).await,
        }
    }
}

/// A database of a test's own: a schema on a PostgreSQL server, or a file. Tests with one each run side by side. Dropped, all of it
/// is removed, and on PostgreSQL its connections are ended; what killed tests left behind is removed a day later.
pub struct TestDatabase<S: Store = Postgres> {
    messages: MessageServices<S>,
    config: DatabaseConfig,
    // The last field: dropped when our connections are.
    _place: Place,
}

impl TestDatabase<Postgres> {
    /// A new schema on the server of this URL, with the tables of jobwright. Connections made by [`config`](Self::config) find
    /// unqualified names there first, then in `public`: the application's own tables belong to the test if they are created over
    /// them. The role must be allowed to create schemas; the URL must not go through a pooler.
    ///
    /// # Errors
    /// When the server can't be reached, or refuses.
    pub async fn postgres(url: &str) -> Result<Self> {
        let (place, config) = Place::schema(url).await?;
        let messages = MessageServices::postgres(&config).await?;
        messages.migrate().await?;
        Ok(Self { messages, config, _place: place })
    }
}

#[cfg(feature = "sqlite")]
impl TestDatabase<crate::Sqlite> {
    /// A new file in the directory for temporary files, with the tables of jobwright.
    ///
    /// # Errors
    /// When it can't be made.
    pub async fn sqlite() -> Result<Self> {
        let (place, config) = Place::directory()?;
        let messages = MessageServices::sqlite(&config).await?;
        Ok(Self { messages, config, _place: place })
    }
}

impl<S: TestStore> TestDatabase<S> {
    /// The message services on it.
    pub fn messages(&self) -> &MessageServices<S> {
        &self.messages
    }

    /// Its jobs are kept as this codec makes them, as with [`MessageServices::with_codec`]. What is asserted about is plain.
    #[must_use]
    pub fn with_codec(mut self, codec: impl Codec) -> Self {
        self.messages = self.messages.with_codec(codec);
        self
    }

    /// How to connect to it: for the application's own pool, or for a second process.
    pub fn config(&self) -> &DatabaseConfig {
        &self.config
    }

    /// Something that runs jobs when it is told to, with the handlers that `setup` adds.
    ///
    /// # Errors
    /// As [`Runner::new`].
    pub async fn runner(&self, setup: impl FnOnce(ExecutorBuilder<S>) -> ExecutorBuilder<S>) -> Result<Runner<S>> {
        Runner::new(setup(CommandExecutor::builder(self.messages.clone()))).await
    }

    /// Message services whose commits run their jobs at once, with the handlers that `setup` adds.
    ///
    /// # Errors
    /// As [`Inline::new`].
    pub async fn inline(&self, setup: impl FnOnce(ExecutorBuilder<S>) -> ExecutorBuilder<S>) -> Result<Inline<S>> {
        Inline::new(&self.messages, setup).await
    }

    /// All jobs in it, in whatever state, in the order of sending: for [`assert_sent`](super::assert_sent) after a commit. Jobs that
    /// are done are gone.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn sent(&self) -> Result<Stored<S>> {
        let jobs = self.messages.jobs();
        let mut messages = Vec::new();
        let mut page = Page { limit: PAGE, after: None };
        loop {
            let part = jobs.list(&JobFilter::default(), &page).await?;
            for job in &part {
                if let Some(detail) = jobs.show(job.id).await? {
                    messages.push(message(self.messages.shared.codecs.detail(detail))?);
                }
            }
            match part.last() {
                Some(last) if part.len() == PAGE => page.after = Some(last.seq),
                _ => return Ok(Stored { messages, store: PhantomData }),
            }
        }
    }

    /// Lets this much time pass for jobs that are due later, and for rates: due dates are moved, and executors that run here look at
    /// once. Leases, times to live, and the clocks of handlers stay as they are.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn travel(&self, by: Duration) -> Result<()> {
        self.messages.store().travel(by).await?;
        self.messages.shared.wakeup.tell([Hint::Any]);
        Ok(())
    }
}

/// A stored job as it was sent.
fn message(detail: JobDetail) -> Result<JobMessage> {
    let JobDetail { summary, headers, payload, terms, .. } = detail;
    let mut job = NewJob::new(summary.kind, payload)
        .id(summary.id)
        .queue(summary.queue)
        .priority(summary.priority)
        .max_attempts(summary.max_attempts);
    job.terms = terms;
    let job = match summary.due_at {
        Some(at) => job.at(at),
        None => job,
    };
    headers
        .into_iter()
        .fold(job, |job, (name, value)| job.header(name, value))
        .validate(Limits { payload: usize::MAX, ..Limits::default() })
}

impl<S: Store> fmt::Debug for TestDatabase<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestDatabase({}, schema {})", self.config.url, self.config.schema)
    }
}
