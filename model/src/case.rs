//! The cases to check, and the expected findings.

use crate::check::{Finding, explore};
use crate::vocabulary::{Promise, Subject};

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// Seconds, even without optimisation: the tests.
    Small,
    /// Half a minute of processor time: CI.
    Usual,
    /// Some minutes and a gigabyte.
    Deep,
}

/// What a run must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// All promises hold in all states.
    Holds,
    /// All promises hold, but not every sight need be seen: for a part of a subject, or for rules of which a missing one is covered by others.
    IncludesHidden,
    /// A broken twin: this promise is broken.
    Refuted(Promise),
}

/// One run: a subject with its rules and bounds.
pub struct Case {
    /// The subject's name.
    pub subject: &'static str,
    /// What is particular about its rules or bounds.
    pub says: &'static str,
    /// What it must find.
    pub expected: Expected,
    run: Box<dyn Fn(usize) -> Finding<String>>,
}

/// A case and its result.
pub struct Result {
    /// The finding, with its actions in words.
    pub finding: Finding<String>,
    /// How the finding differs from the expected one; `None`: it does not.
    pub wrong: Option<String>,
}

impl Case {
    /// Creates a case from a subject.
    pub fn new<S: Subject>(subject: S, says: &'static str, expected: Expected) -> Self {
        let run = move |threads| explore(&subject, threads).in_words();
        Self { subject: S::NAME, says, expected, run: Box::new(run) }
    }

    /// Runs the case. Twins use one thread, because only then is the path found the shortest.
    pub fn run(&self, threads: usize) -> Result {
        let is_twin = matches!(self.expected, Expected::Refuted(_));
        let finding = (self.run)(if is_twin { 1 } else { threads });
        let wrong = match (self.expected, &finding.refuted) {
            (Expected::Refuted(promise), Some(found)) if found.promise == promise => None,
            (Expected::Refuted(promise), Some(_)) => {
                Some(format!("another promise was broken than expected: {promise}"))
            }
            (Expected::Refuted(promise), None) => Some(format!("a broken twin held; expected: {promise}")),
            (_, Some(found)) => Some(format!("refuted: {}", found.promise)),
            (Expected::Holds, None) if !finding.unseen.is_empty() => {
                Some(format!("never seen, so the model proves less than it seems to: {}", finding.unseen.join("; ")))
            }
            (_, None) => None,
        };
        Result { finding, wrong }
    }
}
