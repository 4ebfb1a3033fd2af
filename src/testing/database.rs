//! A database for each test.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::location::TestLocation;
use super::store::travel;
use super::{Inline, Runner, Stored, TestStore};
use crate::codec::Codec;
use crate::config::DatabaseConfig;
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
use crate::error::Error;
use crate::error::Result;
use crate::executor::{CommandExecutor, ExecutorBuilder};
use crate::job::{JobMessage, Limits, NewJob};
use crate::message::MessageServices;
use crate::store::schedules::TravelledSchedules;
use crate::store::{Hint, JobDetail, JobFilter, Page, Postgres, Store};

/// Jobs read at a time.
const PAGE: usize = 1000;

/// A test's own database: a schema on a PostgreSQL server, or a file. Tests with one each run in parallel. Dropping it removes everything
/// in it, and on PostgreSQL ends its connections. Databases that killed tests left behind are removed a day later.
pub struct TestDatabase<S: Store = Postgres> {
    messages: MessageServices<S>,
    schedules: Arc<TravelledSchedules>,
    config: DatabaseConfig,
    // The last field, so that it is dropped after the connections.
    _place: TestLocation,
}

impl TestDatabase<Postgres> {
    /// Creates a schema with jobwright's tables on the server of this URL. Connections made with [`config`](Self::config) look up
    /// unqualified names there first, then in `public`. So the application's own tables belong to the test if such a connection creates
    /// them. The role must be allowed to create schemas, and the URL must not go through a pooler.
    ///
    /// # Errors
    /// When the server can't be reached, or refuses.
    pub async fn postgres(url: &str) -> Result<Self> {
        let (location, config) = TestLocation::schema(url).await?;
        let (messages, schedules) = MessageServices::postgres(&config).await?.travelling();
        messages.migrate().await?;
        Ok(Self { messages, schedules, config, _place: location })
    }
}

/// What a version of sqlx adds: its types are its own.
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
macro_rules! with_sqlx {
    ($store:ty, $sqlx:ident) => {
        impl TestDatabase<$store> {
            /// Does the same as [`postgres`](TestDatabase::postgres), with transactions of sqlx. The application's pool, of at most 8 connections, is
            /// `db.messages().store().pool()`.
            ///
            /// # Errors
            /// When the server can't be reached, or refuses.
            pub async fn $sqlx(url: &str) -> Result<Self> {
                let (location, config) = TestLocation::schema(url).await?;
                let options = $sqlx::postgres::PgPoolOptions::new().max_connections(8);
                let pool = options.connect(config.url.expose()).await.map_err(|error| {
                    Error::config("sqlx can't connect to the test's database by the URL that the kit made of yours")
                        .with_source(error)
                })?;
                let (messages, schedules) = MessageServices::$sqlx(pool, &config).await?.travelling();
                messages.migrate().await?;
                Ok(Self { messages, schedules, config, _place: location })
            }
        }
    };
}

#[cfg(feature = "sqlx-0_8")]
with_sqlx! { crate::sqlx_0_8::Sqlx, sqlx_0_8 }
#[cfg(feature = "sqlx-0_9")]
with_sqlx! { crate::sqlx_0_9::Sqlx, sqlx_0_9 }

#[cfg(feature = "sqlite")]
impl TestDatabase<crate::Sqlite> {
    /// Creates a file with jobwright's tables in the directory for temporary files.
    ///
    /// # Errors
    /// When the file can't be created.
    pub async fn sqlite() -> Result<Self> {
        let (location, config) = TestLocation::directory()?;
        let (messages, schedules) = MessageServices::sqlite(&config).await?.travelling();
        Ok(Self { messages, schedules, config, _place: location })
    }
}

impl<S: TestStore> TestDatabase<S> {
    /// Returns the message services on it.
    pub fn messages(&self) -> &MessageServices<S> {
        &self.messages
    }

    /// Stores jobs as encoded by this codec, as with [`MessageServices::with_codec`]. Assertions see plain jobs.
    #[must_use]
    pub fn with_codec(mut self, codec: impl Codec) -> Self {
        self.messages = self.messages.with_codec(codec);
        self
    }

    /// Returns the configuration to connect to it, for the application's own pool or a second process.
    pub fn config(&self) -> &DatabaseConfig {
        &self.config
    }

    /// Creates a runner, which runs jobs on demand with the handlers that `setup` adds.
    ///
    /// # Errors
    /// As [`Runner::new`].
    pub async fn runner(&self, setup: impl FnOnce(ExecutorBuilder<S>) -> ExecutorBuilder<S>) -> Result<Runner<S>> {
        Runner::new(setup(CommandExecutor::builder(self.messages.clone()))).await
    }

    /// Creates message services whose commits run their jobs at once, with the handlers that `setup` adds.
    ///
    /// # Errors
    /// As [`Inline::new`].
    pub async fn inline(&self, setup: impl FnOnce(ExecutorBuilder<S>) -> ExecutorBuilder<S>) -> Result<Inline<S>> {
        Inline::new(&self.messages, setup).await
    }

    /// Returns all its jobs, in whatever state, in the order they were sent: for [`assert_sent`](super::assert_sent) after a commit. Jobs
    /// that are done are not included.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn sent(&self) -> Result<Stored<S>> {
        let jobs = &self.messages.shared.jobs;
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

    /// Lets this much time pass for jobs that are due later, for rates, and for schedules. Due dates are moved, and executors that run here
    /// check them at once. Leases, times to live, and the clocks of handlers stay as they are.
    ///
    /// Schedules go by a clock that is put forward by as much, for these message services and their clones. To an executor that uses them, the
    /// time is an outage: it treats the occurrences in it as missed ones ([`Misfire`](crate::Misfire)). [`Runner::drain_through`] fires each of
    /// them.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn travel(&self, by: Duration) -> Result<()> {
        travel(self.messages.store(), &self.schedules, by).await?;
        self.messages.shared.wakeup.notify([Hint::Any, Hint::Schedule]);
        Ok(())
    }
}

/// Converts a stored job back to the message that was sent.
fn message(detail: JobDetail) -> Result<JobMessage> {
    let JobDetail { summary, headers, payload, options, .. } = detail;
    let mut job = NewJob::new(summary.kind, payload)
        .id(summary.id)
        .queue(summary.queue)
        .priority(summary.priority)
        .max_attempts(summary.max_attempts);
    let unique = options.unique.clone();
    job.options = options;
    let job = match summary.due_at {
        Some(at) => job.at(at),
        None => job,
    };
    let job = headers.into_iter().fold(job, |job, (name, value)| job.header(name, value));
    let mut message = job.validate(Limits { payload: usize::MAX, ..Limits::default() })?;
    // As it was computed when the job was sent.
    message.options.unique = unique;
    Ok(message)
}

impl<S: Store> fmt::Debug for TestDatabase<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestDatabase({}, schema {})", self.config.url, self.config.schema)
    }
}
