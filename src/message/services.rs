//! The message services of an application: how they are put together, and what they are asked for.

use std::fmt;
use std::sync::Arc;

use super::{MessageService, Sent, Shared, WhenFull};
use crate::codec::Codec;
use crate::config::{Access, Config, DatabaseConfig};
use crate::error::{BoxError, Result};
use crate::job::{Job, NewJob, check_name};
use crate::store::schedules::TravelledSchedules;
use crate::store::{AnyStore, Hint, JobStore, MigrationStatus, Postgres, Store};

/// An application's store and the message services on it. Other libraries call this a client. Cheap to clone.
pub struct MessageServices<S: Store = Postgres> {
    pub(crate) shared: Arc<Shared<S>>,
}

impl<S: Store> Clone for MessageServices<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S: Store> MessageServices<S> {
    /// Creates message services that flush into the job table of `store`.
    pub fn new(store: S, config: &DatabaseConfig) -> Self {
        Self { shared: Arc::new(Shared::new(store, config)) }
    }

    /// Returns the settings for a change; existing clones keep the old ones.
    pub(super) fn setting(&mut self) -> &mut Shared<S> {
        Arc::make_mut(&mut self.shared)
    }

    /// Wraps the existing message services in a custom one. Everything sent from here on goes through it, including flush and commit. A
    /// further call wraps the result again. `around` is called for each unit of work, at its first `send`.
    #[must_use]
    pub fn wrap<M: MessageService<S> + 'static>(
        mut self,
        around: impl Fn(Box<dyn MessageService<S>>) -> M + Send + Sync + 'static,
    ) -> Self {
        self.setting().wraps.push(Arc::new(move |inner| Box::new(around(inner))));
        self
    }

    /// Wraps the built-in services in one that writes nothing and never fails. Custom services wrap it in turn, and notice no difference.
    pub(crate) fn watch<M: MessageService<S> + 'static>(
        mut self,
        around: impl Fn(Box<dyn MessageService<S>>) -> M + Send + Sync + 'static,
    ) -> Self {
        self.setting().watchers.push(Arc::new(move |inner| Box::new(around(inner))));
        self
    }

    /// Lets schedules go by a clock that a test can put forward, unless they do already. Returns them too.
    pub(crate) fn travelling(mut self) -> (Self, Arc<TravelledSchedules>) {
        if let Some(travelled) = self.shared.travelled.clone() {
            return (self, travelled);
        }
        let travelled = Arc::new(TravelledSchedules::new(self.shared.jobs.clone()));
        let shared = self.setting();
        shared.schedules = travelled.clone();
        shared.travelled = Some(travelled.clone());
        (self, travelled)
    }

    /// Stores the content of jobs as encoded by this codec. With several codecs, each encodes the output of those before it: add `Seal`
    /// last. All programs on a database should use the same codecs, above all the executors.
    #[must_use]
    pub fn with_codec(mut self, codec: impl Codec) -> Self {
        let shared = self.setting();
        shared.codecs = shared.codecs.and(Arc::new(codec), shared.limits.payload);
        self
    }

    /// Sets what commits do when a queue is full, unless their context says otherwise.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.setting().when_full = when_full;
        self
    }

    /// Calls `hook` with each job before it is collected, and sends the job it returns. The second argument is the job whose handler sends
    /// it, if any. An error refuses the job: the `send` fails, and the context stays usable. Hooks run in the order they were added, on
    /// everything sent through these services from then on: by a context, a handler (including events and replies), an enlisted
    /// transaction or [`as_sql`](MessageServices::as_sql). They do not see what a custom [message service](Self::wrap) sends, nor what SQL of your own,
    /// external producers or other programs send.
    ///
    /// ```no_run
    /// # fn f(messages: jobwright::MessageServices) -> jobwright::MessageServices {
    /// messages.on_send(|job, sender| {
    ///     if job.options().tenant.is_some() {
    ///         return Ok(job);
    ///     }
    ///     match sender.and_then(|sender| sender.options.tenant.as_ref()) {
    ///         Some(tenant) => Ok(job.tenant(tenant)),
    ///         None => Err("it has no tenant".into()),
    ///     }
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn on_send(
        mut self,
        hook: impl Fn(NewJob, Option<&Job>) -> Result<NewJob, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.setting().hooks).push(Arc::new(hook));
        self
    }

    /// Migrates the schema to the version of this build. Safe when many processes start at once.
    ///
    /// # Errors
    /// When the schema is too new for this build, was changed by hand, or the role may not create it.
    pub async fn migrate(&self) -> Result<Vec<MigrationStatus>> {
        self.shared.jobs.migrate().await
    }

    /// Waits until the deliveries and wake-ups of all commits so far have been sent to other processes. A program that ends right after a
    /// commit should call this; otherwise executors elsewhere may find its jobs only at their next poll. Bounded by
    /// `database.call_timeout`.
    pub async fn wake_ups_sent(&self) {
        // Each is one call to the broker or the store, which have their own deadlines. A late one is only a late hint.
        let sent = async {
            if let Some(delivery_publisher) = &self.shared.delivery_publisher {
                delivery_publisher.settled().await;
            }
            self.shared.wakeup.sent().await;
        };
        let _ = tokio::time::timeout(self.shared.call_timeout, sent).await;
    }

    /// Wakes the executors of a queue after a commit that these services know nothing of: by [`as_sql`](MessageServices::as_sql), `jobwright.send`, a
    /// trigger, or SQL by hand. Executors in this process poll at once. Those of other processes are notified by the runtime of the caller, as by
    /// `select jobwright.wake('QUEUE')`; calls in quick succession are sent together. On SQLite, other processes notice each commit by themselves.
    ///
    /// Without it, such a job waits for the next poll of an executor. It is never needed after a commit of a [`Context`](crate::Context) or after
    /// [`Flushed::committed`](crate::Flushed::committed). A program that ends right after it should call [`wake_ups_sent`](Self::wake_ups_sent).
    ///
    /// # Errors
    /// When `queue` can't be the name of a queue ([`is_invalid`](crate::Error::is_invalid)): 1 to 100 bytes. Nobody was woken.
    pub fn wake(&self, queue: &str) -> Result<()> {
        check_name("queue", queue)?;
        self.shared.wakeup.notify([Hint::Queue(queue.to_owned()), Hint::Admission, Hint::Timer]);
        Ok(())
    }

    /// Returns the engine's side of the database, for the tests and the benchmark of this crate.
    #[doc(hidden)]
    pub fn engine(&self) -> &Arc<dyn JobStore> {
        &self.shared.jobs
    }

    /// Returns whether the database is down, as far as the connections of this program have found out. `None`: it is no server, but a file.
    #[doc(hidden)]
    pub fn database_is_down(&self) -> Option<bool> {
        self.shared.jobs.outage().map(|outage| outage.is_down())
    }

    /// Returns the store itself.
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Describes where messages go, for people.
    pub fn describe(&self) -> String {
        let table = format!("job table of {}", self.shared.jobs.describe());
        match self.shared.broker() {
            Some(broker) => format!("{table}, delivered through {}", broker.describe()),
            None => table,
        }
    }

    /// Returns the counters of the jobs that this process has sent through these services and their clones: by contexts, handlers and enlisted
    /// transactions that were reported as committed. Of a commit whose outcome is unknown, they count nothing. What SQL, schedules and external producers
    /// send is not among them.
    pub fn sent(&self) -> Sent {
        self.shared.sent.clone()
    }
}

impl MessageServices<Postgres> {
    /// Connects to PostgreSQL.
    ///
    /// # Errors
    /// When the configuration can't be used or the server can't be reached.
    pub async fn postgres(config: &DatabaseConfig) -> Result<Self> {
        Ok(Self::new(Postgres::connect(config).await?, config))
    }

    /// Connects to PostgreSQL, with the application's pool for contexts and handlers. See [`Postgres::with_pool`].
    ///
    /// # Errors
    /// If the configuration can't be used or the server can't be reached, or if the pool leads to another database.
    pub async fn postgres_with(pool: deadpool_postgres::Pool, config: &DatabaseConfig) -> Result<Self> {
        Ok(Self::new(Postgres::with_pool(pool, config).await?, config))
    }
}

#[cfg(feature = "sqlx-0_8")]
impl MessageServices<crate::sqlx_0_8::Sqlx> {
    /// Connects to PostgreSQL, with the application's pool for contexts and handlers. See [`Sqlx::connect`](crate::sqlx_0_8::Sqlx::connect).
    ///
    /// # Errors
    /// If the configuration can't be used or the server can't be reached, or if the pool leads to another database.
    pub async fn sqlx_0_8(pool: sqlx_0_8::PgPool, config: &DatabaseConfig) -> Result<Self> {
        Ok(Self::new(crate::sqlx_0_8::Sqlx::connect(pool, config).await?, config))
    }
}

#[cfg(feature = "sqlx-0_9")]
impl MessageServices<crate::sqlx_0_9::Sqlx> {
    /// Connects to PostgreSQL, with the application's pool for contexts and handlers. See [`Sqlx::connect`](crate::sqlx_0_9::Sqlx::connect).
    ///
    /// # Errors
    /// If the configuration can't be used or the server can't be reached, or if the pool leads to another database.
    pub async fn sqlx_0_9(pool: sqlx_0_9::PgPool, config: &DatabaseConfig) -> Result<Self> {
        Ok(Self::new(crate::sqlx_0_9::Sqlx::connect(pool, config).await?, config))
    }
}

impl MessageServices<AnyStore> {
    /// Connects to what the URLs name: the database, and the broker if there is one. Migrates the schema of an embedded database at once,
    /// because nothing else will.
    ///
    /// # Errors
    /// When the configuration can't be used or asks for a feature that this build lacks, or the database (or a broker that is required) can't be
    /// reached.
    pub async fn connect(config: &Config) -> Result<Self> {
        #[cfg(not(feature = "rabbitmq"))]
        refuse_broker(&config.broker)?;
        let database = DatabaseConfig { history: config.history.clone(), ..config.database.clone() };
        let services = Self::new(AnyStore::connect(&database).await?, &database);
        if services.shared.store.is_embedded() && database.access != Access::ReadOnly {
            services.migrate().await?;
        }
        #[cfg(feature = "rabbitmq")]
        let services = services.with_broker(&config.broker).await?;
        Ok(services)
    }
}

/// Refuses a configuration that names a broker: this build can't reach any.
#[cfg(not(feature = "rabbitmq"))]
fn refuse_broker(config: &crate::BrokerConfig) -> Result<()> {
    if config.url.is_none() && !config.required {
        return Ok(());
    }
    Err(crate::Error::config(
        "the configuration names a broker (broker.url, AMQP_URL), but this program was built without the client for RabbitMQ: turn on the feature \
         `rabbitmq` of jobwright, or remove the setting",
    ))
}

#[cfg(feature = "sqlite")]
impl MessageServices<crate::Sqlite> {
    /// Opens an embedded database and migrates its schema, because nothing else will.
    ///
    /// # Errors
    /// When the file can't be opened or written.
    pub async fn sqlite(config: &DatabaseConfig) -> Result<Self> {
        let services = Self::new(crate::Sqlite::open(config).await?, config);
        services.migrate().await?;
        Ok(services)
    }
}

impl<S: Store> fmt::Debug for MessageServices<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageServices").field("store", &self.describe()).finish_non_exhaustive()
    }
}
