//! Whether a handler's program can be started, as far as its file tells.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Where a system looks for programs if there is no PATH.
const NO_PATH: &str = "/bin:/usr/bin";

/// Returns the paths where a program is looked for.
pub(crate) fn places(program: &str) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![PathBuf::from(program)];
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(NO_PATH));
    std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
}

/// Returns why a program can't be started.
pub(crate) fn fault(program: &str) -> Option<&'static str> {
    let there: Vec<_> = places(program).iter().filter_map(|place| std::fs::metadata(place).ok()).collect();
    if there.iter().any(|about| about.is_file() && about.permissions().mode() & 0o111 != 0) {
        return None;
    }
    Some(if there.is_empty() { "does not exist" } else { "may not be executed" })
}
