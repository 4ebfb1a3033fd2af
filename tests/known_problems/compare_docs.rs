//! Checks of the documents that compare and translate: no row is missing, and the names in them exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn document(name: &str) -> String {
    read(&root().join("docs").join(name))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all_sources(folders: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        sources(&root().join(folder), &mut found);
    }
    found
}

/// Returns the cells of each table row in a part that begins with a number.
fn rows(part: &str) -> Vec<(u32, Vec<&str>)> {
    part.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
            Some((cells[0].parse().ok()?, cells))
        })
        .collect()
}

/// Returns the part of the document under this heading.
fn part<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, part) = document.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no part {heading}"));
    part.split("\n## ").next().unwrap()
}

/// Returns the texts in back quotes.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns functions by the name of their file. A case for all stores is a function too, which the macro of its binary names.
fn functions() -> BTreeMap<String, BTreeSet<String>> {
    let mut functions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in all_sources(&["tests", "cli/tests", "cli/src", "fuzz/tests", "src"]) {
        let text = read(&path);
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let stem = if stem == "mod" { path.parent().unwrap().file_name().unwrap().to_str().unwrap() } else { stem };
        let names = text.lines().filter_map(|line| {
            let (_, name) = line.split_once("fn ")?;
            Some(name.split(['(', '<']).next()?.trim().to_owned())
        });
        functions.entry(stem.to_owned()).or_default().extend(names);
    }
    functions
}

/// Returns the tests that a cell names.
fn tests(cell: &str) -> Vec<(&str, &str)> {
    let small = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    quoted(cell).filter_map(|word| word.split_once("::")).filter(|(file, name)| small(file) && small(name)).collect()
}

#[test]
fn no_row_of_the_comparison_is_missing() {
    let document = document("compare.md");
    for (heading, count) in [("Process engines", 110), ("Job libraries", 109), ("Pains", 28)] {
        let rows = rows(part(&document, heading));
        let numbers: Vec<u32> = rows.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "{heading}");
        if heading == "Pains" {
            for (number, cells) in rows {
                assert!(cells.len() == 4 && !tests(cells[3]).is_empty(), "pain {number} names no test");
            }
            continue;
        }
        for (number, cells) in rows {
            assert_eq!(cells.len(), 5, "{heading} {number}");
            match cells[2] {
                "have" | "later" => {}
                "better" => assert!(!tests(cells[4]).is_empty(), "{heading} {number}: what shows that it is better?"),
                "not" => assert!(!cells[3].is_empty(), "{heading} {number}: why not?"),
                other => panic!("{heading} {number}: {other:?} is none of have, better, later, not"),
            }
        }
    }
}

#[test]
fn every_test_that_the_comparison_names_exists() {
    let (document, functions) = (document("compare.md"), functions());
    let mut missing = Vec::new();
    for heading in ["Process engines", "Job libraries", "Pains"] {
        for (number, cells) in rows(part(&document, heading)) {
            for (file, name) in tests(cells.last().unwrap()) {
                if !functions.get(file).is_some_and(|names| names.contains(name)) {
                    missing.push(format!("{heading} {number}: {file}::{name}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no such tests:\n{}", missing.join("\n"));
}

/// Each fault names an existing test.
#[test]
fn every_fault_names_a_test_that_exists() {
    let (document, functions) = (document("faults.md"), functions());
    let rows = rows(&document);
    let numbers: Vec<u32> = rows.iter().map(|(number, _)| *number).collect();
    assert!(!numbers.is_empty() && numbers == (1..=numbers.len() as u32).collect::<Vec<_>>(), "{numbers:?}");
    let mut missing = Vec::new();
    for (number, cells) in rows {
        let tests = tests(cells.last().unwrap());
        assert!(cells.len() == 4 && !tests.is_empty(), "fault {number} names no test");
        let unknown = |(file, name): &&(&str, &str)| !functions.get(*file).is_some_and(|names| names.contains(*name));
        missing.extend(tests.iter().filter(unknown).map(|(file, name)| format!("{number}: {file}::{name}")));
    }
    assert!(missing.is_empty(), "no such tests:\n{}", missing.join("\n"));
}

/// Each line of the threat model that names a test names an existing one.
#[test]
fn every_test_that_the_threat_model_names_exists() {
    let (document, functions) = (document("security.md"), functions());
    let named = tests(&document);
    assert!(named.len() > 40, "only {} tests are named", named.len());
    let unknown = |(file, name): &&(&str, &str)| !functions.get(*file).is_some_and(|names| names.contains(*name));
    let missing: Vec<String> = named.iter().filter(unknown).map(|(file, name)| format!("{file}::{name}")).collect();
    assert!(missing.is_empty(), "no such tests:\n{}", missing.join("\n"));
}

/// The table of hostile input names existing tests, too.
#[test]
fn every_harm_names_a_test_that_exists() {
    let (text, functions) = (read(&root().join("tests/hostile_input/mod.rs")), functions());
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("//! | ")).skip(1).collect();
    assert!(rows.len() > 15, "{}", rows.len());
    for row in rows {
        let tests = tests(row);
        assert!(!tests.is_empty(), "{row}");
        for (file, name) in tests {
            assert!(functions.get(file).is_some_and(|names| names.contains(name)), "no such test: {file}::{name}");
        }
    }
}

/// Returns the configuration keys by section, as the program reads them.
pub(crate) fn keys() -> BTreeMap<String, BTreeSet<String>> {
    let text = read(&root().join("cli/src/config/keys.rs"));
    let text = text.replace("name: SUBMIT_RULES", "name: \"submit.rules\"");
    let (_, sections) = text.split_once("pub(super) const SECTIONS").unwrap();
    let (sections, _) = sections.split_once("\n];").unwrap();
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for section in sections.split("Section {").skip(1) {
        let words: Vec<&str> = section.split('"').skip(1).step_by(2).collect();
        keys.entry(words[0].to_owned()).or_default().extend(words[1..].iter().map(|word| (*word).to_owned()));
    }
    keys
}

/// `executor.lease`, `queues.NAME.retry` and `Rule::rate` in the migration guides.
#[test]
fn every_option_that_the_translations_name_exists() {
    let keys = keys();
    let sources: String = all_sources(&["src"]).iter().map(|path| read(path)).collect();
    let mut missing = Vec::new();
    let mut checked = 0;
    for name in ["jbpm3", "flowable", "activiti", "camunda7"] {
        let document = document(&format!("migrate/{name}.md"));
        for word in quoted(&document) {
            if let Some((kind, member)) = word.split_once("::") {
                let member = member.split(['(', '{']).next().unwrap();
                let there = sources.contains(&format!("fn {member}("))
                    || sources.contains(&format!("fn {member}<"))
                    || sources.contains(&format!("    {member},"))
                    || sources.contains(&format!("    {member}("))
                    || sources.contains(&format!("    {member} {{"));
                let known = [" struct ", " enum ", " trait "].iter().any(|what| {
                    sources.match_indices(&format!("{what}{kind}")).any(|(at, text)| {
                        sources[at + text.len()..].chars().next().is_some_and(|next| !next.is_alphanumeric())
                    })
                });
                if !(there && known) {
                    missing.push(format!("{name}: {word}"));
                }
                checked += 1;
            } else if let Some((section, key)) = word.split_once('.')
                && let Some(known) = keys.get(section)
            {
                let key = key.rsplit('.').next().unwrap().split(['=', ' ']).next().unwrap();
                if !known.contains(key) {
                    missing.push(format!("{name}: {word}"));
                }
                checked += 1;
            }
        }
    }
    assert!(missing.is_empty(), "no such options:\n{}", missing.join("\n"));
    assert!(checked > 80, "only {checked} options were found to check");
}

/// `jobwright jobs retry --limit`, in the comparison and in the migration guides.
#[test]
fn every_command_that_the_documents_name_exists() {
    let arguments: String = all_sources(&["cli/src/args"]).iter().map(|path| read(path)).collect();
    let (mut missing, mut checked) = (Vec::new(), 0);
    for name in
        ["compare", "migrate/README", "migrate/jbpm3", "migrate/flowable", "migrate/activiti", "migrate/camunda7"]
    {
        let document = document(&format!("{name}.md"));
        for command in quoted(&document).filter_map(|word| word.strip_prefix("jobwright ")) {
            let mut commands = true;
            for word in command.split(' ') {
                let there = if let Some(flag) = word.strip_prefix("--") {
                    commands = false;
                    arguments.contains(&format!("pub(crate) {}:", flag.replace('-', "_")))
                } else if commands && word.bytes().all(|b| b.is_ascii_lowercase()) {
                    let (first, rest) = word.split_at(1);
                    let variant = format!("    {}{rest}", first.to_ascii_uppercase());
                    arguments.contains(&format!("{variant}("))
                } else {
                    continue;
                };
                if !there {
                    missing.push(format!("{name}: jobwright {command}"));
                }
                checked += 1;
            }
        }
    }
    assert!(missing.is_empty(), "no such commands:\n{}", missing.join("\n"));
    assert!(checked > 40, "only {checked} words of commands were found to check");
}

fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("node_modules") {
            continue;
        }
        if path.is_dir() {
            markdown(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Links to files lead to existing ones. Links to other sites are not followed, nor are headings checked.
#[test]
fn links_between_documents_lead_somewhere() {
    let mut documents = vec![root().join("README.md"), root().join("CONTRIBUTING.md"), root().join("CHANGELOG.md")];
    for folder in ["docs", "broker", "examples"] {
        markdown(&root().join(folder), &mut documents);
    }
    let (mut missing, mut checked) = (Vec::new(), 0);
    for path in documents {
        for link in read(&path).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !path.parent().unwrap().join(target).exists() {
                missing.push(format!("{}: {link}", path.display()));
            }
            checked += 1;
        }
    }
    assert!(missing.is_empty(), "no such files:\n{}", missing.join("\n"));
    assert!(checked > 50, "only {checked} links were found to check");
}
