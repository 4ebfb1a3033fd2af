//! Whether the tests that a filter of cargo-nextest names exist: one that matches no test leaves out, finds or changes nothing, and fails nowhere.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use crate::run;

/// The functions, modules and files in which there are tests.
static KNOWN: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut known = BTreeSet::new();
    for folder in ["src", "tests", "http", "cli", "bench/src", "xtask/src", "model"] {
        add(&run::workspace().join(folder), &mut known);
    }
    known
});

/// Returns the words in a filter's names of tests that are in no name.
pub(crate) fn unknown(filter: &str) -> Vec<&str> {
    let filters = filter.split("test(").skip(1).filter_map(|rest| rest.split(')').next());
    // Regular expressions have names in brackets, which the closing bracket cuts: what is behind it is looked at too.
    let words = filters.chain(filter.split("test(/").skip(1).filter_map(|rest| rest.split("/)").next()));
    let words = words.flat_map(|filter| filter.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| !word.is_empty() && !KNOWN.iter().any(|name| name.contains(word))).collect()
}

/// Adds the functions, modules and files below a folder.
fn add(folder: &Path, known: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        known.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
        if path.is_dir() {
            add(&path, known);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for keyword in ["fn ", "mod "] {
                let found = text.split(keyword).skip(1);
                let name =
                    |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
                known.extend(found.filter_map(name));
            }
        }
    }
}

#[test]
fn a_word_that_is_in_no_name_is_found() {
    assert_eq!(unknown("binary(system) & test(/^delivery::soak|nobody_has_this_name/)"), ["nobody_has_this_name"; 2]);
    assert!(unknown("test(=executor::upgrades) | test(/(^|::)faults_/)").is_empty());
}
