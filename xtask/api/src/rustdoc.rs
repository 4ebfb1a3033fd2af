//! Building rustdoc's JSON with the stable compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::Result;

/// Makes this program the wrapper of rustdoc. Its value is the rustdoc to run.
const WRAPPED: &str = "XTASK_API_RUSTDOC";

/// Runs rustdoc if cargo called this program in its place, and returns its end.
///
/// Only rustdoc may know that unstable options are wanted: build scripts run again when `RUSTC_BOOTSTRAP` changes, and with them nearly all
/// dependencies would be built again, now and after this.
pub(crate) fn as_wrapper() -> Option<ExitCode> {
    let rustdoc = std::env::var_os(WRAPPED)?;
    let status = Command::new(&rustdoc).args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    Some(match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("cannot run {}: {why}", rustdoc.display());
            ExitCode::FAILURE
        }
    })
}

/// Builds the JSON of the library with all its features, and returns its file.
pub(crate) fn json(workspace: &Path) -> Result<PathBuf> {
    let file = target(workspace)?.join("doc").join("jobwright.json");
    // One of other features would look like ours; cargo makes a missing one again.
    match std::fs::remove_file(&file) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("cannot remove {}: {why}", file.display()));
        }
        _ => {}
    }
    let own = std::env::current_exe().map_err(|why| format!("the path of this program is not known: {why}"))?;
    let rustdoc = std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let mut command = cargo(workspace);
    command.args(["rustdoc", "--quiet", "--package", "jobwright", "--lib", "--all-features", "--locked", "--"]);
    command.args(["-Z", "unstable-options", "--output-format", "json"]);
    // Flags of the user's could add private items.
    command.env("RUSTDOC", own).env(WRAPPED, rustdoc).env_remove("RUSTDOCFLAGS");
    let status = command.status().map_err(|why| format!("cannot run cargo: {why}"))?;
    if !status.success() {
        return Err(format!("`cargo rustdoc` ended with {status}: its messages are above"));
    }
    if file.exists() {
        return Ok(file);
    }
    Err(format!("`cargo rustdoc` succeeded, but wrote no {}", file.display()))
}

/// Asks cargo for the folder that it builds in.
fn target(workspace: &Path) -> Result<PathBuf> {
    let mut command = cargo(workspace);
    command.args(["metadata", "--no-deps", "--format-version", "1"]).stderr(Stdio::inherit());
    let output = command.output().map_err(|why| format!("cannot run cargo: {why}"))?;
    serde_json::from_slice::<serde_json::Value>(&output.stdout)
        .ok()
        .and_then(|metadata| metadata["target_directory"].as_str().map(PathBuf::from))
        .ok_or_else(|| "`cargo metadata` does not say where cargo builds: its messages are above".to_owned())
}

fn cargo(workspace: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace);
    command
}

/// Returns the compiler's version as it gives it, such as `1.95.0`.
pub(crate) fn compiler() -> Result<String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&program)
        .arg("--version")
        .output()
        .map_err(|why| format!("cannot run {}: {why}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.split_whitespace().nth(1).map(str::to_owned).ok_or_else(|| format!("`rustc --version` said {said:?}"))
}
