//! Jobs sent by plain SQL from a trigger (`examples/sql/trigger.sql`), and run here. Needs PostgreSQL.
//!
//! ```sh
//! DATABASE_URL=postgres://user@host/db cargo run --example sql_trigger
//! ```

mod support;

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Config, JobContext, JobError, MessageServices, Outcome};
use serde::Deserialize;
use support::Result;

/// The payload that the trigger sends. No command is needed to read it: the sender knows only SQL.
#[derive(Deserialize)]
struct OrderPlaced {
    order: i64,
    customer: String,
}

#[tokio::main]
async fn main() -> Result {
    if std::env::var("DATABASE_URL").unwrap_or_default().is_empty() {
        eprintln!("this example needs PostgreSQL: set DATABASE_URL=postgres://user@host/db");
        let skipped = std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1");
        std::process::exit(i32::from(!skipped));
    }
    support::with_scratch_database("sql_trigger", tour).await
}

async fn tour(config: Config) -> Result {
    // The database is known to be PostgreSQL, so a context's transaction is the driver's own.
    let messages = MessageServices::postgres(&config.database).await?;
    messages.migrate().await?;
    let schema = &config.database.schema;
    let trigger = include_str!("sql/trigger.sql").replace("jobwright.", &format!("{schema}."));
    run_sql(&messages, &trigger).await?;
    run_sql(&messages, "create table parcel (n bigint generated always as identity, label text not null)").await?;

    // The sender knows nothing of jobs. Any connection will do, from any language.
    run_sql(&messages, "insert into orders (customer) values ('Ada'), ('Bob')").await?;
    run_sql(&messages, "insert into orders (customer, express) values ('Cleo', true)").await?;
    let mut cx = messages.begin();
    cx.transaction().await?.execute("insert into orders (customer) values ('Mallory')", &[]).await?;
    cx.rollback().await?;
    println!("inserted orders of Ada, Bob and, express, Cleo; the one of Mallory was rolled back");

    let executor = CommandExecutor::builder(messages.clone())
        .handle_with("order-placed", |cx| Box::pin(pack(cx)))
        .queue("orders", 1)
        .start()
        .await?;
    support::until_idle(&messages).await?;

    // The executor sleeps now, up to its poll_interval. A sender that can't wait wakes it after its commit.
    let sent = Instant::now();
    run_sql(&messages, "insert into orders (customer) values ('Dan')").await?;
    run_sql(&messages, &format!("select {schema}.wake('orders')")).await?;
    support::until_idle(&messages).await?;
    println!("Dan's parcel was packed {:?} after his order was sent", sent.elapsed());
    assert!(sent.elapsed() < config.executor.poll_interval);
    executor.shutdown(Duration::from_secs(5)).await?;

    let mut cx = messages.begin();
    let rows = cx.transaction().await?.query("select label from parcel order by n", &[]).await?;
    cx.rollback().await?;
    let labels: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    println!("parcels, in this order: {labels:?}");
    assert_eq!(labels, ["Cleo", "Ada", "Bob", "Dan"]);
    Ok(())
}

/// Packs a parcel, in the transaction that removes the job.
async fn pack(cx: &mut JobContext<'_>) -> Result<Outcome, JobError> {
    let OrderPlaced { order, customer } = cx.job().payload.decode()?;
    println!("  order-placed: {customer}, order {order}, priority {}", cx.job().priority);
    cx.transaction().await?.execute("insert into parcel (label) values ($1)", &[&customer]).await?;
    Ok(Outcome::Done)
}

/// Runs statements in a transaction of their own.
async fn run_sql(messages: &MessageServices, sql: &str) -> Result {
    let mut cx = messages.begin();
    cx.transaction().await?.batch_execute(sql).await?;
    Ok(cx.commit().await?)
}
