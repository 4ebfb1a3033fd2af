//! Defects planted on purpose, each of which a test has to detect: `cargo xtask mutants`.
//!
//! They are defects that no tool can plant: in SQL, in migrations, and in the order of steps. All of them are built into one copy of the tree,
//! and a variable enables one at a time; the source itself stays clean. A defect that no test detects fails the run, and so does one whose place
//! in the source is gone: the list follows the code. Defects that a tool can plant are left to cargo-mutants: [`changed`].

mod changed;
mod list;
mod plant;
mod verdict;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::report::Report;
use crate::run::{self, Result};
use crate::runner;
use crate::services::{self, Urls};
use list::Defect;
use verdict::Verdict;

/// Selects the planted defect. It is not one of the program's own variables, which it would refuse.
const VARIABLE: &str = "PLANTED_DEFECT";
/// How many defects are tested side by side: their tests mostly wait.
const SIDE_BY_SIDE: usize = 5;
/// A defect that depends on timing may go unnoticed at times.
const TRIES: usize = 3;
/// The limit for the tests of one defect. The runner ends a hanging test before that (profile `mutants`).
const DEADLINE: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, PartialEq)]
pub(crate) enum Options {
    /// Prints the list.
    List,
    /// Plants these; empty: all.
    Planted(Vec<String>),
    /// Lets cargo-mutants plant its own.
    Changed(changed::Options),
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        match words {
            ["--list"] => Ok(Self::List),
            ["--changed", rest @ ..] => changed::Options::parse(rest).map(Self::Changed),
            names => {
                let all = list::all()?;
                match names.iter().find(|&&name| all.iter().all(|defect| defect.name != name)) {
                    None => Ok(Self::Planted(names.iter().map(|&name| name.to_owned()).collect())),
                    Some(other) => Err(format!(
                        "mutants: `{other}` is neither --list, nor --changed, nor one of those that --list names"
                    )),
                }
            }
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Report::default();
    match options {
        Options::List => {
            for defect in list::all()? {
                println!("{:<44} {}", defect.name, defect.breaks);
            }
            return Ok(());
        }
        Options::Planted(names) => planted(names, &mut report),
        Options::Changed(options) => changed::steps(options, &mut report),
    }
    report.finish()
}

/// Plants those of these names; without a name all of them.
pub(crate) fn planted(names: &[String], report: &mut Report) {
    let mut found = None;
    let mut wanted = Vec::new();
    let ready = report.step("services up", || services::up().map(|urls| found = Some(urls)))
        && report.step("tools", services::tools)
        && report.step("test runner", runner::ensure)
        && report.step("plant", || {
            wanted = list::all()?;
            plant::tree(&wanted)
        });
    let Some(urls) = found.filter(|_| ready) else { return };
    wanted.retain(|defect| names.is_empty() || names.contains(&defect.name));
    // Once without any defect, or failures would say nothing.
    let filters: BTreeSet<&str> = wanted.iter().map(|defect| defect.tests.as_str()).collect();
    let filter = filters.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" | ");
    if !report.step("build, and the tests without a defect", || {
        let mut command = nextest(&urls, &filter);
        run::run(command.args(["--retries", "2"]), run::CARGO)
    }) {
        return;
    }
    report.step(&format!("{} defects", wanted.len()), || hunt(&wanted, &urls));
}

/// Compiles the copy with all defects in it. A defect whose text still fits its place may name what has moved.
pub(crate) fn compile(report: &mut Report) {
    report.step("planted defects compile", || {
        plant::tree(&list::all()?)?;
        let mut command =
            run::cargo(["check", "--package", "jobwright", "--package", "jobwright-cli", "--all-features"]);
        command.current_dir(plant::folder()).env("CARGO_TARGET_DIR", plant::target()).env_remove("CARGO_MANIFEST_DIR");
        run::run(&mut command, run::CARGO)
    });
}

/// Returns a command that runs the filtered tests in the copy.
fn nextest(urls: &Urls, filter: &str) -> Command {
    let mut command = run::cargo(["nextest", "run", "--package", "jobwright", "--package", "jobwright-cli"]);
    command
        .args(["--profile", "mutants", "--ignore-default-filter", "-E", filter])
        .current_dir(plant::folder())
        .envs(urls.variables());
    command.env("CARGO_TARGET_DIR", plant::target()).env_remove("CARGO_MANIFEST_DIR").env_remove(VARIABLE);
    // Programs in other languages are searched where the tests find them by default.
    command.env("JOBWRIGHT_TEST_NO_FOREIGN", "1");
    command
}

fn hunt(wanted: &[Defect], urls: &Urls) -> Result<()> {
    let (queue, verdicts) = (Mutex::new(wanted.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    // A separate statement, so that the lock is released.
                    let next = queue.lock().map(|mut queue| queue.next());
                    let Ok(Some(defect)) = next else { return };
                    let begin = Instant::now();
                    let verdict = look(defect, urls);
                    eprintln!("{:<44} {verdict} ({:.0} s)", defect.name, begin.elapsed().as_secs_f64());
                    if let Ok(mut verdicts) = verdicts.lock() {
                        verdicts.push((defect.name.as_str(), verdict));
                    }
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().map_err(|_| "a thread that ran tests has panicked".to_owned())?;
    verdict::summary(wanted.len(), &verdicts)
}

fn look(defect: &Defect, urls: &Urls) -> Verdict {
    let mut last = Verdict::Survived;
    for _ in 0..TRIES {
        let mut command = nextest(urls, &defect.tests);
        command.args(["--max-fail", "1", "--color", "never"]).env(VARIABLE, &defect.name);
        last = verdict::of(&mut command, &plant::log(&defect.name), DEADLINE);
        if !matches!(last, Verdict::Survived) {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_names;

    #[test]
    fn each_has_a_name_of_its_own() {
        let all = list::all().unwrap();
        let names: BTreeSet<&str> = all.iter().map(|defect| defect.name.as_str()).collect();
        assert_eq!(names.len(), all.len(), "two have one name");
    }

    #[test]
    fn each_can_be_planted() {
        plant::check(&list::all().unwrap()).unwrap();
    }

    /// A function that a later migration replaces has no effect, and a defect in it has none either.
    #[test]
    fn none_is_in_a_function_that_a_later_migration_replaces() {
        let folder = run::workspace().join("migrations/postgres");
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let texts: Vec<(String, String)> =
            files.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect();
        for defect in list::all().unwrap().iter().filter(|defect| defect.file.starts_with("migrations/postgres/")) {
            let (file, text) = texts.iter().find(|(file, _)| file.ends_with(&defect.file)).unwrap();
            let before = text.split(&defect.find).next().unwrap();
            let Some((_, function)) = before.rsplit_once("function {schema}.") else { continue };
            // Behind its end, the defect is in something else.
            let Some(name) = function.split('(').next().filter(|_| !function.contains("$;\n")) else { continue };
            let created = ["create", "create or replace"].map(|how| format!("{how} function {{schema}}.{name}("));
            let later = texts.iter().find(|(other, text)| other > file && created.iter().any(|how| text.contains(how)));
            assert!(later.is_none(), "{}: {name} is replaced in {}", defect.name, later.unwrap().0);
        }
    }

    /// A filter that matches no test finds no defect.
    #[test]
    fn each_names_tests_that_exist() {
        let all = list::all().unwrap();
        let unknown: Vec<String> = all
            .iter()
            .flat_map(|defect| {
                test_names::unknown(&defect.tests).into_iter().map(|word| format!("{}: {word}", defect.name))
            })
            .collect();
        assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    }

    #[test]
    fn they_are_chosen_by_their_names() {
        let name = list::all().unwrap()[0].name.clone();
        assert_eq!(Options::parse(&[&name]), Ok(Options::Planted(vec![name.clone()])));
        assert_eq!(Options::parse(&[]), Ok(Options::Planted(Vec::new())));
        assert_eq!(Options::parse(&["--list"]), Ok(Options::List));
        assert!(Options::parse(&["no-such-defect"]).is_err());
    }

    #[test]
    fn the_runner_knows_the_profile() {
        let config = std::fs::read_to_string(run::workspace().join(".config/nextest.toml")).unwrap();
        assert!(config.contains("[profile.mutants]"));
    }
}
