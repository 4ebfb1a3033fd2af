//! Shows which nodes on this host are alive: each has a file beside the database, `FILE-node-ID`.
//!
//! The process that registered a node keeps its file locked, and the kernel releases that lock when the process ends, however it ends. A
//! process may also hang, so each heartbeat writes a new number into the file. Liveness thus depends neither on the database's only write
//! lock, which any long transaction may hold, nor on a clock, which anyone may set.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind as IoKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, ErrorKind, Result};

/// As wide as the largest number, so that a file never changes its size and a full disk stops no heartbeat.
const WIDTH: usize = 20;
/// How long a new file may stay locked by processes that only check whether it is locked.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// The files of one database, and those that this handle keeps locked.
#[derive(Debug)]
pub(super) struct LivenessFiles {
    database: PathBuf,
    held: Mutex<HashMap<i64, File>>,
    /// The nodes whose files were seen, and those whose missing file was reported.
    known: Mutex<(HashSet<i64>, HashSet<i64>)>,
}

/// The state of a node according to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// The file is there. If no process holds its lock, the node's process has ended.
    Found { heartbeats: i64, ended: bool },
    /// The file was there earlier. Its node finds out with its next heartbeat, if it lives.
    Removed,
    /// No such file was ever seen here. The node may live and have its file elsewhere.
    NeverSeen,
    /// The file can't be read, for a reason that says nothing of its node.
    Unreadable,
}

impl LivenessFiles {
    pub(super) fn new(database: &Path) -> Self {
        Self { database: database.to_owned(), held: Mutex::default(), known: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<i64, File>> {
        lock(&self.held)
    }

    fn path(&self, node: i64) -> PathBuf {
        let mut name = self.database.as_os_str().to_owned();
        name.push(format!("-node-{node}"));
        name.into()
    }

    /// Creates the file of a new node and locks it. Returns `false` if another node has that id.
    pub(super) fn create(&self, node: i64) -> Result<bool> {
        let path = self.path(node);
        let failed = |error: std::io::Error| unusable("made and locked", &path, error);
        let mut file = match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == IoKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        write(&mut file, 0).map_err(failed)?;
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                Err(error) => return Err(failed(error.into())),
            }
        }
        self.held().insert(node, file);
        lock(&self.known).0.insert(node);
        Ok(true)
    }

    /// Writes one more heartbeat. Returns `false` if the file is gone, and with it the proof that the node is alive.
    pub(super) fn heartbeat(&self, node: i64) -> Result<bool> {
        let path = self.path(node);
        let next = match fs::read_to_string(&path) {
            Ok(text) => number(&text).wrapping_add(1),
            Err(error) if error.kind() == IoKind::NotFound => return Ok(false),
            Err(error) => return Err(unusable("read", &path, error)),
        };
        let mut file = File::options().write(true).open(&path).map_err(|error| unusable("written", &path, error))?;
        write(&mut file, next).map_err(|error| unusable("written", &path, error))?;
        Ok(true)
    }

    /// Reads a node's file.
    pub(super) fn look(&self, node: i64) -> Liveness {
        let mut file = match File::open(self.path(node)) {
            Ok(file) => file,
            Err(error) if error.kind() == IoKind::NotFound => {
                return if lock(&self.known).0.contains(&node) { Liveness::Removed } else { Liveness::NeverSeen };
            }
            // Too many open files, for instance.
            Err(_) => return Liveness::Unreadable,
        };
        lock(&self.known).0.insert(node);
        // This lock is released when the file is closed, below.
        let ended = file.try_lock_shared().is_ok();
        let mut text = String::new();
        match file.read_to_string(&mut text) {
            Ok(_) => Liveness::Found { heartbeats: number(&text), ended },
            Err(_) => Liveness::Unreadable,
        }
    }

    /// Whether the database file is younger than `moment`, in microseconds since 1970: then it is a copy, and a node that was registered at
    /// that moment was registered in the original.
    pub(super) fn copied_after(&self, moment: i64) -> bool {
        let born = fs::metadata(&self.database).and_then(|file| file.created()).ok();
        let born = born.and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
        born.is_some_and(|born| born.as_micros() > u128::from(moment.max(0).unsigned_abs()))
    }

    /// Forgets what is known of other nodes than these.
    pub(super) fn retain_known(&self, is_registered: impl Fn(i64) -> bool) {
        let known = &mut *lock(&self.known);
        known.0.retain(|node| is_registered(*node));
        known.1.retain(|node| is_registered(*node));
    }

    /// Returns the path of the node's file when it is called for the first time for that node.
    pub(super) fn first_report(&self, node: i64) -> Option<PathBuf> {
        lock(&self.known).1.insert(node).then(|| self.path(node))
    }

    /// Returns the time of the last heartbeat, for display.
    pub(super) fn last(&self, node: i64) -> Option<SystemTime> {
        fs::metadata(self.path(node)).and_then(|file| file.modified()).ok()
    }

    /// Removes the file of a node that is no longer registered.
    pub(super) fn remove(&self, node: i64) {
        self.held().remove(&node);
        let known = &mut *lock(&self.known);
        known.0.remove(&node);
        known.1.remove(&node);
        if let Err(error) = fs::remove_file(self.path(node))
            && error.kind() != IoKind::NotFound
        {
            tracing::debug!(node, %error, "the file of a node was left behind");
        }
    }

    /// Removes files of processes that ended after creating theirs and before registering.
    pub(super) fn clean(&self, registered: &[i64]) {
        let (Some(dir), Some(name)) =
            (self.database.parent(), self.database.file_name().and_then(|name| name.to_str()))
        else {
            return;
        };
        let prefix = format!("{name}-node-");
        let files = fs::read_dir(dir).into_iter().flatten().flatten();
        let ids = files.filter_map(|file| file.file_name().to_str()?.strip_prefix(&prefix)?.parse::<i64>().ok());
        for node in ids.filter(|node| !registered.contains(node)) {
            if matches!(self.look(node), Liveness::Found { ended: true, .. }) {
                self.remove(node);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(file: &mut File, heartbeats: i64) -> std::io::Result<()> {
    file.write_all(format!("{heartbeats:0WIDTH$}").as_bytes())
}

fn number(text: &str) -> i64 {
    text.trim().parse().unwrap_or(-1)
}

fn unusable(what: &str, path: &Path, error: std::io::Error) -> Error {
    let text = format!(
        "the file {}, which shows other processes that this one lives, can't be {what}: check the directory, its permissions and its free space",
        path.display()
    );
    Error::new(ErrorKind::Unreachable, text).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (PathBuf, LivenessFiles) {
        let dir = std::env::temp_dir().join(format!("jobwright_beacons_{}", uuid::Uuid::now_v7().simple()));
        fs::create_dir(&dir).unwrap();
        let liveness_files = LivenessFiles::new(&dir.join("jobs.db"));
        (dir, liveness_files)
    }

    #[test]
    fn a_beat_changes_the_number_and_the_end_frees_the_lock() {
        let (dir, ours) = place();
        let theirs = LivenessFiles::new(&ours.database);
        assert!(ours.create(7).unwrap());
        assert!(!theirs.create(7).unwrap(), "the id is taken");
        assert_eq!(theirs.look(7), Liveness::Found { heartbeats: 0, ended: false });
        assert!(theirs.heartbeat(7).unwrap());
        assert_eq!(ours.look(7), Liveness::Found { heartbeats: 1, ended: false });
        drop(ours);
        assert_eq!(theirs.look(7), Liveness::Found { heartbeats: 1, ended: true });
        fs::remove_file(theirs.path(7)).unwrap();
        assert!(!theirs.heartbeat(7).unwrap());
        assert_eq!(theirs.look(7), Liveness::Removed, "it was there");
        theirs.remove(7);
        assert_eq!(theirs.look(7), Liveness::NeverSeen, "nothing is known of it");
        // As when too many files are open.
        fs::create_dir(theirs.path(7)).unwrap();
        assert_eq!(theirs.look(7), Liveness::Unreadable);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn files_of_nobody_are_removed() {
        let (dir, ours) = place();
        let theirs = LivenessFiles::new(&ours.database);
        for node in [1, 2, 3] {
            assert!(ours.create(node).unwrap());
        }
        fs::create_dir(ours.path(4)).unwrap();
        ours.held().remove(&1);
        ours.held().remove(&2);
        theirs.clean(&[2]);
        let left = [1, 2, 3, 4].map(|node| theirs.path(node).exists());
        assert_eq!(left, [false, true, true, true], "one that is registered, held or can't be read stays");
        fs::remove_dir_all(dir).unwrap();
    }
}
