//! A schema of its own on a PostgreSQL server, for each test.

use jobwright::{DatabaseConfig, JobId, Postgres};
use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

use super::{SqlDb, TestDb, pgbouncer_url, postgres_url, unique};

/// `POOLED`: through a pgbouncer in transaction mode.
#[derive(Debug)]
pub(crate) struct Pg<const POOLED: bool> {
    store: Postgres,
    config: DatabaseConfig,
    schema: Schema,
}

/// Dropped, it drops the schema.
#[derive(Debug)]
struct Schema {
    name: String,
    url: String,
}

impl<const POOLED: bool> Pg<POOLED> {
    /// SQL without parameters, past the store. `{schema}` becomes the name of the schema.
    pub(crate) async fn raw(&self, sql: &str) {
        execute(&self.schema.url, &sql.replace("{schema}", &self.schema.name)).await.unwrap();
    }
}

/// An open transaction past the store, and the locks it holds.
pub(crate) struct Held(tokio_postgres::Client);

impl Held {
    /// Ends it.
    pub(crate) async fn release(self) {
        self.0.batch_execute("rollback").await.unwrap();
    }
}

impl<const POOLED: bool> Pg<POOLED> {
    /// Runs SQL in a transaction that stays open, on a connection that is no pool's.
    pub(crate) async fn hold(&self, sql: &str) -> Held {
        let (client, connection) = tokio_postgres::connect(&self.schema.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let sql = sql.replace("{schema}", &self.schema.name);
        client.batch_execute(&format!("begin; {sql}")).await.unwrap();
        Held(client)
    }
}

impl<const POOLED: bool> TestDb for Pg<POOLED> {
    type Store = Postgres;
    const HEARS_HINTS: bool = !POOLED;

    async fn create_empty() -> Option<Self> {
        let url = postgres_url()?;
        let pooled = if POOLED { pgbouncer_url()? } else { url.clone() };
        CLEANED.get_or_init(|| remove_leftovers(&url)).await;
        let schema = Schema { name: unique("t_"), url };
        let config = DatabaseConfig {
            schema: schema.name.clone(),
            pgbouncer: POOLED,
            // Many tests share one server.
            max_connections: 4,
            ..DatabaseConfig::url(pooled)
        };
        let store = Postgres::connect(&config).await.unwrap();
        Some(Self { store, config, schema })
    }

    fn store(&self) -> Postgres {
        self.store.clone()
    }

    async fn reopen(&self) -> Postgres {
        Postgres::connect(&self.config).await.unwrap()
    }

    async fn suspend(&self, id: JobId) {
        self.raw(&format!(
            "with gone as (delete from {{schema}}.job where id = '{id}' and lock_owner is null returning *)
             insert into {{schema}}.suspended_job (seq, version, created_at, id, attempt, max_attempts, rank, kind,
                                                   queue, payload, body, content_type, headers, errors)
             select seq, version, created_at, id, attempt, max_attempts, rank, kind,
                    queue, payload, body, content_type, headers, errors
             from gone"
        ))
        .await;
    }

    async fn restart_sequence(&self, next: i64) {
        self.raw(&format!("alter sequence {{schema}}.job_seq restart with {next}")).await;
    }

    async fn set_counters(&self, id: JobId, version: i64, attempt: u32) {
        self.raw(&format!("update {{schema}}.job set version = {version}, attempt = {attempt} where id = '{id}'"))
            .await;
    }

    async fn clear(&self) {
        self.raw(
            "delete from {schema}.job; delete from {schema}.timer_job; delete from {schema}.suspended_job;
             delete from {schema}.dead_letter_job; delete from {schema}.node",
        )
        .await;
    }
}

impl<const POOLED: bool> SqlDb for Pg<POOLED> {
    async fn pretend_newer(&self) {
        self.raw("insert into {schema}.migration (version, name, checksum) values (9999, 'future', '')").await;
    }

    async fn pretend_edited(&self) {
        self.raw("update {schema}.migration set checksum = 'edited' where version = 1").await;
    }
}

impl Drop for Schema {
    /// On a thread with a runtime of its own: the test's runtime is busy with the test, or is going down with it.
    fn drop(&mut self) {
        let (url, name) = (self.url.clone(), self.name.clone());
        let drop_schema = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(execute(&url, &format!("drop schema if exists {name} cascade")))
        };
        if let Ok(Err(error)) = std::thread::spawn(drop_schema).join() {
            eprintln!("the schema {} was left behind: {error}", self.name);
        }
    }
}

/// Runs statements on a connection of their own.
async fn execute(url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let driver = tokio::spawn(connection);
    // Dropping a schema while other tests create theirs must not wait for ever.
    let result = client.batch_execute(&format!("set statement_timeout = '60s'; {sql}")).await;
    drop(client);
    let _ = driver.await;
    result
}

static CLEANED: OnceCell<()> = OnceCell::const_new();

/// Removes what killed tests left behind more than a day ago. The names end in a `UUIDv7`, so they tell their age.
async fn remove_leftovers(url: &str) {
    let names = "select nspname::text from pg_namespace where nspname ~ '^t_[0-9a-f]{32}$' and nspname < 't_' \
                 || lpad(to_hex((extract(epoch from now() - interval '1 day') * 1000)::bigint), 12, '0') limit 20";
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    for row in client.query(names, &[]).await.unwrap() {
        let name: String = row.get(0);
        // Another process may be removing it at this moment.
        let _ = client.batch_execute(&format!("drop schema if exists {name} cascade")).await;
    }
}
