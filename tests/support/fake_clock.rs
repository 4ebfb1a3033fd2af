//! Processes whose clock a test sets while they run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::unique;

/// Returns the library that gives a process a different clock.
pub(crate) fn library() -> PathBuf {
    std::fs::read_dir("/usr/lib")
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketime.so.1")))
        .find(|path| path.exists())
        .expect("this test needs libfaketime: install the package `faketime`")
}

/// A wall clock shared by the processes that follow it: the true time plus an offset. The monotonic clock is not affected, because in reality it is
/// never set either.
#[derive(Debug)]
pub(crate) struct FakedClock {
    file: PathBuf,
}

impl FakedClock {
    /// Creates a clock that shows the true time.
    pub(crate) fn right() -> Self {
        let clock = Self { file: std::env::temp_dir().join(unique("jobwright_clock_")) };
        clock.set(0);
        clock
    }

    /// Sets the clock this many seconds ahead.
    pub(crate) fn set(&self, seconds: i64) {
        // Replaced atomically: processes read the file all the time.
        let part = self.file.with_extension("part");
        std::fs::write(&part, format!("{seconds:+}s\n")).unwrap();
        std::fs::rename(&part, &self.file).unwrap();
    }

    /// Makes a process and its children follow the clock.
    pub(crate) fn followed_by(&self, command: &mut Command) {
        follow(command, &self.file);
    }
}

fn follow(command: &mut Command, file: &Path) {
    command
        .env("LD_PRELOAD", library())
        .env("FAKETIME_TIMESTAMP_FILE", file)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        // File times stay real.
        .env("NO_FAKE_STAT", "1")
        .env_remove("FAKETIME");
}

impl Drop for FakedClock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}
