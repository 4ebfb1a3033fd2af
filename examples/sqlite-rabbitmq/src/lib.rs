//! A shop in one file of SQLite. One process runs the jobs, others take orders: an order and its job are one commit. RabbitMQ carries the jobs to the
//! process that runs them, invoices to a program that prints them, and events to all listeners. While it is down, orders go on.

use std::time::Duration;

use jobwright::{
    BrokerConfig, Command, CommandExecutor, DatabaseConfig, ExecutorBuilder, ExecutorStats, ExternalQueue, JobContext,
    JobError, JobId, MessageServices, NewJob, Outcome, RouteCounts, Sqlite,
};
use serde::{Deserialize, Serialize};

/// Any error of the shop.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The service's own tables, in the same file. A real one has its own migrations.
const SCHEMA: &str = "create table if not exists orders (
    id integer primary key,
    customer text not null,
    cents integer not null,
    invoiced integer not null default 0
)";

/// What a customer may owe, in cents.
pub const CREDIT: i64 = 100_000;

/// The queue of the program that prints, in any language.
pub const PRINTER: &str = "printer";

/// Makes the invoice of an order.
#[derive(Serialize, Deserialize)]
pub struct InvoiceOrder {
    /// Its id.
    pub order: i64,
}

impl Command<Sqlite> for InvoiceOrder {
    const KIND: &'static str = "invoice-order";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_, (), Sqlite>) -> Result<Outcome, JobError> {
        let transaction = cx.transaction().await?;
        transaction.execute("update orders set invoiced = 1 where id = ?1", (self.order,)).await?;
        // Handed to the printer over the broker; it waits while there is none.
        cx.send(NewJob::json("print-invoice", &self).queue(PRINTER))?;
        // To every program that listens.
        cx.send(NewJob::event("order-invoiced", &self))?;
        Ok(Outcome::Done) // all of this and the end of the job are one commit
    }
}

/// Opens the file, and connects to the broker if the configuration has one. A broker that does not answer is no error.
///
/// # Errors
/// When the file can't be used.
pub async fn connect(database: &DatabaseConfig, broker: &BrokerConfig) -> Result<MessageServices<Sqlite>, Error> {
    let messages = MessageServices::sqlite(database).await?.with_broker(broker).await?;
    let mut cx = messages.begin();
    cx.transaction().await?.execute(SCHEMA, ()).await?;
    cx.commit().await?;
    Ok(messages)
}

/// An order that is stored.
pub struct Placed {
    /// Its id.
    pub order: i64,
    /// The job that makes its invoice.
    pub job: JobId,
    /// The way of the job.
    pub went: RouteCounts,
}

/// Stores an order and sends the job that makes its invoice: both, or neither.
///
/// # Errors
/// When the customer would owe too much, or the file can't be written.
pub async fn place(messages: &MessageServices<Sqlite>, customer: &str, cents: i64) -> Result<Placed, Error> {
    let mut cx = messages.begin();
    let tx = cx.transaction().await?;
    let insert = "insert into orders (customer, cents) values (?1, ?2) returning id";
    let order = tx.query_row(insert, (customer.to_owned(), cents), |row| row.get(0)).await?;
    let sum = "select sum(cents) from orders where customer = ?1";
    let owes: i64 = tx.query_row(sum, (customer.to_owned(),), |row| row.get(0)).await?;
    let job = cx.send(InvoiceOrder { order })?;
    if owes > CREDIT {
        cx.rollback().await?;
        return Err(format!("{customer} would owe {owes} cents").into());
    }
    // Tells where the job went. A service with many requests needs only `commit`.
    let went = cx.commit_confirmed().await?;
    Ok(Placed { order, job, went })
}

/// Whether the invoice of an order is made.
///
/// # Errors
/// When there is no such order, or the file can't be read.
pub async fn is_invoiced(messages: &MessageServices<Sqlite>, order: i64) -> Result<bool, Error> {
    let mut cx = messages.begin();
    let tx = cx.transaction().await?;
    let invoiced = tx.query_row("select invoiced from orders where id = ?1", (order,), |row| row.get(0)).await?;
    cx.rollback().await?;
    Ok(invoiced)
}

/// Returns what runs the jobs. Tests use the same.
pub fn executor(builder: ExecutorBuilder<Sqlite>) -> ExecutorBuilder<Sqlite> {
    builder.command::<InvoiceOrder>().queue("default", 10)
}

/// Runs jobs until `stop` is ready, and stops gracefully.
///
/// # Errors
/// When the executor can't start, or can't go on.
pub async fn serve(messages: MessageServices<Sqlite>, stop: impl Future<Output = ()>) -> Result<ExecutorStats, Error> {
    let has_broker = messages.broker().is_some();
    let mut builder = executor(CommandExecutor::builder(messages));
    if has_broker {
        builder = builder.external_queue(ExternalQueue::new(PRINTER).lease(Duration::from_secs(60)));
    }
    let executor = builder.start().await?;
    tokio::select! {
        () = stop => {}
        () = executor.ended() => {} // its file was replaced: `shutdown` returns the reason
    }
    Ok(executor.shutdown(Duration::from_secs(20)).await?)
}
