//! Producers and executors as separate processes, which can be killed.
//!
//! A producer writes the ids of its jobs into the table `sent` in the transaction that sends them. So the database knows what was committed, whatever
//! became of the process.

use std::path::PathBuf;
use std::time::Duration;

use jobwright::{BrokerConfig, CommandExecutor, Context, DatabaseConfig, ErrorKind, JobId, MessageServices, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::delivery::site::{Site, note};
use crate::support::environment::{World, at_once, lease};
use crate::support::postgres::Pg;
use crate::support::process::{Sign, Worker, role};

/// How often a process reports its state.
const TELL: Duration = Duration::from_millis(200);

/// The task of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Runs `note`; and `wait`, which waits for the sign first.
    Executor { concurrency: usize, lease: u64, sign: Option<PathBuf> },
    /// Commits `batch` jobs each `pause` milliseconds.
    Producer { batch: usize, pause: u64 },
    /// Waits until deliveries go through, reports that, and after the sign commits one batch.
    OnceProducer { batch: usize, sign: PathBuf },
}

/// The orders of a worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) name: String,
    role: Role,
    database: String,
    schema: String,
    broker: String,
    prefix: String,
    /// The file to which it reports its state.
    tells: PathBuf,
}

/// The state of a process, as it last reported it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) up: bool,
    pub(crate) committed: u64,
    /// Commits that failed for sure; those in doubt are counted separately.
    pub(crate) failed: u64,
    pub(crate) in_doubt: u64,
    pub(crate) done: u64,
    pub(crate) claimed: u64,
    pub(crate) delivered: u64,
    pub(crate) stale: u64,
    pub(crate) refused: u64,
}

impl Orders {
    pub(crate) fn new(name: &str, role: Role, database: &DatabaseConfig, broker: &BrokerConfig, tells: &Sign) -> Self {
        Self {
            name: name.to_owned(),
            role,
            database: database.url.expose().to_owned(),
            schema: database.schema.clone(),
            broker: broker.url.as_ref().unwrap().expose().to_owned(),
            prefix: broker.prefix.clone(),
            tells: tells.path().to_owned(),
        }
    }

    pub(crate) fn start(&self) -> Worker {
        Worker::start(concat!(module_path!(), "::process"), &json!(self))
    }

    /// Returns the same orders, reporting to another file.
    pub(crate) fn telling(&self, tells: &Sign) -> Self {
        Self { tells: tells.path().to_owned(), ..self.clone() }
    }

    fn tell(&self, told: Told) {
        Sign::at(&self.tells).give(&json!(told).to_string());
    }
}

/// Returns the last reported state of a process.
pub(crate) fn told(sign: &Sign) -> Told {
    sign.text().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Creates the table that producers write.
pub(crate) async fn create_sent(site: &Site) {
    site.db.raw("create table {schema}.sent (id uuid primary key)").await;
}

/// Returns the committed jobs.
pub(crate) async fn sent(site: &Site) -> Vec<JobId> {
    let client = site.db.client().await;
    let rows = client.query("select id from sent", &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, Uuid>(0).into()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of other tests"]
async fn process() {
    let Some(role) = role() else { return };
    let orders: Orders = serde_json::from_value(role).unwrap();
    let database = DatabaseConfig::url(orders.database.clone())
        .schema(orders.schema.clone())
        .max_connections(6)
        .call_timeout(Duration::from_secs(5));
    let broker = BrokerConfig::url(orders.broker.clone())
        .prefix(orders.prefix.clone())
        .heartbeat(Duration::from_secs(2))
        .confirm_timeout(Duration::from_secs(3))
        .connect_timeout(Duration::from_secs(3));
    // A process may be started in the middle of an outage.
    let messages = loop {
        match MessageServices::postgres(&database).await {
            Ok(messages) => break messages,
            Err(error) => eprintln!("{}: {error}", orders.name),
        }
        tokio::time::sleep(TELL).await;
    };
    let messages = messages.with_broker(&broker).await.unwrap();
    match &orders.role {
        Role::Executor { concurrency, lease, sign } => {
            execute(&orders, messages, *concurrency, *lease, sign.clone()).await;
        }
        Role::Producer { batch, pause } => produce(&orders, &messages, *batch, Duration::from_millis(*pause)).await,
        Role::OnceProducer { batch, sign } => produce_once(&orders, &messages, *batch, sign).await,
    }
}

async fn execute(orders: &Orders, messages: MessageServices, concurrency: usize, seconds: u64, sign: Option<PathBuf>) {
    let config = lease(seconds).name(orders.name.clone()).poll_interval(Duration::from_secs(1));
    let executor = loop {
        let sign = sign.clone();
        let builder = CommandExecutor::builder(messages.clone())
            .config(config.clone())
            .queue("default", concurrency)
            .kind_options("note", at_once())
            .kind_options("wait", at_once())
            .handle_with("note", |cx| {
                Box::pin(async move {
                    let line = cx.job().id.to_string();
                    Pg::<false>::note(cx.transaction().await?, &line).await?;
                    Ok(Outcome::Done)
                })
            })
            .handle_with("wait", move |cx| {
                let sign = sign.clone();
                Box::pin(async move {
                    if let Some(sign) = &sign {
                        Sign::at(sign).given().await;
                    }
                    let line = cx.job().id.to_string();
                    Pg::<false>::note(cx.transaction().await?, &line).await?;
                    Ok(Outcome::Done)
                })
            });
        match builder.start().await {
            Ok(executor) => break executor,
            Err(error) => eprintln!("{}: {error}", orders.name),
        }
        tokio::time::sleep(TELL).await;
    };
    loop {
        let stats = executor.stats();
        orders.tell(Told {
            up: messages.broker().is_some_and(|broker| broker.mode().is_up()),
            done: stats.done,
            claimed: stats.claimed,
            delivered: stats.delivered,
            stale: stats.stale,
            refused: stats.refused,
            ..Told::default()
        });
        tokio::time::sleep(TELL).await;
    }
}

/// Begins a unit of work with `batch` jobs, and records their ids. `None`: the database does not answer.
async fn unit(messages: &MessageServices, batch: usize) -> Option<Context> {
    let mut cx = messages.begin();
    let mut ids = Vec::with_capacity(batch);
    for _ in 0..batch {
        // Attempts enough for many kills.
        ids.push(*cx.send(note().max_attempts(1000)).unwrap().as_uuid());
    }
    let transaction = cx.transaction().await.ok()?;
    transaction.execute("insert into sent (id) select unnest($1::uuid[])", &[&ids]).await.ok()?;
    Some(cx)
}

async fn produce(orders: &Orders, messages: &MessageServices, batch: usize, pause: Duration) {
    let told = std::sync::Mutex::new(Told::default());
    let telling = async {
        loop {
            let up = messages.broker().is_some_and(|broker| broker.mode().is_up());
            let now = Told { up, ..*told.lock().unwrap() };
            orders.tell(now);
            tokio::time::sleep(TELL).await;
        }
    };
    // Commits that a fault delayed are caught up with, so that the rate holds.
    let producing = async {
        let mut clock = tokio::time::interval(pause);
        loop {
            clock.tick().await;
            let outcome = match unit(messages, batch).await {
                Some(cx) => Some(cx.commit().await),
                None => None,
            };
            let mut told = told.lock().unwrap();
            match outcome {
                Some(Ok(())) => told.committed += batch as u64,
                Some(Err(error)) if matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Timeout) => {
                    told.in_doubt += batch as u64;
                }
                _ => told.failed += batch as u64,
            }
        }
    };
    tokio::join!(telling, producing);
}

async fn produce_once(orders: &Orders, messages: &MessageServices, batch: usize, sign: &PathBuf) {
    let commit = async |batch| unit(messages, batch).await.unwrap().commit_confirmed().await.unwrap();
    while commit(1).await.broker == 0 {}
    orders.tell(Told { up: true, ..Told::default() });
    Sign::at(sign).given().await;
    let went = commit(batch).await;
    orders.tell(Told { up: true, committed: went.broker as u64, ..Told::default() });
    std::future::pending::<()>().await;
}
