//! Whether a configuration file that nobody named may be trusted.
//!
//! A configuration names programs, and these run as whoever starts `jobwright`. So a file that is read only because it lies in the current
//! directory must be one that no other user can have written, as with ssh and git. Root may write everything anyway. A user who names a
//! file with `--config` vouches for it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};

use crate::failure::Failure;

const WRITABLE_BY_ALL: u32 = 0o002;
const WRITABLE_BY_GROUP: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// Refuses a file that another user could have written or put there. `opened` describes the file that was read.
pub(super) fn require(path: &Path, opened: &Metadata) -> Result<(), Failure> {
    let Some(why) = fault(path, opened) else { return Ok(()) };
    let shown = path.display();
    Err(Failure::Usage(format!(
        "the configuration file {shown} of the current directory is not used: {why}, and the programs that it names would run as you. \
         If you trust it, name it with `--config {shown}`; else remove what is wrong, or work in another directory"
    )))
}

/// Returns why a file can't be trusted.
fn fault(path: &Path, opened: &Metadata) -> Option<String> {
    if let Some(why) = foreign(opened) {
        return Some(format!("it {why}"));
    }
    if let Some(who) = other_writers(opened) {
        return Some(format!("{who} may write it"));
    }
    let Ok(link) = std::fs::symlink_metadata(path) else {
        return Some("it was removed while it was read".to_owned());
    };
    if let Some(why) = foreign(&link) {
        return Some(format!("the link of that name {why}"));
    }
    // The directory of the name and that of the file, which differ if the name is a link.
    let real = std::fs::canonicalize(path).ok();
    let named = path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    [named, real.as_deref().and_then(Path::parent)].into_iter().find_map(|directory| {
        match directory.map(std::fs::metadata) {
            Some(Ok(directory)) => unsafe_directory(&directory, opened),
            _ => Some("its directory can't be checked".to_owned()),
        }
    })
}

/// Returns why others could have put the file into its directory, even though it is not theirs: they may have moved or linked it there.
fn unsafe_directory(directory: &Metadata, file: &Metadata) -> Option<String> {
    if let Some(why) = foreign(directory) {
        return Some(format!("its directory {why}"));
    }
    let who = other_writers(directory)?;
    // There, as in /tmp, nobody moves the files of others. A further name for one can still be made on some systems.
    let is_bound = directory.mode() & STICKY != 0 && file.nlink() == 1;
    (!is_bound).then(|| format!("{who} may write its directory"))
}

/// Returns whose a file is if it belongs neither to this user nor to root.
fn foreign(file: &Metadata) -> Option<String> {
    let owner = Uid::from_raw(file.uid());
    (owner != Uid::effective() && !owner.is_root()).then(|| match User::from_uid(owner) {
        Ok(Some(user)) => format!("belongs to the user {}", user.name),
        _ => format!("belongs to user {owner}"),
    })
}

/// Returns who, apart from this user and root, may write a file.
pub(crate) fn other_writers(file: &Metadata) -> Option<String> {
    if file.mode() & WRITABLE_BY_ALL != 0 {
        return Some("everybody on this machine".to_owned());
    }
    let group = Gid::from_raw(file.gid());
    if file.mode() & WRITABLE_BY_GROUP == 0 || is_private(group) {
        return None;
    }
    Some(match Group::from_gid(group) {
        Ok(Some(group)) => format!("the group {}", group.name),
        _ => format!("group {group}"),
    })
}

/// Whether a group has no members but this user and root. Many systems give each user a group of the same name, and make new files writable
/// for it.
fn is_private(group: Gid) -> bool {
    let me = User::from_uid(Uid::effective()).ok().flatten().map(|user| user.name);
    let is_us = |name: &String| name == "root" || Some(name) == me.as_ref();
    match Group::from_gid(group) {
        Ok(Some(group)) => (group.gid.as_raw() == 0 || is_us(&group.name)) && group.mem.iter().all(is_us),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// A directory with a file that may be trusted.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            std::fs::write(place.0.path().join("x.toml"), "").unwrap();
            place.set("x.toml", 0o644);
            place.set("", 0o755);
            place
        }

        fn set(&self, name: &str, mode: u32) {
            set_permissions(self.0.path().join(name), Permissions::from_mode(mode)).unwrap();
        }

        fn fault(&self, name: &str) -> Option<String> {
            let path = self.0.path().join(name);
            fault(&path, &std::fs::metadata(&path).unwrap())
        }

        fn refused(&self, name: &str, part: &str) {
            let why = self.fault(name).unwrap_or_else(|| panic!("{name} is trusted"));
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn files_that_others_may_write_are_refused() {
        let place = Place::new();
        assert_eq!(place.fault("x.toml"), None);
        place.set("x.toml", 0o666);
        place.refused("x.toml", "everybody on this machine may write it");
        place.set("x.toml", 0o644);
        place.set("", 0o777);
        place.refused("x.toml", "everybody on this machine may write its directory");
        place.set("", 0o1777);
        assert_eq!(place.fault("x.toml"), None, "in a directory such as /tmp it is this user's");
        std::fs::hard_link(place.0.path().join("x.toml"), place.0.path().join("y.toml")).unwrap();
        place.refused("y.toml", "may write its directory");
        std::fs::remove_file(place.0.path().join("y.toml")).unwrap();
        place.set("", 0o755);
        let inner = place.0.path().join("open");
        std::fs::create_dir(&inner).unwrap();
        place.set("open", 0o777);
        symlink("../x.toml", inner.join("link.toml")).unwrap();
        place.refused("open/link.toml", "may write its directory");
        std::fs::rename(place.0.path().join("x.toml"), inner.join("x.toml")).unwrap();
        symlink("open/x.toml", place.0.path().join("far.toml")).unwrap();
        place.refused("far.toml", "may write its directory");
    }

    /// Only root can give files away, so for another user this test proves nothing.
    #[test]
    fn files_of_other_users_are_refused() {
        const NOBODY: u32 = 65_534;
        if !Uid::effective().is_root() {
            return;
        }
        let place = Place::new();
        let file = place.0.path().join("x.toml");
        chown(&file, Some(NOBODY), None).unwrap();
        place.refused("x.toml", "it belongs to");
        chown(&file, Some(0), Some(NOBODY)).unwrap();
        assert_eq!(place.fault("x.toml"), None);
        place.set("x.toml", 0o664);
        place.refused("x.toml", "group");
        chown(&file, Some(0), Some(0)).unwrap();
        assert_eq!(place.fault("x.toml"), None, "the group has no other members");
        chown(place.0.path(), Some(NOBODY), None).unwrap();
        place.refused("x.toml", "its directory belongs to");
        chown(place.0.path(), Some(0), None).unwrap();
        let link = place.0.path().join("link.toml");
        symlink("x.toml", &link).unwrap();
        assert_eq!(place.fault("link.toml"), None);
        std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
        place.refused("link.toml", "the link of that name belongs to");
    }
}
