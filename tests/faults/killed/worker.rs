//! The worker process: an executor whose handlers log what they do.

use std::time::Duration;

use futures_util::future::BoxFuture;
use jobwright::Store;
use jobwright::{BrokerConfig, CommandExecutor, DatabaseConfig, JobContext, JobError, MessageServices, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::event_log::{Book, Line, What};
use super::load::{About, Work, follow_up, hex};
use crate::support::environment::lease;
use crate::support::postgres::Pg;
use crate::support::process::{Worker, role};
#[cfg(feature = "sqlite")]
use crate::support::sqlite::SqliteDb;

/// The orders of a worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    name: String,
    url: String,
    schema: String,
    /// The broker and the prefix of all names there.
    broker: Option<(String, String)>,
}

impl Orders {
    pub(super) fn new(name: String, database: &DatabaseConfig, broker: Option<&BrokerConfig>) -> Self {
        let broker = broker.map(|broker| (broker.url.as_ref().unwrap().expose().to_owned(), broker.prefix.clone()));
        Self { name, url: database.url.expose().to_owned(), schema: database.schema.clone(), broker }
    }

    pub(super) fn start(&self) -> Worker {
        Worker::start(concat!(module_path!(), "::worker"), &json!(self))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a worker process of other tests"]
async fn worker() {
    let Some(role) = role() else { return };
    let orders: Orders = serde_json::from_value(role).unwrap();
    let database = DatabaseConfig::url(orders.url.clone()).schema(orders.schema.clone()).max_connections(6);
    if orders.url.starts_with("sqlite:") {
        #[cfg(feature = "sqlite")]
        work::<SqliteDb>(MessageServices::sqlite(&database).await.unwrap(), &database, &orders).await;
    } else {
        let messages = MessageServices::postgres(&database).await.unwrap();
        let messages = match &orders.broker {
            Some((url, prefix)) => {
                let broker = BrokerConfig::url(url.clone()).prefix(prefix.clone());
                messages.with_broker(&broker).await.unwrap()
            }
            None => messages,
        };
        work::<Pg<false>>(messages, &database, &orders).await;
    }
}

async fn work<W: Book>(messages: MessageServices<W::Store>, database: &DatabaseConfig, orders: &Orders) {
    let pen = W::pen(database).await;
    let config = lease(1).name(orders.name.clone()).poll_interval(Duration::from_millis(200));
    let mut builder = CommandExecutor::builder(messages).config(config).queue("default", 8).queue("narrow", 6);
    for kind in ["work", "rare", "bare"] {
        let pen = pen.clone();
        builder = builder.handle_with(kind, move |cx| {
            let pen = pen.clone();
            Box::pin(async move { handle::<W>(cx, &pen).await })
        });
    }
    let _executor = builder.start().await.unwrap();
    std::future::pending::<()>().await;
}

async fn handle<W: Book>(cx: &mut JobContext<'_, (), W::Store>, pen: &W::Pen) -> Result<Outcome, JobError> {
    let job = cx.job();
    let line = |what, about| Line { job: hex(job.id), version: job.version, what, about };
    W::write(pen, line(What::Start, Some(json!(About::of(job)).to_string()))).await;
    let work: Work = job.payload.decode()?;
    tokio::time::sleep(Duration::from_millis(work.takes)).await;
    if job.attempt <= work.fails {
        W::write(pen, line(What::Failed, None)).await;
        return Err(JobError::new("as it was told"));
    }
    // Before the transaction is opened: an embedded database has one writer.
    W::write(pen, line(What::End, None)).await;
    if job.kind == "bare" {
        return Ok(Outcome::Done);
    }
    let done = finish::<W>(cx, &work).await;
    if done.is_err() {
        W::write(pen, line(What::Failed, None)).await;
    }
    done
}

/// The writes that commit with the end of the job.
fn finish<'a, W: Book>(
    cx: &'a mut JobContext<'_, (), W::Store>,
    work: &'a Work,
) -> BoxFuture<'a, Result<Outcome, JobError>>
where
    <W::Store as Store>::Transaction: Send,
{
    Box::pin(async move {
        let job = cx.job();
        let line = |job, version, what| Line { job: hex(job), version, what, about: None };
        if work.sends {
            let id = cx.send(follow_up(job))?;
            W::enter(cx.transaction().await?, line(id, 0, What::Sent)).await?;
        }
        W::enter(cx.transaction().await?, line(job.id, job.version, What::Done)).await?;
        tokio::time::sleep(Duration::from_millis(work.lingers)).await;
        std::thread::sleep(Duration::from_millis(work.blocks));
        Ok(Outcome::Done)
    })
}
