//! Whether a program can use the library beside the crates that such programs also use. Cargo allows one package for each native library, so a
//! library that brings its own SQLite keeps every crate out that brings another one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};

/// `cargo generate-lockfile` takes seconds, also where the registry refuses connections: five minutes mean that it hangs.
const DEADLINE: Duration = Duration::from_secs(5 * 60);

/// The neighbours, each with its lines of the manifest. A version is the least that will do, and a new one: otherwise cargo would avoid a conflict by a
/// release of years ago. `>=` also takes the releases to come.
const NEIGHBOURS: [(&str, &[&str]); 16] = [
    ("sqlx 0.8", &[r#"sqlx = { version = "0.8.6", features = ["runtime-tokio", "postgres"] }"#]),
    ("sqlx 0.9", &[r#"sqlx = { version = "0.9.0", features = ["runtime-tokio", "postgres"] }"#]),
    ("sea-orm 1", &[r#"sea-orm = { version = "1.1.20", features = ["sqlx-postgres", "runtime-tokio-rustls"] }"#]),
    ("sea-orm 2", &[r#"sea-orm = { version = "2.0.0", features = ["sqlx-postgres", "runtime-tokio-rustls"] }"#]),
    ("diesel 2", &[r#"diesel = { version = "2.3.0", features = ["postgres"] }"#]),
    ("diesel-async", &[r#"diesel-async = { version = ">=0.9.0", features = ["postgres"] }"#]),
    ("rusqlite 0.37", &[r#"rusqlite = { version = "0.37.0", features = ["bundled"] }"#]),
    ("rusqlite, newest", &[r#"rusqlite = { version = ">=0.43.0", features = ["bundled"] }"#]),
    ("deadpool-sqlite", &[r#"deadpool-sqlite = ">=0.14.0""#]),
    ("tokio-rusqlite", &[r#"tokio-rusqlite = { version = ">=0.8.0", features = ["bundled"] }"#]),
    ("apalis 0.7", &[r#"apalis = "0.7.4""#, r#"apalis-sql = { version = "0.7.4", features = ["postgres"] }"#]),
    ("apalis with PostgreSQL", &[r#"apalis = ">=1.0.0""#, r#"apalis-postgres = ">=1.0.0""#]),
    ("apalis with SQLite", &[r#"apalis = ">=1.0.0""#, r#"apalis-sqlite = ">=1.0.0""#]),
    ("graphile_worker", &[r#"graphile_worker = ">=0.14.1""#]),
    (
        "tower-sessions on PostgreSQL",
        &[r#"tower-sessions-sqlx-store = { version = ">=0.15.0", features = ["postgres"] }"#],
    ),
    ("tower-sessions on SQLite", &[r#"tower-sessions-sqlx-store = { version = ">=0.15.0", features = ["sqlite"] }"#]),
];

/// The features of transactions of sqlx, beside sqlx as programs have it, with its default features: those name SQLite, which the library must not.
const WITH_FEATURES: [(&str, &str, &str); 3] = [
    ("sqlx 0.8, with its transactions", r#"["rabbitmq", "sqlx-0_8"]"#, r#"sqlx = "0.8.6""#),
    ("sqlx 0.9, with its transactions", r#"["rabbitmq", "sqlx-0_9"]"#, r#"sqlx = "0.9.0""#),
    ("sqlx 0.9, with transactions of both", r#"["sqlx-0_8", "sqlx-0_9"]"#, r#"sqlx = "0.9.0""#),
];

/// Resolves the library beside each neighbour. Compiles nothing.
pub(crate) fn run() -> Result<()> {
    let workspace = run::workspace();
    let alone = library(&workspace, "[]");
    // First alone: if that fails, the neighbours are not the reason.
    resolve(&[&alone]).map_err(|why| match judged(&why) {
        Verdict::Unreachable => unreachable_registry(&why),
        Verdict::Refused => format!("the library does not resolve by itself:\n{why}\nCorrect its Cargo.toml"),
    })?;
    let mut failed = Vec::new();
    let plain = NEIGHBOURS.iter().map(|(name, lines)| (*name, alone.clone(), lines.to_vec()));
    let more = WITH_FEATURES.iter().map(|(name, features, line)| (*name, library(&workspace, features), vec![*line]));
    for (name, library, lines) in plain.chain(more) {
        let Err(why) = resolve(&[&[library.as_str()], lines.as_slice()].concat()) else {
            println!("  ok      {name}");
            continue;
        };
        println!("  FAILED  {name}");
        if matches!(judged(&why), Verdict::Unreachable) {
            return Err(unreachable_registry(&why));
        }
        // The neighbour alone tells a conflict from a version that was withdrawn or a feature that was renamed.
        match resolve(&lines) {
            Ok(()) => failed.push((name, why, CONFLICT)),
            Err(alone) if matches!(judged(&alone), Verdict::Unreachable) => return Err(unreachable_registry(&alone)),
            Err(alone) => failed.push((name, alone, STALE)),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(told(&failed)) }
}

/// Runs the check as a step of a set.
pub(crate) fn step(report: &mut Report) -> Option<()> {
    report.step("neighbours", run).then_some(())
}

const CONFLICT: &str = "What to do: no feature of the library but `sqlite` may bring a package that links a native library (a bundled SQLite); make \
                        it a feature that programs choose, or support the versions of the neighbour too";
const STALE: &str = "What to do: the neighbour does not resolve without the library either; correct its lines in xtask/src/neighbours.rs";

/// Describes the failures; the first line has all names.
fn told(failed: &[(&str, String, &str)]) -> String {
    let names: Vec<&str> = failed.iter().map(|(name, ..)| *name).collect();
    let head = format!("the library does not resolve beside {}", names.join("; "));
    let reasons = failed.iter().map(|(name, why, remedy)| format!("--- beside {name}, cargo says:\n{why}\n{remedy}"));
    std::iter::once(head).chain(reasons).collect::<Vec<_>>().join("\n\n")
}

fn unreachable_registry(why: &str) -> String {
    format!(
        "the registry can't be reached, so nothing is known about the neighbours: cargo says:\n{why}\nWhat to do: connect this machine to \
         index.crates.io, or name a proxy or a mirror in cargo's configuration, and run `cargo xtask neighbours`"
    )
}

/// The meaning of a failure of cargo.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The registry did not answer.
    Unreachable,
    /// The dependencies do not fit together.
    Refused,
}

fn judged(why: &str) -> Verdict {
    let silence = ["download of ", "failed to download", "unable to update registry", "was stopped: it had not ended"];
    let lower = why.to_lowercase();
    // A refusal may come with warnings of a network that failed once and then worked.
    let is_refusal = lower.contains("failed to select a version");
    if !is_refusal && silence.iter().any(|sign| lower.contains(sign)) { Verdict::Unreachable } else { Verdict::Refused }
}

/// Returns the line of the library in a manifest, as a user outside of the workspace would have it: without our patch of a dependency.
fn library(workspace: &Path, features: &str) -> String {
    format!("jobwright = {{ path = {:?}, features = {features} }}", workspace.display().to_string())
}

/// Resolves a crate that has these dependencies; the error is cargo's.
fn resolve(dependencies: &[&str]) -> Result<()> {
    let folder = run::workspace().join("target/neighbours");
    // From nothing each time: cargo keeps the versions of a lock file that it finds, and they would hide a new conflict.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|why| format!("cannot remove {}: {why}", folder.display()))?;
    }
    let source = folder.join("src");
    fs::create_dir_all(&source).map_err(|why| format!("cannot create {}: {why}", source.display()))?;
    run::write(&source.join("lib.rs"), "")?;
    run::write(&folder.join("Cargo.toml"), &manifest(dependencies))?;
    let mut command = run::cargo(["generate-lockfile", "--quiet"]);
    // Offline, cargo would answer from the releases that happen to be on this machine.
    command.current_dir(&folder).env("CARGO_NET_OFFLINE", "false").env("CARGO_TERM_COLOR", "never");
    run::capture(&mut command, DEADLINE).map(drop)
}

/// Returns a manifest with these dependencies. It is a workspace of its own, since it lies in a folder of ours.
fn manifest(dependencies: &[&str]) -> String {
    let dependencies = dependencies.join("\n");
    format!(
        "[package]\nname = \"neighbour\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{dependencies}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_the_library_by_path_with_its_default_features_and_the_neighbour() {
        let library = library(Path::new("/a \"b\""), "[]");
        assert_eq!(library, r#"jobwright = { path = "/a \"b\"", features = [] }"#);
        let text = manifest(&[&library, "sqlx = \"0.8.6\""]);
        assert_eq!(
            text,
            "[package]\nname = \"neighbour\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
             jobwright = { path = \"/a \\\"b\\\"\", features = [] }\nsqlx = \"0.8.6\"\n"
        );
    }

    #[test]
    fn each_neighbour_has_a_name_of_its_own_and_names_a_whole_version() {
        let names: std::collections::BTreeSet<&str> = NEIGHBOURS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), NEIGHBOURS.len());
        for line in NEIGHBOURS.iter().flat_map(|(_, lines)| *lines) {
            let (name, rest) = line.split_once(" = ").unwrap();
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b"-_".contains(&b)), "{line}");
            // `{ version = "1.2.3", features = [...] }` or `"1.2.3"`.
            let version = rest.trim_start_matches("{ version = ").split('"').nth(1).unwrap();
            let parts = version.trim_start_matches(">=").split('.').filter(|part| part.parse::<u32>().is_ok());
            assert_eq!(parts.count(), 3, "{line}: a part that is left out lets cargo take a release of years ago");
        }
    }

    /// The texts are those of cargo 1.95.
    #[test]
    fn a_silent_registry_is_told_from_a_conflict() {
        let unreachable = [
            "error: failed to get `sqlx` as a dependency of package `neighbour v0.0.0`\n\nCaused by:\n  download of config.json failed",
            "error: Unable to update registry `crates-io`",
            "`cargo generate-lockfile` was stopped: it had not ended after 300s",
        ];
        for text in unreachable {
            assert_eq!(judged(text), Verdict::Unreachable, "{text}");
        }
        let conflict = "error: failed to select a version for `libsqlite3-sys`.\npackage `libsqlite3-sys` links to the native library `sqlite3`";
        assert_eq!(judged(conflict), Verdict::Refused);
        let once =
            format!("warning: spurious network error: failed to download from `https://index.crates.io`\n{conflict}");
        assert_eq!(judged(&once), Verdict::Refused);
        let text =
            told(&[("sqlx 0.8", conflict.to_owned(), CONFLICT), ("diesel 2", "no such version".to_owned(), STALE)]);
        assert!(text.starts_with("the library does not resolve beside sqlx 0.8; diesel 2\n"));
        assert!(text.contains("links to the native library") && text.contains("correct its lines in"), "{text}");
        assert!(unreachable_registry("no route").contains("cargo says:\nno route"));
    }
}
