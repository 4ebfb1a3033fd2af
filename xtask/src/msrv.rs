//! The oldest Rust that the library and the program compile with: `rust-version` in `Cargo.toml`.

use std::process::Command;
use std::time::Duration;

use crate::documents;
use crate::report::Report;
use crate::run::{self, Result};

/// Downloading a compiler takes a minute; a quarter of an hour means that something hangs.
const INSTALL: Duration = Duration::from_secs(15 * 60);

/// Compiles the library and the program with the oldest Rust.
pub(crate) fn run() -> Result<()> {
    let version = version()?;
    if is_installed(&version) {
        check(&version)
    } else {
        Err(format!("Rust {version} is not installed: {}", run::shown(&install(&version))))
    }
}

/// Runs the check as a step of a set. It is not run where that Rust is neither installed nor may be.
pub(crate) fn step(report: &mut Report) -> Option<()> {
    const NAME: &str = "oldest Rust";
    let version = match version() {
        Ok(version) => version,
        Err(why) => return report.step(NAME, || Err(why)).then_some(()),
    };
    if !is_installed(&version) {
        if std::env::var_os("JOBWRIGHT_CI_INSTALL").is_none_or(|value| value != "1") {
            report.not_run(NAME, &format!("Rust {version} is not installed (JOBWRIGHT_CI_INSTALL=1 installs it)"));
            return Some(());
        }
        report.step("install the oldest Rust", || run::run(&mut install(&version), INSTALL)).then_some(())?;
    }
    report.step(NAME, || check(&version)).then_some(())
}

/// The features that take a newer Rust, as docs/stability.md says.
const NEWER: [&str; 1] = ["jobwright/sqlx-0_9"];

/// Compiles what users compile. Tests, benchmarks and tools are for the Rust of developers.
fn check(version: &str) -> Result<()> {
    let mut command = rustup(version, "cargo");
    let features = documents::features()?;
    let features: Vec<&str> = features.split(',').filter(|name| !NEWER.contains(name)).collect();
    command.args(["check", "--package", "jobwright", "--package", "jobwright-cli", "--locked", "--features"]);
    command.arg(features.join(","));
    run::run(&mut command, run::CARGO)
}

fn is_installed(version: &str) -> bool {
    // Asked to run a compiler that is missing, rustup would install it.
    let mut list = Command::new("rustup");
    list.args(["toolchain", "list"]);
    run::capture(&mut list, Duration::from_secs(30)).is_ok_and(|said| lists(&said, version))
}

/// Whether rustup's list of compilers has this version: `1.89-x86_64-unknown-linux-gnu (default)`.
fn lists(said: &str, version: &str) -> bool {
    let names = said.lines().filter_map(|line| line.split_once('-'));
    names.into_iter().any(|(name, _)| name == version)
}

fn install(version: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["toolchain", "install", version, "--profile", "minimal"]);
    command
}

/// Returns a command that runs a program of that version in the workspace.
fn rustup(version: &str, program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", version, program]).current_dir(run::workspace());
    // They would select another compiler than that of this version.
    command.env_remove("RUSTC").env_remove("RUSTC_WRAPPER");
    command
}

/// Reads the version from the manifest.
fn version() -> Result<String> {
    let path = run::workspace().join("Cargo.toml");
    let text = std::fs::read_to_string(&path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    parse(&text).ok_or_else(|| format!("{} names no rust-version", path.display()))
}

fn parse(manifest: &str) -> Option<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \""))?;
    line.split_once('"').map(|(version, _)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_and_looked_for_whole() {
        assert_eq!(parse("[a]\nrust-version = \"1.89\"\n"), Some("1.89".to_owned()));
        assert_eq!(parse("rust-version.workspace = true"), None);
        assert!(version().is_ok());
        let said = "stable-x86_64-unknown-linux-gnu (active, default)\n1.89-x86_64-unknown-linux-gnu\n";
        assert!(lists(said, "1.89"));
        assert!(!lists(said, "1.8") && !lists(said, "1.95") && !lists("no installed toolchains", "1.89"));
    }
}
