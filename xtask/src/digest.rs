//! A digest of files of the repository, by which a check knows that nothing it depends on has changed since it passed.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::run::{self, Result};

/// Names and contents, in an order.
#[derive(Default)]
pub(crate) struct Digest(Vec<u8>);

impl Digest {
    /// Adds a name and its content so that no two lists of them are alike.
    pub(crate) fn add(&mut self, name: &str, content: &[u8]) {
        self.0.extend(format!("{name} {}\n", content.len()).into_bytes());
        self.0.extend(content);
    }

    /// Adds the files that these patterns of git name: those of the repository, and those that are new and not ignored.
    pub(crate) fn add_files(&mut self, patterns: &[&str]) -> Result<()> {
        let top = run::workspace();
        let mut list = Command::new("git");
        list.args(["ls-files", "--cached", "--others", "--exclude-standard", "--"]).args(patterns);
        for file in run::capture(list.current_dir(&top), Duration::from_secs(30))?.lines() {
            let path = top.join(file);
            // Not there any more: it was deleted and that is not committed yet.
            if path.exists() {
                self.add(file, &read(&path)?);
            }
        }
        Ok(())
    }

    /// Lets git compute the digest, so that none is computed here.
    pub(crate) fn finish(&self) -> Result<String> {
        let mut child = Command::new("git")
            .args(["hash-object", "--stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| format!("cannot run git: {why}"))?;
        let problem = |why| format!("git hash-object: {why}");
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&self.0).map_err(problem)?;
        }
        let output = child.wait_with_output().map_err(problem)?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !said.is_empty() { Ok(said) } else { Err("git hash-object failed".to_owned()) }
    }
}

/// Reads a file; the error names it.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_names_and_contents() {
        let of = |parts: &[(&str, &str)]| {
            let mut digest = Digest::default();
            for (name, content) in parts {
                digest.add(name, content.as_bytes());
            }
            digest.finish().unwrap()
        };
        let one = of(&[("a.rs", "x\n"), ("b.rs", "y\n")]);
        assert_eq!(one, of(&[("a.rs", "x\n"), ("b.rs", "y\n")]));
        assert_ne!(one, of(&[("a.rs", "x\n"), ("b.rs", "z\n")]));
        assert_ne!(one, of(&[("a.rs", "x\n"), ("c.rs", "y\n")]));
        assert_ne!(of(&[("a", "b 1\nc")]), of(&[("a", ""), ("b", "c")]));
    }

    #[test]
    fn files_are_named_by_patterns() {
        let (mut all, mut some, mut none) = (Digest::default(), Digest::default(), Digest::default());
        all.add_files(&["xtask/src/*.rs"]).unwrap();
        some.add_files(&["xtask/src/dig*.rs"]).unwrap();
        none.add_files(&["xtask/src/no-such-file*"]).unwrap();
        assert!(all.0.len() > some.0.len() && some.0.starts_with(b"xtask/src/digest.rs "));
        assert!(none.0.is_empty());
    }
}
