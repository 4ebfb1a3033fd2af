//! An order and its invoice: a change to your data and the job it causes commit together, or not at all.
//!
//! ```sh
//! cargo run --example quickstart                                               # on the embedded database
//! DATABASE_URL=postgres://user@host/db cargo run --example quickstart          # on PostgreSQL
//! ```

#[path = "support/sql.rs"]
mod sql;
mod support;

use std::time::Duration;

use jobwright::{
    AnyStore, Command, CommandExecutor, Config, JobContext, JobError, MessageServices, Outcome, RetryAdvice,
};
use serde::{Deserialize, Serialize};
use sql::{Value::Number, Value::Text, execute, texts};
use support::Result;

/// A command: a payload with its handler. It runs on any database that the configuration names, hence `AnyStore`.
#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order: i64,
}

impl Command<AnyStore> for SendInvoice {
    const KIND: &'static str = "send-invoice";
    type State = Printer;

    async fn execute(self, cx: &mut JobContext<'_, Printer, AnyStore>) -> Result<Outcome, JobError> {
        let job = cx.job();
        println!("  send-invoice, order {}, attempt {}: writes the invoice", self.order, job.attempt);
        execute(cx.transaction().await?, "insert into invoice (order_id) values ($1)", &[Number(self.order)]).await?;
        cx.send(SendMail { order: self.order })?;
        if job.attempt <= cx.state().jams {
            println!("  … and fails: the invoice and the mail are rolled back, the job is tried again");
            let soon = RetryAdvice::After(Duration::from_millis(200));
            return Err(JobError::new("the printer is jammed").advise(soon));
        }
        Ok(Outcome::Done) // The invoice, the mail's job and the removal of this one commit together.
    }
}

/// State that the application gives to its handlers.
struct Printer {
    /// Number of attempts that fail.
    jams: u32,
}

/// A command without database writes needs no particular store, so it is implemented for all of them.
#[derive(Serialize, Deserialize)]
struct SendMail {
    order: i64,
}

impl<S: jobwright::Store> Command<S> for SendMail {
    const KIND: &'static str = "send-mail";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_, (), S>) -> Result<Outcome, JobError> {
        println!("  send-mail, order {}, attempt {}", self.order, cx.job().attempt);
        Ok(Outcome::Done)
    }
}

#[tokio::main]
async fn main() -> Result {
    support::with_scratch_database("quickstart", tour).await
}

async fn tour(config: Config) -> Result {
    let messages = MessageServices::connect(&config).await?;
    messages.migrate().await?;
    let mut cx = messages.begin();
    let tx = cx.transaction().await?;
    execute(tx, "create table orders (id bigint primary key, customer text not null)", &[]).await?;
    execute(tx, "create table invoice (order_id bigint primary key)", &[]).await?;
    cx.commit().await?;

    // A unit of work: the order and its job.
    let mut cx = messages.begin();
    let insert = "insert into orders (id, customer) values ($1, $2)";
    execute(cx.transaction().await?, insert, &[Number(1), Text("Ada")]).await?;
    let id = cx.send(SendInvoice { order: 1 })?;
    assert_eq!(cx.pending().len(), 1);
    cx.commit().await?;
    println!("order 1 and job {id}: committed together");

    // Another one, which is rolled back: neither the order nor its job ever exists.
    let mut cx = messages.begin();
    execute(cx.transaction().await?, insert, &[Number(2), Text("Bob")]).await?;
    cx.send(SendInvoice { order: 2 })?;
    cx.rollback().await?;
    println!("order 2 and its job: rolled back together\n");

    // Usually in another process: any process with the handlers can run the jobs.
    println!("the executor starts");
    let executor = CommandExecutor::builder(messages.clone())
        .command::<SendInvoice>()
        .command::<SendMail>()
        .state(Printer { jams: 1 })
        .queue("default", 10)
        .start()
        .await?;
    support::until_idle(&messages).await?;
    let stats = executor.shutdown(Duration::from_secs(5)).await?;
    println!("the executor stopped; failed attempts: {}, jobs done: {}\n", stats.failed, stats.done);

    let mut cx = messages.begin();
    let tx = cx.transaction().await?;
    let orders = texts(tx, "select customer from orders", &[]).await?;
    let invoices = texts(tx, "select cast(order_id as text) from invoice", &[]).await?;
    cx.rollback().await?;
    println!("orders of {orders:?}, invoices for orders {invoices:?}");
    assert_eq!(orders, ["Ada"]);
    assert_eq!(invoices, ["1"]);
    assert_eq!((stats.failed, stats.done), (1, 2));
    Ok(())
}
