//! PostgreSQL and PgBouncer refuse to run as root; if this is root, they run as another user.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use crate::run::{self, Result};

#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// Returns the user who runs the servers: `None` for the present one.
    pub(crate) fn for_servers() -> Result<Option<Self>> {
        if !is_root()? {
            return Ok(None);
        }
        for name in ["postgres", "nobody"] {
            if let (Ok(uid), Ok(gid)) = (id(&["-u", name]), id(&["-g", name])) {
                return Ok(Some(Self { uid, gid }));
            }
        }
        Err("PostgreSQL and PgBouncer refuse to run as root, and there is neither a user `postgres` nor `nobody`: \
             create one, or run this as another user"
            .to_owned())
    }

    /// Returns a command that will run as that user.
    pub(crate) fn command(user: Option<Self>, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid);
        }
        // That user may have no access to the present working directory.
        command.current_dir("/");
        command
    }
}

pub(super) fn is_root() -> Result<bool> {
    Ok(id(&["-u"])? == 0)
}

fn id(args: &[&str]) -> Result<u32> {
    let text = run::capture(Command::new("id").args(args), Duration::from_secs(10))?;
    text.parse().map_err(|why| format!("`id` said `{text}`: {why}"))
}
