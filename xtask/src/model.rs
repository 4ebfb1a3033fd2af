//! The model of the protocol: all of its states, and its broken twins.

use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};

mod explored;

const NAME: &str = "model";

/// The usual exploration takes a minute or two, the deep one some minutes; several times that means that something hangs.
const DEADLINE: Duration = Duration::from_secs(30 * 60);
const DEADLINE_DEEP: Duration = Duration::from_secs(2 * 3600);

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// More states, in a gigabyte.
    pub(crate) deep: bool,
    /// Empty: all.
    pub(crate) subjects: Vec<String>,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for &word in words {
            match word {
                "--deep" => options.deep = true,
                option if option.starts_with('-') => return Err(format!("model: there is no option `{option}`")),
                // The model checks the names.
                subject => options.subjects.push(subject.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Explores, and records what was explored if it was everything.
pub(crate) fn run(options: &Options) -> Result<()> {
    // What is written meanwhile was not explored.
    let digest = explored::digest();
    // Without optimisation it would take ten times as long.
    let mut command = run::cargo(["run", "--release", "--locked", "--package", "jobwright-model", "--"]);
    command.args(options.deep.then_some("--deep")).args(&options.subjects);
    run::run(&mut command, if options.deep { DEADLINE_DEEP } else { DEADLINE })?;
    if options.subjects.is_empty() { explored::record(&digest?) } else { Ok(()) }
}

/// Runs the exploration as a step of the gate, unless it has explored exactly this model: it depends on nothing else.
pub(crate) fn step(report: &mut Report) -> Option<()> {
    match explored::digest() {
        Ok(digest) if explored::is_recorded(&digest) => {
            report.not_run(NAME, &format!("model/ is as it was when its states were explored: {}", explored::FILE));
            Some(())
        }
        // Where that can't be known, it is explored.
        _ => always(report),
    }
}

/// Runs the exploration as a step, whatever has changed.
pub(crate) fn always(report: &mut Report) -> Option<()> {
    report.step(NAME, || run(&Options::default())).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_named_and_options_known() {
        let options = Options::parse(&["claims", "--deep"]).unwrap();
        assert!(options.deep && options.subjects == ["claims"]);
        assert_eq!(Options::parse(&[]), Ok(Options::default()));
        assert!(Options::parse(&["--deeper"]).is_err());
    }
}
