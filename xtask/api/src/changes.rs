//! What differs between two lists.

use std::collections::BTreeMap;
use std::fmt;

/// The lines that one list has and the other has not, each in the order of its list.
#[derive(Debug, PartialEq)]
pub(crate) struct Changes {
    gone: Vec<String>,
    new: Vec<String>,
}

/// Compares two lists. Comments do not count, and neither does the order: it is the listing's, not the API's.
pub(crate) fn between(before: &str, after: &str) -> Changes {
    Changes { gone: missing(before, after), new: missing(after, before) }
}

/// Returns the lines that are more often in `from` than in `other`.
fn missing(from: &str, other: &str) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for line in items(other) {
        *counts.entry(line).or_insert(0_usize) += 1;
    }
    items(from)
        .filter(|line| match counts.get_mut(line) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .map(str::to_owned)
        .collect()
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with("//"))
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.new.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gone.iter().try_for_each(|line| writeln!(f, "- {line}"))?;
        self.new.iter().try_for_each(|line| writeln!(f, "+ {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_gone_and_new_are_shown() {
        let changes = between("// a\npub fn x::a()\npub fn x::b()\n", "pub fn x::b()\npub fn x::a(u8)\n");
        assert_eq!(changes.to_string(), "- pub fn x::a()\n+ pub fn x::a(u8)\n");
        assert!(!changes.is_empty());
    }

    #[test]
    fn a_line_that_is_there_once_less_is_a_change() {
        assert_eq!(between("impl A\nimpl A\n", "impl A\n").to_string(), "- impl A\n");
    }

    #[test]
    fn order_and_comments_are_no_change() {
        assert!(between("// 1\nimpl A\n\nimpl B\n", "// 2\nimpl B\nimpl A\n").is_empty());
    }
}
