//! Replays the seeds and findings of each target.

use std::fs;
use std::path::Path;

use jobwright_cli::testing;
use jobwright_fuzz::TARGETS;

/// The fuzzer learns nothing from inputs that are rejected at once.
#[test]
fn command_lines_to_begin_with_are_accepted() {
    for seed in (jobwright_fuzz::target("filters").expect("there is such a target").seeds)() {
        let text = String::from_utf8(seed).expect("it is text");
        let words: Vec<String> = std::iter::once("jobwright").chain(text.lines()).map(str::to_owned).collect();
        assert_eq!(testing::words(&words), Ok(()), "{words:?}");
    }
}

#[test]
fn seeds_and_findings_do_no_harm() {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} begins with nothing", target.name);
        for seed in &seeds {
            (target.check)(seed);
        }
        let Ok(entries) = fs::read_dir(found.join(target.name)) else { continue };
        for entry in entries {
            let path = entry.expect("the folder can be read").path();
            println!("{}", path.display());
            (target.check)(&fs::read(path).expect("the file can be read"));
        }
    }
    for entry in fs::read_dir(found).expect("there is a folder for what was found") {
        let name = entry.expect("the folder can be read").file_name();
        let known = name == "README.md" || name.to_str().is_some_and(|name| jobwright_fuzz::target(name).is_some());
        assert!(known, "no target is called {name:?}");
    }
}
