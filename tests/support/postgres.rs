//! A schema on a PostgreSQL server for each test.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use jobwright::Store as _;
use jobwright::admin::MigrationStatus;
use jobwright::internal::engine::Migration;
use jobwright::{DatabaseConfig, JobId, NodeId, Postgres};
use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

use super::{Jobs, SqlDb, TestDb, pgbouncer_server_url, pgbouncer_url, postgres_url, unique};

/// With `POOLED`, the store connects through a pgbouncer in transaction mode.
#[derive(Debug)]
pub(crate) struct Pg<const POOLED: bool> {
    store: Postgres,
    config: DatabaseConfig,
    /// A connection for tests that bypass the store often.
    aside: OnceCell<tokio_postgres::Client>,
    schema: Schema,
}

/// Drops the schema when it is dropped.
#[derive(Debug)]
struct Schema {
    name: String,
    url: String,
}

impl Pg<false> {
    /// Creates the schema on a server other than the shared one.
    pub(crate) async fn create_on(url: &str) -> Self {
        let schema = Schema { name: unique("t_"), url: url.to_owned() };
        let config = DatabaseConfig::url(schema.session_url()).schema(schema.name.clone());
        let store = Postgres::connect(&config).await.unwrap();
        let db = Self { store, config, aside: OnceCell::new(), schema };
        db.jobs().migrate().await.unwrap();
        db
    }

    /// Returns the configuration: connections are named after the schema and use it as their search path.
    pub(crate) fn config(&self) -> DatabaseConfig {
        self.config.clone().with_url(self.schema.session_url()).max_connections(8)
    }

    /// Returns the configuration for another address, such as that of a proxy.
    pub(crate) fn config_by(&self, address: impl std::fmt::Display) -> DatabaseConfig {
        let url = self.schema.session_url();
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_once('/').unwrap();
        let credentials =
            authority.rsplit_once('@').map(|(credentials, _)| format!("{credentials}@")).unwrap_or_default();
        self.config().with_url(format!("{scheme}://{credentials}{address}/{path}"))
    }

    /// Returns the address that a proxy connects to.
    pub(crate) fn address(&self) -> String {
        use tokio_postgres::config::Host;
        let config: tokio_postgres::Config = self.schema.url.parse().unwrap();
        let port = config.get_ports().first().copied().unwrap_or(5432);
        match &config.get_hosts()[0] {
            Host::Tcp(host) => format!("{host}:{port}"),
            Host::Unix(path) => panic!("a proxy needs TCP, not {}", path.display()),
        }
    }
}

impl<const POOLED: bool> Pg<POOLED> {
    /// Returns the schema, which is also the name of all connections made by [`config`](Pg::<false>::config).
    pub(crate) fn schema(&self) -> &str {
        &self.schema.name
    }

    /// Returns a URL whose sessions see the schema's tables.
    pub(crate) fn session_url(&self) -> String {
        self.schema.session_url()
    }

    /// Opens the store again, with this deadline for each call.
    pub(crate) async fn waiting_at_most(&self, call_timeout: Duration) -> Jobs {
        self.opened_with(&self.config.clone().call_timeout(call_timeout)).await
    }

    /// Opens the store again, with this limit for payloads in bytes.
    pub(crate) async fn with_payloads_of(&self, largest: usize) -> Jobs {
        self.opened_with(&self.config.clone().max_payload(largest)).await
    }

    async fn opened_with(&self, config: &DatabaseConfig) -> Jobs {
        Jobs(Postgres::connect(config).await.unwrap().engine())
    }

    pub(crate) async fn aside(&self) -> &tokio_postgres::Client {
        self.aside.get_or_init(|| self.client()).await
    }

    /// Opens a connection that bypasses the store and sees the schema's tables. It is not named after the schema, so it survives when all connections
    /// with that name are killed.
    pub(crate) async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.schema.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("set search_path = {}", self.schema.name)).await.unwrap();
        client
    }
}

/// Receives the notifications of a schema.
#[derive(Debug)]
pub(crate) struct Ear {
    heard: tokio::sync::mpsc::UnboundedReceiver<tokio_postgres::Notification>,
    _client: tokio_postgres::Client,
}

impl Ear {
    /// Returns the next notification: its payload, and the process id of the server that sent it.
    pub(crate) async fn next(&mut self) -> (String, i32) {
        let heard = tokio::time::timeout(std::time::Duration::from_secs(10), self.heard.recv()).await;
        let heard = heard.expect("nothing was heard").expect("the connection was lost");
        (heard.payload().to_owned(), heard.process_id())
    }
}

impl Pg<false> {
    /// Listens for the hints of this schema.
    pub(crate) async fn ear(&self) -> Ear {
        let (client, mut connection) = tokio_postgres::connect(&self.schema.url, NoTls).await.unwrap();
        let (sender, heard) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let tokio_postgres::AsyncMessage::Notification(notification) = message {
                    let _ = sender.send(notification);
                }
            }
        });
        client.batch_execute(&format!("listen {}_wake", self.schema.name)).await.unwrap();
        Ear { heard, _client: client }
    }
}

impl Schema {
    fn session_url(&self) -> String {
        let Self { url, name } = self;
        let mark = if url.contains('?') { '&' } else { '?' };
        format!("{url}{mark}application_name={name}&options=-c%20search_path%3D{name}")
    }
}

impl<const POOLED: bool> Pg<POOLED> {
    /// Runs SQL without parameters, bypassing the store. `{schema}` stands for the name of the schema.
    pub(crate) async fn raw(&self, sql: &str) {
        execute(&self.schema.url, &sql.replace("{schema}", &self.schema.name)).await.unwrap();
    }
}

/// An open transaction that bypasses the store, and the locks it holds.
pub(crate) struct Held(tokio_postgres::Client);

impl Held {
    /// Returns how many sessions wait for a lock that the transaction holds.
    pub(crate) async fn waiting(&self) -> i64 {
        let waiting =
            "select count(*) from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid))";
        self.0.query_one(waiting, &[]).await.unwrap().get(0)
    }

    /// Returns a transaction that waits for such a lock. A statement that is tried again has another one.
    pub(crate) async fn waiter(&self) -> Option<String> {
        let waiter = "select virtualtransaction from pg_locks
                      where not granted and pg_backend_pid() = any (pg_blocking_pids(pid)) limit 1";
        self.0.query_opt(waiter, &[]).await.unwrap().map(|row| row.get(0))
    }

    /// Commits the transaction.
    pub(crate) async fn commit(self) {
        self.0.batch_execute("commit").await.unwrap();
    }

    /// Rolls the transaction back.
    pub(crate) async fn release(self) {
        self.0.batch_execute("rollback").await.unwrap();
    }
}

impl<const POOLED: bool> Pg<POOLED> {
    /// Runs SQL in a transaction that stays open, on a connection outside all pools.
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
        let (url, store_url) = if POOLED {
            (pgbouncer_server_url()?, pgbouncer_url()?)
        } else {
            let url = postgres_url()?;
            (url.clone(), url)
        };
        CLEANED.get_or_init(|| remove_leftovers(&url)).await;
        let schema = Schema { name: unique("t_"), url };
        let config = DatabaseConfig::url(store_url).schema(schema.name.clone()).pgbouncer(POOLED);
        // Many tests share one server.
        let config = config.max_connections(4);
        let store = Postgres::connect(&config).await.unwrap();
        Some(Self { store, config, aside: OnceCell::new(), schema })
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
                                                   queue, payload, body, content_type, headers, errors, options)
             select seq, version, created_at, id, attempt, max_attempts, rank, kind,
                    queue, payload, body, content_type, headers, errors, options
             from gone"
        ))
        .await;
    }

    async fn restart_sequence(&self, next: i64) {
        self.raw(&format!("alter sequence {{schema}}.job_seq restart with {next}")).await;
    }

    async fn set_counters(&self, id: JobId, version: i64, attempt: u32) {
        // More than any row may have now. There may be some from before.
        if attempt > 2_000_000_000 {
            self.let_anything_in().await;
        }
        self.raw(&format!("update {{schema}}.job set version = {version}, attempt = {attempt} where id = '{id}'"))
            .await;
    }

    async fn date_back(&self, id: JobId, by: Duration) {
        let by = by.as_secs();
        let back = format!("created_at - interval '{by} seconds'");
        self.raw(&format!("update {{schema}}.job set created_at = {back} where id = '{id}'")).await;
    }

    async fn end_lease(&self, node: NodeId) {
        self.raw(&format!("update {{schema}}.node set expires_at = started_at where id = {node}")).await;
    }

    async fn make_due(&self, name: &str, at: Timestamp) {
        self.raw(&format!("update {{schema}}.schedule set next_at = '{at}' where name = '{name}'")).await;
    }

    async fn clear(&self) {
        self.raw(
            "delete from {schema}.job; delete from {schema}.timer_job; delete from {schema}.suspended_job;
             delete from {schema}.dead_letter_job; delete from {schema}.external_job; delete from {schema}.terminating_handler;
             delete from {schema}.submission; delete from {schema}.schedule; delete from {schema}.node;
             delete from {schema}.unique_key; delete from {schema}.rate_log; delete from {schema}.unblock",
        )
        .await;
    }
}

impl<const POOLED: bool> SqlDb for Pg<POOLED> {
    const LATER: (&'static str, &'static str) = (
        "create table {schema}.later (seq bigint primary key)",
        "insert into {schema}.later select seq from {schema}.job where seq not in (select seq from {schema}.later) limit 10",
    );

    const NO_ENTRY: [&'static str; 2] = [
        "create function {}no_entry() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$;
         create trigger no_entry before insert on {}migration for each row when (new.name = 'later') execute function {}no_entry()",
        "drop trigger no_entry on {}migration",
    ];

    async fn pretend_newer(&self, min_compatible: i32) {
        let row = format!("(9999, 'future', '', {min_compatible}, true)");
        self.raw(&format!(
            "insert into {{schema}}.migration (version, name, checksum, min_compatible, is_filled) values {row}"
        ))
        .await;
    }

    async fn migrate_with(&self, more: &[Migration]) -> jobwright::Result<Vec<MigrationStatus>> {
        jobwright::internal::engine::testing::migrate_postgres(&self.store, more).await
    }

    async fn remembering(&self, keep: jobwright::Keep) -> Postgres {
        let history = jobwright::HistoryConfig::default().keep(keep);
        Postgres::connect(&self.config.clone().history(history)).await.unwrap()
    }

    async fn spoil(&self, id: JobId) {
        let set = "options = coalesce(options, '{}') || '{\"tenant\": 5}'";
        self.raw(&format!("update {{schema}}.job set {set} where id = '{id}'")).await;
    }

    async fn let_anything_in(&self) {
        self.raw(
            "do $$
             declare
                 one record;
             begin
                 for one in
                     select conrelid::regclass as place, conname from pg_constraint
                     where connamespace = to_regnamespace('{schema}') and contype = 'c' and conname ~ '_(numbers|options|is_readable)$'
                 loop
                     execute format('alter table %s drop constraint %I', one.place, one.conname);
                 end loop;
             end $$",
        )
        .await;
    }

    async fn change(&self, sql: &str) {
        self.raw(&sql.replace("{}", "{schema}.")).await;
    }

    async fn refuse(&self, id: JobId) {
        let create = format!(
            "create function {{schema}}.refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$;
             create trigger refuse before insert on {{schema}}.job for each row when (new.id = '{id}')
             execute function {{schema}}.refuse()"
        );
        self.raw(&create).await;
    }

    async fn lose_rules(&self) {
        self.raw("delete from {schema}.rule").await;
    }

    async fn age_unblocks(&self, by: Option<Duration>) {
        match by.map(|by| by.as_secs()) {
            Some(by) => {
                let back = format!("unblock_at - interval '{by} seconds'");
                self.raw(&format!("update {{schema}}.unblock set unblock_at = {back}")).await;
            }
            None => self.raw("delete from {schema}.unblock").await,
        }
    }

    async fn pass(&self, by: Duration) {
        let micros = by.as_micros();
        let by = format!("({micros} * interval '1 microsecond')");
        let lives: String = ["job", "timer_job", "suspended_job", "dead_letter_job", "external_job"]
            .map(|table| {
                let sooner =
                    format!("jsonb_set(options, '{{expires}}', to_jsonb((options ->> 'expires')::int8 - {micros}))");
                format!("update {table} set options = {sooner} where options ? 'expires';")
            })
            .concat();
        let all = format!(
            "{lives}
             update timer_job set due_at = due_at - {by};
             update suspended_job set due_at = due_at - {by};
             update unblock set unblock_at = unblock_at - {by};
             update rate_log set at = at - {by};
             update unique_key set taken_at = taken_at - {by}, expires_at = expires_at - {by};
             update schedule set anchor_at = anchor_at - {by}, next_at = next_at - {by}, last_at = last_at - {by},
                                            until_at = until_at - {by}"
        );
        // One transaction.
        self.aside().await.batch_execute(&all).await.unwrap();
    }

    async fn write_ahead(&self, by: Duration) {
        let micros = by.as_micros();
        let by = format!("({micros} * interval '1 microsecond')");
        let lives: String = ["job", "timer_job"]
            .map(|table| {
                let later =
                    format!("jsonb_set(options, '{{expires}}', to_jsonb((options ->> 'expires')::int8 + {micros}))");
                format!("update {table} set options = {later} where options ? 'expires';")
            })
            .concat();
        let failed = "to_jsonb((errors -> -1 ->> 'at')::timestamptz";
        let all = format!(
            "{lives}
             update timer_job set errors = jsonb_set(errors, '{{-1,at}}', {failed} + {by})) where errors is not null;
             update job set created_at = created_at + {by}, claimed_at = claimed_at + {by}, visible_at = visible_at + {by};
             update timer_job set created_at = created_at + {by}, due_at = due_at + {by};
             update external_job set created_at = created_at + {by}, handed_at = handed_at + {by}, lease_until = lease_until + {by};
             update unblock set unblock_at = unblock_at + {by};
             update rate_log set at = at + {by};
             update unique_key set taken_at = taken_at + {by}, expires_at = expires_at + {by};
             update schedule set anchor_at = anchor_at + {by}, next_at = next_at + {by}, last_at = last_at + {by}, created_at = created_at + {by};
             update submission set received_at = received_at + {by};
             update result set created_at = created_at + {by}, expires_at = expires_at + {by}"
        );
        // One transaction.
        self.aside().await.batch_execute(&all).await.unwrap();
    }

    async fn starts(&self) -> Vec<(String, i64)> {
        let sql = "select key, n::int8 from rate_log order by at, key";
        self.aside().await.query(sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    async fn admitted(&self) -> BTreeSet<JobId> {
        let sql =
            "select id from job where admitted and blocked_on is null union select id from external_job where admitted";
        let rows = self.aside().await.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, uuid::Uuid>(0).into()).collect()
    }

    async fn pretend_edited(&self) {
        self.raw("update {schema}.migration set checksum = 'edited' where version = 1").await;
    }
}

impl Drop for Schema {
    /// Drops the schema on a thread with its own runtime: the test's runtime is busy with the test, or is shutting down with it.
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

/// Runs statements on a new connection.
async fn execute(url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let driver = tokio::spawn(connection);
    // Dropping a schema while other tests create theirs must not wait forever.
    let result = client.batch_execute(&format!("set statement_timeout = '60s'; {sql}")).await;
    drop(client);
    let _ = driver.await;
    result
}

static CLEANED: OnceCell<()> = OnceCell::const_new();

/// Removes what killed tests left behind more than a day ago. The names end in a `UUIDv7`, which contains their age.
async fn remove_leftovers(url: &str) {
    let names = "select nspname::text from pg_namespace where nspname ~ '^t_[0-9a-f]{32}$' and nspname < 't_' \
                 || lpad(to_hex((extract(epoch from now() - interval '1 day') * 1000)::bigint), 12, '0') limit 20";
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    for row in client.query(names, &[]).await.unwrap() {
        let name: String = row.get(0);
        // Another process may be removing it at the same time.
        let _ = client.batch_execute(&format!("drop schema if exists {name} cascade")).await;
    }
}
