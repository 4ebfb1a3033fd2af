//! Downloads the software that ours is compared with, from where its own users get it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use crate::Result;

/// Creates a Python environment in that folder, with packages from pip's configured index. Returns the interpreter.
pub(crate) async fn venv<P: AsRef<OsStr>>(folder: &Path, packages: &[P]) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    succeeds(Command::new("python3").args(["-m", "venv"]).arg(folder), 60).await?;
    let python = folder.join("bin/python");
    succeeds(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages), 180).await?;
    Ok(python)
}

/// Runs a program to its end; the error has its last message.
pub(crate) async fn succeeds(command: &mut Command, seconds: u64) -> Result<()> {
    let what = command.as_std().get_program().display().to_string();
    let running = command.kill_on_drop(true).output();
    let ended = tokio::time::timeout(Duration::from_secs(seconds), running).await;
    let output = ended
        .map_err(|_| format!("{what} did not end within {seconds} s"))?
        .map_err(|e| format!("{what} can't be started: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{what} ended with {}: {}", output.status, text.lines().last().unwrap_or_default()).into())
}
