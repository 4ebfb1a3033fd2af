//! What the tests said of a defect.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::run::{self, Result};

/// How cargo-nextest ends if tests failed. Anything else means that they did not run.
const TESTS_FAILED: i32 = 100;

pub(super) enum Verdict {
    /// By this test, the first that failed.
    Noticed(String),
    Survived,
    /// Its tests could not be run: why.
    NotRun(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noticed(test) => write!(f, "noticed by {test}"),
            Self::Survived => f.write_str("SURVIVED"),
            Self::NotRun(why) => write!(f, "NOT RUN: {why}"),
        }
    }
}

/// Runs the tests of a defect; what they say is kept in `log`.
pub(super) fn of(command: &mut Command, log: &Path, deadline: Duration) -> Verdict {
    let code = match run::ended(command, log, deadline) {
        Ok(Some(0)) => return Verdict::Survived,
        Ok(code) => code,
        Err(why) => return Verdict::NotRun(why),
    };
    let said = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    match failed(&said) {
        Some(test) if code == Some(TESTS_FAILED) => Verdict::Noticed(test),
        _ => Verdict::NotRun(format!("the runner ended with {code:?}: see {}", log.display())),
    }
}

/// The first test that failed, of lines like `        FAIL [   0.512s] (1/3) jobwright::executor waking::at_once`.
fn failed(said: &str) -> Option<String> {
    const ENDS: [&str; 5] = ["FAIL", "TIMEOUT", "SIGABRT", "SIGSEGV", "SIGKILL"];
    let line = said.lines().map(str::trim_start).find(|line| {
        ENDS.iter().any(|end| line.strip_prefix(end).is_some_and(|rest| rest.trim_start().starts_with('[')))
    })?;
    let words: Vec<&str> = line.split_whitespace().collect();
    (words.len() >= 2).then(|| words[words.len() - 2..].join(" "))
}

pub(super) fn summary(wanted: usize, verdicts: &[(&str, Verdict)]) -> Result<()> {
    let names = |chosen: fn(&Verdict) -> bool| -> Vec<&str> {
        verdicts.iter().filter(|(_, verdict)| chosen(verdict)).map(|(name, _)| *name).collect()
    };
    let noticed = names(|verdict| matches!(verdict, Verdict::Noticed(_))).len();
    let survived = names(|verdict| matches!(verdict, Verdict::Survived));
    let not_run = names(|verdict| matches!(verdict, Verdict::NotRun(_)));
    eprintln!("\n{wanted} defects: {noticed} noticed, {} survived, {} not run", survived.len(), not_run.len());
    if noticed == wanted {
        return Ok(());
    }
    Err(format!("survived: {}; not run: {}", list(&survived), list(&not_run)))
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_failed_is_named() {
        let said = "    PASS [   0.1s] (1/3) a b\n        FAIL [   0.512s] (2/3) jobwright::executor waking::at_once\n FAIL [ 1s] (3/3) c d";
        assert_eq!(failed(said).as_deref(), Some("jobwright::executor waking::at_once"));
        assert_eq!(failed("     TIMEOUT [  90.0s] (1/1) x y").as_deref(), Some("x y"));
        assert_eq!(failed("the word FAIL in a log"), None);
    }

    #[test]
    fn one_that_survives_or_was_not_run_fails_all() {
        let noticed = || Verdict::Noticed("x y".to_owned());
        assert_eq!(summary(1, &[("a", noticed())]), Ok(()));
        assert!(
            summary(2, &[("a", noticed()), ("b", Verdict::Survived)]).is_err_and(|why| why.contains("survived: b"))
        );
        assert!(summary(1, &[("a", Verdict::NotRun(String::new()))]).is_err_and(|why| why.contains("not run: a")));
        assert!(summary(2, &[("a", noticed())]).is_err(), "one has no verdict");
    }
}
