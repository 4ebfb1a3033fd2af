//! The clients in other languages, and the examples with dependencies of their own: each has a script that checks it, on a server of its own.

mod checked;
mod verdict;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use self::verdict::Verdict;
use crate::report::Report;
use crate::run::{self, Result};
use crate::services::{postgres, programs};
use crate::{digest::Digest, test};

/// The scripts take some minutes and have deadlines of their own, of 25 minutes at most.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// A language.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its command, its name in the reports, and its line in `clients/checked.txt`.
    pub(crate) name: &'static str,
    /// The scripts. Each reads `DATABASE_URL` and `JOBWRIGHT_BIN`, and ends with 0 if all passed, 1 if not, and 2 if something is missing.
    scripts: &'static [&'static str],
    /// What they depend on, beside the functions and their documents, as patterns of git.
    files: &'static [&'static str],
    /// Returns what is missing to run them, as far as they do not tell it themselves.
    missing: fn() -> Option<String>,
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

pub(crate) static CLIENTS: [Client; 3] = [
    Client {
        name: "java",
        scripts: &["clients/java/check.sh", "examples/flowable/check.sh"],
        files: &["clients/java", "examples/flowable"],
        missing: no_java,
    },
    Client { name: "python", scripts: &["clients/python/check.sh"], files: &["clients/python"], missing: || None },
    Client { name: "node", scripts: &["examples/node/check.sh"], files: &["examples/node"], missing: || None },
];

/// What all of them depend on.
const FUNCTIONS: [&str; 2] = ["docs/sql*.md", "migrations/postgres/0001_work_by_sql*.sql"];

/// The oldest Java that the clients are compiled for.
const JAVA: u32 = 17;

impl Client {
    /// Returns the scripts that there are.
    fn scripts(&self) -> impl Iterator<Item = &'static str> {
        self.scripts.iter().copied().filter(|script| run::workspace().join(script).is_file())
    }

    fn digest(&self) -> Result<String> {
        let mut digest = Digest::default();
        digest.add_files(&[self.files, &FUNCTIONS].concat())?;
        digest.finish()
    }

    /// Runs the scripts as steps, whatever has changed. Returns whether all have passed.
    fn check(&self, report: &mut Report, is_asked_for: bool) -> bool {
        // What is written meanwhile was not checked.
        let digest = self.digest();
        let why = if self.scripts().next().is_none() {
            Some(format!("{} is not there", self.scripts[0]))
        } else {
            (self.missing)()
        };
        if let Some(why) = why {
            return left_out(report, self.name, &why, is_asked_for);
        }
        if !report.step(&format!("{}: the program", self.name), build) {
            return false;
        }
        let mut passed = true;
        for script in self.scripts() {
            // The first problem does not hide those of the next script.
            passed &= step(report, script, is_asked_for);
        }
        if passed {
            let record = || checked::record(self.name, &digest?);
            return report.step(&format!("{}: {}", self.name, checked::FILE), record);
        }
        passed
    }
}

/// Returns the client whose command this is.
pub(crate) fn named(name: &str) -> Result<&'static Client> {
    CLIENTS.iter().find(|client| client.name == name).ok_or_else(|| format!("there is no client `{name}`"))
}

/// Runs the scripts of one language. What is missing is an error.
pub(crate) fn run(client: &Client) -> Result<()> {
    let mut report = Report::default();
    client.check(&mut report, true);
    report.finish()
}

/// Runs the scripts of all languages. What is missing is reported, and no error.
pub(crate) fn always(report: &mut Report) {
    for client in &CLIENTS {
        client.check(report, false);
    }
}

/// Runs the scripts of the languages of which something has changed since they passed.
pub(crate) fn changed(report: &mut Report) {
    for client in &CLIENTS {
        match client.digest() {
            Ok(digest) if checked::is_recorded(client.name, &digest) => {
                let why = format!("what it depends on is as it was when it passed: {}", checked::FILE);
                report.not_run(client.name, &why);
            }
            // Where that can't be known, it is checked.
            _ => drop(client.check(report, false)),
        }
    }
}

/// Builds the program. All members, as in the other steps: so almost nothing is built again.
fn build() -> Result<()> {
    run::run(&mut run::cargo(["build", "--workspace", "--bins"]), run::CARGO)
}

/// Runs a script on a server of its own, as a step. Returns whether it passed.
fn step(report: &mut Report, script: &str, is_asked_for: bool) -> bool {
    let mut missing = None;
    let ok = report.step(script, || match play(script)? {
        Verdict::Passed => Ok(()),
        Verdict::Failed(why) => Err(why),
        Verdict::Missing(why) => {
            missing = Some(why);
            Ok(())
        }
    });
    match missing {
        Some(why) => {
            report.forget_last();
            left_out(report, script, &why, is_asked_for)
        }
        None => ok,
    }
}

fn play(script: &str) -> Result<Verdict> {
    let name = Path::new(script).parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let server = postgres::private(&format!("clients-{name}"), "")?;
    let folder = run::workspace().join("target/clients-logs");
    std::fs::create_dir_all(&folder).map_err(|why| format!("cannot create {}: {why}", folder.display()))?;
    let log = folder.join(format!("{name}.txt"));
    let mut command = Command::new("sh");
    command.arg(script).current_dir(run::workspace());
    command.env("DATABASE_URL", server.url()).env("JOBWRIGHT_BIN", test::built("jobwright"));
    eprintln!("$ {}\n  (its output is in {})", run::shown(&command), log.display());
    let code = run::ended(&mut command, &log, DEADLINE).map_err(|why| format!("{why}{}", run::tail(&log)))?;
    let said = std::fs::read(&log).map_err(|why| format!("cannot read {}: {why}", log.display()))?;
    let said = String::from_utf8_lossy(&said);
    if code != Some(0) {
        eprintln!("{said}");
    }
    Ok(verdict::of(script, code, &said))
}

/// Reports something that could not be checked: an error for whoever asked for it. Returns whether it passed, which it has not.
fn left_out(report: &mut Report, name: &str, why: &str, is_asked_for: bool) -> bool {
    if is_asked_for {
        report.step(name, || Err(why.to_owned()));
    } else {
        report.not_run(name, why);
    }
    false
}

/// Returns why the Java clients can't be built here.
fn no_java() -> Option<String> {
    let javac = programs::on_path("javac")
        .and_then(|javac| run::capture(Command::new(javac).arg("-version"), Duration::from_secs(30)).ok());
    match javac.as_deref().and_then(version) {
        None => return Some(format!("there is no JDK ({JAVA} or newer)")),
        Some(found) if found < JAVA => {
            return Some(format!("the JDK is of version {found}; {JAVA} is the oldest that will do"));
        }
        Some(_) => {}
    }
    programs::on_path("mvn").is_none().then(|| "Maven is not installed (Debian: maven)".to_owned())
}

/// Parses `javac 17.0.15`, and `javac 1.8.0_402` of old ones.
fn version(said: &str) -> Option<u32> {
    let mut parts = said.split_whitespace().nth(1)?.split(['.', '-', '_', '+']).map(str::parse::<u32>);
    match parts.next()?.ok()? {
        1 => parts.next()?.ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_jdk_is_read() {
        assert_eq!(version("javac 17.0.15"), Some(17));
        assert_eq!(version("javac 1.8.0_402"), Some(8));
        assert_eq!(version("javac 25-ea"), Some(25));
        assert_eq!(version("error: no such command"), None);
        assert_eq!(version(""), None);
    }

    #[test]
    fn each_client_has_a_name_of_its_own_and_files_with_its_scripts() {
        let names: std::collections::BTreeSet<&str> = CLIENTS.iter().map(|client| client.name).collect();
        assert_eq!(names.len(), CLIENTS.len());
        for client in &CLIENTS {
            for script in client.scripts {
                assert!(client.files.iter().any(|folder| script.starts_with(&format!("{folder}/"))), "{script}");
            }
        }
    }

    #[test]
    fn what_all_depend_on_is_there() {
        for pattern in FUNCTIONS {
            let (mut found, mut none) = (Digest::default(), Digest::default());
            found.add_files(&[pattern]).unwrap();
            none.add_files(&["no-such-file"]).unwrap();
            assert_ne!(found.finish(), none.finish(), "{pattern} names no file");
        }
    }

    #[test]
    fn what_is_missing_is_an_error_only_for_whoever_asked() {
        let mut report = Report::default();
        assert!(!left_out(&mut report, "java", "there is no JDK", false));
        assert_eq!(report.finish(), Ok(()));
        assert!(report.summary().contains("java: not run: there is no JDK"));
        assert!(!left_out(&mut report, "java", "there is no JDK", true));
        assert_eq!(report.finish(), Err("failed: java".to_owned()));
    }
}
