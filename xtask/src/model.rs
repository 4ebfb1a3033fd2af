//! The model of the protocol: all of its states, and its broken twins.

use std::time::Duration;

use crate::run::{self, Result};

/// CI's exploration takes a minute or two, the deep one some minutes; several times that means that something hangs.
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

pub(crate) fn run(options: &Options) -> Result<()> {
    // Without optimisation it would take ten times as long.
    let mut command = run::cargo(["run", "--release", "--locked", "--package", "jobwright-model", "--"]);
    command.args(options.deep.then_some("--deep")).args(&options.subjects);
    run::run(&mut command, if options.deep { DEADLINE_DEEP } else { DEADLINE })
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
