//! Opening the file: three connections, and what is wrong if that fails.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::failure::{explain, is_busy};
use super::migrate::HAS_MIGRATIONS;
use crate::config::Access;
use crate::error::{Error, ErrorKind, Result};

/// Set on each connection. FULL, because "committed" must survive a power failure. Foreign keys off, as in SQLite itself:
/// the bundled build turns them on, and the file is the user's own. The WAL is cut back after a long reader let it grow.
const SETTINGS: &str = "pragma synchronous = full; pragma foreign_keys = off; pragma temp_store = memory; \
                        pragma journal_size_limit = 67108864;";

/// How long SQLite itself waits for the writers of other processes, before we look at the clock again. Short, because its
/// own waits grow to 100 ms, and a heartbeat would lose every race against a busy process.
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// Opens the connection that writes, and creates the file if there is none and it may.
pub(super) fn open_writer(path: &Path, place: &str, access: Access, deadline: Instant) -> Result<Connection> {
    check_path(path)?;
    let create = access == Access::Create;
    if !create && !path.exists() {
        return Err(Error::config(format!(
            "there is no database at {}; `jobwright migrate` or `jobwright worker` creates it",
            path.display()
        )));
    }
    if create {
        keep_private(path);
    }
    let connection = open(path, place, create, LOCK_WAIT, deadline)?;
    if connection.is_readonly("main").unwrap_or(false) {
        return Err(Error::new(
            ErrorKind::ReadOnly,
            format!("{place} can't be written: check the permissions of the file, its owner and its file system"),
        ));
    }
    match access {
        Access::Look => return Ok(connection),
        Access::Use => is_ours(&connection, path, place, deadline)?,
        Access::Create => {}
    }
    use_wal(&connection, place, deadline)?;
    Ok(connection)
}

/// Opens a connection that only reads, of a file that there is. Not opened read-only: after a crash a reader may have to recover the WAL.
pub(super) fn open_reader(path: &Path, place: &str, wait: Duration, deadline: Instant) -> Result<Connection> {
    let connection = open(path, place, false, wait, deadline)?;
    connection.pragma_update(None, "query_only", true).map_err(|e| explain(e, "set up a connection", place))?;
    Ok(connection)
}

fn open(path: &Path, place: &str, create: bool, wait: Duration, deadline: Instant) -> Result<Connection> {
    // Without SQLITE_OPEN_URI: a file name is a file name, whatever characters it has.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let connection = Connection::open_with_flags(path, flags).map_err(|e| explain(e, "open a connection", place))?;
    connection
        .busy_timeout(wait)
        .and_then(|()| patiently(deadline, || connection.execute_batch(SETTINGS)))
        .map_err(|e| explain(e, "set up a connection", place))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Makes the file before SQLite does, for its owner alone: payloads are nobody else's business. The files beside it get the rights it has. What keeps
/// it from being made is told by SQLite.
fn keep_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// Whoever mistyped a path may have named the file of another application.
fn is_ours(connection: &Connection, path: &Path, place: &str, deadline: Instant) -> Result<()> {
    let ours = patiently(deadline, || connection.query_row(HAS_MIGRATIONS, [], |row| row.get::<_, bool>(0)));
    if ours.map_err(|error| explain(error, "look for the tables", place))? {
        return Ok(());
    }
    Err(Error::config(format!(
        "the database {} has no tables of jobwright; `jobwright migrate` or `jobwright worker` creates them",
        path.display()
    )))
}

/// Finds the mistakes that SQLite would only call "unable to open database file".
fn check_path(path: &Path) -> Result<()> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Error::config(format!("the database {shown} is a directory: name a file")));
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => Err(Error::config(format!(
            "the directory of the database {shown} does not exist: create it, or name another file"
        ))),
        _ => Ok(()),
    }
}

/// Only a write-ahead log lets readers work beside the writer. The change is kept in the file; while several processes try
/// it at once SQLite answers "busy" without waiting.
fn use_wal(connection: &Connection, place: &str, deadline: Instant) -> Result<()> {
    let mode =
        patiently(deadline, || connection.query_row("pragma journal_mode = wal", [], |row| row.get::<_, String>(0)));
    match mode {
        Ok(mode) if mode == "wal" => Ok(()),
        Ok(mode) => Err(Error::config(format!(
            "{place} stays in journal mode {mode:?}: a write-ahead log needs a file on a local file system"
        ))),
        Err(error) => Err(explain(error, "turn on the write-ahead log", place)),
    }
}

/// Tries again while others, who open or close the same file, hold a lock that SQLite does not wait for.
fn patiently<T>(deadline: Instant, mut work: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    loop {
        match work() {
            Err(error) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}
