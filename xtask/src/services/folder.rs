//! The folders of private servers: created for the user who runs the server, removed when it stops.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::state::Started;
use super::user::User;
use crate::run::{self, Result};

const TEMPORARY: &str = "jobwright-services-";

/// Creates a new, empty folder that only `user` can enter: beside the other services or, where that user has no access, in the folder for temporary
/// files.
fn create(name: &str, user: Option<User>) -> Result<PathBuf> {
    let wanted = super::home().join(name);
    remove(&wanted)?;
    make(&wanted, user)?;
    if reachable(&wanted, user) {
        return Ok(wanted);
    }
    remove(&wanted)?;
    let temporary = std::env::temp_dir().join(format!("{TEMPORARY}{}-{name}", std::process::id()));
    // Fails if it already exists: a folder of another user is not to be trusted.
    make(&temporary, user)?;
    Ok(temporary)
}

/// Creates a folder and starts a server in it. If that fails, nothing runs there and the folder would be forgotten, so it is removed.
pub(super) fn with_server(
    name: &str,
    user: Option<User>,
    start: impl FnOnce(&Path) -> Result<Started>,
) -> Result<Started> {
    let home = super::home();
    fs::create_dir_all(&home).map_err(|why| format!("cannot create {}: {why}", home.display()))?;
    let dir = create(name, user)?;
    start(&dir).inspect_err(|_| {
        if let Err(why) = remove(&dir) {
            eprintln!("{name}: {why}");
        }
    })
}

fn make(path: &Path, user: Option<User>) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|why| format!("cannot create {}: {why}", path.display()))?;
    give(path, user)
}

/// Gives a file or folder to the user who runs the server.
pub(super) fn give(path: &Path, user: Option<User>) -> Result<()> {
    let Some(user) = user else { return Ok(()) };
    chown(path, Some(user.uid), Some(user.gid))
        .map_err(|why| format!("cannot give {} to user {}: {why}", path.display(), user.uid))
}

fn reachable(path: &Path, user: Option<User>) -> bool {
    let mut test = User::command(user, "test");
    run::capture(test.arg("-w").arg(path), Duration::from_secs(10)).is_ok()
}

/// Removes a folder that `create` made; nothing else, whatever the state file says.
pub(super) fn remove(path: &Path) -> Result<()> {
    let own = path.parent() == Some(&super::home());
    let temporary = path.parent() == Some(&std::env::temp_dir())
        && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(TEMPORARY));
    if !own && !temporary {
        return Err(format!("{} is not a folder of these services: left alone", path.display()));
    }
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(format!("cannot remove {}: {why}", path.display())),
    }
}
