//! Which jobs were sent and which were started, by their ids.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often each job has started. `Id` is what a job is known by.
#[derive(Debug)]
pub(super) struct Ledger<Id> {
    starts: Mutex<HashMap<Id, usize>>,
}

impl<Id> Default for Ledger<Id> {
    fn default() -> Self {
        Self { starts: Mutex::default() }
    }
}

/// What was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent<Id> {
    /// Sends that were answered with success.
    pub(super) sure: Vec<Id>,
    /// Sends whose commit may have taken effect.
    pub(super) unknown: Vec<Id>,
    /// Sends that failed: these jobs do not exist.
    pub(super) failed: usize,
}

impl<Id> Default for Sent<Id> {
    fn default() -> Self {
        Self { sure: Vec::new(), unknown: Vec::new(), failed: 0 }
    }
}

impl<Id: Eq + Hash> Ledger<Id> {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, usize>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a handler of this job begins.
    pub(super) fn started(&self, id: Id) {
        *self.lock().entry(id).or_default() += 1;
    }

    /// Returns whether a handler of this job has begun.
    pub(super) fn has_started(&self, id: &Id) -> bool {
        self.lock().contains_key(id)
    }

    /// Returns what is wrong: jobs that were sent and never started, and jobs that started twice. `left` is how many rows of jobs are still in the table.
    pub(super) fn problems(&self, what: &str, sent: &Sent<Id>, left: i64) -> Vec<String> {
        let starts = self.lock();
        let lost = sent.sure.iter().filter(|id| !starts.contains_key(id)).count();
        let twice = starts.values().filter(|&&starts| starts > 1).count();
        let mut problems = Vec::new();
        if lost > 0 {
            problems.push(format!("{what}: {lost} of {} jobs were lost: sent and never started", sent.sure.len()));
        }
        if twice > 0 {
            problems.push(format!("{what}: {twice} jobs were started twice"));
        }
        let expected = sent.sure.len() + sent.unknown.len();
        if starts.len() > expected {
            problems.push(format!("{what}: {} jobs ran, and only {expected} can have been sent", starts.len()));
        }
        if left > 0 {
            problems.push(format!("{what}: {left} jobs are still in the table"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sure: &[u32], unknown: &[u32]) -> Sent<u32> {
        Sent { sure: sure.to_vec(), unknown: unknown.to_vec(), failed: 0 }
    }

    fn started(ids: &[u32]) -> Ledger<u32> {
        let ledger = Ledger::default();
        for id in ids {
            ledger.started(*id);
        }
        ledger
    }

    #[test]
    fn each_job_once_is_right() {
        let ledger = started(&[1, 2, 3]);
        assert!(ledger.problems("x", &sent(&[1, 2, 3], &[]), 0).is_empty());
        assert!(ledger.problems("x", &sent(&[1, 2], &[3, 4]), 0).is_empty());
    }

    #[test]
    fn lost_doubled_unsent_and_left_over_jobs_are_told() {
        let ledger = started(&[1, 2, 2]);
        let problems = ledger.problems("x", &sent(&[1, 2, 3], &[]), 1);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("1 of 3 jobs were lost") && problems[1].contains("1 jobs were started twice"));
        assert!(ledger.problems("x", &sent(&[1], &[]), 0).iter().any(|problem| problem.contains("only 1 can")));
    }
}
