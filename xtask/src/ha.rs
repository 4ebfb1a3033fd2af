//! Clusters that are broken under load: `tests/ha`, one scenario after the other, and a table of the results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};
use crate::services::{self, programs};
use crate::{runner, test};

/// A scenario ends itself before that (tests/ha/scenario.rs); it may have to be linked first.
const DEADLINE: Duration = Duration::from_secs(12 * 60);

/// What a scenario needs in addition to PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    RabbitMq,
    Patroni,
}

struct Scenario {
    name: &'static str,
    test: &'static str,
    needs: Needs,
    short: bool,
}

impl Scenario {
    /// Whether clients can find the primary by their URL alone, because there is no other server that they could mistake for it.
    fn by_hosts(&self) -> bool {
        ["killed-", "hung-", "switched-", "tail"].iter().any(|part| self.name.starts_with(part))
    }
}

const fn scenario(name: &'static str, test: &'static str, needs: Needs, short: bool) -> Scenario {
    Scenario { name, test, needs, short }
}

const SCENARIOS: [Scenario; 14] = [
    scenario("killed-sync", "postgres::killed_synchronous", Needs::Nothing, true),
    scenario("killed-applied", "postgres::killed_applied", Needs::Nothing, false),
    scenario("killed-async", "postgres::killed_asynchronous", Needs::Nothing, false),
    scenario("hung-sync", "postgres::hung_synchronous", Needs::Nothing, false),
    scenario("hung-async", "postgres::hung_asynchronous", Needs::Nothing, false),
    scenario("silent", "postgres::silent_synchronous", Needs::Nothing, false),
    scenario("switched-sync", "postgres::switched_synchronous", Needs::Nothing, false),
    scenario("switched-async", "postgres::switched_asynchronous", Needs::Nothing, false),
    scenario("tail", "lost_tail::lost_tail", Needs::Nothing, true),
    scenario("stale", "postgres::stale", Needs::Nothing, false),
    scenario("restored", "postgres::restored", Needs::Nothing, false),
    scenario("rabbit", "rabbit::node_killed", Needs::RabbitMq, false),
    scenario("rabbit-majority", "rabbit::majority_lost", Needs::RabbitMq, false),
    scenario("patroni", "patroni::behind_patroni", Needs::Patroni, false),
];

/// The columns of the lines that scenarios write (tests/ha/accounting.rs).
const COLUMNS: [&str; 13] = [
    "scenario",
    "accounts",
    "committed",
    "unknown",
    "tail lost",
    "lost",
    "doubled",
    "wrong",
    "stuck",
    "sends s",
    "runs s",
    "rest s",
    "more",
];

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Only scenarios that fit into a CI run, with small loads.
    short: bool,
    /// Also scenarios that need Patroni, etcd and `HAProxy`.
    patroni: bool,
    /// Clients find the primary by a URL with all hosts; only the scenarios in which they can.
    hosts: bool,
    /// Empty: all.
    names: Vec<String>,
}

impl Options {
    pub(crate) fn short() -> Self {
        Self { short: true, ..Self::default() }
    }

    pub(crate) fn all() -> Self {
        Self { patroni: true, ..Self::default() }
    }

    pub(crate) fn by_hosts() -> Self {
        Self { hosts: true, ..Self::default() }
    }

    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for &word in words {
            match word {
                "--short" => options.short = true,
                "--patroni" => options.patroni = true,
                "--hosts" => options.hosts = true,
                name if SCENARIOS.iter().any(|scenario| scenario.name == name) => options.names.push(name.to_owned()),
                other => {
                    let names = SCENARIOS.map(|scenario| scenario.name).join(", ");
                    return Err(format!("ha: `{other}` is neither --short, --patroni, --hosts nor one of {names}"));
                }
            }
        }
        Ok(options)
    }

    fn wanted(&self) -> Vec<&'static Scenario> {
        let chosen = |scenario: &&Scenario| {
            if self.hosts && !scenario.by_hosts() {
                return false;
            }
            if !self.names.is_empty() {
                return self.names.iter().any(|name| name == scenario.name);
            }
            if self.short { scenario.short } else { self.patroni || scenario.needs != Needs::Patroni }
        };
        SCENARIOS.iter().filter(chosen).collect()
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Report::default();
    steps(options, &mut report);
    report.finish()
}

/// Runs all scenarios, whatever fails on the way.
pub(crate) fn steps(options: &Options, report: &mut Report) {
    let wanted = options.wanted();
    let built = report.step("programs of the clusters", || install(&wanted))
        && report.step("test runner", runner::ensure)
        // All members, so that it is built with the same features as for the other tests, and need not be built again.
        && report.step("build the rigs", || {
            run::run(&mut run::cargo(["test", "--workspace", "--test", "system", "--no-run"]), run::CARGO)
        });
    if !built {
        return;
    }
    let table = folder().join("report.tsv");
    // Left by an earlier run; it may not exist.
    let _ = std::fs::remove_file(&table);
    for scenario in wanted {
        report.step(&format!("ha {}", scenario.name), || play(scenario, options, &table));
    }
    eprintln!("\n{}", drawn(&std::fs::read_to_string(&table).unwrap_or_default()));
}

fn folder() -> PathBuf {
    run::workspace().join("target").join("ha")
}

fn play(scenario: &Scenario, options: &Options, table: &Path) -> Result<()> {
    std::fs::create_dir_all(folder()).map_err(|why| format!("cannot create {}: {why}", folder().display()))?;
    let mut command = test::one("--test", "system", &format!("ha::{}", scenario.test));
    command.env("JOBWRIGHT_HA_REPORT", table);
    if options.short {
        command.env("JOBWRIGHT_HA_JOBS", "100");
    }
    if options.hosts {
        command.env("JOBWRIGHT_HA_FIND", "hosts");
    }
    run::run(&mut command, DEADLINE)
}

fn install(wanted: &[&Scenario]) -> Result<()> {
    programs::ensure("postgresql", "PostgreSQL's pg_basebackup", || programs::postgres("pg_basebackup"))?;
    programs::ensure("openssl", "openssl, which makes certificates,", || programs::on_path("openssl"))?;
    if wanted.iter().any(|scenario| scenario.needs == Needs::RabbitMq) {
        services::broker_programs()?;
    }
    if wanted.iter().any(|scenario| scenario.needs == Needs::Patroni) {
        for (package, program) in
            [("patroni", "patroni"), ("patroni", "patronictl"), ("etcd-server", "etcd"), ("haproxy", "haproxy")]
        {
            programs::ensure(package, program, || programs::on_path(program))?;
        }
    }
    Ok(())
}

/// Formats the lines as a table.
fn drawn(lines: &str) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Vec<&'static str> {
        Options::parse(words).unwrap().wanted().iter().map(|scenario| scenario.name).collect()
    }

    #[test]
    fn all_but_patroni_or_the_short_ones_or_those_that_are_named() {
        assert_eq!(wanted(&[]).len(), SCENARIOS.len() - 1);
        assert_eq!(wanted(&["--patroni"]).len(), SCENARIOS.len());
        assert_eq!(wanted(&["--short"]), ["killed-sync", "tail"]);
        assert_eq!(wanted(&["patroni", "stale"]), ["stale", "patroni"]);
        assert_eq!(wanted(&["--hosts", "--short"]), ["killed-sync", "tail"]);
        assert!(Options::parse(&["tial"]).is_err());
    }

    #[test]
    fn columns_stand_below_each_other() {
        let table = drawn("primary killed\texact\t812\n");
        let at = |line: usize, word: &str| table.lines().nth(line).and_then(|line| line.find(word));
        assert_eq!(at(0, "committed"), at(1, "812"));
    }
}
