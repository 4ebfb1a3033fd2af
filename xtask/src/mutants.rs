//! Defects planted on purpose, each of which a test has to detect: `cargo xtask mutants`.
//!
//! All of them are built into one copy of the tree, and a variable enables one at a time; the source itself stays clean. A defect that no test
//! detects fails the run, and so does one whose place in the source is gone: the list follows the code.

mod benchmarks;
mod broker;
mod content;
mod counting;
mod executor;
mod foreign_input;
mod message;
mod operating;
mod plant;
mod program;
mod protocol;
mod retention;
mod sql;
mod store;
mod unique_keys;
mod verdict;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::report::Report;
use crate::run::{self, Result};
use crate::runner;
use crate::services::{self, Urls};
use verdict::Verdict;

/// Selects the planted defect. It is not one of the program's own variables, which it would refuse.
const VARIABLE: &str = "PLANTED_DEFECT";
/// How many defects are tested side by side: their tests mostly wait.
const SIDE_BY_SIDE: usize = 5;
/// A defect that depends on timing may go unnoticed at times.
const TRIES: usize = 3;
/// The limit for the tests of one defect. The runner ends a hanging test before that (profile `mutants`).
const DEADLINE: Duration = Duration::from_secs(10 * 60);

/// A defect, and the tests that have to detect it.
struct Mutant {
    /// Its name, which states the consequence.
    name: &'static str,
    /// The file in which it is planted.
    file: &'static str,
    /// The original text, which occurs exactly once.
    find: &'static str,
    /// The replacement, if the defect is enabled. In Rust `$on` tests whether it is, and `$was` is the original; in SQL it is just the text.
    plant: &'static str,
    /// The tests that have to detect it, as a filter of cargo-nextest.
    tests: &'static str,
}

/// Creates one; the arguments are in the order of the fields.
const fn of(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    plant: &'static str,
    tests: &'static str,
) -> Mutant {
    Mutant { name, file, find, plant, tests }
}

fn all() -> Vec<&'static Mutant> {
    [
        sql::MUTANTS,
        protocol::MUTANTS,
        store::MUTANTS,
        message::MUTANTS,
        executor::MUTANTS,
        broker::MUTANTS,
        program::MUTANTS,
        foreign_input::MUTANTS,
        content::MUTANTS,
        counting::MUTANTS,
        operating::MUTANTS,
        retention::MUTANTS,
        unique_keys::MUTANTS,
        benchmarks::MUTANTS,
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// List the names, and do nothing.
    list: bool,
    /// Empty: all.
    names: Vec<String>,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for &word in words {
            match word {
                "--list" => options.list = true,
                name if all().iter().any(|mutant| mutant.name == name) => options.names.push(name.to_owned()),
                other => return Err(format!("mutants: `{other}` is neither --list nor one of those that it names")),
            }
        }
        Ok(options)
    }

    fn wanted(&self) -> Vec<&'static Mutant> {
        let named = |mutant: &&Mutant| self.names.is_empty() || self.names.iter().any(|name| name == mutant.name);
        all().into_iter().filter(named).collect()
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted = options.wanted();
    if options.list {
        for mutant in wanted {
            println!("{:<44} {}", mutant.name, mutant.file);
        }
        return Ok(());
    }
    let mut report = Report::default();
    steps(options, &mut report);
    report.finish()
}

pub(crate) fn steps(options: &Options, report: &mut Report) {
    let wanted = options.wanted();
    let mut found = None;
    let ready = report.step("services up", || services::up().map(|urls| found = Some(urls)))
        && report.step("tools", services::tools)
        && report.step("test runner", runner::ensure)
        && report.step("plant", || plant::tree(&all()));
    let Some(urls) = found.filter(|_| ready) else { return };
    // Once without any defect, or failures would say nothing.
    let filters: BTreeSet<&str> = wanted.iter().map(|mutant| mutant.tests).collect();
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
        plant::tree(&all())?;
        let mut command =
            run::cargo(["check", "--package", "jobwright", "--package", "jobwright-cli", "--all-features"]);
        command.current_dir(plant::folder()).env("CARGO_TARGET_DIR", plant::target()).env_remove("CARGO_MANIFEST_DIR");
        run::run(&mut command, run::CARGO)
    });
}

/// Returns a command that runs the filtered tests in the copy.
fn nextest(urls: &Urls, filter: &str) -> Command {
    let mut command = run::cargo([
        "nextest",
        "run",
        "--package",
        "jobwright",
        "--package",
        "jobwright-cli",
        "--package",
        "jobwright-bench",
    ]);
    command
        .args(["--profile", "mutants", "--ignore-default-filter", "-E", filter])
        .current_dir(plant::folder())
        .envs(urls.variables());
    command.env("CARGO_TARGET_DIR", plant::target()).env_remove("CARGO_MANIFEST_DIR").env_remove(VARIABLE);
    // Programs in other languages are searched where the tests find them by default.
    command.env("JOBWRIGHT_TEST_NO_FOREIGN", "1");
    command
}

fn hunt(wanted: &[&Mutant], urls: &Urls) -> Result<()> {
    let (queue, verdicts) = (Mutex::new(wanted.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    // A separate statement, so that the lock is released.
                    let next = queue.lock().map(|mut queue| queue.next().copied());
                    let Ok(Some(mutant)) = next else { return };
                    let begin = Instant::now();
                    let verdict = look(mutant, urls);
                    eprintln!("{:<44} {verdict} ({:.0} s)", mutant.name, begin.elapsed().as_secs_f64());
                    if let Ok(mut verdicts) = verdicts.lock() {
                        verdicts.push((mutant.name, verdict));
                    }
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().map_err(|_| "a thread that ran tests has panicked".to_owned())?;
    verdict::summary(wanted.len(), &verdicts)
}

fn look(mutant: &Mutant, urls: &Urls) -> Verdict {
    let mut last = Verdict::Survived;
    for _ in 0..TRIES {
        let mut command = nextest(urls, mutant.tests);
        command.args(["--max-fail", "1", "--color", "never"]).env(VARIABLE, mutant.name);
        last = verdict::of(&mut command, &plant::log(mutant.name), DEADLINE);
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
    fn there_are_enough_and_each_has_its_own_name() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), all.len(), "two have one name");
        assert!(all.len() >= 60, "{}", all.len());
    }

    #[test]
    fn each_can_be_planted() {
        plant::check(&all()).unwrap();
    }

    /// A filter that matches no test finds no defect.
    #[test]
    fn each_names_tests_that_exist() {
        let unknown: Vec<String> = all()
            .iter()
            .flat_map(|mutant| {
                test_names::unknown(mutant.tests).into_iter().map(|word| format!("{}: {word}", mutant.name))
            })
            .collect();
        assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    }

    #[test]
    fn they_are_chosen_by_their_names() {
        let name = all()[0].name;
        assert_eq!(Options::parse(&[name]).unwrap().wanted().len(), 1);
        assert_eq!(Options::parse(&[]).unwrap().wanted().len(), all().len());
        assert!(Options::parse(&["no-such-defect"]).is_err());
        assert_eq!(Options::parse(&["--list"]), Ok(Options { list: true, ..Options::default() }));
    }

    #[test]
    fn the_runner_knows_the_profile() {
        let config = std::fs::read_to_string(run::workspace().join(".config/nextest.toml")).unwrap();
        assert!(config.contains("[profile.mutants]"));
    }
}
