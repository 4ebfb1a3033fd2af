//! The Rust in the documents: what all blocks compile to is one test program, `documents/tests/snippets.rs`.
//!
//! A block is written as its reader copies it. What it needs beside that is in a frame (`documents/frames.txt`), which a comment above the block
//! names: `<!-- frame: NAME -->`. No block is left out, in whatever document it is, unless it is marked with `ignore` and a reason.

mod blocks;
mod frames;
mod mistakes;
mod module;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::report::Report;
use crate::run::{self, Result};
use crate::test;
use crate::test::Environment;
use frames::Frames;

const FRAMES: &str = "documents/frames.txt";
const README: &str = "README.md";
const LIBRARY: &str = "src/lib.rs";

/// Folders whose documents are not ours, or not documents.
const LEFT_OUT: [&str; 4] = ["target", "vendor", ".git", "node_modules"];

/// The code that was written, and where the documents' copies are.
struct Written {
    folder: PathBuf,
    main: PathBuf,
}

/// Checks all blocks, as far as that needs no compiler.
pub(crate) fn check() -> Result<()> {
    write().map(drop)
}

/// Checks, compiles and runs all blocks, and shows how that ended.
pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    if let Some(environment) = test::with_servers(&mut report) {
        report.step("documents", || test_all(&environment));
    }
    report.finish()
}

/// Compiles and runs all blocks, and compiles the mistakes.
pub(crate) fn test_all(environment: &Environment) -> Result<()> {
    let written = write()?;
    // All members, as in the other steps: so almost nothing is built again.
    let mut command = test::nextest("default");
    command.args(["--test", "snippets", "--features", &features()?]).env("JOBWRIGHT_DOCUMENTS", &written.main);
    let log = written.folder.join("output.txt");
    eprintln!("$ {}", run::shown(&command));
    let code = run::ended(environment.set(&mut command), &log, run::CARGO)?;
    let output = fs::read_to_string(&log).map_err(|why| format!("cannot read {}: {why}", log.display()))?;
    // The numbers of lines are those of the documents; now the names are too.
    eprint!("{}", output.replace(&format!("{}/", written.folder.display()), ""));
    match code {
        Some(0) => mistakes::check(&features()?),
        _ => {
            Err("a block of Rust in a document is wrong: the messages above name the document and the line".to_owned())
        }
    }
}

/// Returns all features of the library, as cargo takes them.
pub(crate) fn features() -> Result<String> {
    let manifest = fs::read_to_string(run::workspace().join("Cargo.toml"));
    let manifest = manifest.map_err(|why| format!("cannot read Cargo.toml: {why}"))?;
    let (_, table) = manifest.split_once("\n[features]\n").ok_or("Cargo.toml has no [features]")?;
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.split_once('=')?.0.trim()));
    let names = names.filter(|name| *name != "default").map(|name| format!("jobwright/{name}"));
    Ok(names.collect::<Vec<_>>().join(","))
}

/// Writes each document as a module, and the file that has them all.
fn write() -> Result<Written> {
    let root = run::workspace();
    let read = |name: &str| fs::read_to_string(root.join(name)).map_err(|why| format!("cannot read {name}: {why}"));
    let frames = Frames::read(&read(FRAMES)?).map_err(|why| format!("{FRAMES}: {why}"))?;
    let folder = root.join("target/documents");
    let (mut main, mut programs, mut problems) = (String::new(), Vec::new(), Vec::new());
    for document in documents(&root)? {
        let text = read(&document)?;
        let named =
            |problems: Vec<String>| problems.into_iter().map(|why| format!("{document}:{why}")).collect::<Vec<_>>();
        let made = blocks::blocks(&text).and_then(|blocks| {
            module::module(&document, text.lines().count(), &blocks, &frames).map(|made| (made, blocks))
        });
        match made {
            Err(why) => problems.extend(named(why)),
            Ok((_, blocks)) if blocks.is_empty() => {}
            Ok(((module, tests), _)) => {
                programs.extend(tests.into_iter().map(|test| (document.clone(), test)));
                let path = folder.join(&document);
                changed(&path, &module)?;
                // Writing to a String does not fail.
                let _ = writeln!(
                    main,
                    "#[allow(unused, unreachable_pub, clippy::all, clippy::pedantic)]\n#[path = \"{}\"]\nmod {};",
                    path.display(),
                    module::name(&document)
                );
            }
        }
    }
    problems.extend(frames.unused().map(|name| format!("{FRAMES}: no block names the frame `{name}`")));
    problems.extend(first_program(&read(README)?, &read(LIBRARY)?));
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let _ = writeln!(main, "/// Documents with a whole program, and the test that runs it.");
    let _ = writeln!(main, "const PROGRAMS: &[(&str, &str)] = &{programs:?};");
    let path = folder.join("main.rs");
    changed(&path, &main)?;
    Ok(Written { folder, main: path })
}

/// The program at the top of the library's documentation is the README's, which a test runs.
fn first_program(readme: &str, library: &str) -> Option<String> {
    let documentation: Vec<&str> = library
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let first = |text: &str| Some(blocks::blocks(text).ok()?.into_iter().next()?.code);
    (first(readme) != first(&documentation.join("\n")))
        .then(|| format!("{LIBRARY}: its first block of Rust is not that of {README}: copy it"))
}

/// Returns all documents of the repository, in order.
fn documents(root: &Path) -> Result<Vec<String>> {
    let mut folders = vec![root.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let problem = |why| format!("cannot list {}: {why}", folder.display());
        for entry in folder.read_dir().map_err(problem)? {
            let path = entry.map_err(problem)?.path();
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                if !LEFT_OUT.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the file unless it has this text: otherwise everything would be compiled again.
fn changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|why| format!("cannot create {}: {why}", folder.display()))?;
    }
    run::write(path, text)
}
