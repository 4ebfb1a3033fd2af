//! Which file of the library may import from which: `xtask/rooms.txt` says it, and this checks it.
//!
//! It reads `src/` without a compiler: tokens, items, `use` declarations and paths. What it does not understand is an error, never passed over. Code
//! for tests, doc links and `pub(in …)` are exempt. A `pub use` is followed to what it names, and is an import only if its file uses the name too.
//! It does not see a method that is called on a value whose type is never named, and what goes through `dyn`.

mod circles;
mod imports;
mod items;
mod list;
mod names;
mod paths;
mod rules;
mod test_code;
#[cfg(test)]
mod tests;
mod tokens;
mod tree;
mod use_tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::run::{self, Result};

use self::imports::{Import, imports};
use self::list::List;
use self::tree::{Crate, Files};

/// What is wrong in a file, and in which line.
#[derive(Debug)]
struct Problem {
    line: usize,
    text: String,
}

/// Checks `src/`. With `edges`, prints the imports of the files that begin with it instead.
pub(crate) fn run(edges: Option<&str>) -> Result<()> {
    let root = run::workspace();
    let files = read(&root.join("src"))?;
    let outside = dependencies(&text(&root.join("Cargo.toml"))?);
    let said = match edges {
        Some(prefix) => listed(&files, &outside, prefix),
        None => check(&files, &outside, &text(&root.join("xtask/rooms.txt"))?),
    };
    said.map(|said| println!("{said}")).map_err(|problems| problems.join("\n"))
}

type Found<T> = std::result::Result<T, Vec<String>>;

/// Says what was checked, or all that is wrong.
fn check(files: &Files, outside: &BTreeSet<String>, list: &str) -> Found<String> {
    let list = List::parse(list)?;
    let krate = Crate::read(files)?;
    let imports = imports(&krate, outside)?;
    let problems = rules::check(&krate, &imports, &list);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(format!(
        "{} files in {} rooms, {} imports. Known: {} circles of {} files, {} imports that go up, {} mod.rs that define something",
        krate.files().len(),
        list.rooms.len(),
        by_files(&imports, "").len(),
        list.circles.len(),
        list.circles.iter().map(BTreeSet::len).sum::<usize>(),
        list.imports.len(),
        list.mod_files.len()
    ))
}

/// One line for each pair of files.
fn listed(files: &Files, outside: &BTreeSet<String>, prefix: &str) -> Found<String> {
    let krate = Crate::read(files)?;
    let imports = imports(&krate, outside)?;
    let line = |((from, to), paths): ((&str, &str), Vec<String>)| format!("{from} -> {to}: {}", paths.join(", "));
    Ok(by_files(&imports, prefix).into_iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// The paths by which one file imports from another.
fn by_files<'a>(imports: &[Import<'a>], prefix: &str) -> BTreeMap<(&'a str, &'a str), Vec<String>> {
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for import in imports.iter().filter(|import| import.from.starts_with(prefix)) {
        let path = format!("{} (line {})", import.path, import.line);
        found.entry((import.from, import.to)).or_default().push(path);
    }
    found
}

/// The names of other crates: those of the language, and the dependencies.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.split(['=', '.']).next());
    let names = names.map(|name| name.trim().replace('-', "_"));
    names.chain(["alloc", "core", "std"].map(str::to_owned)).collect()
}

fn read(src: &Path) -> Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        let unreadable = |why| format!("cannot read {}: {why}", folder.display());
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(src).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                files.insert(name, text(&path)?);
            }
        }
    }
    Ok(files)
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
}
