//! Finds the servers' programs, and installs them where that is allowed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::user;
use crate::run::{self, Result};

/// Where Debian puts programs that are not on every user's PATH.
const MORE: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Finds a program of PostgreSQL. The newest server's folder comes first: there the programs belong together.
pub(crate) fn postgres(program: &str) -> Option<PathBuf> {
    postgres_folders()
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .or_else(|| on_path(program))
}

/// Returns the folders of the versions, which Debian keeps side by side.
fn postgres_folders() -> Vec<PathBuf> {
    let Ok(entries) = Path::new("/usr/lib/postgresql").read_dir() else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_string_lossy().parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}

pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(MORE.map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Returns the result of `find`; if there is none, installs Debian's package and tries again.
pub(crate) fn ensure(package: &str, what: &str, find: impl Fn() -> Option<PathBuf>) -> Result<PathBuf> {
    if let Some(path) = find() {
        return Ok(path);
    }
    let help = format!(
        "On Debian or Ubuntu: sudo apt-get install {package}. Elsewhere: the package of that name, with its programs on \
         PATH."
    );
    install(package).map_err(|why| format!("{what} is not installed, and {why}\n  {help}"))?;
    find().ok_or_else(|| format!("{package} was installed, but {what} is still not found.\n  {help}"))
}

fn install(package: &str) -> Result<()> {
    if on_path("apt-get").is_none() {
        return Err("there is no apt-get to install it with.".to_owned());
    }
    let mut command = if user::is_root()? {
        Command::new("sh")
    } else {
        let mut sudo = Command::new("sudo");
        run::capture(sudo.args(["-n", "true"]), Duration::from_secs(10))
            .map_err(|_| "this is neither root nor has it sudo without a password.".to_owned())?;
        let mut command = Command::new("sudo");
        command.args(["-n", "sh"]);
        command
    };
    command.args(["-c", INSTALL, "install", package]).stdout(std::io::stderr());
    eprintln!("{package}: not installed; installing Debian's package");
    run::run(&mut command, Duration::from_secs(20 * 60)).map_err(|why| format!("installing it failed: {why}"))
}

/// The package's own server must not start: it would take the usual port, and stay. Debian runs `policy-rc.d` before it starts a server. If the
/// machine has no policy, this one exists for the time of the installation.
const INSTALL: &str = r#"set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
# What was fetched earlier may do, if the lists cannot be fetched now.
timeout 300 apt-get update -q || echo "apt-get update failed; trying with the package lists there are" >&2
timeout 900 apt-get install -q -y --no-install-recommends "$1"
"#;
