//! The lists in docs/operations.md match what exists, in both directions.

use std::collections::BTreeSet;

use crate::known_problems::compare_docs::{document, keys, quoted, read, root};

/// Returns the part of a document from this line up to the next heading.
fn under<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, part) = document.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no part {heading}"));
    part.split("\n## ").next().unwrap()
}

/// Returns the names in the first cells of the rows.
fn first_cells(part: &str) -> BTreeSet<String> {
    let rows = part.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.map(str::to_owned).collect()
}

fn set<'a>(words: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    words.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_key_of_the_configuration_is_in_the_table_and_no_other() {
    let document = document("operations.md");
    let known: BTreeSet<String> = keys()
        .into_iter()
        .flat_map(|(section, keys)| {
            let name = match section.as_str() {
                "queues" => ".NAME",
                "handlers" => ".KIND",
                "submit.rules" => ".USER",
                "seal_keys" => ".ID",
                _ => "",
            };
            keys.into_iter().map(move |key| format!("{section}{name}.{key}"))
        })
        .collect();
    assert!(known.len() > 30, "{known:?}");
    assert_eq!(first_cells(under(&document, "## Configuration")), known);
}

#[test]
fn no_key_of_the_configuration_is_listed_twice() {
    let text = read(&root().join("cli/src/config/keys.rs"));
    for section in text.split("Section {").skip(2) {
        let section = section.split("},\n").next().unwrap();
        let words: Vec<&str> = section.split("(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(set(words.iter().copied()).len(), words.len(), "{words:?}");
    }
}

#[test]
fn every_code_of_an_error_is_in_the_table_and_no_other() {
    let document = document("operations.md");
    let source = read(&root().join("src/error.rs"));
    let known = source.split('"').filter(|word| {
        word.strip_prefix("JW-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'-'))
    });
    let known = set(known);
    assert!(known.len() > 10, "{known:?}");
    assert_eq!(first_cells(under(&document, "## Error codes")), known);
}

/// Functions that a role may call: all that PUBLIC keeps, except those that only the engine's statements use.
#[test]
fn every_function_for_users_is_named_in_the_documents() {
    let engine = set([
        "admit_next",
        "allowance",
        "check_list",
        "check_tokens",
        "clipped",
        "decide_ids",
        "end_taken",
        "hold_node",
        "is_carriable",
        "is_simple",
        "key_holder",
        "key_of",
        "lock_limits",
        "log_starts",
        "may_take",
        "node_is_idle",
        "node_locks",
        "note_worker",
        "refuse_late",
        "refuse_node",
        "remove_replaced",
        "retry_delay",
        "subject",
        "take_unique",
        "token_of",
        "try_unique",
        "unique_digest",
        "with_error",
    ]);
    let mut functions = BTreeSet::new();
    for file in root().join("migrations/postgres").read_dir().unwrap() {
        let text = read(&file.unwrap().path());
        let text = text.replace("create or replace function", "create function");
        for rest in text.split("create function {schema}.").skip(1) {
            let head = rest.split("\nas ").next().unwrap();
            if !head.lines().next().unwrap().contains("returns trigger") {
                functions.insert(rest.split(['(', ' ']).next().unwrap().to_owned());
            }
        }
    }
    functions = functions.difference(&engine).cloned().collect();
    let documents = document("operations.md") + &document("sql.md");
    // `take(queue, …)` in a table, and `jobwright.send` in a sentence.
    let name =
        |word: &str| word.strip_prefix("jobwright.").unwrap_or(word).split('(').next().unwrap_or_default().to_owned();
    let named: BTreeSet<String> = quoted(&documents).map(name).collect();
    let missing: Vec<_> = functions.difference(&named).collect();
    assert!(functions.len() >= 2 && missing.is_empty(), "{missing:?} of {functions:?}");
}
