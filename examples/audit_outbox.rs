//! A custom message service: an audit outbox. Each job that is sent leaves a line in a table of the application, in the same transaction,
//! however it is sent. Once that has committed, a listener is notified.
//!
//! ```sh
//! cargo run --example audit_outbox                                               # on the embedded database
//! DATABASE_URL=postgres://user@host/db cargo run --example audit_outbox          # on PostgreSQL
//! ```

#[path = "support/sql.rs"]
mod sql;
mod support;

use std::time::Duration;

use jobwright::{
    AnyStore, AnyTransactionRef, CommandExecutor, CommitReceipt, Config, Error, FlushInto, Job, JobId, MessageService,
    MessageServices, NewJob, Outcome, Written, async_trait,
};
use sql::{execute, texts};
use support::Result;
use tokio::sync::mpsc::UnboundedSender;
use tokio_postgres::types::ToSql;

const INSERT: &str = "insert into audit_outbox (job_id, kind, payload, sender) values ($1, $2, $3, $4)";

/// One instance for each unit of work. Methods that it does not override go to the inner service.
struct AuditOutbox {
    inner: Box<dyn MessageService<AnyStore>>,
    /// For each message, the job whose handler sent it.
    senders: Vec<String>,
    committed: UnboundedSender<String>,
}

#[async_trait]
impl MessageService<AnyStore> for AuditOutbox {
    fn inner(&self) -> Option<&dyn MessageService<AnyStore>> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<AnyStore>> {
        Some(&mut *self.inner)
    }

    fn send(&mut self, job: NewJob, sender: Option<&Job>) -> jobwright::Result<JobId> {
        if job.kind() == "forbidden" {
            return Err(Error::refused("nobody sends this"));
        }
        let id = self.inner.send(job, sender)?;
        self.senders.push(sender.map_or_else(|| "outside".to_owned(), |sender| sender.kind.clone()));
        Ok(id)
    }

    async fn flush(&mut self, into: &mut FlushInto<'_, AnyStore>) -> jobwright::Result<Written> {
        // A context that has opened no transaction gets one here, so that lines and jobs commit together.
        let transaction = into.transaction().await?;
        for (job, sender) in self.inner.pending().iter().zip(&self.senders) {
            let payload = job.payload.as_str().unwrap_or("(bytes)");
            match transaction {
                AnyTransactionRef::Postgres(transaction) => {
                    let line: [&(dyn ToSql + Sync); 4] = [&job.id.to_string(), &job.kind, &payload, sender];
                    transaction.execute(INSERT, &line).await.map_err(Error::refused)?;
                }
                AnyTransactionRef::Sqlite(transaction) => {
                    let line = [job.id.to_string(), job.kind.clone(), payload.to_owned(), sender.clone()];
                    transaction.execute(INSERT, line).await?;
                }
                _ => return Err(Error::refused("the outbox has no statement for this database")),
            }
        }
        self.inner.flush(into).await
    }

    fn committed(&mut self, written: Written) -> CommitReceipt {
        for job in written.messages() {
            // A listener may look it up now: the line is committed.
            let _ = self.committed.send(job.kind.clone());
        }
        self.inner.committed(written)
    }
}

#[tokio::main]
async fn main() -> Result {
    support::with_scratch_database("audit_outbox", tour).await
}

async fn tour(config: Config) -> Result {
    let (committed, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let messages = MessageServices::connect(&config).await?;
    messages.migrate().await?;
    let messages = messages.wrap(move |inner| AuditOutbox { inner, senders: Vec::new(), committed: committed.clone() });
    let mut cx = messages.begin();
    let table = "create table audit_outbox (job_id text primary key, kind text not null, payload text not null, sender text not null)";
    execute(cx.transaction().await?, table, &[]).await?;
    cx.commit().await?;

    // A unit of work with a transaction, one without, and one that is dropped.
    let mut cx = messages.begin();
    cx.transaction().await?;
    cx.send(NewJob::json("with", &1))?;
    cx.commit().await?;
    messages.send(NewJob::json("without", &2)).await?;
    let mut cx = messages.begin();
    cx.send(NewJob::json("given-up", &3))?;
    cx.rollback().await?;

    // A refused job: the context continues without it.
    let mut cx = messages.begin();
    if let Err(why) = cx.send(NewJob::json("forbidden", &4)) {
        println!("refused: {why}");
    }
    cx.commit().await?;

    // A job that a handler sends commits with its line and with the end of the handler's job.
    let executor = CommandExecutor::builder(messages.clone())
        .handle_with("with", |cx| {
            Box::pin(async move {
                cx.send(NewJob::json("follow-up", &5))?;
                Ok(Outcome::Done)
            })
        })
        .handle("without", |_| async { Ok(Outcome::Done) })
        .handle("follow-up", |_| async { Ok(Outcome::Done) })
        .start()
        .await?;
    support::until_idle(&messages).await?;
    executor.shutdown(Duration::from_secs(5)).await?;

    let mut cx = messages.begin();
    let tx = cx.transaction().await?;
    let lines =
        texts(tx, "select kind || ' ' || payload || ' ' || sender from audit_outbox order by kind", &[]).await?;
    cx.rollback().await?;
    println!("{lines:#?}");
    assert_eq!(lines, ["follow-up 5 with", "with 1 outside", "without 2 outside"]);
    let mut told = Vec::new();
    while let Ok(kind) = heard.try_recv() {
        told.push(kind);
    }
    assert_eq!(told, ["with", "without", "follow-up"]);
    Ok(())
}
