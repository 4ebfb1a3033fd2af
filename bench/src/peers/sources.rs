//! Downloads and builds the peers, once for all runs, into folders under target/.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::list::{Kit, Peer};
use crate::Result;
use crate::fetch::{succeeds, venv};

/// How a peer's program is started.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) args: Vec<PathBuf>,
    /// Where its error output goes.
    pub(super) log: PathBuf,
    pub(super) variables: Vec<(&'static str, String)>,
}

/// The peers prepared so far, by source or program: the folder, or the reason why there is none.
#[derive(Default)]
pub(super) struct Sources {
    kits: HashMap<&'static str, Result<PathBuf, String>>,
}

impl Sources {
    pub(super) async fn fetch(&mut self, peer: &Peer) -> Result<Launch> {
        let kit = if peer.kit == Kit::Cargo { peer.program } else { folder_name(peer.kit) };
        if !self.kits.contains_key(kit) {
            eprintln!("  fetching with {} …", folder_name(peer.kit));
            let fetched = fetch(peer).await.map_err(|e| e.to_string());
            self.kits.insert(kit, fetched);
        }
        let folder = match self.kits.get(kit) {
            Some(Ok(folder)) => folder.clone(),
            Some(Err(why)) => return Err(why.clone().into()),
            None => return Err(format!("nothing by {kit}").into()),
        };
        let log = folder.join(format!("{}.log", peer.case));
        let script = vec![folder.join(peer.program)];
        let (program, args) = match peer.kit {
            Kit::Npm => (folder.join("node_modules/node/bin/node"), script),
            Kit::Python => (folder.join("venv/bin/python"), script),
            Kit::Cargo => (folder.join("release").join(peer.program), Vec::new()),
        };
        let groups = peer.groups.map(|groups| ("BENCH_GROUPS", groups.to_string()));
        let variables = groups.into_iter().chain([("BENCH_WAY", peer.way.to_owned())]).collect();
        Ok(Launch { program, args, log, variables })
    }
}

fn folder_name(kit: Kit) -> &'static str {
    match kit {
        Kit::Npm => "npm",
        Kit::Python => "pip",
        Kit::Cargo => "cargo",
    }
}

async fn fetch(peer: &Peer) -> Result<PathBuf> {
    let folder = target()?.join("peers").join(folder_name(peer.kit));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{} can't be made: {e}", folder.display()))?;
    match peer.kit {
        Kit::Npm => npm(&folder).await?,
        Kit::Python => python(&folder).await?,
        Kit::Cargo => cargo(&folder, peer.program).await?,
    }
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

async fn npm(folder: &Path) -> Result<()> {
    let from = programs()?.join("npm");
    if copied(&from, folder, "package.json")? {
        return Ok(());
    }
    let mut install = Command::new("npm");
    install.current_dir(folder).args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]);
    succeeds(&mut install, 600).await?;
    std::fs::copy(from.join("package.json"), folder.join("installed"))?;
    Ok(())
}

async fn python(folder: &Path) -> Result<()> {
    let from = programs()?.join("python");
    if copied(&from, folder, "requirements.txt")? {
        return Ok(());
    }
    venv(&folder.join("venv"), &["-r".into(), folder.join("requirements.txt")]).await?;
    std::fs::copy(from.join("requirements.txt"), folder.join("installed"))?;
    Ok(())
}

/// Builds a separate project with its own lock file; cargo knows what is up to date.
async fn cargo(folder: &Path, program: &str) -> Result<()> {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.current_dir(programs()?.join("rust")).args(["build", "--release", "--locked", "--quiet", "--bin", program]);
    // Variables of this program's own build do not apply to it.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_")) {
        build.env_remove(name);
    }
    // With this variable, the compile-time check of its statements would use that database, which lacks its tables.
    build.env_remove("DATABASE_URL").env("SQLX_OFFLINE", "true");
    build.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH").arg("--target-dir").arg(folder);
    succeeds(&mut build, 3600).await
}
