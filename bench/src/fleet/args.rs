//! The arguments of `fleet`, and of the processes that it starts.

use std::path::PathBuf;
use std::time::Duration;

use crate::args::only;

/// The measurements, in the order in which they run.
pub(crate) const CASES: [&str; 6] = ["start", "idle", "held", "load", "restart", "killed"];

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FleetArgs {
    /// Executors of the fleet.
    pub(crate) nodes: usize,
    /// How long the idle fleet is watched, and the load lasts.
    pub(crate) window: Duration,
    /// Jobs a second under load.
    pub(crate) rate: usize,
    /// The lease of a node.
    pub(crate) lease: Duration,
    /// The measurements to take; all if there are none.
    pub(crate) only: Vec<String>,
    /// Where all values go.
    pub(crate) json: Option<PathBuf>,
    /// Whether a figure above its limit is a failure.
    pub(crate) check: bool,
}

impl Default for FleetArgs {
    fn default() -> Self {
        Self {
            nodes: 40,
            window: Duration::from_secs(60),
            rate: 1_000,
            lease: Duration::from_secs(30),
            only: Vec::new(),
            json: None,
            check: false,
        }
    }
}

impl FleetArgs {
    pub(crate) fn demand(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == case)
    }
}

/// What a process of the fleet needs to know. The URL of the database is in its environment, where other users can't read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberArgs {
    pub(crate) schema: String,
    /// Executors in the process.
    pub(crate) nodes: usize,
    pub(crate) lease: Duration,
}

/// Parses what follows `fleet`. `None`: help is asked for.
pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Option<FleetArgs>, String> {
    let mut fleet = FleetArgs::default();
    let mut args = args.fuse();
    while let Some(arg) = args.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let mut value = || inline.clone().or_else(|| args.next()).ok_or_else(|| format!("{name} needs a value"));
        match name {
            "--nodes" => fleet.nodes = number(name, &value()?, 2, 2_000)?,
            "--seconds" => fleet.window = Duration::from_secs(number(name, &value()?, 1, 3_600)? as u64),
            "--rate" => fleet.rate = number(name, &value()?, 1, 100_000)?,
            "--lease" => fleet.lease = lease(&value()?)?,
            "--only" => fleet.only = only(&value()?, &CASES)?,
            "--json" => fleet.json = Some(value()?.into()),
            "--check" => fleet.check = true,
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("unknown option {other:?}")),
        }
    }
    Ok(Some(fleet))
}

/// Parses what [`MemberArgs::words`] wrote.
pub(crate) fn parse_member(args: impl Iterator<Item = String>) -> Result<MemberArgs, String> {
    let words: Vec<String> = args.collect();
    let [schema, nodes, lease] = &words[..] else {
        return Err("`fleet-member` is for `fleet` alone, which starts it".to_owned());
    };
    let milliseconds = number("the lease", lease, 1_000, 24 * 3_600_000)?;
    Ok(MemberArgs {
        schema: schema.clone(),
        nodes: number("the number of nodes", nodes, 1, 2_000)?,
        lease: Duration::from_millis(milliseconds as u64),
    })
}

impl MemberArgs {
    /// Returns the arguments of the process.
    pub(crate) fn words(&self) -> [String; 4] {
        ["fleet-member".to_owned(), self.schema.clone(), self.nodes.to_string(), self.lease.as_millis().to_string()]
    }
}

fn number(name: &str, text: &str, least: usize, most: usize) -> Result<usize, String> {
    let value = text.parse().ok().filter(|n| (least..=most).contains(n));
    value.ok_or_else(|| format!("{name} is {text:?}; use {least} to {most}"))
}

/// Parses a lease: `30`, `30s` or `1500ms`.
fn lease(text: &str) -> Result<Duration, String> {
    let milliseconds = match text.strip_suffix("ms") {
        Some(number) => number.parse().ok(),
        None => text.strip_suffix('s').unwrap_or(text).parse().ok().and_then(|seconds: u64| seconds.checked_mul(1_000)),
    };
    let lease = milliseconds.map(Duration::from_millis).filter(|lease| (1..=3_600).contains(&lease.as_secs()));
    lease.ok_or_else(|| format!("--lease is {text:?}; use 1s to 3600s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<FleetArgs, String> {
        parse(words.iter().map(|word| (*word).to_owned()))?.ok_or_else(|| "help".to_owned())
    }

    #[test]
    fn options_are_read() {
        let args = parsed(&["--nodes=500", "--seconds", "5", "--lease", "1500ms", "--only", "start,idle"]).unwrap();
        assert_eq!((args.nodes, args.window.as_secs(), args.lease.as_millis()), (500, 5, 1_500));
        assert!(args.demand("idle") && !args.demand("killed"));
        assert_eq!(parsed(&["--lease", "10"]).unwrap().lease, Duration::from_secs(10));
        assert_eq!(parsed(&[]).unwrap(), FleetArgs::default());
    }

    #[test]
    fn mistakes_are_refused() {
        for bad in [
            &["--nodes", "1"][..],
            &["--nodes"],
            &["--seconds", "0"],
            &["--lease", "0s"],
            &["--lease", "1m"],
            &["--only", "drain"],
            &["--runs", "3"],
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_member_is_told_what_it_needs() {
        let args = MemberArgs { schema: "s".to_owned(), nodes: 20, lease: Duration::from_millis(1_500) };
        assert_eq!(parse_member(args.words().into_iter().skip(1)).unwrap(), args);
        assert!(parse_member(std::iter::empty()).is_err());
    }
}
