//! A test with the test kit: what is sent, jobs run step by step, and a clock that moves on request.

use std::time::Duration;

use jobwright::testing::{TestDatabase, assert_sent};
use jobwright::{Command, Context, ExecutorBuilder, JobContext, JobError, NewJob, Outcome, Sqlite};
use serde::{Deserialize, Serialize};

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Sends an invoice, and a reminder a week later.
#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order: i64,
}

impl Command<Sqlite> for SendInvoice {
    const KIND: &'static str = "send-invoice";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_, (), Sqlite>) -> Result<Outcome, JobError> {
        cx.send(NewJob::json("remind", &self.order).delay(WEEK))?;
        Ok(Outcome::Done)
    }
}

/// What the service sends for an order.
fn place_order(cx: &mut Context<Sqlite>, order: i64) -> jobwright::Result<()> {
    cx.send(SendInvoice { order })?;
    Ok(())
}

/// The handlers of the service.
fn handlers(executor: ExecutorBuilder<Sqlite>) -> ExecutorBuilder<Sqlite> {
    executor.command::<SendInvoice>().handle("remind", |_| async { Ok(Outcome::Done) })
}

#[tokio::test]
async fn an_invoice_is_followed_by_a_reminder() -> Result<(), Box<dyn std::error::Error>> {
    let db = TestDatabase::sqlite().await?;
    let mut cx = db.messages().begin();
    place_order(&mut cx, 42)?;
    assert_sent(&cx).kind("send-invoice").command(|invoice: &SendInvoice| invoice.order == 42).once();
    cx.commit().await?;

    let mut runner = db.runner(handlers).await?;
    assert_eq!(runner.drain().await?.expect_done().ran.len(), 1, "the invoice");
    assert_sent(&db.sent().await?).kind("remind").json(&42).once();
    assert_eq!(runner.drain().await?.ran.len(), 0, "the reminder is not due");
    assert_eq!(runner.drain_through(WEEK).await?.expect_done().ran.len(), 1, "the reminder");
    Ok(())
}
