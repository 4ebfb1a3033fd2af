//! An executor whose jobs write the ledger, in this process or in one that can be killed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobwright::{CommandExecutor, DatabaseConfig, ExecutorConfig, JobId, MessageServices, NewJob, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::TestDb;
use crate::support::environment::{World, at_once, lease};
use crate::support::process::{Sign, Worker, role};

/// What a ledger job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Does {
    /// Writes its line.
    Note,
    /// Waits for the sign, then writes its line.
    WaitThenNote,
    /// Writes its line, and waits for the sign with its transaction open.
    NoteThenWait,
    /// Writes its line, and aborts its process.
    NoteThenAbort,
    /// Writes its line, and gives the sign if another one runs at the same time.
    Alone,
    /// Runs for two seconds, then writes its line.
    TakeLong,
    /// Aborts its process, unless it runs alone in it; then it writes its line.
    NeedMuch,
    /// Sends a job that writes its line a second and a half later.
    SendDelayed,
}

pub(crate) fn job(does: Does) -> NewJob {
    NewJob::json("ledger", &does)
}

/// Sends `count` jobs.
pub(crate) async fn send<W: World>(messages: &MessageServices<W::Store>, does: Does, count: usize) -> Vec<JobId> {
    let mut cx = messages.begin();
    let ids = (0..count).map(|_| cx.send(job(does)).unwrap()).collect();
    cx.commit().await.unwrap();
    ids
}

/// Runs ledger jobs. Without a sign, nothing waits.
pub(crate) async fn start<W: World>(
    messages: &MessageServices<W::Store>,
    config: ExecutorConfig,
    concurrency: usize,
    sign: Option<PathBuf>,
) -> CommandExecutor<W::Store> {
    CommandExecutor::builder(messages.clone())
        .config(config.poll_interval(Duration::from_millis(200)))
        .queue("default", concurrency)
        .kind_options("ledger", at_once())
        .handle_with("ledger", move |cx| {
            let sign = sign.clone();
            Box::pin(async move {
                let wait = async || {
                    if let Some(sign) = &sign {
                        Sign::at(sign).given().await;
                    }
                };
                let line = cx.job().id.to_string();
                let does: Does = cx.job().payload.decode()?;
                if does == Does::SendDelayed {
                    cx.send(job(Does::Note).delay(Duration::from_millis(1500)))?;
                    return Ok(Outcome::Done);
                }
                if does == Does::WaitThenNote {
                    wait().await;
                }
                if does == Does::TakeLong {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
                if does == Does::NeedMuch {
                    need_much().await;
                }
                if does == Does::Alone {
                    alone(sign.as_deref().expect("no sign was agreed on")).await;
                }
                W::note(cx.transaction().await?, &line).await?;
                match does {
                    Does::NoteThenWait => wait().await,
                    Does::NoteThenAbort => std::process::abort(),
                    _ => {}
                }
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap()
}

/// Gives the sign unless it was alone all the time.
async fn alone(sign: &std::path::Path) {
    let here = sign.with_extension("here");
    match std::fs::File::create_new(&here) {
        Ok(_) => {
            tokio::time::sleep(Duration::from_millis(20)).await;
            std::fs::remove_file(&here).unwrap();
        }
        Err(error) => Sign::at(sign).give(&error.to_string()),
    }
}

/// Aborts the process, as the system does that has too little memory for two such jobs.
async fn need_much() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    RUNNING.fetch_add(1, Ordering::SeqCst);
    for _ in 0..20 {
        if RUNNING.load(Ordering::SeqCst) > 1 {
            std::process::abort();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
}

/// The orders of a worker process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) name: String,
    pub(crate) lease: u64,
    pub(crate) concurrency: usize,
    pub(crate) sign: Option<PathBuf>,
    quarantine_after: u32,
    clock: Option<PathBuf>,
    url: String,
    schema: String,
    /// Its handlers have transactions of sqlx.
    sqlx: bool,
}

impl Orders {
    pub(crate) fn new(config: &DatabaseConfig, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            lease: 1,
            concurrency: 8,
            sign: None,
            quarantine_after: 0,
            clock: None,
            url: config.url.expose().to_owned(),
            schema: config.schema.clone(),
            sqlx: false,
        }
    }

    /// Makes its handlers have the transactions of this database's driver.
    pub(crate) fn on<W: World>(mut self) -> Self {
        self.sqlx = W::WITH_SQLX;
        self
    }

    /// Makes jobs wait for the sign where they are meant to.
    pub(crate) fn waiting_for(mut self, sign: &Sign) -> Self {
        self.sign = Some(sign.path().to_owned());
        self
    }

    /// Makes it hold the deaths of processes against jobs.
    pub(crate) fn quarantine_after(mut self, deaths: u32) -> Self {
        self.quarantine_after = deaths;
        self
    }

    pub(crate) fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Makes each job report how late it runs, by the worker's own clock.
    pub(crate) fn telling_time_at(mut self, sign: &Sign) -> Self {
        self.clock = Some(sign.path().to_owned());
        self
    }

    /// Starts the process with these orders.
    pub(crate) fn start(&self) -> Worker {
        self.start_with(|_| {})
    }

    /// Starts it with a changed environment.
    pub(crate) fn start_with(&self, change: impl FnOnce(&mut std::process::Command)) -> Worker {
        Worker::start_with(concat!(module_path!(), "::worker"), &json!(self), change)
    }

    pub(crate) fn database(&self) -> DatabaseConfig {
        DatabaseConfig::url(self.url.clone()).schema(self.schema.clone()).max_connections(8)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a worker process of other tests"]
async fn worker() {
    let Some(role) = role() else { return };
    let orders: Orders = serde_json::from_value(role).unwrap();
    let config = lease(orders.lease).name(orders.name.clone()).quarantine_after(orders.quarantine_after);
    let database = orders.database();
    if orders.url.starts_with("sqlite:") {
        #[cfg(feature = "sqlite")]
        {
            let messages = MessageServices::sqlite(&database).await.unwrap();
            keep::<crate::support::sqlite::SqliteDb>(&messages, config, &orders).await;
        }
    } else if orders.sqlx {
        let pool = crate::support::sqlx_0_8::db::pool(&database).await;
        let messages = MessageServices::sqlx_0_8(pool, &database).await.unwrap();
        keep::<crate::support::sqlx_0_8::SqlxDb>(&messages, config, &orders).await;
    } else {
        let messages = MessageServices::postgres(&database).await.unwrap();
        keep::<crate::support::postgres::Pg<false>>(&messages, config, &orders).await;
    }
}

async fn keep<W: World>(messages: &MessageServices<<W as TestDb>::Store>, config: ExecutorConfig, orders: &Orders) {
    let _executor = start::<W>(messages, config, orders.concurrency, orders.sign.clone()).await;
    if let Some(clock) = &orders.clock {
        let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
        Sign::at(clock).give(&now.as_secs().to_string());
    }
    std::future::pending::<()>().await;
}
