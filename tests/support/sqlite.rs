//! A database file for each test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jobwright::admin::MigrationStatus;
use jobwright::internal::engine::Migration;
use jobwright::{DatabaseConfig, JobId, NodeId, Sqlite};
use rusqlite::Connection;

use super::{SqlDb, TestDb, unique};

#[derive(Debug)]
pub(crate) struct SqliteDb {
    store: Sqlite,
    config: DatabaseConfig,
    // The last field: dropped after all connections are closed.
    dir: Dir,
}

/// Removes the directory when it is dropped: SQLite keeps files beside the database.
#[derive(Debug)]
struct Dir(PathBuf);

impl Dir {
    fn file(&self) -> PathBuf {
        self.0.join("jobs.db")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("the directory {} was left behind: {error}", self.0.display());
        }
    }
}

/// Runs statements on a new connection, where blocking is allowed.
async fn execute(file: &Path, sql: String) {
    let file = file.to_owned();
    let run = move || {
        let connection = Connection::open(file).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection.execute_batch(&sql).unwrap();
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}

impl SqliteDb {
    /// Returns the configuration to open it with.
    pub(crate) fn config(&self) -> DatabaseConfig {
        self.config.clone()
    }

    /// Opens a connection that bypasses the store.
    pub(crate) fn connection(&self) -> Connection {
        let connection = Connection::open(self.dir.file()).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }

    async fn raw(&self, sql: impl Into<String>) {
        execute(&self.dir.file(), sql.into()).await;
    }
}

/// Returns an id as an SQL literal.
fn blob(id: JobId) -> String {
    format!("x'{}'", id.as_uuid().simple())
}

impl TestDb for SqliteDb {
    type Store = Sqlite;
    const HEARS_HINTS: bool = true;

    async fn create_empty() -> Option<Self> {
        let dir = Dir(std::env::temp_dir().join(unique("jobwright_")));
        std::fs::create_dir(&dir.0).unwrap();
        let config = DatabaseConfig::url(format!("sqlite:{}", dir.file().display()));
        let store = Sqlite::open(&config).await.unwrap();
        Some(Self { store, config, dir })
    }

    fn store(&self) -> Sqlite {
        self.store.clone()
    }

    async fn reopen(&self) -> Sqlite {
        Sqlite::open(&self.config).await.unwrap()
    }

    async fn suspend(&self, id: JobId) {
        let id = blob(id);
        self.raw(format!(
            "update jobwright_job set state = 'suspended', suspended_at = created_at where id = {id} and state = 'waiting'"
        ))
        .await;
    }

    async fn restart_sequence(&self, next: i64) {
        self.raw(format!("update jobwright_sequence set value = {} where name = 'job'", next - 1)).await;
    }

    async fn set_counters(&self, id: JobId, version: i64, attempt: u32) {
        self.raw(format!("update jobwright_job set version = {version}, attempt = {attempt} where id = {}", blob(id)))
            .await;
    }

    async fn date_back(&self, id: JobId, by: Duration) {
        let by = by.as_micros();
        self.raw(format!("update jobwright_job set created_at = created_at - {by} where id = {}", blob(id))).await;
    }

    async fn end_lease(&self, node: NodeId) {
        self.raw(format!("update jobwright_node set expires_at = started_at where id = {node}")).await;
    }

    async fn make_due(&self, name: &str, at: Timestamp) {
        let at = at.as_microsecond();
        self.raw(format!("update jobwright_schedule set next_at = {at} where name = '{name}'")).await;
    }

    async fn clear(&self) {
        self.raw(
            "begin immediate; delete from jobwright_job; delete from jobwright_terminating_handler;
             delete from jobwright_submission; delete from jobwright_schedule; delete from jobwright_node;
             delete from jobwright_unique_key; delete from jobwright_rate_log; delete from jobwright_unblock; commit",
        )
        .await;
    }
}

impl SqlDb for SqliteDb {
    const LATER: (&'static str, &'static str) = (
        "create table jobwright_later (seq integer primary key)",
        "insert into jobwright_later
         select seq from jobwright_job where seq not in (select seq from jobwright_later) limit 10",
    );

    const NO_ENTRY: [&'static str; 2] = [
        "create trigger no_entry before insert on {}migration when new.name = 'later' begin select raise(abort, 'refused'); end",
        "drop trigger no_entry",
    ];

    async fn pretend_newer(&self, min_compatible: i32) {
        let row = format!("(9999, 'future', '', {min_compatible}, true, 0)");
        let columns = "version, name, checksum, min_compatible, is_filled, applied_at";
        self.raw(&format!("insert into jobwright_migration ({columns}) values {row}")).await;
    }

    async fn migrate_with(&self, more: &[Migration]) -> jobwright::Result<Vec<MigrationStatus>> {
        jobwright::internal::engine::testing::migrate_sqlite(&self.store, more).await
    }

    async fn remembering(&self, keep: jobwright::Keep) -> Sqlite {
        let history = jobwright::HistoryConfig::default().keep(keep);
        Sqlite::open(&self.config.clone().history(history)).await.unwrap()
    }

    async fn spoil(&self, id: JobId) {
        let id = id.as_uuid().simple();
        let set =
            "errors = cast(x'ff' as text), headers = '[]', options = json_set(coalesce(options, '{}'), '$.tenant', 5)";
        self.raw(format!("update jobwright_job set {set} where id = x'{id}'")).await;
    }

    /// There are none.
    async fn let_anything_in(&self) {}

    async fn change(&self, sql: &str) {
        self.raw(sql.replace("{}", "jobwright_")).await;
    }

    async fn refuse(&self, id: JobId) {
        let id = id.as_uuid().simple();
        let when = format!("new.id = x'{id}' and new.state = 'waiting'");
        self.raw(format!(
            "create trigger refuse before update on jobwright_job when {when} begin select raise(abort, 'refused'); end"
        ))
        .await;
    }

    async fn lose_rules(&self) {
        self.raw("delete from jobwright_rule").await;
    }

    async fn age_unblocks(&self, by: Option<Duration>) {
        match by.map(|by| by.as_micros()) {
            Some(by) => {
                self.raw(format!("update jobwright_unblock set unblock_at = unixepoch() * 1000000 - {by}")).await;
            }
            None => self.raw("delete from jobwright_unblock").await,
        }
    }

    async fn pass(&self, by: Duration) {
        let by = by.as_micros();
        let sooner = format!("json_set(options, '$.expires', (options ->> 'expires') - {by})");
        self.raw(format!(
            "begin immediate; update jobwright_job set options = {sooner} where options ->> 'expires' is not null;
             update jobwright_job set due_at = due_at - {by} where due_at is not null;
             update jobwright_unblock set unblock_at = unblock_at - {by};
             update jobwright_rate_log set at = at - {by};
             update jobwright_unique_key set taken_at = taken_at - {by}, expires_at = expires_at - {by};
             update jobwright_schedule set anchor_at = anchor_at - {by}, next_at = next_at - {by}, last_at = last_at - {by},
                                           until_at = until_at - {by};
             commit"
        ))
        .await;
    }

    async fn write_ahead(&self, by: Duration) {
        let later = jiff::SignedDuration::try_from(by).unwrap();
        let by = by.as_micros();
        let failed = Timestamp::now().checked_add(later).unwrap();
        self.raw(format!(
            "begin immediate;
             update jobwright_job set options = json_set(options, '$.expires', (options ->> 'expires') + {by})
             where options ->> 'expires' is not null and state in ('waiting', 'running', 'blocked', 'timer');
             update jobwright_job set errors = json_set(errors, '$[#-1].at', '{failed}') where errors is not null and state = 'timer';
             update jobwright_job
             set created_at = created_at + {by}, claimed_at = claimed_at + {by}, visible_at = visible_at + {by}, lease_until = lease_until + {by},
                 due_at = due_at + {by}
             where state not in ('suspended', 'dead');
             update jobwright_unblock set unblock_at = unblock_at + {by};
             update jobwright_rate_log set at = at + {by};
             update jobwright_unique_key set taken_at = taken_at + {by}, expires_at = expires_at + {by};
             update jobwright_schedule set anchor_at = anchor_at + {by}, next_at = next_at + {by}, last_at = last_at + {by}, created_at = created_at + {by};
             update jobwright_submission set received_at = received_at + {by};
             update jobwright_result set created_at = created_at + {by}, expires_at = expires_at + {by};
             commit"
        ))
        .await;
    }

    async fn starts(&self) -> Vec<(String, i64)> {
        let connection = self.connection();
        let mut statement = connection.prepare("select key, n from jobwright_rate_log order by at, key").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    async fn admitted(&self) -> BTreeSet<JobId> {
        let connection = self.connection();
        let mut statement = connection
            .prepare("select id from jobwright_job where admitted and state in ('waiting', 'running', 'external')")
            .unwrap();
        let ids = statement.query_map([], |row| row.get::<_, [u8; 16]>(0)).unwrap();
        ids.map(|id| uuid::Uuid::from_bytes(id.unwrap()).into()).collect()
    }

    async fn pretend_edited(&self) {
        self.raw("update jobwright_migration set checksum = 'edited' where version = 1").await;
    }
}
