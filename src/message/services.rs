use std::sync::Arc;
use std::time::Duration;

use super::hooks::{SendHook, SendHooks, apply};
use super::local::LocalService;
use super::pipe::Pipe;
use super::rabbitmq::RabbitMqService;
use super::table::TableService;
use super::together::Together;
use super::{BoxError, Enlisted, MessageService, WakeUp, WhenFull};
use crate::admin::Admin;
use crate::broker::Broker;
use crate::codec::{Codec, Codecs};
use crate::config::{Access, BrokerConfig, Config, DatabaseConfig};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::{IntoJob, Job, JobId, Limits, NewJob};
use crate::store::{AnyStore, JobStore, MigrationStatus, Postgres, Store};

/// What an application keeps: a store and the message services on it. Cheap to clone.
pub struct MessageServices<S: Store = Postgres> {
    pub(crate) shared: Arc<Shared<S>>,
}

impl<S: Store> Clone for MessageServices<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// Makes a service around another one.
type Wrap<S> = Arc<dyn Fn(Box<dyn MessageService<S>>) -> Box<dyn MessageService<S>> + Send + Sync>;

/// What units of work have in common.
#[derive(Clone)]
pub(crate) struct Shared<S: Store> {
    pub(crate) store: S,
    pub(crate) jobs: Arc<dyn JobStore>,
    /// For contexts that open no transaction.
    pub(super) together: Arc<Together>,
    pub(crate) wakeup: Arc<WakeUp>,
    /// To the broker, if there is one.
    pipe: Option<Arc<Pipe>>,
    /// Executors take in what foreign producers submit.
    pub(crate) intake: bool,
    pub(crate) limits: Limits,
    pub(crate) codecs: Codecs,
    /// The test kit's, which write nothing, and the program's own around them; the innermost first.
    watchers: Vec<Wrap<S>>,
    wraps: Vec<Wrap<S>>,
    hooks: Arc<Vec<Arc<SendHook>>>,
    pub(super) when_full: WhenFull,
    /// Deadline for one call to the store.
    pub(crate) call_timeout: Duration,
}

impl<S: Store> Shared<S> {
    /// The services of one unit of work.
    pub(crate) fn open(self: &Arc<Self>) -> Box<dyn MessageService<S>> {
        let table = TableService::new(self.clone());
        let wakeup = self.wakeup.clone();
        // The hand-over has the first choice, then the broker; what both leave waits in the table.
        let ours: Box<dyn MessageService<S>> = match &self.pipe {
            Some(pipe) => Box::new(LocalService::around(RabbitMqService::around(table, pipe.clone()), wakeup)),
            None => Box::new(LocalService::around(table, wakeup)),
        };
        let all = self.watchers.iter().chain(&self.wraps).fold(ours, |inner, wrap| wrap(inner));
        if self.hooks.is_empty() { all } else { Box::new(SendHooks::around(all, self.hooks.clone())) }
    }

    /// Whether services of the program stand around ours.
    pub(crate) fn is_wrapped(&self) -> bool {
        !self.wraps.is_empty()
    }

    /// A job as the send hooks leave it.
    pub(crate) fn hooked(&self, job: NewJob) -> Result<NewJob> {
        apply(&self.hooks, job, None)
    }
}

impl<S: Store> MessageServices<S> {
    /// Message services that flush into the job table of `store`.
    pub fn new(store: S, config: &DatabaseConfig) -> Self {
        let jobs = store.jobs();
        Self {
            shared: Arc::new(Shared {
                store,
                together: Together::new(jobs.clone()),
                wakeup: Arc::new(WakeUp::new(jobs.clone())),
                jobs,
                pipe: None,
                intake: false,
                limits: Limits { payload: config.max_payload.max(1), ..Limits::default() },
                codecs: Codecs::default(),
                watchers: Vec::new(),
                wraps: Vec::new(),
                hooks: Arc::default(),
                when_full: WhenFull::default(),
                call_timeout: config.call_timeout,
            }),
        }
    }

    /// To be changed: who has a clone keeps what it has.
    fn setting(&mut self) -> &mut Shared<S> {
        Arc::make_mut(&mut self.shared)
    }

    /// Puts a message service of the program around those there are: whatever is sent from here on goes through it, and so does its flush and
    /// its commit. Called again, the next one stands around that. `around` is called for each unit of work, at its first `send`.
    #[must_use]
    pub fn wrap<M: MessageService<S> + 'static>(
        mut self,
        around: impl Fn(Box<dyn MessageService<S>>) -> M + Send + Sync + 'static,
    ) -> Self {
        self.setting().wraps.push(Arc::new(move |inner| Box::new(around(inner))));
        self
    }

    /// Puts one around ours that writes nothing and never fails. It stands within those of the program, and changes nothing for them.
    pub(crate) fn watch<M: MessageService<S> + 'static>(
        mut self,
        around: impl Fn(Box<dyn MessageService<S>>) -> M + Send + Sync + 'static,
    ) -> Self {
        self.setting().watchers.push(Arc::new(move |inner| Box::new(around(inner))));
        self
    }

    /// Delivers through a broker from now on, whenever it is up; without a URL in `config` everything stays as it is. Waits until
    /// the broker has answered once, at most [`connect_timeout`](BrokerConfig::connect_timeout).
    ///
    /// # Errors
    /// When the configuration can't be used; or, if the broker is [`required`](BrokerConfig::required), when it does not answer.
    /// Otherwise one that does not answer is no error: messages go by the table until it does.
    pub async fn with_broker(mut self, config: &BrokerConfig) -> Result<Self> {
        if config.url.is_none() {
            if config.required {
                return Err(Error::config("broker.required is set, but there is no broker.url"));
            }
            return Ok(self);
        }
        let broker = Broker::start(config)?;
        if config.required {
            broker.up_within(config.connect_timeout).await?;
        } else {
            let mut changes = broker.changes();
            // The first news decides, good or bad; the supervisor logs it and keeps trying.
            if !changes.borrow_and_update().is_up() {
                let _ = tokio::time::timeout(config.connect_timeout, changes.changed()).await;
            }
        }
        let shared = self.setting();
        shared.limits.direct_reply = config.direct_reply;
        shared.pipe = Some(Pipe::new(broker, shared.jobs.clone(), shared.wakeup.clone(), config.depth));
        shared.intake = config.intake;
        Ok(self)
    }

    /// Keeps the content of jobs as this codec makes it. Called again, the next one encodes what those before it have made: add
    /// `Seal` last. All programs on a database should have the same, executors above all.
    #[must_use]
    pub fn with_codec(mut self, codec: impl Codec) -> Self {
        let shared = self.setting();
        shared.codecs = shared.codecs.and(Arc::new(codec), shared.limits.payload);
        self
    }

    /// What commits do when a queue is full, unless their context says otherwise.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.setting().when_full = when_full;
        self
    }

    /// Calls `hook` with each job before it is collected, and sends what it returns; `Some` is the job whose handler sends it.
    /// An error refuses the job: the `send` fails, the context stays usable. Hooks are called in the order they were added, on
    /// whatever is sent through these services from then on: a context, a handler (events and replies too), an enlisted
    /// transaction. They do not see what a [message service](Self::wrap) of the program sends by itself, nor what SQL, foreign producers or
    /// other programs send.
    ///
    /// ```no_run
    /// # fn f(messages: jobwright::MessageServices) -> jobwright::MessageServices {
    /// messages.on_send(|job, sender| {
    ///     if job.terms().tenant.is_some() {
    ///         return Ok(job);
    ///     }
    ///     match sender.and_then(|sender| sender.terms.tenant.as_ref()) {
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

    /// The broker, if there is one.
    pub fn broker(&self) -> Option<&Arc<Broker>> {
        self.shared.pipe.as_ref().map(|pipe| pipe.broker())
    }

    /// Opens a unit of work. Costs nothing until it is used.
    pub fn begin(&self) -> Context<S> {
        Context::new(self.shared.clone(), self.shared.when_full)
    }

    /// Sends one message in a transaction of its own. Returns its id; if it is unique and was not sent, that of the job that is there.
    ///
    /// # Errors
    /// When the message is refused, or could not be stored.
    pub async fn send(&self, job: impl IntoJob<S>) -> Result<JobId> {
        let mut context = self.begin();
        let id = context.send(job)?;
        let handoff = context.hand_off().await?;
        Ok(handoff.kept().iter().find(|(sent, _)| *sent == id).map_or(id, |(_, holder)| *holder))
    }

    /// Brings the schema up to this build. Safe when many processes start at once.
    ///
    /// # Errors
    /// When the schema is newer than this build, was changed by hand, or the role may not create it.
    pub async fn migrate(&self) -> Result<Vec<MigrationStatus>> {
        self.shared.jobs.migrate().await
    }

    /// Waits until the deliveries and wake-ups that commits so far caused have been sent to other processes. A program that ends right after a
    /// commit should call it; otherwise executors elsewhere may find its jobs only at their next poll. Bounded by
    /// `database.call_timeout`.
    pub async fn wake_ups_sent(&self) {
        // Each is one call to the broker or the store, which have their deadlines; what is late is only a hint.
        let sent = async {
            if let Some(pipe) = &self.shared.pipe {
                pipe.settled().await;
            }
            self.shared.wakeup.sent().await;
        };
        let _ = tokio::time::timeout(self.shared.call_timeout, sent).await;
    }

    /// Looks whether jobs of this queue can go through the broker now. Otherwise that is found out beside the first ones sent to
    /// it, which go by the table: a program that sends a few and ends would never use the broker. Does nothing without one, and is
    /// never needed.
    pub async fn prepare(&self, queue: &str) {
        if let Some(pipe) = &self.shared.pipe {
            pipe.prepare(queue).await;
        }
    }

    /// The management side of the store. What a codec made is not decoded here, but by [`admin`](Self::admin).
    pub fn jobs(&self) -> &Arc<dyn JobStore> {
        &self.shared.jobs
    }

    /// For operators: looks at jobs and steers them.
    pub fn admin(&self) -> Admin {
        Admin::new(self.shared.jobs.clone(), self.shared.wakeup.clone(), self.shared.codecs.clone())
    }

    /// The store itself.
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Where messages go, for people.
    pub fn describe(&self) -> String {
        let table = format!("job table of {}", self.shared.jobs.describe());
        match self.broker() {
            Some(broker) => format!("{table}, delivered through {}", broker.describe()),
            None => table,
        }
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

    /// Joins a transaction that the caller owns and will commit.
    pub fn enlist<'t, 'c>(
        &self,
        transaction: &'t tokio_postgres::Transaction<'c>,
    ) -> Enlisted<'t, Postgres, tokio_postgres::Transaction<'c>> {
        Enlisted::new(self.shared.clone(), transaction)
    }
}

impl MessageServices<AnyStore> {
    /// Connects to whatever the URLs name: the database, and the broker if there is one. The schema of an embedded database is brought up at once: nobody else will do it.
    ///
    /// # Errors
    /// When the configuration can't be used, or the database (or a broker that is required) can't be reached.
    pub async fn connect(config: &Config) -> Result<Self> {
        let database = DatabaseConfig { history: config.history.clone(), ..config.database.clone() };
        let services = Self::new(AnyStore::connect(&database).await?, &database);
        if services.shared.store.is_embedded() && database.access != Access::Look {
            services.migrate().await?;
        }
        services.with_broker(&config.broker).await
    }
}

#[cfg(feature = "sqlite")]
impl MessageServices<crate::Sqlite> {
    /// Opens an embedded database and brings its schema up: nobody else will.
    ///
    /// # Errors
    /// When the file can't be opened or written.
    pub async fn sqlite(config: &DatabaseConfig) -> Result<Self> {
        let services = Self::new(crate::Sqlite::open(config).await?, config);
        services.migrate().await?;
        Ok(services)
    }

    /// Joins a transaction that the caller has open on a connection of its own to the same file.
    pub fn enlist<'t>(
        &self,
        connection: &'t rusqlite::Connection,
    ) -> Enlisted<'t, crate::Sqlite, rusqlite::Connection> {
        Enlisted::new(self.shared.clone(), connection)
    }
}
