//! A service whose orders and jobs commit together, and the executor that books the shipments.

use std::time::Duration;

use jobwright::admin::{JobFilter, Page};
use jobwright::{
    Command, CommandExecutor, Context, DatabaseConfig, JobContext, JobError, MessageServices, Outcome, Sqlite,
};
use serde::{Deserialize, Serialize};

use crate::programs::Directory;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// The job that books the shipment of an order.
#[derive(Serialize, Deserialize)]
struct BookShipment {
    order: i64,
}

impl Command<Sqlite> for BookShipment {
    const KIND: &'static str = "book-shipment";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_, (), Sqlite>) -> Result<Outcome, JobError> {
        let tx = cx.transaction().await?;
        tx.execute("insert into shipments (order_id) values (?1)", (self.order,)).await?;
        Ok(Outcome::Done)
    }
}

/// Stores an order and sends its job, in the caller's unit of work.
async fn place_order(cx: &mut Context<Sqlite>, order: i64) -> jobwright::Result<()> {
    cx.transaction().await?.execute("insert into orders (id) values (?1)", (order,)).await?;
    cx.send(BookShipment { order })?;
    Ok(())
}

/// Creates the service's own tables.
async fn create_tables(messages: &MessageServices<Sqlite>) -> jobwright::Result<()> {
    let mut cx = messages.begin();
    let tx = cx.transaction().await?;
    tx.execute("create table orders (id integer primary key)", ()).await?;
    tx.execute("create table shipments (order_id integer primary key)", ()).await?;
    cx.commit().await
}

/// Answers a query for one number.
async fn number(messages: &MessageServices<Sqlite>, sql: &str) -> jobwright::Result<i64> {
    let mut cx = messages.begin();
    let number: i64 = cx.transaction().await?.query_row(sql, (), |row| row.get(0)).await?;
    cx.rollback().await?;
    Ok(number)
}

#[tokio::test]
async fn an_order_and_its_job_commit_together_or_not_at_all() -> TestResult {
    let directory = Directory::new()?;
    let messages = MessageServices::sqlite(&DatabaseConfig::url(directory.url())).await?;
    create_tables(&messages).await?;

    let mut cx = messages.begin();
    place_order(&mut cx, 1).await?;
    cx.rollback().await?;
    assert!(messages.admin().list(&JobFilter::default(), &Page::default()).await?.is_empty());
    assert_eq!(number(&messages, "select count(*) from orders").await?, 0);

    let executor = CommandExecutor::builder(messages.clone()).command::<BookShipment>().start().await?;
    let mut cx = messages.begin();
    place_order(&mut cx, 2).await?;
    cx.commit().await?;

    tokio::time::timeout(Duration::from_secs(10), async {
        while number(&messages, "select count(*) from shipments").await? == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<(), jobwright::Error>(())
    })
    .await??;

    let stats = executor.shutdown(Duration::from_secs(10)).await?;
    assert_eq!(stats.done, 1);
    assert_eq!(number(&messages, "select order_id from shipments").await?, 2);
    Ok(())
}
