//! `jobwright man`: a page for each command, which a formatter of manual pages renders with all that `--help` lists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::common::{Done, Sandbox};
use crate::documents::commands;

/// Returns the name of a command's page.
fn name(words: &[String]) -> String {
    [&["jobwright".to_owned()], words].concat().join("-") + ".1"
}

/// Writes the pages and reads them back.
fn pages(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let done = sandbox.run(&["man", "man1"]).success();
    assert_eq!(done.stdout, "");
    let entries = sandbox.file("man1").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap())
    };
    let pages: BTreeMap<_, _> = entries.map(read).collect();
    done.says(&format!("{} pages written to man1", pages.len()));
    pages
}

/// Formatters of manual pages, with arguments for wide lines and for complaints. To groff, `-k` says that pages are UTF-8, and `-P-cbou` asks for no bold
/// type and no underlines.
const FORMATTERS: [(&str, &[&str]); 2] = [
    ("groff", &["-k", "-man", "-Tutf8", "-ww", "-rLL=200n", "-P-cbou"]),
    ("mandoc", &["-Tutf8", "-Werror", "-Owidth=200"]),
];

/// Renders a page as a terminal shows it, by the first formatter that is installed; `None`: there is none, and this run is without servers and tools.
/// A formatter that complains fails the test.
fn rendered(page: &Path) -> Option<String> {
    for (program, args) in FORMATTERS {
        match Command::new(program).args(args).arg(page).output() {
            Ok(output) => {
                let done = Done::from(output).success();
                assert_eq!(done.stderr, "", "{program} complains about {}", page.display());
                return Some(without_overstrikes(&done.stdout));
            }
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
            Err(why) => panic!("{program}: {why}"),
        }
    }
    let is_embedded_only = std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1");
    assert!(is_embedded_only, "install groff (groff-base) or mandoc, or run `cargo xtask test`");
    None
}

/// Removes bold type and underlines, which mandoc writes as on a typewriter: a letter, a backspace, a letter.
fn without_overstrikes(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut plain, c| {
        if c == '\u{8}' {
            plain.pop();
        } else {
            plain.push(c);
        }
        plain
    })
}

/// Returns the source of a page without its escaped hyphens and its changes of type: the same words in the same lines.
fn source(page: &str) -> String {
    ["\\fB", "\\fI", "\\fR"].iter().fold(page.replace("\\-", "-"), |text, type_change| text.replace(type_change, ""))
}

#[test]
fn every_command_has_a_page_and_there_is_no_other() {
    let sandbox = Sandbox::without_file();
    let expected: BTreeSet<String> = commands().keys().map(|words| name(words)).collect();
    assert_eq!(pages(&sandbox).into_keys().collect::<BTreeSet<_>>(), expected);
}

#[test]
fn a_page_has_the_options_and_parts_of_its_command() {
    let sandbox = Sandbox::without_file();
    let pages = pages(&sandbox);
    let commands = commands();
    for (words, flags) in &commands {
        let name = name(words);
        let text = rendered(&sandbox.file("man1").join(&name)).unwrap_or_else(|| source(&pages[&name]));
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "CONNECTION AND LOG"] {
            assert!(text.contains(section), "{name} has no section {section}:\n{text}");
        }
        for flag in flags {
            let names = |line: &str| line.split([' ', ',', '[', '=']).any(|word| word == flag);
            let has = text.lines().map(str::trim_start).any(|line| line.starts_with('-') && names(line));
            assert!(has, "{name} does not explain {flag}:\n{text}");
        }
        for part in commands.keys().filter(|other| other.len() == words.len() + 1 && other.starts_with(words)) {
            let part = format!("jobwright-{}(1)", part.join("-"));
            assert!(text.contains(&part), "{name} does not name {part}:\n{text}");
        }
    }
}

/// Their lines are commands to copy, so they stay lines, and begin where lines begin.
#[test]
fn examples_are_lines_of_their_own() {
    let sandbox = Sandbox::without_file();
    let pages = pages(&sandbox);
    let page = &pages["jobwright-worker.1"];
    let (_, examples) = page.split_once(".SH EXAMPLES\n.nf\n").expect(page);
    let (examples, end) = examples.split_once("\n.fi\n").expect(page);
    assert_eq!(
        examples.replace("\\-", "-"),
        "  jobwright worker --queue default=20 --queue mail\n  jobwright worker --drain"
    );
    assert!(end.contains("SEE ALSO") && end.contains("jobwright(1)"), "{end}");
    if let Some(text) = rendered(&sandbox.file("man1/jobwright-worker.1")) {
        assert!(text.lines().any(|line| line.trim() == "jobwright worker --drain"), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        assert!(lines[0].starts_with("JOBWRIGHT-WORKER(1)"), "{text}");
        let version = concat!("jobwright ", env!("CARGO_PKG_VERSION"));
        assert!(lines.last().unwrap().starts_with(version), "{text}");
    }
}

#[test]
fn earlier_pages_are_replaced_and_a_directory_that_can_not_be_written_is_named() {
    let sandbox = Sandbox::without_file();
    pages(&sandbox);
    std::fs::write(sandbox.file("man1/jobwright-send.1"), "of an earlier version").unwrap();
    std::fs::write(sandbox.file("man1/other.1"), "of another program").unwrap();
    sandbox.run(&["man", "man1"]).success();
    let read = |name: &str| std::fs::read_to_string(sandbox.file("man1").join(name)).unwrap();
    assert!(read("jobwright-send.1").contains(".TH JOBWRIGHT-SEND 1 "));
    assert_eq!(read("other.1"), "of another program");

    std::fs::write(sandbox.file("file"), "").unwrap();
    let refused = sandbox.run(&["man", "file/man1"]).code(1);
    refused.says("creating the directory file/man1 failed").says("Name a directory that you may write");
}
