//! Words that are not used, because the field has others (the glossary of docs/architecture.md).

use std::path::Path;

use crate::directions::files;

/// A word, and what is said in its place.
const REPLACED: [(&str, &str); 11] = [
    ("gate", "blocked_on, admission"),
    ("held_until", "visible_at"),
    ("condemn", "evict"),
    ("incarnation", "node_session"),
    ("upkeep", "maintenance"),
    ("hand_on", "group_run, complete_and_claim_next"),
    ("pulse", "heartbeat"),
    ("bells", "waiters, wakeups"),
    ("parcel", "delivery"),
    ("portion", "batch size"),
    ("singly", "isolating"),
];

/// Names of code, tables and statements. Comments are free.
#[test]
fn replaced_words_stay_away() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for file in files(&root.join("src")).into_iter().chain(files(&root.join("migrations"))) {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        if file.ends_with("vocabulary.rs") {
            continue;
        }
        for line in text.lines().filter(|line| !["//", "--"].iter().any(|mark| line.trim_start().starts_with(mark))) {
            if let Some((word, instead)) = REPLACED.iter().find(|(word, _)| has(line, word)) {
                found.push(format!("{}: {word} (say {instead}): {}", file.display(), line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Whether a line has a word, alone or as a part of a name in snake case.
fn has(line: &str, word: &str) -> bool {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    line.match_indices(word)
        .any(|(at, _)| is_apart(line[..at].chars().next_back()) && is_apart(line[at + word.len()..].chars().next()))
}

#[test]
fn parts_of_names_are_found_and_parts_of_words_are_not() {
    assert!(has("let queue_gate = 1;", "gate") && has("gate: &str", "gate") && has("on(gate)", "gate"));
    assert!(!has("aggregate(gated, investigate)", "gate"));
}
