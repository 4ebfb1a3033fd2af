//! All servers that the README supports: the tests of the stores on each version of PostgreSQL, and through PgBouncer; and databases that others
//! have set up in their own way.
//!
//! The ordinary tests run on two of them: Debian's version, and the newest one behind PgBouncer. This is the whole square.

mod databases;

use self::databases::{DATABASES, Database};
use crate::report::Report;
use crate::run::{self, Result};
use crate::services::embedded::{self, Programs, VERSIONS};
use crate::services::{self, Urls};
use crate::services::{pgbouncer, postgres};
use crate::{runner, test};

/// The tests for a server: all that run statements of the stores, except those for other databases.
const ALL: &str =
    "(binary(stores) | (binary(system) & test(/^(context|executor|faults)::/))) & !test(/(^|::)(sqlite|oracle)/)";
/// The part of them that checks single statements, without a pooler: the versions do not differ in how they are pooled.
const STATEMENTS: &str = "((binary(stores) & test(/^conformance::/)) | (binary(system) & test(/^context::/))) \
                          & !test(/(^|::)(sqlite|oracle|pgbouncer)/)";
/// The tests in a database that others have set up: those without a pooler that only need its URL. Some create roles, or look at what a setting
/// of the engine does; they have servers of their own elsewhere.
const SET_UP: &str = "binary(stores) & test(/^conformance::postgres::/)";
/// The tests that go through a pooler.
const POOLED: &str = "binary(stores) & test(/(^|::)pgbouncer::/)";
/// The tests of an unusable pooler, which start one themselves.
const REFUSED: &str = "test(/^servers::pooling::/)";

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Of the versions between the oldest and the newest, only what runs single statements.
    pub(crate) brief: bool,
    /// Empty: all, if no databases are named either.
    pub(crate) versions: Vec<String>,
    /// Names of databases. Empty: all, if no versions are named either.
    pub(crate) databases: Vec<String>,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for &word in words {
            match word {
                "--brief" => options.brief = true,
                version if VERSIONS.iter().any(|(known, _)| *known == version) => {
                    options.versions.push(version.to_owned());
                }
                name if DATABASES.iter().any(|known| known.name == name) => options.databases.push(name.to_owned()),
                other => {
                    let known = DATABASES.map(|known| known.name).join(", ");
                    return Err(format!(
                        "matrix: `{other}` is neither --brief, a version from 13 to 18, nor one of the databases: {known}"
                    ));
                }
            }
        }
        Ok(options)
    }

    fn is_whole(&self) -> bool {
        self.versions.is_empty() && self.databases.is_empty()
    }

    /// Returns the databases that others have set up.
    fn set_up(&self) -> impl Iterator<Item = &'static Database> {
        DATABASES.iter().filter(|known| self.is_whole() || self.databases.iter().any(|wanted| wanted == known.name))
    }

    /// Returns the versions, with their packages and tests.
    fn wanted(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let named = |version: &str| self.is_whole() || self.versions.iter().any(|wanted| wanted == version);
        let outermost = [VERSIONS[0].0, embedded::newest().0];
        let tests = |version| if self.brief && !outermost.contains(&version) { STATEMENTS } else { ALL };
        let wanted = VERSIONS.into_iter().filter(|(version, _)| named(version));
        wanted.map(|(version, package)| (version, package, tests(version))).collect()
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Report::default();
    steps(options, &mut report);
    report.finish()
}

pub(crate) fn steps(options: &Options, report: &mut Report) {
    let mut found = None;
    let ready = report.step("services up", || services::up().map(|urls| found = Some(urls)))
        && report.step("tools", services::tools)
        && report.step("test runner", runner::ensure);
    let Some(urls) = found.filter(|_| ready) else { return };
    let versions = options.wanted();
    for &(version, package, tests) in &versions {
        report.step(&format!("PostgreSQL {version}"), || {
            let with_long_ones = !options.brief;
            on(version, package, "transaction", tests, with_long_ones, &urls)
        });
    }
    for database in options.set_up() {
        report.step(&format!("database {}", database.name), || in_database(database, &urls));
    }
    if let Some(&(version, package, _)) = versions.last() {
        // Session pooling, the other mode that keeps transactions whole: no version differs in it, so the newest stands for all.
        report.step(&format!("PostgreSQL {version}, sessions pooled"), || {
            on(version, package, "session", POOLED, false, &urls)
        });
        // Statement pooling, which does not, and has to be refused.
        report.step(&format!("PostgreSQL {version}, statements pooled"), || {
            on(version, package, "statement", REFUSED, false, &urls)
        });
    }
}

fn on(version: &str, package: &str, pooling: &str, tests: &str, with_long_ones: bool, urls: &Urls) -> Result<()> {
    let programs = Programs::of(version, package)?;
    let server = postgres::private_from("matrix-postgres", &programs.folder())?;
    eprintln!("PostgreSQL {} at {}", server.setting("server_version")?, server.url());
    let pooler = pgbouncer::private(server.url(), pooling)?;
    let mut command = test::nextest("ci");
    command.args(["-E", &format!("package(jobwright) & ({tests})")]).envs(urls.variables());
    // Those with random faults, which the runner's profile leaves out.
    command.args(with_long_ones.then_some("--ignore-default-filter"));
    command.env("DATABASE_URL", server.url());
    command.env("PGBOUNCER_URL", pooler.url()).env("PGBOUNCER_SERVER_URL", server.url());
    command.env("JOBWRIGHT_TEST_POSTGRES_BIN", programs.folder());
    run::run(&mut command, run::CARGO)
}

fn in_database(database: &Database, urls: &Urls) -> Result<()> {
    let (_server, url) = database.start()?;
    eprintln!("{}: {}", database.name, database.why);
    let mut command = test::nextest("ci");
    command.args(["-E", &format!("package(jobwright) & ({SET_UP})")]).envs(urls.variables()).env("DATABASE_URL", url);
    run::run(&mut command, run::CARGO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Vec<(&'static str, bool)> {
        let wanted = Options::parse(words).unwrap().wanted();
        wanted.into_iter().map(|(version, _, tests)| (version, tests == ALL)).collect()
    }

    #[test]
    fn all_versions_or_those_that_are_named() {
        assert_eq!(wanted(&[]), ["13", "14", "15", "16", "17", "18"].map(|version| (version, true)));
        assert_eq!(wanted(&["16", "13"]), [("13", true), ("16", true)]);
        assert!(Options::parse(&["12"]).is_err());
    }

    #[test]
    fn a_database_that_is_named_runs_alone() {
        let names = |words: &[&str]| Options::parse(words).unwrap().set_up().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names(&[]), DATABASES.map(|known| known.name));
        assert_eq!(names(&["hardened"]), ["hardened"]);
        assert!(names(&["13"]).is_empty() && wanted(&["hardened"]).is_empty());
    }

    #[test]
    fn in_brief_the_versions_between_run_statements() {
        let whole = ["13", "18"];
        assert_eq!(wanted(&["--brief"]), VERSIONS.map(|(version, _)| (version, whole.contains(&version))));
    }
}
