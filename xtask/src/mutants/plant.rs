//! Plants all defects in a copy of the tree.
//!
//! A defect in Rust is an expression that looks whether it is chosen. One in SQL takes the place of its file's text where a store takes the
//! text up, so those places are rewritten in the copy, all in the same way. What a store takes up may be a section of its file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::VARIABLE;
use super::list::Defect;
use crate::run::{self, Result};

/// The module that is added in the copy.
const MODULE: &str = "src/planted.rs";
const ROOT: &str = "src/lib.rs";

/// Where stores take up the text of a file of SQL: what stands there, and what in the copy.
const HOOKS: [(&str, &str, &str); 6] = [
    (
        "src/store/postgres/statements.rs",
        "const { section(include_str!($file), stringify!($name)) }",
        "crate::planted::sql(const { section(include_str!($file), stringify!($name)) })",
    ),
    (
        "src/store/postgres/statements.rs",
        "Some(without_comments(text))",
        "Some(without_comments(crate::planted::sql(text)))",
    ),
    (
        "src/store/postgres/statements.rs",
        "        claim.replace(\"c.blocked_on is null\"",
        "        crate::planted::sql(claim).replace(\"c.blocked_on is null\"",
    ),
    (
        "src/store/postgres/migrate.rs",
        "render(migration.sql, schema), recorded(migration, schema, ",
        "render(crate::planted::sql(migration.sql), schema), recorded(migration, schema, ",
    ),
    ("src/store/sqlite/statements.rs", "statements::render(TEXT)", "statements::render($crate::planted::sql(TEXT))"),
    ("src/store/sqlite/migrate.rs", "execute_batch(step.sql)", "execute_batch(crate::planted::sql(step.sql))"),
];

/// Where the copy is.
pub(super) fn folder() -> PathBuf {
    run::workspace().join("target/mutants/tree")
}

/// Where it is built.
pub(super) fn target() -> PathBuf {
    run::workspace().join("target/mutants/target")
}

/// What the tests of a defect said when they ran last.
pub(super) fn log(name: &str) -> PathBuf {
    run::workspace().join("target/mutants").join(format!("{name}.log"))
}

/// Makes the copy. What is as it was is not written again, so that little is compiled again.
pub(super) fn tree(defects: &[Defect]) -> Result<()> {
    let changed = planted(defects)?;
    let files = tracked()?;
    let mut kept = BTreeSet::new();
    for file in files.iter().filter(|file| !changed.contains_key(file.as_str())) {
        let from = run::workspace().join(file);
        // What was removed and not yet committed, and links, which nothing here needs.
        if from.is_file() {
            let text = std::fs::read(&from).map_err(|why| format!("cannot read {}: {why}", from.display()))?;
            put(&folder().join(file), &text, Some(&from))?;
            kept.insert(folder().join(file));
        }
    }
    for (file, text) in &changed {
        put(&folder().join(file), text.as_bytes(), None)?;
        kept.insert(folder().join(file));
    }
    sweep(&folder(), &kept)
}

/// Whether all of them have their place.
#[cfg(test)]
pub(super) fn check(defects: &[Defect]) -> Result<()> {
    planted(defects).map(drop)
}

/// All files that are not as they are in the tree.
fn planted(defects: &[Defect]) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut table = String::new();
    for defect in defects {
        let at = |why: &str| format!("the defect {}: {why} in {}: {:?}", defect.name, defect.file, defect.find);
        let text = read(&mut files, &defect.file)?;
        let home =
            defect.section.as_deref().map_or(Ok(text), |name| section(text, name).ok_or_else(|| at("no section")))?;
        match home.matches(&defect.find).count() {
            1 => {}
            0 => return Err(at("what it replaces is not there any more")),
            _ => return Err(at("what it replaces is there more than once")),
        }
        if is(&defect.file, "sql") {
            // Writing to a string can't fail.
            let _ = writeln!(table, "    ({:?}, {home:?}, {:?}, {:?}),", defect.name, defect.find, defect.plant);
        } else {
            if !defect.plant.contains("$on") {
                return Err(at("what is planted does not ask whether it is chosen ($on), so it would always be there"));
            }
            let on = format!("{}::planted::is({:?})", crate_of(&defect.file), defect.name);
            let plant = defect.plant.replace("$on", &on).replace("$was", &defect.find);
            let text = text.replacen(&defect.find, &plant, 1);
            files.insert(defect.file.clone(), text);
        }
    }
    for (file, from, to) in HOOKS {
        let text = read(&mut files, file)?;
        if text.matches(from).count() != 1 {
            return Err(format!("the place where {file} takes up the text of a statement has changed: {from:?}"));
        }
        let text = text.replacen(from, to, 1);
        files.insert(file.to_owned(), text);
    }
    for file in tracked()?.iter().filter(|file| file.starts_with("src/store/sqlite/") && is(file, "rs")) {
        let text = hooked(read(&mut files, file)?);
        files.insert(file.clone(), text);
    }
    let root = format!("{}\n#[doc(hidden)]\n#[allow(missing_docs)]\npub mod planted;\n", read(&mut files, ROOT)?);
    files.insert(ROOT.to_owned(), root);
    files.insert(MODULE.to_owned(), MODULE_TEXT.replace("VARIABLE", VARIABLE).replace("// TABLE\n", &table));
    // A file of SQL stays what it is: its defects are in the module.
    files.retain(|file, _| !is(file, "sql"));
    Ok(files)
}

const MODULE_TEXT: &str = r#"//! Which of the planted defects is there.

use std::sync::LazyLock;

static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("VARIABLE").ok());

const SQL: &[(&str, &str, &str, &str)] = &[
// TABLE
];

pub fn is(name: &str) -> bool {
    CHOSEN.as_deref() == Some(name)
}

pub fn sql(text: &'static str) -> &'static str {
    let Some((_, _, find, plant)) = SQL.iter().find(|(name, home, find, _)| is(name) && home.contains(text) && text.contains(find)) else { return text };
    Box::leak(text.replacen(find, plant, 1).into_boxed_str())
}
"#;

/// The part of a file of SQL that has one statement: from the line with its name to the next such line.
fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    const MARK: &str = "-- name: ";
    let sections = text.split(MARK).skip(1);
    sections
        .filter_map(|section| section.split_once('\n'))
        .find(|(first, _)| first.trim() == name)
        .map(|(_, body)| body)
}

fn is(file: &str, extension: &str) -> bool {
    Path::new(file).extension().is_some_and(|end| end == extension)
}

/// The crate that has the module, as a file calls it.
fn crate_of(file: &str) -> &'static str {
    if file.starts_with("src/") { "crate" } else { "jobwright" }
}

/// `prepare_cached(NAME)`, where a store of SQLite takes up a constant's text.
fn hooked(text: &str) -> String {
    const CALL: &str = "prepare_cached(";
    let mut parts = text.split(CALL);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(CALL);
        let name: String = part.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
        if !name.is_empty() && part[name.len()..].starts_with(')') {
            let _ = write!(out, "crate::planted::sql({name})");
            out.push_str(&part[name.len()..]);
        } else {
            out.push_str(part);
        }
    }
    out
}

fn read<'a>(files: &'a mut BTreeMap<String, String>, file: &str) -> Result<&'a str> {
    if !files.contains_key(file) {
        let path = run::workspace().join(file);
        let text = std::fs::read_to_string(&path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        files.insert(file.to_owned(), text);
    }
    Ok(files.get(file).map_or("", String::as_str))
}

/// What belongs to the tree, new files included.
fn tracked() -> Result<Vec<String>> {
    let mut command = Command::new("git");
    command.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(run::workspace());
    let said = run::capture(&mut command, Duration::from_secs(60))?;
    Ok(said.lines().map(str::to_owned).collect())
}

fn put(path: &Path, text: &[u8], like: Option<&Path>) -> Result<()> {
    let problem = |why| format!("cannot write {}: {why}", path.display());
    if std::fs::read(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(problem)?;
    }
    std::fs::write(path, text).map_err(problem)?;
    // A script stays one.
    match like.map(std::fs::metadata) {
        Some(Ok(of)) => std::fs::set_permissions(path, of.permissions()).map_err(problem),
        _ => Ok(()),
    }
}

/// Removes what the tree has no more.
fn sweep(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    let problem = |why| format!("cannot tidy up {}: {why}", folder.display());
    for entry in folder.read_dir().map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.is_dir() {
            sweep(&path, kept)?;
        } else if !kept.contains(&path) {
            std::fs::remove_file(&path).map_err(problem)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_taken_up_through_the_module() {
        let text =
            "a.prepare_cached(TAKE_PERMIT)?; b.prepare_cached(&CLAIM)?; c.prepare_cached(sql)?; d.prepare_cached(";
        let hooked = hooked(text);
        assert!(hooked.contains("prepare_cached(crate::planted::sql(TAKE_PERMIT))?"), "{hooked}");
        assert_eq!(hooked.replace("crate::planted::sql(TAKE_PERMIT)", "TAKE_PERMIT"), text);
    }

    #[test]
    fn a_statement_is_found_by_its_name() {
        let text = "-- a topic\n\n-- name: one\nselect 1;\n\n-- name: two\nselect 2;\n";
        assert_eq!(section(text, "one"), Some("select 1;\n\n"));
        assert_eq!(section(text, "two"), Some("select 2;\n"));
        assert_eq!(section(text, "three"), None);
    }
}
