//! Frequent mistakes, which the compiler has to explain: `documents/mistakes`.
//!
//! Each is a program that does not compile. Its lines `//! says: …` are parts of the compiler's answer.

use std::fs;
use std::path::Path;

use crate::run::{self, Result};

const MISTAKES: &str = "documents/mistakes";

/// Compiles each program, and compares the answer.
pub(super) fn check(features: &str) -> Result<()> {
    let problem = |why: std::io::Error| format!("cannot read {MISTAKES}: {why}");
    let mut programs = Vec::new();
    for entry in fs::read_dir(run::workspace().join(MISTAKES)).map_err(problem)? {
        programs.push(entry.map_err(problem)?.path());
    }
    programs.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    programs.sort();
    if programs.is_empty() {
        return Err(format!("{MISTAKES} has no program"));
    }
    let problems: Vec<String> = programs.iter().filter_map(|program| compile(program, features).err()).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn compile(program: &Path, features: &str) -> Result<()> {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let source = fs::read_to_string(program).map_err(|why| format!("cannot read {}: {why}", program.display()))?;
    let expected: Vec<&str> = source
        .lines()
        .filter_map(|line| line.strip_prefix("//! says: "))
        .filter(|part| !part.trim().is_empty())
        .collect();
    if expected.is_empty() {
        return Err(format!("{MISTAKES}/{name}.rs has no line `//! says: …` with a part of the compiler's answer"));
    }
    let log = run::workspace().join(format!("target/documents/mistake-{name}.txt"));
    // All members, so that nothing else is built than this program.
    let features = format!("{features},jobwright-documents/mistakes");
    let mut command =
        run::cargo(["build", "--workspace", "--example", &format!("mistake-{name}"), "--features", &features]);
    // Colours would be a part of the text.
    let code = run::ended(command.env("CARGO_TERM_COLOR", "never"), &log, run::CARGO)?;
    let answer = fs::read_to_string(&log).map_err(|why| format!("cannot read {}: {why}", log.display()))?;
    if code == Some(0) {
        return Err(format!("{MISTAKES}/{name}.rs compiles, and is to show how the compiler refuses it"));
    }
    // The compiler breaks long lines, and puts a frame before notes.
    let answer = words(&answer);
    let missing: Vec<String> =
        expected.iter().filter(|part| !answer.contains(&words(part))).map(|part| format!("\n  {part}")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the compiler's answer to {MISTAKES}/{name}.rs lacks{}\nIt says:\n{}",
        missing.concat(),
        run::tail(&log)
    ))
}

fn words(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>().join(" ")
}
