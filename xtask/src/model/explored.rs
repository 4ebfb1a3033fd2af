//! Which model was explored last: a digest of all that an exploration depends on, in a file of the repository.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::run::{self, Result};

/// Where the digest is in the repository.
pub(super) const FILE: &str = "model/explored.txt";

const HEAD: &str = "# The model that `cargo xtask model` last explored, written by it: a digest of model/src, its manifest and the explorer's version.\n";

/// Returns the digest of the model as it is.
pub(super) fn digest() -> Result<String> {
    let top = run::workspace();
    let mut sources = Vec::new();
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "model/src", "model/Cargo.toml"]);
    for file in run::capture(list.current_dir(&top), Duration::from_secs(30))?.lines() {
        let path = top.join(file);
        // Not there any more: it was deleted and that is not committed yet.
        if path.exists() {
            add(&mut sources, file, &read(&path)?);
        }
    }
    add(&mut sources, "Cargo.lock", packages(&String::from_utf8_lossy(&read(&top.join("Cargo.lock"))?)).as_bytes());
    hash(&sources)
}

/// Adds a name and its content so that no two lists of them are alike.
fn add(sources: &mut Vec<u8>, name: &str, content: &[u8]) {
    sources.extend(format!("{name} {}\n", content.len()).into_bytes());
    sources.extend(content);
}

/// Returns the part of the lock file about the explorer. The rest of the library's packages do not matter to the model.
fn packages(lock: &str) -> String {
    lock.split("[[package]]").filter(|part| part.contains("\nname = \"stateright\"\n")).collect()
}

/// Lets git compute a digest, so that none is computed here.
fn hash(content: &[u8]) -> Result<String> {
    let mut child = Command::new("git")
        .args(["hash-object", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|why| format!("cannot run git: {why}"))?;
    let problem = |why| format!("git hash-object: {why}");
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(content).map_err(problem)?;
    }
    let output = child.wait_with_output().map_err(problem)?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !said.is_empty() { Ok(said) } else { Err("git hash-object failed".to_owned()) }
}

pub(super) fn is_recorded(digest: &str) -> bool {
    std::fs::read_to_string(run::workspace().join(FILE)).is_ok_and(|text| text.lines().any(|line| line == digest))
}

pub(super) fn record(digest: &str) -> Result<()> {
    run::write(&run::workspace().join(FILE), &format!("{HEAD}{digest}\n"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_names_and_contents() {
        let of = |parts: &[(&str, &str)]| {
            let mut sources = Vec::new();
            for (name, content) in parts {
                add(&mut sources, name, content.as_bytes());
            }
            hash(&sources).unwrap()
        };
        let one = of(&[("a.rs", "x\n"), ("b.rs", "y\n")]);
        assert_eq!(one, of(&[("a.rs", "x\n"), ("b.rs", "y\n")]));
        assert_ne!(one, of(&[("a.rs", "x\n"), ("b.rs", "z\n")]));
        assert_ne!(one, of(&[("a.rs", "x\n"), ("c.rs", "y\n")]));
        assert_ne!(of(&[("a", "b 1\nc")]), of(&[("a", ""), ("b", "c")]));
        assert!(!is_recorded(&one) && !is_recorded(""));
    }

    #[test]
    fn the_explorers_version_is_part_of_it() {
        let lock = "[[package]]\nname = \"serde\"\nversion = \"1\"\n\n[[package]]\nname = \"stateright\"\nversion = \"0.31.0\"\n";
        assert_eq!(packages(lock), "\nname = \"stateright\"\nversion = \"0.31.0\"\n");
        assert!(!packages(&std::fs::read_to_string(run::workspace().join("Cargo.lock")).unwrap()).is_empty());
    }
}
