//! Part 1: an order and the job that invoices it are one commit. The parts 2 and 5 have the same orders, jobs and handler.

use std::time::Duration;

use jobwright::{AnyStore, Context, ExecutorBuilder, JobError, JobId, KindOptions, NewJob, Outcome, RetryPolicy};
use serde::{Deserialize, Serialize};

use super::stage::{Stage, execute, until};
use crate::failure::Failure;
use crate::output::{counted, line};

pub(super) const QUEUE: &str = "orders";
const KIND: &str = "send-invoice";
const MAX_ATTEMPTS: u32 = 3;
/// The error of an invoice that has nowhere to go.
pub(super) const NO_ADDRESS: &str = "the customer has no address";

/// An order of the tour, and what its invoice has to go through.
pub(super) struct Order {
    pub(super) number: u64,
    /// Where the customer lives; empty if it is not known.
    pub(super) address: &'static str,
    /// The attempts in which the printer is jammed.
    pub(super) jams: u32,
}

/// The payload of a job.
#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order: u64,
    jams: u32,
}

impl Order {
    /// Writes the order and sends the job that invoices it, both by this context.
    pub(super) async fn place(
        &self,
        stage: &Stage,
        context: &mut Context<AnyStore>,
        queue: &str,
    ) -> Result<JobId, Failure> {
        let sql = format!("insert into {} (id, address, invoices) values ($1, $2, 0)", stage.table("orders"));
        let values = [self.number.to_string(), self.address.to_owned()];
        execute(context.transaction().await?, &sql, values).await?;
        let invoice = SendInvoice { order: self.number, jams: self.jams };
        Ok(context.send(NewJob::json(KIND, &invoice).queue(queue).max_attempts(MAX_ATTEMPTS))?)
    }
}

/// Adds the handler. It writes first and fails then: the writes of a failed attempt must not be found later.
pub(super) fn handler(stage: &Stage, builder: ExecutorBuilder<AnyStore>) -> ExecutorBuilder<AnyStore> {
    let ledger = format!("insert into {} (job, part, attempt, worker) values ($1, $2, $3, $4)", stage.table("ledger"));
    let orders =
        format!("update {} set invoices = invoices + 1 where id = $1 and address <> ''", stage.table("orders"));
    let worker = std::process::id().to_string();
    builder
        .kind_options(KIND, KindOptions::default().retry(RetryPolicy::Fixed(Duration::from_millis(300))))
        .handle_with(KIND, move |cx| {
            let (ledger, orders, worker) = (ledger.clone(), orders.clone(), worker.clone());
            Box::pin(async move {
                let job = cx.job();
                let invoice: SendInvoice = job.payload.decode()?;
                let transaction = cx.transaction().await?;
                let values = [job.id.to_string(), job.queue.clone(), job.attempt.to_string(), worker];
                execute(transaction, &ledger, values).await?;
                let invoiced = execute(transaction, &orders, [invoice.order.to_string()]).await?;
                if job.attempt <= invoice.jams {
                    return Err(JobError::new("the printer is jammed"));
                }
                if invoiced == 0 {
                    return Err(JobError::new(NO_ADDRESS));
                }
                Ok(Outcome::Done)
            })
        })
}

/// Runs this part. Returns how many jobs were sent.
pub(super) async fn run(stage: &Stage) -> Result<u64, Failure> {
    line("1. An order, and the job that invoices it.\n")?;
    let order = |number| Order { number, address: "1 Main Street", jams: 0 };

    let mut context = stage.messages.begin();
    let job = order(1).place(stage, &mut context, QUEUE).await?;
    context.commit().await?;
    line(format!("    begin; insert order 1; send its job; commit      {}", contents(stage).await?))?;

    let mut context = stage.messages.begin();
    order(2).place(stage, &mut context, QUEUE).await?;
    context.rollback().await?;
    line(format!("    begin; insert order 2; send its job; rollback    {}", contents(stage).await?))?;

    let executor = handler(stage, stage.executor().queue(QUEUE, 1)).start().await?;
    until("the first invoice", async || Ok(stage.messages.admin().show(job).await?.is_none())).await?;
    executor.shutdown(Duration::from_secs(5)).await?;
    line(format!("    a worker runs the job                            {}", contents(stage).await?))?;
    line(
        "    The order and its job were one commit; the rollback left neither. The invoice and the end of its job were one commit, too.\n",
    )?;
    Ok(1)
}

/// Says what the database contains.
async fn contents(stage: &Stage) -> Result<String, Failure> {
    let orders = stage.number("select count(*) from {orders}").await?;
    let invoices = stage.number("select cast(coalesce(sum(invoices), 0) as bigint) from {orders}").await?;
    let queue = stage.queue(QUEUE).await?;
    let jobs = (queue.waiting + queue.running + queue.timer).get();
    Ok([(orders, "order"), (jobs, "job"), (invoices, "invoice")].map(|(n, noun)| counted(n, noun)).join(", "))
}
