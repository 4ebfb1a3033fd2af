//! The embedded store: SQLite, in a file that may be the application's own.
//!
//! One connection writes, since SQLite allows only one writer anyway. Callers in this process queue for it fairly. Every transaction begins
//! with the write lock held, so that none can fail half-way for lack of it. Two more connections read: one for the engine and one for
//! operators. Other processes on the same host may use the same file.

mod admin;
mod admission;
mod aging;
mod audit;
mod claim;
mod clock;
mod delivered;
mod expiring;
mod external;
mod failure;
mod fragments;
mod hints;
mod history;
mod identity;
mod insert;
mod insert_many;
mod job_operations;
mod lent;
mod liveness_files;
mod migrate;
mod nodes;
mod open;
mod progress;
mod queue_capacity;
mod receive;
mod retry;
mod roles;
mod rows;
mod rules;
mod schedules;
mod serial_connection;
mod settle;
mod status;
mod testing;
#[cfg(test)]
mod tests;
mod transaction;
mod unique;
mod unreadable;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, named_params};

pub(crate) use self::failure::driver_kind;
use self::identity::Identity;
use self::liveness_files::LivenessFiles;
#[doc(hidden)]
pub use self::migrate::MIGRATIONS;
pub(crate) use self::queue_capacity::refuse_full;
use self::serial_connection::SerialConnection;
pub use self::transaction::SqliteTransaction;
use super::{JobStore, Store};
use crate::config::{Access, Backend, DatabaseConfig, HistoryConfig};
use crate::error::{Error, ErrorKind, Result};

const TAKE_NUMBERS: &str = include_str!("sql/take_numbers.sql");

/// A store in an SQLite file. Cheap to clone; all clones share its connections.
///
/// A transaction of a context holds the file's only write lock from its first statement to its end. All other writers wait for it, at most
/// for `database.call_timeout`, and then fail with [`ErrorKind::Busy`].
#[derive(Clone, Debug)]
pub struct Sqlite {
    inner: Arc<Inner>,
}

/// The state that all handles share.
struct Inner {
    path: PathBuf,
    /// The open file, whatever its name leads to by now.
    identity: Identity,
    /// `sqlite:` and the path, for messages.
    label: String,
    call_timeout: Duration,
    connect_timeout: Duration,
    writer: SerialConnection,
    /// For the engine's short checks.
    checks: SerialConnection,
    /// For operators, whose queries may take a while.
    queries: SerialConnection,
    history: HistoryConfig,
    /// The files that show which nodes are alive.
    liveness_files: Arc<LivenessFiles>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl Sqlite {
    /// Opens the file that the URL `sqlite:FILE` names. Creates it if it does not exist and [`DatabaseConfig::access`] allows that; its
    /// directory must exist. The tables are not created: see [`MessageServices::migrate`](crate::MessageServices::migrate).
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) if the URL names no SQLite file, or one that can't be used; [`ReadOnly`](ErrorKind::ReadOnly) if the
    /// file can't be written; [`Unreachable`](ErrorKind::Unreachable) if it can't be opened; [`Timeout`](ErrorKind::Timeout) or
    /// [`Busy`](ErrorKind::Busy) if that took longer than `database.connect_timeout`.
    pub async fn open(config: &DatabaseConfig) -> Result<Self> {
        config.validate()?;
        let Backend::Sqlite(file) = config.backend()? else {
            return Err(Error::config("the database URL does not name an SQLite file: use `sqlite:FILE`"));
        };
        // Absolute, so that later connections open the same file even if the working directory changes.
        let path = std::path::absolute(file)
            .map_err(|error| Error::config(format!("the database file {file:?} can't be found")).with_source(error))?;
        Self::open_path(path, None, config.access, config.call_timeout, config.connect_timeout, config.history.clone())
            .await
    }

    /// Opens the file, which must be `same` if that is given.
    async fn open_path(
        path: PathBuf,
        same: Option<Identity>,
        access: Access,
        call_timeout: Duration,
        connect_timeout: Duration,
        history: HistoryConfig,
    ) -> Result<Self> {
        let label = format!("sqlite:{}", path.display());
        let (file, name) = (path.clone(), label.clone());
        let (identity, [writer, checks, queries]) = opening(&label, connect_timeout, move |deadline| {
            if let Some(same) = same {
                same.still_at(&file)?;
            }
            let writer = open::open_writer(&file, &name, access, deadline)?;
            let checks = open::open_reader(&file, &name, call_timeout, deadline)?;
            let queries = open::open_reader(&file, &name, call_timeout, deadline)?;
            // Checked last: either all three connections have the file that has the name now, or the replacement is detected.
            let identity = same.map_or_else(|| opened(&file), Ok)?;
            identity.still_at(&file)?;
            Ok((identity, [writer, checks, queries].map(SerialConnection::new)))
        })
        .await?;
        let liveness_files = Arc::new(LivenessFiles::new(&path));
        let inner = Inner {
            path,
            identity,
            label,
            call_timeout,
            connect_timeout,
            writer,
            checks,
            queries,
            history,
            liveness_files,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the file's absolute path.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the schema changes of this build as SQL, for a file without the tables. A program migrates its file when it opens it.
    pub fn migrations() -> String {
        migrate::script()
    }
}

impl Inner {
    /// Opens one more connection for reading.
    async fn open_connection(&self) -> Result<SerialConnection> {
        let (path, label, wait, identity) = (self.path.clone(), self.label.clone(), self.call_timeout, self.identity);
        opening(&self.label, self.connect_timeout, move |deadline| {
            let connection = open::open_reader(&path, &label, wait, deadline).map(SerialConnection::new);
            // If opening failed, a replaced file is the better reason.
            identity.still_at(&path)?;
            connection
        })
        .await
    }
}

/// Identifies the file that was just opened.
fn opened(file: &Path) -> Result<Identity> {
    Identity::of(file)?.ok_or_else(|| {
        let text = format!("the file was moved or replaced: sqlite:{} was removed while it was opened", file.display());
        Error::new(ErrorKind::Replaced, text)
    })
}

/// Opens connections on a thread where blocking is allowed.
async fn opening<T: Send + 'static>(
    label: &str,
    limit: Duration,
    work: impl FnOnce(std::time::Instant) -> Result<T> + Send + 'static,
) -> Result<T> {
    let deadline = std::time::Instant::now() + limit;
    let task = tokio::task::spawn_blocking(move || work(deadline));
    match tokio::time::timeout(limit + Duration::from_millis(250), task).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            Err(Error::new(ErrorKind::Unreachable, format!("opening {label} was given up")).with_source(error))
        }
        Err(_) => Err(Error::new(
            ErrorKind::Timeout,
            format!("opening {label} took longer than `database.connect_timeout` ({limit:?})"),
        )),
    }
}

/// Takes `count` consecutive numbers and returns the first. They are never used again, unless the transaction is rolled back.
fn take_numbers(connection: &Connection, name: &str, count: usize) -> rusqlite::Result<i64> {
    let count = rows::count(count);
    let mut statement = connection.prepare_cached(TAKE_NUMBERS)?;
    let last: i64 = statement.query_row(named_params! { ":name": name, ":count": count }, |row| row.get(0))?;
    Ok(last - count + 1)
}

impl Store for Sqlite {
    type Transaction = SqliteTransaction;

    async fn begin(&self) -> Result<SqliteTransaction> {
        self.begin_transaction().await
    }

    fn engine(&self) -> Arc<dyn JobStore> {
        Arc::new(self.clone())
    }
}
