//! The documents and the program know the same commands and flags, in both directions, and links lead to headings that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Returns all documents that describe the program as it is, and so not the changelog and the decisions.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md"].iter().map(|file| root().join(file)).collect();
    for folder in ["docs", "broker", "examples"] {
        markdown(&root().join(folder), &mut found);
    }
    found.retain(|path| !path.starts_with(root().join("docs/adr")));
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(&path).expect("a document"))).collect()
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

/// Each command by its words, with its flags.
pub(crate) type Commands = BTreeMap<Vec<String>, BTreeSet<String>>;

/// Asks the program for its commands.
pub(crate) fn commands() -> Commands {
    let mut found = Commands::new();
    let mut left = vec![Vec::new()];
    while let Some(words) = left.pop() {
        let help = Command::new(env!("CARGO_BIN_EXE_jobwright")).args(&words).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let mut flags = BTreeSet::new();
        let mut part = "";
        for line in help.lines() {
            if !line.starts_with(' ') {
                part = line;
                continue;
            }
            let first = line.trim_start();
            match part {
                "Commands:" if line.len() - first.len() == 2 => {
                    let name = first.split_whitespace().next().unwrap();
                    if name != "help" {
                        left.push([words.clone(), vec![name.to_owned()]].concat());
                    }
                }
                "Commands:" => {}
                _ if first.starts_with('-') => {
                    let names = first.split([' ', ',', '=', '[']).filter(|word| word.starts_with("--"));
                    flags.extend(names.map(|name| name.trim_end_matches("...").to_owned()));
                }
                _ => {}
            }
        }
        found.insert(words, flags);
    }
    found
}

/// Returns the command lines of a document: what is in backticks or is a line of a block, and begins with the program's name.
fn lines(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (position, part) in text.split("```").enumerate() {
        if position % 2 == 1 {
            found.extend(part.lines().map(|line| line.trim().trim_start_matches("$ ")));
        } else {
            found.extend(part.split('`').skip(1).step_by(2));
        }
    }
    found.into_iter().filter_map(|line| line.strip_prefix("jobwright ")).collect()
}

#[test]
fn commands_in_the_documents_exist() {
    let commands = commands();
    let (mut wrong, mut checked) = (BTreeSet::new(), 0);
    for (path, text) in documents() {
        for line in lines(&text) {
            let mut words: Vec<String> = Vec::new();
            let rest: Vec<&str> =
                line.split_whitespace().take_while(|word| !["|", "&&", "#", ">"].contains(word)).collect();
            let mut flags = Vec::new();
            for word in &rest {
                if let Some(flag) = word.strip_prefix("--") {
                    let flag = flag.split(['=', '`', ',', ')', ']', '.', ';', ':']).next().unwrap();
                    if flag.is_empty() {
                        break;
                    }
                    flags.push(format!("--{flag}"));
                } else if flags.is_empty() {
                    let longer = [words.clone(), vec![(*word).to_owned()]].concat();
                    let has_parts = commands.keys().any(|known| known.len() > words.len() && known.starts_with(&words));
                    if commands.contains_key(&longer) {
                        words = longer;
                        checked += 1;
                    } else if has_parts && word.bytes().all(|b| b.is_ascii_lowercase()) {
                        wrong.insert(format!("{}: jobwright {line}: no command {word}", path.display()));
                    }
                }
            }
            let known = &commands[&words];
            for flag in flags {
                if !known.contains(&flag) && !["--help", "--version"].contains(&flag.as_str()) {
                    wrong.insert(format!("{}: jobwright {line}: no flag {flag}", path.display()));
                }
                checked += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
    assert!(checked > 100, "only {checked} commands and flags were found to check");
}

#[test]
fn every_command_and_every_flag_is_in_a_document() {
    let text: String = documents().into_iter().map(|(_, text)| text + "\n").collect();
    let mut missing = BTreeSet::new();
    for (words, flags) in commands() {
        let name = format!("jobwright {}", words.join(" "));
        if !words.is_empty() && !text.contains(&name) {
            missing.insert(name.clone());
        }
        let unnamed = flags.iter().filter(|flag| {
            // Each command has these.
            if ["--help", "--quiet", "--verbose"].contains(&flag.as_str()) && !words.is_empty() {
                return false;
            }
            let named = |at: usize| !text[at + flag.len()..].starts_with(|c: char| c.is_ascii_lowercase() || c == '-');
            !text.match_indices(flag.as_str()).any(|(at, _)| named(at))
        });
        missing.extend(unnamed.map(|flag| format!("{name} {flag}")));
    }
    assert!(missing.is_empty(), "no document names:\n{}", missing.into_iter().collect::<Vec<_>>().join("\n"));
}

/// Each row of the list has exactly the flags of its command, but those that every command has.
#[test]
fn the_list_of_commands_is_complete_row_by_row() {
    const EVERYWHERE: [&str; 7] =
        ["--config", "--database-url", "--amqp-url", "--verbose", "--quiet", "--log-format", "--help"];
    let text = std::fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let commands = commands();
    let is_leaf =
        |words: &Vec<String>| !commands.keys().any(|other| other.len() > words.len() && other.starts_with(words));
    let known: Commands = commands
        .iter()
        .filter(|(words, _)| is_leaf(words))
        .map(|(words, flags)| {
            let own = flags.iter().filter(|flag| !EVERYWHERE.contains(&flag.as_str()));
            (words.clone(), own.cloned().collect())
        })
        .collect();
    let listed: Commands = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `jobwright "))
        .map(|row| {
            let (line, rest) = row.split_once('`').unwrap();
            let words = line.split(' ').take_while(|word| word.bytes().all(|b| b.is_ascii_lowercase()));
            let flags =
                rest.split("`--").skip(1).map(|flag| format!("--{}", flag.split([' ', '`', '[', '=']).next().unwrap()));
            (words.map(str::to_owned).collect(), flags.collect())
        })
        .collect();
    assert_eq!(listed, known);
}

/// Returns the name by which a link finds a heading: lower case, spaces as hyphens, most signs left out.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

#[test]
fn links_lead_to_headings_that_exist() {
    let headings = |text: &str| -> BTreeSet<String> {
        let outside = text.split("```").step_by(2).collect::<String>();
        outside
            .lines()
            .filter_map(|line| line.split_once("# ").filter(|(marks, _)| marks.chars().all(|c| c == '#')))
            .map(|(_, heading)| anchor(heading))
            .collect()
    };
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for (path, text) in documents() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, heading)) = link.split_once('#').filter(|(file, _)| !file.contains("://")) else {
                continue;
            };
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let Ok(target) = std::fs::read_to_string(&target) else { continue };
            if !headings(&target).contains(heading) {
                wrong.push(format!("{}: {link}", path.display()));
            }
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "no such headings:\n{}", wrong.join("\n"));
    assert!(checked > 20, "only {checked} links to headings were found to check");
}
