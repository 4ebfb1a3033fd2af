//! Words that stay away: names that the field has better words for (the glossary of docs/architecture.md), and the engine's side of the store where
//! people learn how to use the library.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{self, Result};

/// A word, what is said in its place, and where it is looked for.
const REPLACED: [(&str, &str, &[&str]); 13] = [
    // Elsewhere the latch of a test or what a change has to pass.
    ("gate", "blocked_on, admission", &["src", "migrations", "cli/src"]),
    // Elsewhere an English word.
    ("parcel", "delivery", &["src", "migrations", "cli"]),
    ("bells", "waiters, wakeups", &["src", "migrations", "cli/src", "bench/src"]),
    ("born_owned", "preclaimed", CODE),
    ("condemn", "evict", CODE),
    ("hand_on", "group_run, complete_and_claim_next", CODE),
    ("held_until", "visible_at", CODE),
    ("incarnation", "node_session", CODE),
    ("portion", "batch size", CODE),
    ("pulse", "heartbeat", CODE),
    ("singly", "isolating", CODE),
    ("unhold", "unhide", CODE),
    ("upkeep", "maintenance", CODE),
];
const CODE: &[&str] = &["src", "migrations", "tests", "http", "cli", "bench/src", "examples", "docs"];

/// Names that only the library, its tests and the benchmark use.
const ENGINE: [&str; 4] = ["internal::engine", ".engine()", "JobStore", "messages.jobs()"];
const TAUGHT: [&str; 6] = ["cli/src", "http/src", "examples", "docs", "README.md", "src/lib.rs"];

pub(crate) fn run() -> Result<()> {
    let mut found = Vec::new();
    for (word, instead, places) in REPLACED {
        for (file, text) in texts(places)? {
            let is_comment = |line: &str| ["//", "--"].iter().any(|mark| line.trim_start().starts_with(mark));
            let lines = text.lines().filter(|line| !is_comment(line) && has(line, word));
            found.extend(lines.map(|line| format!("{file}: {word} (say {instead}): {}", line.trim())));
        }
    }
    for (file, text) in texts(&TAUGHT)? {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let words = ENGINE.iter().filter(|word| code.contains(**word));
        found.extend(words.map(|word| format!("{file} names {word}: operators and programs have `Admin`")));
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Folders that others fill, where the examples are run. Decisions may speak of the past.
const LEFT_OUT: [&str; 3] = ["docs/adr", "node_modules", "target"];

/// The texts below these folders.
fn texts(places: &[&str]) -> Result<Vec<(String, String)>> {
    let root = run::workspace();
    let mut paths: Vec<PathBuf> = places.iter().map(|place| root.join(place)).collect();
    if let Some(gone) = paths.iter().find(|path| !path.exists()) {
        return Err(format!("{} is not there: correct xtask/src/words.rs", gone.display()));
    }
    let mut texts = Vec::new();
    while let Some(path) = paths.pop() {
        if LEFT_OUT.iter().any(|folder| path.ends_with(folder)) {
            continue;
        }
        if path.is_dir() {
            let entries = fs::read_dir(&path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
            paths.extend(entries.flatten().map(|entry| entry.path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            let name = path.strip_prefix(&root).unwrap_or_else(|_| Path::new(""));
            texts.push((name.display().to_string(), text));
        }
    }
    Ok(texts)
}

/// Whether a line has a word or its plural, alone or as a part of a name, in snake case or camel case.
fn has(line: &str, word: &str) -> bool {
    let mut snake = String::with_capacity(line.len());
    let mut before = ' ';
    for c in line.chars() {
        if c.is_uppercase() && before.is_lowercase() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
        before = c;
    }
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    snake.match_indices(word).any(|(at, _)| {
        let behind = &snake[at + word.len()..];
        let behind = behind.strip_prefix('s').unwrap_or(behind);
        is_apart(snake[..at].chars().next_back()) && is_apart(behind.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_words_stay_away() {
        run().unwrap();
    }

    #[test]
    fn parts_of_names_are_found_and_parts_of_words_are_not() {
        for line in ["let queue_gate = 1;", "gate: &str", "on(gates)", "struct QueueGate;", "HELD_GATES"] {
            assert!(has(line, "gate"), "{line}");
        }
        assert!(has("HeldUntil", "held_until") && !has("aggregate(gated, investigate)", "gate"));
    }
}
