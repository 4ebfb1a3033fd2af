//! The setting of a test: a database with a ledger, and its own names at a broker.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::internal::{Names, broker_testing as testing};
use jobwright::{
    Broker, BrokerConfig, CommandExecutor, ExecutorBuilder, ExecutorConfig, JobId, MessageServices, NewJob, Outcome,
};
use lapin::{Connection, ConnectionProperties};

use crate::delivery::amqp_client::Client;
use crate::support::environment::{Gate, PATIENCE, World, at_once, lease};
use crate::support::postgres::Pg;
use crate::support::{amqp_url, eventually, pause, unique};

/// Closes every broker handle it gave out, and deletes what these declared at the broker, when it is dropped.
pub(crate) struct Site<W: World = Pg<false>> {
    pub(crate) db: W,
    pub(crate) url: String,
    prefix: String,
    brokers: Mutex<Vec<Arc<Broker>>>,
    /// Queues of jobs that tests of this site use.
    queues: Mutex<Vec<String>>,
    /// The broker ends with the test, and its queues with it.
    private: bool,
    runtime: tokio::runtime::Handle,
}

impl<W: World> Site<W> {
    /// Opens a site on the broker that all tests share. `None`: this run does without servers.
    pub(crate) async fn open() -> Option<Self> {
        let url = amqp_url()?;
        Some(Self::new(W::with_ledger().await?, url, false))
    }

    /// Opens a site on a private broker, which need not run yet.
    pub(crate) async fn on(url: String) -> Option<Self> {
        Some(Self::new(W::with_ledger().await?, url, true))
    }

    /// Creates a site with this database.
    #[allow(dead_code, reason = "this file is shared")]
    pub(crate) fn with(db: W, url: String) -> Self {
        Self::new(db, url, true)
    }

    fn new(db: W, url: String, private: bool) -> Self {
        Self {
            db,
            url,
            prefix: unique("t."),
            brokers: Mutex::default(),
            queues: Mutex::new(vec!["default".to_owned()]),
            private,
            runtime: tokio::runtime::Handle::current(),
        }
    }

    /// Returns the broker's configuration: queues have names, so that they can all be deleted, and faults are noticed soon.
    pub(crate) fn broker(&self) -> BrokerConfig {
        BrokerConfig::url(self.url.clone())
            .prefix(self.prefix.clone())
            .heartbeat(Duration::from_secs(2))
            .connect_timeout(Duration::from_secs(5))
            .confirm_timeout(Duration::from_secs(5))
    }

    /// Returns the configuration for another address, such as that of a proxy.
    pub(crate) fn broker_by(&self, address: SocketAddr) -> BrokerConfig {
        let (scheme, rest) = self.url.split_once("://").unwrap();
        let (authority, vhost) = rest.split_once('/').unwrap();
        let (credentials, _) = authority.rsplit_once('@').unwrap();
        let url = format!("{scheme}://{credentials}@{address}/{vhost}");
        self.broker().with_url(url)
    }

    /// Returns the address that a proxy connects to.
    pub(crate) fn address(&self) -> String {
        let (_, rest) = self.url.split_once('@').unwrap();
        rest.split('/').next().unwrap().to_owned()
    }

    pub(crate) fn names(&self) -> Names {
        Names::new(self.prefix.clone())
    }

    /// Adds a queue of jobs besides `default`, to be removed at the end.
    pub(crate) fn uses(&self, queue: &str) {
        self.queues.lock().unwrap().push(queue.to_owned());
    }

    /// Returns how many jobs of this queue can start.
    pub(crate) async fn waiting(&self, queue: &str) -> usize {
        let jobs = self.db.jobs().all().await;
        jobs.iter().filter(|job| job.queue == queue && job.state == JobState::Waiting).count()
    }

    /// Returns what one process has: its own connections to the database and to the broker, which is up.
    pub(crate) async fn messages(&self) -> MessageServices<W::Store> {
        let messages = self.messages_with(&self.broker()).await;
        messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
        messages
    }

    /// Returns the same with another configuration; the broker may be down.
    pub(crate) async fn messages_with(&self, config: &BrokerConfig) -> MessageServices<W::Store> {
        let messages = self.db.messages().await;
        self.with_broker(messages, config).await
    }

    /// Returns the same with these connections to the database.
    pub(crate) async fn with_broker(
        &self,
        messages: MessageServices<W::Store>,
        config: &BrokerConfig,
    ) -> MessageServices<W::Store> {
        let messages = messages.with_broker(config).await.unwrap();
        self.brokers.lock().unwrap().extend(messages.broker().cloned());
        messages
    }

    /// Connects a client to the same broker.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.url).await
    }

    /// Sends one job at a time until one goes through the broker: then the queue is known to have a consumer. Returns the jobs sent.
    pub(crate) async fn warm(&self, messages: &MessageServices<W::Store>, job: impl Fn() -> NewJob) -> Vec<JobId> {
        let mut ids = Vec::new();
        eventually(PATIENCE, async || {
            let mut cx = messages.begin();
            ids.push(cx.send(job()).unwrap());
            cx.commit_confirmed().await.unwrap().broker == 1
        })
        .await;
        ids
    }

    /// Asserts that every committed job took effect once.
    pub(crate) async fn settled(&self, ids: &[JobId]) {
        let (jobs, begun) = (self.db.jobs(), Instant::now());
        loop {
            let left = jobs.all().await;
            if left.is_empty() {
                break;
            }
            let some = &left[..left.len().min(3)];
            assert!(begun.elapsed() < PATIENCE * 2, "{} jobs are left, such as {some:?}", left.len());
            tokio::time::sleep(pause(begun.elapsed())).await;
        }
        self.db.each_once(ids).await;
    }

    /// Returns all queue names that may exist at the broker.
    fn all_queues(&self) -> Vec<String> {
        let names = self.names();
        let mut all = vec![names.submit(), names.rejected(), names.reply(), names.rejected_reports(), names.dead()];
        for queue in self.queues.lock().unwrap().iter() {
            all.extend([names.deliveries(queue), names.external(queue)]);
        }
        all
    }
}

impl<W: World> Drop for Site<W> {
    /// Cleans up on a separate thread, because the test's runtime is busy with the test. Handles are closed first: a remaining consumer would declare
    /// its queue again.
    fn drop(&mut self) {
        let brokers = std::mem::take(&mut *self.brokers.lock().unwrap());
        let (url, queues) = (self.url.clone(), self.all_queues());
        let mut exchanges = vec![self.names().events(), self.names().dead()];
        let (private, runtime) = (self.private, self.runtime.clone());
        let clean = move || {
            runtime.block_on(async {
                for broker in &brokers {
                    exchanges.extend(testing::marks(broker).await);
                    broker.close(Duration::from_millis(500)).await;
                }
            });
            if private {
                return Ok(());
            }
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(delete(&url, &queues, &exchanges))
        };
        match std::thread::spawn(clean).join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("queues of {} were left behind: {error}", self.prefix),
            Err(_) => eprintln!("queues of {} were left behind", self.prefix),
        }
    }
}

async fn delete(url: &str, queues: &[String], exchanges: &[String]) -> lapin::Result<()> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    for queue in queues {
        // Deleting a missing queue is no error.
        channel.queue_delete(queue.as_str().into(), lapin::options::QueueDeleteOptions::default()).await?;
    }
    for exchange in exchanges {
        channel.exchange_delete(exchange.as_str().into(), lapin::options::ExchangeDeleteOptions::default()).await?;
    }
    connection.close(200, "".into()).await
}

/// Configures an executor that polls often, and whose lease survives when the machine is busy.
pub(crate) fn brisk() -> ExecutorConfig {
    lease(15).poll_interval(Duration::from_millis(100))
}

/// Returns a job that writes its line.
pub(crate) fn note() -> NewJob {
    NewJob::json("note", &())
}

/// Returns a job that waits at the gate, then writes its line.
pub(crate) fn wait() -> NewJob {
    NewJob::json("wait", &())
}

/// Sends jobs in one commit, and does not wait for the broker.
pub(crate) async fn send<S: Store>(
    messages: &MessageServices<S>,
    count: usize,
    job: impl Fn() -> NewJob,
) -> Vec<JobId> {
    let mut cx = messages.begin();
    let ids = (0..count).map(|_| cx.send(job()).unwrap()).collect();
    cx.commit().await.unwrap();
    ids
}

/// Builds an executor of the kinds `note` and `wait` on the queue `default`; `wait` waits at the gate.
pub(crate) fn keeper<W: World>(
    messages: &MessageServices<W::Store>,
    config: ExecutorConfig,
    concurrency: usize,
    gate: &Gate,
) -> ExecutorBuilder<W::Store> {
    let gate = gate.clone();
    CommandExecutor::builder(messages.clone())
        .config(config)
        .queue("default", concurrency)
        .kind_options("note", at_once())
        .kind_options("wait", at_once())
        .handle_with("note", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
        .handle_with("wait", move |cx| {
            let gate = gate.clone();
            Box::pin(async move {
                gate.pass().await;
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
}

/// Starts an executor of `note` with an open gate.
pub(crate) async fn noting<W: World>(
    messages: &MessageServices<W::Store>,
    config: ExecutorConfig,
    concurrency: usize,
) -> CommandExecutor<W::Store> {
    let gate = Gate::closed();
    gate.open();
    keeper::<W>(messages, config, concurrency, &gate).start().await.unwrap()
}
