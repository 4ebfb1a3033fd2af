//! Downloads the peers, once for all runs, into a folder under target/.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::list::Peer;
use crate::Result;

/// How a peer's program is started.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) args: Vec<PathBuf>,
    /// Where its error output goes.
    pub(super) log: PathBuf,
    pub(super) variables: Vec<(&'static str, String)>,
}

/// Returns how to start a peer whose packages are in this folder.
pub(super) fn launch(folder: &Path, peer: &Peer) -> Launch {
    let groups = peer.groups.map(|groups| ("BENCH_GROUPS", groups.to_string()));
    Launch {
        program: folder.join("node_modules/node/bin/node"),
        args: vec![folder.join(peer.program)],
        log: folder.join(format!("{}.log", peer.case)),
        variables: groups.into_iter().chain([("BENCH_WAY", peer.way.to_owned())]).collect(),
    }
}

/// Installs the packages from npm, unless they are there already. Returns their folder.
pub(super) async fn fetch() -> Result<PathBuf> {
    let (from, folder) = (programs()?.join("npm"), target()?.join("peers/npm"));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{} can't be made: {e}", folder.display()))?;
    if copied(&from, &folder, "package.json")? {
        return Ok(folder);
    }
    eprintln!("  fetching with npm …");
    let mut install = Command::new("npm");
    install.current_dir(&folder).args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]);
    succeeds(&mut install, 600).await?;
    std::fs::copy(from.join("package.json"), folder.join("installed"))?;
    Ok(folder)
}

/// Returns the target folder that this program was built into.
fn target() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.ancestors().nth(2).ok_or("this program is in no target folder")?.to_owned())
}

/// Returns the sources of the programs that drive the peers.
fn programs() -> Result<PathBuf> {
    // Cargo sets this when it runs the program. The value from build time is the fallback.
    let own =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    for manifest in [own, PathBuf::from(env!("CARGO_MANIFEST_DIR"))] {
        if manifest.join("peers").is_dir() {
            return Ok(manifest.join("peers"));
        }
    }
    Err("bench/peers is not where this program was built".into())
}

/// Copies the files, since programs look for packages beside themselves. Returns whether the required packages are installed already.
fn copied(from: &Path, to: &Path, asks: &str) -> Result<bool> {
    let installed = std::fs::read(to.join("installed")).ok();
    for entry in std::fs::read_dir(from)? {
        let file = entry?.path();
        if let Some(name) = file.file_name().filter(|_| file.is_file()) {
            std::fs::copy(&file, to.join(name))?;
        }
    }
    Ok(installed.is_some_and(|installed| std::fs::read(from.join(asks)).is_ok_and(|asked| asked == installed)))
}

/// Runs a program to its end; the error has its last message.
async fn succeeds(command: &mut Command, seconds: u64) -> Result<()> {
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
