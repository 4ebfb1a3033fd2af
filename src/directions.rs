//! Who may name the engine's side of the store. `cargo xtask rooms` checks which file may import from which.

use std::path::{Path, PathBuf};

/// Tasks take a role. Only these put an executor, message services or the operators' API together.
#[test]
fn few_files_name_all_roles_at_once() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let may = ["admin.rs", "message/services.rs", "message/shared.rs", "executor/session/node_session.rs"]
        .map(|file| src.join(file));
    let mut others = files(&src);
    others
        .retain(|file| !may.contains(file) && !file.starts_with(src.join("store")) && !file.ends_with("directions.rs"));
    others.retain(|file| !file.ends_with("tests.rs"));
    others.retain(|file| std::fs::read_to_string(file).unwrap().contains("JobStore"));
    assert!(others.is_empty(), "{others:?} name JobStore: take the role that is needed");
}

/// Operators and programs have `Admin`. The program, the examples and the documents use and teach nothing else.
#[test]
fn nothing_that_people_read_names_the_engine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut read: Vec<PathBuf> =
        ["cli/src", "examples", "docs"].iter().flat_map(|part| files(&root.join(part))).collect();
    read.extend(["README.md", "src/lib.rs"].map(|file| root.join(file)));
    read.retain(|file| !file.starts_with(root.join("docs/adr")));
    for file in read {
        // A chart or another file that is no text.
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut imports = code.split("use jobwright::store::{").skip(1).filter_map(|rest| rest.split('}').next());
        assert!(
            imports.all(|names| !names.split(',').any(|name| name.trim() == "engine")),
            "{} names engine",
            file.display()
        );
        for word in ["store::engine", ".engine()", "JobStore", "messages.jobs()"] {
            assert!(!code.contains(word), "{} names {word}", file.display());
        }
    }
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
