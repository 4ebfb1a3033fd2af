//! Packages of npm, in folders that only this checkout's own commands use.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::programs;
use crate::run::{self, Result};
use crate::test;

/// Returns the folder `node_modules` with a package and everything that it needs, and downloads them where `part` of it is not there yet.
pub(super) fn packages(folder: &str, package: &str, part: &str) -> Result<PathBuf> {
    let home = test::tools_home().join(folder);
    let modules = home.join("node_modules");
    if modules.join(part).exists() {
        return Ok(modules);
    }
    let npm = programs::ensure("npm", &format!("npm, which fetches {package},"), || programs::on_path("npm"))?;
    std::fs::create_dir_all(&home).map_err(|why| format!("cannot create {}: {why}", home.display()))?;
    let mut command = Command::new(npm);
    command.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", "--prefix"]);
    command.arg(&home).arg(package).stdout(std::io::stderr());
    run::run(&mut command, Duration::from_secs(300))?;
    Ok(modules)
}
