//! Finds the one file that a name leads to, however the name is spelled.
//!
//! A database is its file together with the files beside it: SQLite's write-ahead log, and the files that show which nodes are alive. All
//! processes must use the same ones. So every name is resolved to the path of the file itself, and the files beside it are named after that
//! path, as SQLite does. A file that has no such path, because it has several names or is mounted on its own, is refused.

use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// The most symbolic links that are followed to a file that does not exist yet, as many as Linux follows.
const LINKS: usize = 40;

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The name as it was given, as an absolute path. It may lead elsewhere later.
    given: PathBuf,
    /// The path of the file that the name led to, without links.
    path: PathBuf,
}

impl Place {
    /// Finds the file that an absolute path leads to. The file itself may be missing.
    pub(super) fn find(given: &Path) -> Result<Self> {
        match resolve(given) {
            Ok(path) => Ok(Self { given: given.to_owned(), path }),
            Err(error) if error.kind() == IoKind::NotFound => Err(Error::config(format!(
                "the directory of the database {} does not exist: create it, or name another file",
                given.display()
            ))),
            Err(error) => {
                let text = format!(
                    "the database file {} can't be looked for: check its directory, its permissions and the links on the way",
                    given.display()
                );
                Err(Error::new(ErrorKind::Unreachable, text).with_source(error))
            }
        }
    }

    /// Returns the path of the file itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the paths that have to lead to the file as long as it is used.
    pub(super) fn names(&self) -> impl Iterator<Item = &Path> {
        let given = Some(self.given.as_path()).filter(|given| *given != self.path);
        std::iter::once(self.path.as_path()).chain(given)
    }

    /// Refuses a file for which two processes may use different files beside it. Each would have its own write-ahead log, which destroys the
    /// database, and would not see the nodes of the other.
    pub(super) fn refuse_unshareable(&self) -> Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        let shown = self.path.display();
        let links = hard_links(&self.path);
        if links > 1 {
            return Err(Error::config(format!(
                "the database {shown} has {links} names (hard links), and a process that uses another name has another write-ahead log, which \
                 destroys the database: keep one name and remove the others (`find DIRECTORY -samefile {shown}` lists them); a symbolic link may \
                 take their place"
            )));
        }
        if is_mounted(&self.path) {
            return Err(Error::config(format!(
                "the database {shown} is mounted on its own (a bind mount of a single file), so the files beside it (`-wal`, `-shm`, \
                 `-node-ID`) are not those of processes that use its own path, which destroys the database: mount the directory that the \
                 file is in"
            )));
        }
        Ok(())
    }
}

/// Follows all links. Of a file that does not exist, the directory must.
fn resolve(given: &Path) -> std::io::Result<PathBuf> {
    let mut name = given.to_owned();
    for _ in 0..LINKS {
        match std::fs::canonicalize(&name) {
            Err(error) if error.kind() == IoKind::NotFound => {}
            found => return found,
        }
        // A link to a file that does not exist yet is followed too: SQLite would create that file.
        let (Some(directory), Some(file)) = (name.parent(), name.file_name()) else { break };
        let directory = std::fs::canonicalize(directory)?;
        let path = directory.join(file);
        match std::fs::read_link(&path) {
            Ok(target) => name = directory.join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(IoKind::NotFound.into())
}

/// Returns how many names a file has.
#[cfg(unix)]
fn hard_links(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| std::os::unix::fs::MetadataExt::nlink(&file))
}

#[cfg(not(unix))]
fn hard_links(_: &Path) -> u64 {
    1
}

/// Whether something is mounted at this very path. Device numbers don't show it: a bind mount keeps that of its source, and on an overlay the files of a
/// directory may have others than the directory.
fn is_mounted(path: &Path) -> bool {
    cfg!(target_os = "linux")
        && std::fs::read("/proc/self/mountinfo").is_ok_and(|mounts| mount_points(&mounts).any(|point| point == path))
}

/// Returns the mount points in the kernel's list of mounts.
fn mount_points(mounts: &[u8]) -> impl Iterator<Item = PathBuf> {
    let fifth = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescaped);
    mounts.split(|byte| *byte == b'\n').filter_map(fifth).map(|point| path_of(&point))
}

/// Decodes `\` and three octal digits, as which the kernel writes white space and `\`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = if *first == b'\\' { after.get(..3) } else { None };
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    bytes
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
    path.into()
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_spelling_leads_to_one_path() {
        let dir = std::env::temp_dir().join(format!("jobwright_place_{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir_all(dir.join("real/inner")).unwrap();
        let real = std::fs::canonicalize(dir.join("real")).unwrap();
        symlink("real/jobs.db", dir.join("file")).unwrap();
        symlink("file", dir.join("twice")).unwrap();
        symlink("real", dir.join("folder")).unwrap();
        let found = |name: &str| Place::find(&dir.join(name)).unwrap();
        // A name must lead to the same place before and after the file is created.
        for exists in [false, true] {
            for name in ["real/jobs.db", "file", "twice", "folder/jobs.db", "real/inner/../jobs.db", "folder/./jobs.db"]
            {
                assert_eq!(found(name).path(), real.join("jobs.db"), "{name}, exists: {exists}");
            }
            std::fs::write(real.join("jobs.db"), "").unwrap();
        }
        assert_eq!(found("folder/inner/new.db").path(), real.join("inner/new.db"));
        symlink("loop", dir.join("loop")).unwrap();
        assert!(Place::find(&dir.join("loop")).is_err());
        assert!(Place::find(&dir.join("missing/jobs.db")).unwrap_err().to_string().contains("does not exist"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_mount_point_is_found_whatever_its_name_contains() {
        let mounts = b"36 35 98:0 /root / rw - ext4 /dev/sda rw\n\
                       40 36 98:0 /a/jobs.db /srv/my\\040jobs\\134x.db rw,noatime shared:1 - ext4 /dev/sda rw\n\
                       short line\n";
        let points: Vec<_> = mount_points(mounts).collect();
        assert_eq!(points, [Path::new("/"), Path::new("/srv/my jobs\\x.db")]);
        assert!(is_mounted(Path::new("/proc")) || !cfg!(target_os = "linux"));
        assert!(!is_mounted(&std::env::temp_dir().join("jobs.db")));
    }
}
