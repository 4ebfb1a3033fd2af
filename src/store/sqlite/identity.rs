//! Identifies the database file, even after its name has come to mean another one.
//!
//! SQLite keeps using a file that was removed, moved or replaced, and reports nothing. Whatever is committed there is lost with the last
//! process that has it open, and a process that opens the name again finds something else.

use std::path::Path;

use super::place::Place;
use crate::error::{Error, ErrorKind, Result};

/// A file, identified by its device and inode. On platforms without these, all files count as the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(#[cfg(unix)] (u64, u64));

impl Identity {
    /// Identifies the file that has this name now. Returns `None` if there is none.
    pub(super) fn of(path: &Path) -> Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(file) => Ok(Some(Self::from(&file))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let text = format!(
                    "the database file {} can't be checked: see its permissions and those of its directory",
                    path.display()
                );
                Err(Error::new(ErrorKind::Unreachable, text).with_source(error))
            }
        }
    }

    /// Fails if the name of the place, or the path that it led to, now leads to another file, or to none.
    pub(super) fn still_at(self, place: &Place) -> Result<()> {
        for path in place.names() {
            let what = match Self::of(path)? {
                Some(now) if now == self => continue,
                Some(_) => "another file has its name now",
                None => "there is no file of that name any more",
            };
            return Err(Error::new(
                ErrorKind::Replaced,
                format!(
                    "the file was moved or replaced: sqlite:{} was opened here, and {what}. Nothing that is written to the old one would be found \
                     again: put it back if it still exists, and start again. Stop all programs that use a database before you move or replace it",
                    path.display()
                ),
            ));
        }
        Ok(())
    }
}

impl From<&std::fs::Metadata> for Identity {
    #[cfg(unix)]
    fn from(file: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self((file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    fn from(_: &std::fs::Metadata) -> Self {
        Self()
    }
}
