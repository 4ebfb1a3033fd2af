//! The database of the tour, with two tables of its own beside the jobs.

use std::time::{Duration, Instant};

use jobwright::admin::QueueStatus;
use jobwright::internal::Backend;
use jobwright::{
    AnyStore, AnyTransaction, BrokerConfig, CommandExecutor, Config, DatabaseConfig, ExecutorStats, MessageServices,
};
use tempfile::TempDir;
use tokio_postgres::types::ToSql;

use crate::commands::mode::Mode;
use crate::failure::Failure;
use crate::output::line;

/// Short, so that the death of a worker is noticed while people watch.
const LEASE: Duration = Duration::from_secs(1);
/// How long closing a broker's connections may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// Longer than any step of the tour should take. Every wait has a deadline, here too.
const LONGEST: Duration = Duration::from_secs(120);

/// The database of the tour.
pub(super) struct Stage {
    pub(super) messages: MessageServices<AnyStore>,
    /// The executors' services. With a broker they have their own connections, as another program would: an executor that shares the
    /// sender's takes jobs straight from the commit.
    working: MessageServices<AnyStore>,
    pub(super) config: Config,
    /// Prefix of table names.
    prefix: String,
    /// Removed when dropped.
    directory: Option<TempDir>,
}

/// Returns the configuration of a database, for this process and for the worker it starts.
pub(super) fn config(url: &str, schema: &str, broker: Option<&str>) -> Config {
    let mut config = Config::new(DatabaseConfig::url(url));
    schema.clone_into(&mut config.database.schema);
    config.database.max_connections = 16;
    config.executor.lease = LEASE;
    config.executor.poll_interval = Duration::from_millis(200);
    if let Some(url) = broker {
        // The schema's name is unique to the run.
        config.broker = BrokerConfig::url(url).required(true).prefix(schema.to_owned()).intake(false);
    }
    config
}

impl Stage {
    /// Creates the database: a file in a new directory, or a new schema on the given server.
    pub(super) async fn open(url: Option<String>, broker: Option<String>) -> Result<Self, Failure> {
        let name = format!("jobwright_demo_{}", std::process::id());
        let broker = broker.as_deref();
        let (config, directory) = match url {
            Some(url) => {
                let config = config(&url, &name, broker);
                if matches!(config.database.backend()?, Backend::Sqlite(_)) {
                    return Err(Failure::Usage(
                        "the demo makes a separate embedded database: leave `--database-url` out, or name a PostgreSQL server"
                            .to_owned(),
                    ));
                }
                (config, None)
            }
            None => {
                let failed = |error| Failure::Failed(format!("a temporary directory could not be made: {error}"));
                let directory = tempfile::Builder::new().prefix("jobwright-demo-").tempdir().map_err(failed)?;
                let url = format!("sqlite:{}", directory.path().join("demo.db").display());
                (config(&url, &name, broker), Some(directory))
            }
        };
        let mut stage = Self::connect(config).await?;
        stage.directory = directory;
        stage.messages.migrate().await?;
        for table in [
            "orders (id text primary key, address text not null, invoices bigint not null)",
            "ledger (job text, part text, attempt text, worker text)",
        ] {
            let sql = format!("create table {}demo_{table}", stage.prefix);
            stage.commit_one(&sql, []).await?;
        }
        Ok(stage)
    }

    /// Joins a database that another process created.
    pub(super) async fn connect(config: Config) -> Result<Self, Failure> {
        let prefix = if matches!(config.database.backend()?, Backend::Postgres(_)) {
            format!("\"{}\".", config.database.schema)
        } else {
            String::new()
        };
        let messages = MessageServices::connect(&config).await?;
        let working =
            if messages.broker().is_some() { MessageServices::connect(&config).await? } else { messages.clone() };
        Ok(Self { messages, working, config, prefix, directory: None })
    }

    /// Removes everything, with these queues at the broker.
    pub(super) async fn close(self, queues: [&str; 3]) -> Result<(), Failure> {
        if matches!(self.config.database.backend()?, Backend::Postgres(_)) {
            self.commit_one(&format!("drop schema \"{}\" cascade", self.config.database.schema), []).await?;
        }
        let removed = self.remove_queues(queues).await;
        drop((self.messages, self.working));
        removed?;
        match self.directory.map(TempDir::close) {
            Some(Err(error)) => Err(Failure::Failed(format!("the temporary directory could not be removed: {error}"))),
            _ => Ok(()),
        }
    }

    async fn remove_queues(&self, queues: [&str; 3]) -> Result<(), Failure> {
        let (Some(broker), Some(working)) = (self.messages.broker(), self.working.broker()) else { return Ok(()) };
        // First, so that no subscription declares its queue again.
        working.close(FAREWELL).await;
        broker.remove(&queues.map(str::to_owned), &[]).await?;
        broker.close(FAREWELL).await;
        Ok(())
    }

    /// Waits until this many executors consume a queue of the broker. Returns at once without a broker.
    pub(super) async fn consumed(&self, queue: &str, by: u32) -> Result<(), Failure> {
        let Some(broker) = self.messages.broker() else { return Ok(()) };
        let name = [broker.names().deliveries(queue)];
        until("the executors to consume the broker's queue", async || {
            let found = broker.queues(&name).await?;
            Ok(found.iter().any(|queue| queue.consumers.is_some_and(|n| n >= by)))
        })
        .await
    }

    /// Reports what went over the broker so far, and what an executor did with it.
    pub(super) async fn over_the_broker(&self, queue: &str, stats: &ExecutorStats) -> Result<(), Failure> {
        let Some(broker) = self.messages.broker() else { return Ok(()) };
        let mode = Mode::of(&self.messages).await;
        let sent = broker.stats();
        let depth = broker.queues(&[broker.names().deliveries(queue)]).await?.first().and_then(|queue| queue.messages);
        line(format!(
            "    {}: {} confirmed, {} refused because the queue was full; here {} came by a delivery, {} were stale, {} left to the \
             table; {} in the broker's queue now",
            mode.text(),
            sent.confirmed,
            sent.nacked,
            stats.delivered,
            stats.stale,
            stats.left_to_table,
            depth.unwrap_or_default(),
        ))
    }

    /// Returns the name of a table of the tour.
    pub(super) fn table(&self, name: &str) -> String {
        format!("{}demo_{name}", self.prefix)
    }

    /// Returns a new executor for this database.
    pub(super) fn executor(&self) -> jobwright::ExecutorBuilder<AnyStore> {
        CommandExecutor::builder(self.working.clone()).config(self.config.executor.clone())
    }

    /// Runs one statement in a transaction of its own.
    pub(super) async fn commit_one<const N: usize>(&self, sql: &str, values: [String; N]) -> Result<u64, Failure> {
        let mut context = self.messages.begin();
        let rows = execute(context.transaction().await?, sql, values).await?;
        context.commit().await?;
        Ok(rows)
    }

    /// Queries a number from the database. `{ledger}` and `{orders}` stand for the tables.
    pub(super) async fn number(&self, sql: &str) -> Result<u64, Failure> {
        let sql = sql.replace("{ledger}", &self.table("ledger")).replace("{orders}", &self.table("orders"));
        let mut context = self.messages.begin();
        let number: i64 = match context.transaction().await? {
            AnyTransaction::Postgres(transaction) => {
                transaction.query_one(&sql, &[]).await.and_then(|row| row.try_get(0)).map_err(|e| refused(&e))?
            }
            AnyTransaction::Sqlite(transaction) => transaction.query_row(sql, [], |row| row.get(0)).await?,
            _ => return Err(unknown_database()),
        };
        context.rollback().await?;
        Ok(number.unsigned_abs())
    }

    /// Returns the contents of a queue.
    pub(super) async fn queue(&self, name: &str) -> Result<QueueStatus, Failure> {
        let status = self.messages.admin().status().await?;
        let empty = || QueueStatus { queue: name.to_owned(), ..QueueStatus::default() };
        Ok(status.queues.into_iter().find(|queue| queue.queue == name).unwrap_or_else(empty))
    }
}

fn unknown_database() -> Failure {
    Failure::Failed("the demo has statements for PostgreSQL and SQLite only".to_owned())
}

/// Executes a statement, prepared once per connection.
pub(super) async fn execute<const N: usize>(
    transaction: &mut AnyTransaction,
    sql: &str,
    values: [String; N],
) -> Result<u64, Failure> {
    match transaction {
        AnyTransaction::Postgres(transaction) => {
            let statement = transaction.prepare_cached(sql).await.map_err(|e| refused(&e))?;
            let values = values.each_ref().map(|value| value as &(dyn ToSql + Sync));
            transaction.execute(&statement, &values).await.map_err(|e| refused(&e))
        }
        AnyTransaction::Sqlite(transaction) => {
            let sql = sql.to_owned();
            let rows = transaction.call(move |connection| {
                let mut statement = connection.prepare_cached(&sql)?;
                for (index, value) in values.iter().enumerate() {
                    statement.raw_bind_parameter(index + 1, value)?;
                }
                statement.raw_execute()
            });
            Ok(rows.await? as u64)
        }
        _ => Err(unknown_database()),
    }
}

fn refused(error: &tokio_postgres::Error) -> Failure {
    let why = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
    Failure::Failed(format!("the database refused a statement of the demo: {why}"))
}

/// Polls until the answer is yes.
pub(super) async fn until(what: &str, mut ask: impl AsyncFnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let end = Instant::now() + LONGEST;
    while !ask().await? {
        if Instant::now() > end {
            return Err(Failure::Failed(format!("{what} took longer than {LONGEST:?}")));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
