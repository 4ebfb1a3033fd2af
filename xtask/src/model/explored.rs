//! Which model was explored last: a digest of all that an exploration depends on, in a file of the repository.

use crate::digest::{self, Digest};
use crate::run::{self, Result};

/// Where the digest is in the repository.
pub(super) const FILE: &str = "model/explored.txt";

const HEAD: &str = "# The model that `cargo xtask model` last explored, written by it: a digest of model/src, its manifest and the explorer's version.\n";

/// Returns the digest of the model as it is.
pub(super) fn digest() -> Result<String> {
    let mut sources = Digest::default();
    sources.add_files(&["model/src", "model/Cargo.toml"])?;
    let lock = digest::read(&run::workspace().join("Cargo.lock"))?;
    sources.add("Cargo.lock", packages(&String::from_utf8_lossy(&lock)).as_bytes());
    sources.finish()
}

/// Returns the part of the lock file about the explorer. The rest of the library's packages do not matter to the model.
fn packages(lock: &str) -> String {
    lock.split("[[package]]").filter(|part| part.contains("\nname = \"stateright\"\n")).collect()
}

pub(super) fn is_recorded(digest: &str) -> bool {
    std::fs::read_to_string(run::workspace().join(FILE)).is_ok_and(|text| text.lines().any(|line| line == digest))
}

pub(super) fn record(digest: &str) -> Result<()> {
    run::write(&run::workspace().join(FILE), &format!("{HEAD}{digest}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_recorded_digest_is_known() {
        assert!(!is_recorded("0000000000000000000000000000000000000000") && !is_recorded(""));
    }

    #[test]
    fn the_explorers_version_is_part_of_it() {
        let lock = "[[package]]\nname = \"serde\"\nversion = \"1\"\n\n[[package]]\nname = \"stateright\"\nversion = \"0.31.0\"\n";
        assert_eq!(packages(lock), "\nname = \"stateright\"\nversion = \"0.31.0\"\n");
        assert!(!packages(&std::fs::read_to_string(run::workspace().join("Cargo.lock")).unwrap()).is_empty());
    }
}
