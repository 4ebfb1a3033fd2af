//! An order and its jobs as one trace. README.md shows it; a collector at `http://localhost:4318` gets it.
//!
//! ```sh
//! cargo run -p jobwright-example-opentelemetry                                               # on the embedded database
//! DATABASE_URL=postgres://user@host/db cargo run -p jobwright-example-opentelemetry          # on PostgreSQL
//! ```

mod export;
#[path = "../../support/mod.rs"]
mod support;
mod trace;

use std::time::Duration;

use jobwright::{
    AnyStore, Command, CommandExecutor, Config, JobContext, JobError, MessageServices, Outcome, RetryAdvice, Store,
};
use serde::{Deserialize, Serialize};
use support::Result;

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order: i64,
}

impl<S: Store> Command<S> for SendInvoice {
    const KIND: &'static str = "send-invoice";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_, (), S>) -> Result<Outcome, JobError> {
        if cx.job().attempt == 1 {
            return Err(JobError::new("the printer is jammed").advise(RetryAdvice::After(Duration::from_millis(100))));
        }
        // Within the span of this attempt, so the mail's job is its child.
        cx.send(SendMail { order: self.order })?;
        Ok(Outcome::Done)
    }
}

#[derive(Serialize, Deserialize)]
struct SendMail {
    order: i64,
}

impl<S: Store> Command<S> for SendMail {
    const KIND: &'static str = "send-mail";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_, (), S>) -> Result<Outcome, JobError> {
        println!(
            "the mail of order {} is sent, in the trace {:?}",
            self.order,
            cx.trace().map(jobwright::TraceContext::trace_id)
        );
        Ok(Outcome::Done)
    }
}

/// Stands for a request that a service answers.
#[tracing::instrument(name = "place order", skip(messages), fields(otel.kind = "producer"))]
async fn place_order(messages: &MessageServices<AnyStore>, order: i64) -> Result {
    let mut cx = messages.begin();
    cx.send(SendInvoice { order })?;
    cx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result {
    let exported = export::start()?;
    let toured = support::with_scratch_database("opentelemetry", tour).await;
    // It waits for the thread that exports.
    tokio::task::spawn_blocking(move || exported.shutdown()).await??;
    toured
}

async fn tour(config: Config) -> Result {
    let messages = MessageServices::connect(&config).await?.on_send(|job, _| Ok(trace::carry(job)));
    messages.migrate().await?;
    let executor = CommandExecutor::builder(messages.clone())
        .command::<SendInvoice>()
        .command::<SendMail>()
        .middleware(trace::Traced)
        .queue("default", 10)
        .start()
        .await?;
    place_order(&messages, 1).await?;
    support::until_idle(&messages).await?;
    let stats = executor.shutdown(Duration::from_secs(5)).await?;
    assert_eq!((stats.failed, stats.done), (1, 2));
    Ok(())
}
