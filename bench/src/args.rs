use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
Usage: jobwright-bench core|amqp|engine|degradation|peers [--runs N] [--quick] [--short] [--only CASE,…] [--json FILE]
                       [--chart FILE] [--sqlite-dir DIR] [--check]

  core              the database alone
  amqp              over RabbitMQ, beside the bare broker and the database alone
  engine            groups, limits, uniqueness, history: each beside plain jobs and a bare loop
  degradation       what is left of the rate when the work grows, or somebody stands in the way
  peers             beside other executors on the same server, each fetched from its own package index

  --runs N          times each measurement is taken, limit and ours in turn (at least 3, default 5)
  --quick           small counts: for a look, not for figures
  --short           seconds instead of minutes for what is held that long, with all counts: for development
  --only CASE,…     core: drain, enqueue, send, latency, idle, transaction, sqlite
                    amqp: publish, commit, confirmed, end-to-end, latency, external, celery
                    engine: plain, options, blocked, groups, hot-group, limit, shares, rate, rate-binds, unique, history
                    degradation: backlog, owned, queues, payload, network, processes, pinned, admission-blocked, admission-hot,
                      admission-keys, admission-processes, admission-queues, admission-pinned
                    peers: graphile-npm, graphile-npm-1, pg-boss, graphile-rust, apalis, awa, underway, procrastinate,
                      graphile-queues, graphile-queues-1, pg-boss-fifo, pg-boss-groups, awa-keys
  --json FILE       all values of all runs
  --chart FILE      the ratios as SVG
  --sqlite-dir DIR  where the embedded database is made (default: the temporary directory)
  --check           exit 1 if a line is below what is required

DATABASE_URL names the PostgreSQL server, as postgres://user:password@host:5432/database, and AMQP_URL the broker, as
amqp://user:password@host:5672/vhost.
";

const NAMES: &str = "`core`, `amqp`, `engine`, `degradation` and `peers`";

/// The measurements, in the order in which they run.
pub(crate) const CASES: [&str; 7] = ["drain", "enqueue", "send", "latency", "idle", "transaction", "sqlite"];

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
pub(crate) const AMQP_CASES: [&str; 7] =
    ["publish", "commit", "confirmed", "end-to-end", "latency", "external", "celery"];

/// Difficulties, for plain jobs and for those of groups and limits.
pub(crate) const DEGRADATION_CASES: [&str; 13] = [
    "backlog",
    "owned",
    "queues",
    "payload",
    "network",
    "processes",
    "pinned",
    "admission-blocked",
    "admission-hot",
    "admission-keys",
    "admission-processes",
    "admission-queues",
    "admission-pinned",
];

/// Other executors, the fast ones first; then those with jobs of groups.
pub(crate) const PEER_CASES: [&str; 13] = [
    "graphile-npm",
    "graphile-npm-1",
    "pg-boss",
    "graphile-rust",
    "apalis",
    "awa",
    "underway",
    "procrastinate",
    "graphile-queues",
    "graphile-queues-1",
    "pg-boss-fifo",
    "pg-boss-groups",
    "awa-keys",
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Core(Args),
    Amqp(Args),
    Engine(Args),
    Degradation(Args),
    Peers(Args),
    /// One of the processes of `degradation`; not for people.
    Worker,
    Help,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) runs: usize,
    pub(crate) quick: bool,
    pub(crate) short: bool,
    pub(crate) only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) chart: Option<PathBuf>,
    pub(crate) sqlite_dir: PathBuf,
    pub(crate) check: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            runs: 5,
            quick: false,
            short: false,
            only: Vec::new(),
            json: None,
            chart: None,
            sqlite_dir: std::env::temp_dir(),
            check: false,
        }
    }
}

impl Args {
    pub(crate) fn demand(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == case)
    }

    /// Returns how long a snapshot is held.
    pub(crate) fn held(&self, seconds: u64) -> Duration {
        Duration::from_secs(if self.quick || self.short { seconds.min(20) } else { seconds })
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
        Some("degradation") => (&DEGRADATION_CASES, Command::Degradation),
        Some("worker") => return Ok(Command::Worker),
        Some("peers") => (&PEER_CASES, Command::Peers),
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
            "--chart" => core.chart = Some(value()?.into()),
            "--sqlite-dir" => core.sqlite_dir = value()?.into(),
            "--quick" => core.quick = true,
            "--short" => core.short = true,
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

fn only(text: &str, cases: &[&str]) -> Result<Vec<String>, String> {
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
            Command::Core(args)
            | Command::Amqp(args)
            | Command::Engine(args)
            | Command::Degradation(args)
            | Command::Peers(args) => Ok(args),
            Command::Worker | Command::Help => Err("help".to_owned()),
        }
    }

    #[test]
    fn options_are_read() {
        let args = core(&["core", "--runs=3", "--only", "drain,send", "--quick", "--json", "x.json"]).unwrap();
        assert_eq!((args.runs, args.quick, args.check), (3, true, false));
        assert!(args.demand("send") && !args.demand("idle"));
        assert_eq!(args.json, Some("x.json".into()));
    }

    #[test]
    fn time_is_short_for_development_only() {
        assert!(!core(&["degradation"]).unwrap().short);
        let args = core(&["degradation", "--short", "--only", "admission-pinned"]).unwrap();
        assert!(args.short && !args.quick);
        assert_eq!((args.held(600).as_secs(), args.count(9, 1)), (20, 9));
    }

    /// The help names the same cases that `--only` accepts.
    #[test]
    fn each_case_is_in_the_help() {
        for (name, cases) in [
            ("core", &CASES[..]),
            ("amqp", &AMQP_CASES),
            ("engine", &ENGINE_CASES),
            ("degradation", &DEGRADATION_CASES),
            ("peers", &PEER_CASES),
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
            &["peers", "--only", "celery"],
        ] {
            assert!(core(bad).is_err(), "{bad:?}");
        }
    }
}
