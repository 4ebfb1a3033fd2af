//! Which state of each client has passed last: a digest of all that its check depends on, in a file of the repository.

use crate::run::{self, Result};

/// Where the digests are in the repository.
pub(super) const FILE: &str = "clients/checked.txt";

const HEAD: &str = "# The clients that passed last, written by `cargo xtask java`, `python` and `node`: a digest of each with the functions that it calls.\n";

pub(super) fn is_recorded(name: &str, digest: &str) -> bool {
    text().lines().any(|line| line == entry(name, digest))
}

/// Records one client, and leaves the others as they are.
pub(super) fn record(name: &str, digest: &str) -> Result<()> {
    let file = run::workspace().join(FILE);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|why| format!("cannot create {}: {why}", folder.display()))?;
    }
    run::write(&file, &with(&text(), name, digest))
}

/// Without the file, nothing has passed.
fn text() -> String {
    std::fs::read_to_string(run::workspace().join(FILE)).unwrap_or_default()
}

fn entry(name: &str, digest: &str) -> String {
    format!("{name} {digest}")
}

/// Returns the text of the file with this entry.
fn with(text: &str, name: &str, digest: &str) -> String {
    let others = text.lines().filter(|line| !line.starts_with('#') && line.split(' ').next() != Some(name));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.push(entry(name, digest));
    lines.sort();
    format!("{HEAD}{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_recorded_and_the_others_stay() {
        let first = with("", "node", "12ab");
        assert_eq!(first, format!("{HEAD}node 12ab\n"));
        let second = with(&with(&first, "java", "34cd"), "node", "56ef");
        assert_eq!(second, format!("{HEAD}java 34cd\nnode 56ef\n"));
    }

    #[test]
    fn only_the_recorded_digest_is_known() {
        assert!(!is_recorded("node", "") && !is_recorded("node", "0000000000000000000000000000000000000000"));
    }
}
