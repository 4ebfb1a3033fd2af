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
    let folders = ["src", "migrations", "cli/src", "bench/src"].map(|folder| files(&root.join(folder)));
    for file in folders.into_iter().flatten() {
        let text = std::fs::read_to_string(&file).unwrap();
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

#[test]
fn parts_of_names_are_found_and_parts_of_words_are_not() {
    for line in ["let queue_gate = 1;", "gate: &str", "on(gates)", "struct QueueGate;", "HELD_GATES"] {
        assert!(has(line, "gate"), "{line}");
    }
    assert!(has("HeldUntil", "held_until") && !has("aggregate(gated, investigate)", "gate"));
}
