//! Opens connections to the file, and explains why that failed.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::error::{explain, is_busy};
use super::serial_connection::SerialConnection;
use super::shared::Shared;
use crate::config::Access;
use crate::error::{Error, ErrorKind, Result};
use crate::store::sections::section;

const SQL: &str = include_str!("open.sql");
pub(super) const HAS_MIGRATIONS: &str = section(SQL, "has_migrations");

/// Settings of each connection. Synchronous is FULL, because "committed" must survive a power failure. Foreign keys are off, as is SQLite's
/// default: the bundled build turns them on, but the file is the user's own. The WAL is truncated after a long reader let it grow.
pub(super) const SETTINGS: &str = "pragma synchronous = full; pragma foreign_keys = off; pragma temp_store = memory; \
                        pragma journal_size_limit = 67108864;";

/// How long SQLite itself waits for writers of other processes, before this program checks its deadline again. Short, because SQLite's own
/// waits grow to 100 ms, and a heartbeat would lose every race against a busy process.
pub(super) const LOCK_WAIT: Duration = Duration::from_millis(10);

/// Held while a file is created. The system drops all locks of a process on a file when the process closes any descriptor of it. So SQLite must
/// not open the file before the descriptor that created it is closed, or it would lose its locks without knowing.
static CREATING: Mutex<()> = Mutex::new(());

impl Shared {
    /// Opens one more connection for reading.
    pub(super) async fn open_connection(&self) -> Result<SerialConnection> {
        let (place, label, wait, identity) = (self.place.clone(), self.label.clone(), self.call_timeout, self.identity);
        opening(&self.label, self.connect_timeout, move |deadline| {
            let connection = open_reader(place.path(), &label, wait, deadline).map(SerialConnection::new);
            // If opening failed, a replaced file is the better reason.
            identity.still_at(&place)?;
            connection
        })
        .await
    }
}

/// Opens connections on a thread where blocking is allowed.
pub(super) async fn opening<T: Send + 'static>(
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

/// Opens the connection that writes. Creates the file if it does not exist and `access` allows that.
pub(super) fn open_writer(path: &Path, label: &str, access: Access, deadline: Instant) -> Result<Connection> {
    refuse_directory(path)?;
    let create = access == Access::Create;
    if !create && !path.exists() {
        return Err(Error::config(format!(
            "there is no database at {}; `jobwright migrate` or `jobwright worker` creates it",
            path.display()
        )));
    }
    let creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    if create {
        keep_private(path);
    }
    drop(creating);
    let connection = open(path, label, create, LOCK_WAIT, deadline)?;
    if connection.is_readonly("main").unwrap_or(false) {
        return Err(Error::new(
            ErrorKind::ReadOnly,
            format!("{label} can't be written: check the permissions of the file, its owner and its file system"),
        ));
    }
    match access {
        Access::ReadOnly => return Ok(connection),
        Access::Existing => is_ours(&connection, path, label, deadline)?,
        Access::Create => {}
    }
    use_wal(&connection, label, deadline)?;
    Ok(connection)
}

/// Opens a connection that only reads an existing file. It is not opened read-only, because after a crash a reader may have to recover the
/// WAL.
pub(super) fn open_reader(path: &Path, label: &str, wait: Duration, deadline: Instant) -> Result<Connection> {
    let connection = open(path, label, false, wait, deadline)?;
    connection.pragma_update(None, "query_only", true).map_err(|e| explain(e, "set up a connection", label))?;
    Ok(connection)
}

fn open(path: &Path, label: &str, create: bool, wait: Duration, deadline: Instant) -> Result<Connection> {
    // SQLITE_OPEN_URI is not set, so a file name may contain any characters.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let connection = Connection::open_with_flags(path, flags).map_err(|e| explain(e, "open a connection", label))?;
    connection
        .busy_timeout(wait)
        .and_then(|()| patiently(deadline, || connection.execute_batch(SETTINGS)))
        .map_err(|e| explain(e, "set up a connection", label))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Creates the file before SQLite does, readable by its owner only, because payloads are private. SQLite gives the files beside it the same
/// permissions. If creating it fails, SQLite reports why.
fn keep_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// Checks that the file has jobwright's tables: a mistyped path may name the file of another application.
fn is_ours(connection: &Connection, path: &Path, label: &str, deadline: Instant) -> Result<()> {
    let ours = patiently(deadline, || connection.query_row(HAS_MIGRATIONS, [], |row| row.get::<_, bool>(0)));
    if ours.map_err(|error| explain(error, "look for the tables", label))? {
        return Ok(());
    }
    Err(Error::config(format!(
        "the database {} has no tables of jobwright; `jobwright migrate` or `jobwright worker` creates them",
        path.display()
    )))
}

/// Detects a mistake that SQLite would only call "unable to open database file".
fn refuse_directory(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::config(format!("the database {} is a directory: name a file", path.display())));
    }
    Ok(())
}

/// Switches to the write-ahead log, without which readers can't work beside the writer. The mode is stored in the file. While several
/// processes switch it at once, SQLite answers "busy" without waiting.
fn use_wal(connection: &Connection, label: &str, deadline: Instant) -> Result<()> {
    let mode =
        patiently(deadline, || connection.query_row("pragma journal_mode = wal", [], |row| row.get::<_, String>(0)));
    match mode {
        Ok(mode) if mode == "wal" => Ok(()),
        Ok(mode) => Err(Error::config(format!(
            "{label} stays in journal mode {mode:?}: a write-ahead log needs a file on a local file system"
        ))),
        Err(error) => Err(explain(error, "turn on the write-ahead log", label)),
    }
}

/// Tries again while other processes that open or close the same file hold a lock for which SQLite does not wait.
fn patiently<T>(deadline: Instant, mut work: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    loop {
        match work() {
            Err(error) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}
