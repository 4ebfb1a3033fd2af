use std::path::PathBuf;

use crate::fleet::{self, FleetArgs, MemberArgs};

pub(crate) const USAGE: &str = "\
Usage: jobwright-bench core|amqp|engine|peers [--runs N] [--quick] [--only CASE,…] [--json FILE] [--sqlite-dir DIR] [--check]
       jobwright-bench fleet [--nodes N] [--seconds N] [--rate N] [--lease N] [--only CASE,…] [--json FILE] [--check]

  core              the database alone
  amqp              over RabbitMQ, beside the bare broker and the database alone
  engine            groups, limits, uniqueness, history: each beside plain jobs and a bare loop
  peers             beside other executors on the same server, each fetched from its own package index
  fleet             many executors on one database: their start, idle, with jobs held back, under load, a restart, half of them killed

  --runs N          times each measurement is taken, limit and ours in turn (at least 3, default 5)
  --quick           small counts: for a look, not for figures
  --only CASE,…     core: drain, enqueue, send, latency, idle, transaction, sqlx, sqlite
                    amqp: publish, commit, confirmed, end-to-end, latency, external
                    engine: plain, options, blocked, groups, hot-group, limit, shares, rate, rate-binds, unique, history
                    peers: graphile-npm, graphile-npm-1, pg-boss, graphile-queues, graphile-queues-1, pg-boss-fifo,
                      pg-boss-groups
                    fleet: start, idle, held, load, restart, killed
  --json FILE       all values of all runs
  --sqlite-dir DIR  where the embedded database is made (default: the temporary directory)
  --check           exit 1 if a line is below what is required

  --nodes N         fleet: executors, 2 to 2000 (default 40)
  --seconds N       fleet: how long the idle nodes are watched, and the load lasts (default 60)
  --rate N          fleet: jobs a second under load (default 1000)
  --lease N         fleet: the lease of a node, in seconds (default 30)

DATABASE_URL names the PostgreSQL server, as postgres://user:password@host:5432/database, and AMQP_URL the broker, as
amqp://user:password@host:5672/vhost. Without DATABASE_URL, `fleet` starts a PostgreSQL of its own; it restarts no other one.
";

const NAMES: &str = "`core`, `amqp`, `engine`, `peers` and `fleet`";

/// The measurements, in the order in which they run.
pub(crate) const CASES: [&str; 8] = ["drain", "enqueue", "send", "latency", "idle", "transaction", "sqlx", "sqlite"];

/// The cost of groups, limits, uniqueness and history.
pub(crate) const ENGINE_CASES: [&str; 11] = [
    "plain",
    "options",
    "blocked",
    "groups",
    "hot-group",
    "limit",
    "shares",
    "rate",
    "rate-binds",
    "unique",
    "history",
];

/// The same over RabbitMQ.
pub(crate) const AMQP_CASES: [&str; 6] = ["publish", "commit", "confirmed", "end-to-end", "latency", "external"];

/// Other executors, the fast ones first; then those with jobs of groups.
pub(crate) const PEER_CASES: [&str; 7] = [
    "graphile-npm",
    "graphile-npm-1",
    "pg-boss",
    "graphile-queues",
    "graphile-queues-1",
    "pg-boss-fifo",
    "pg-boss-groups",
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Core(Args),
    Amqp(Args),
    Engine(Args),
    Peers(Args),
    Fleet(FleetArgs),
    /// A process that `fleet` has started.
    FleetMember(MemberArgs),
    Help,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) runs: usize,
    pub(crate) quick: bool,
    pub(crate) only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) sqlite_dir: PathBuf,
    pub(crate) check: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self { runs: 5, quick: false, only: Vec::new(), json: None, sqlite_dir: std::env::temp_dir(), check: false }
    }
}

impl Args {
    pub(crate) fn demand(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == case)
    }

    /// Returns the number of jobs: the full one, or few for a quick run.
    pub(crate) fn count(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let (cases, command): (&[&str], fn(Args) -> Command) = match args.next().as_deref() {
        Some("core") => (&CASES, Command::Core),
        Some("amqp") => (&AMQP_CASES, Command::Amqp),
        Some("engine") => (&ENGINE_CASES, Command::Engine),
        Some("peers") => (&PEER_CASES, Command::Peers),
        Some("fleet") => return Ok(fleet::parse(args)?.map_or(Command::Help, Command::Fleet)),
        Some("fleet-member") => return Ok(Command::FleetMember(fleet::parse_member(args)?)),
        Some("--help" | "-h" | "help") => return Ok(Command::Help),
        Some(other) => {
            return Err(format!("unknown benchmark {other:?}; there are {NAMES}"));
        }
        None => return Err(format!("which benchmark? There are {NAMES}")),
    };
    let mut core = Args::default();
    while let Some(arg) = args.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let mut value = || inline.clone().or_else(|| args.next()).ok_or_else(|| format!("{name} needs a value"));
        match name {
            "--runs" => core.runs = runs(&value()?)?,
            "--only" => core.only = only(&value()?, cases)?,
            "--json" => core.json = Some(value()?.into()),
            "--sqlite-dir" => core.sqlite_dir = value()?.into(),
            "--quick" => core.quick = true,
            "--check" => core.check = true,
            "--help" | "-h" => return Ok(Command::Help),
            other => return Err(format!("unknown option {other:?}")),
        }
    }
    Ok(command(core))
}

/// Parses the number of runs. A median of fewer than three says nothing.
fn runs(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (3..=1000).contains(n)).ok_or_else(|| format!("--runs is {text:?}; use 3 to 1000"))
}

/// Parses names of cases.
pub(crate) fn only(text: &str, cases: &[&str]) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().find(|name| !cases.contains(&name.as_str())) {
        Some(unknown) => Err(format!("unknown case {unknown:?}; there are {}", cases.join(", "))),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(args: &[&str]) -> Result<Args, String> {
        match parse(args.iter().map(|arg| (*arg).to_owned()))? {
            Command::Core(args) | Command::Amqp(args) | Command::Engine(args) | Command::Peers(args) => Ok(args),
            Command::Fleet(_) | Command::FleetMember(_) | Command::Help => Err("no cases".to_owned()),
        }
    }

    #[test]
    fn options_are_read() {
        let args = core(&["core", "--runs=3", "--only", "drain,send", "--quick", "--json", "x.json"]).unwrap();
        assert_eq!((args.runs, args.quick, args.check), (3, true, false));
        assert_eq!((args.count(9, 1), core(&["core"]).unwrap().count(9, 1)), (1, 9));
        assert!(args.demand("send") && !args.demand("idle"));
        assert_eq!(args.json, Some("x.json".into()));
    }

    /// The help names the same cases that `--only` accepts.
    #[test]
    fn each_case_is_in_the_help() {
        for (name, cases) in [
            ("core", &CASES[..]),
            ("amqp", &AMQP_CASES),
            ("engine", &ENGINE_CASES),
            ("peers", &PEER_CASES),
            ("fleet", &fleet::CASES),
        ] {
            let (_, text) = USAGE.split_once(&format!(" {name}: ")).unwrap();
            let told: Vec<&str> =
                text.split([',', '\n', ' ']).filter(|word| !word.is_empty()).take(cases.len()).collect();
            assert_eq!(told, cases);
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for bad in [
            &["others"][..],
            &[],
            &["core", "--runs", "2"],
            &["core", "--runs"],
            &["core", "--only", "x"],
            &["core", "-x"],
            &["amqp", "--only", "drain"],
            &["engine", "--only", "drain"],
            &["peers", "--only", "drain"],
        ] {
            assert!(core(bad).is_err(), "{bad:?}");
        }
    }
}
