//! Which modules may use which: imports go in one direction.

use std::path::{Path, PathBuf};

/// A module, and the modules that it must not name.
const UPWARD: [(&str, &[&str]); 6] = [
    ("job", &["admin", "broker", "codec", "config", "context", "executor", "message", "store"]),
    ("codec", &["admin", "broker", "config", "context", "executor", "message"]),
    ("config", &["admin", "broker", "codec", "context", "executor", "message", "store"]),
    ("broker", &["admin", "codec", "context", "executor", "message", "store"]),
    ("store", &["admin", "broker", "codec", "context", "executor", "message"]),
    ("message", &["executor"]),
];

#[test]
fn no_part_uses_what_is_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (part, above) in UPWARD {
        let files = files(&src.join(part));
        assert!(!files.is_empty(), "src/{part} has no files");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let used = |line: &str| above.iter().find(|name| line.contains(&format!("crate::{name}::"))).copied();
            wrong.extend(code.filter_map(used).map(|name| format!("{} uses {name}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
