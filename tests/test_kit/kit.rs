//! What the tests of both stores do differently.

use jobwright::Store;
use jobwright::sqlx_0_8::Sqlx;
use jobwright::testing::{TestDatabase, TestStore};
use jobwright::{ExecutorBuilder, JobError, MessageServices, NewJob, Outcome, Postgres};
use sqlx_0_8 as sqlx;

pub(crate) trait Kit: TestStore {
    /// Creates a database for the test; `None`: this run has to do without that server.
    async fn database() -> Option<TestDatabase<Self>>;

    /// Creates the table `ledger`, as an application creates its own, over the connection it was configured with.
    async fn create_ledger(db: &TestDatabase<Self>);

    /// Writes into it.
    fn note(transaction: &mut Self::Transaction, line: String) -> impl Future<Output = Result<(), JobError>> + Send;

    /// Returns how many lines the transaction sees.
    async fn lines(transaction: &mut Self::Transaction) -> i64;
}

impl Kit for Postgres {
    async fn database() -> Option<TestDatabase<Self>> {
        let url = crate::support::postgres_url()?;
        Some(TestDatabase::postgres(&url).await.unwrap())
    }

    async fn create_ledger(db: &TestDatabase<Self>) {
        let messages = MessageServices::postgres(db.config()).await.unwrap();
        let mut cx = messages.begin();
        cx.transaction().await.unwrap().batch_execute("create table ledger (line text)").await.unwrap();
        cx.commit().await.unwrap();
    }

    async fn note(transaction: &mut Self::Transaction, line: String) -> Result<(), JobError> {
        transaction.execute("insert into ledger (line) values ($1)", &[&line]).await?;
        Ok(())
    }

    async fn lines(transaction: &mut Self::Transaction) -> i64 {
        transaction.query_one("select count(*) from ledger", &[]).await.unwrap().get(0)
    }
}

impl Kit for Sqlx {
    async fn database() -> Option<TestDatabase<Self>> {
        let url = crate::support::postgres_url()?;
        Some(TestDatabase::sqlx_0_8(&url).await.unwrap())
    }

    async fn create_ledger(db: &TestDatabase<Self>) {
        let create = sqlx::query("create table ledger (line text)");
        create.execute(db.messages().store().pool()).await.unwrap();
    }

    async fn note(transaction: &mut Self::Transaction, line: String) -> Result<(), JobError> {
        let note = sqlx::query("insert into ledger (line) values ($1)").bind(line);
        note.execute(&mut **transaction).await?;
        Ok(())
    }

    async fn lines(transaction: &mut Self::Transaction) -> i64 {
        sqlx::query_scalar("select count(*) from ledger").fetch_one(&mut **transaction).await.unwrap()
    }
}

#[cfg(feature = "sqlite")]
impl Kit for jobwright::Sqlite {
    async fn database() -> Option<TestDatabase<Self>> {
        Some(TestDatabase::sqlite().await.unwrap())
    }

    async fn create_ledger(db: &TestDatabase<Self>) {
        let mut cx = db.messages().begin();
        cx.transaction().await.unwrap().execute("create table ledger (line text)", ()).await.unwrap();
        cx.commit().await.unwrap();
    }

    async fn note(transaction: &mut Self::Transaction, line: String) -> Result<(), JobError> {
        transaction.execute("insert into ledger (line) values (?1)", (line,)).await?;
        Ok(())
    }

    async fn lines(transaction: &mut Self::Transaction) -> i64 {
        transaction.query_row("select count(*) from ledger", (), |row| row.get(0)).await.unwrap()
    }
}

/// Returns how many lines are committed.
pub(crate) async fn committed<S: Kit>(db: &TestDatabase<S>) -> i64 {
    let mut cx = db.messages().begin();
    let lines = S::lines(cx.transaction().await.unwrap()).await;
    cx.rollback().await.unwrap();
    lines
}

/// Adds a handler `note` that writes a line, sends `noted`, and ends as the payload says.
pub(crate) fn noting<S: Kit>(executor: ExecutorBuilder<S>) -> ExecutorBuilder<S> {
    executor.handle_with("note", |cx| {
        Box::pin(async move {
            let line = cx.job().id.to_string();
            S::note(cx.transaction().await?, line).await?;
            cx.send(NewJob::json("noted", &cx.job().attempt))?;
            match cx.job().payload.decode::<String>()?.as_str() {
                "done" => Ok(Outcome::Done),
                "dead" => Ok(Outcome::Dead("no good".to_owned())),
                "panics" => panic!("all is lost"),
                other => Err(JobError::new(other)),
            }
        })
    })
}

pub(crate) fn note(ends: &str) -> NewJob {
    NewJob::json("note", ends)
}

/// Sends one job.
pub(crate) async fn send<S: Store>(messages: &MessageServices<S>, job: NewJob) -> jobwright::JobId {
    messages.send(job).await.unwrap()
}
