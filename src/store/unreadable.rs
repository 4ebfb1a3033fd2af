//! Messages about rows that can't be read, because they were written by hand-made SQL or by a later build.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

use super::{Count, clip};
use crate::job::JobId;

/// The start of the reason of such a dead letter.
pub(crate) const BEGINNING: &str = "can't be read: ";
/// The start of the name of the queue to which a row is moved that could not even be made a dead letter.
pub(crate) const SET_ASIDE: &str = "unreadable:";
/// Longest explanation, in bytes: an error may quote the whole content that it can't read.
const LONGEST: usize = 500;

/// Returns the reason: the error with its causes.
pub(crate) fn reason(error: &dyn Error) -> String {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !why.contains(&inner_text) {
            why = format!("{why}: {inner_text}");
        }
        cause = inner.source();
    }
    format!("{BEGINNING}{}", clip(&why, LONGEST))
}

/// A schedule or a rule that can't be read as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadableRow {
    /// Its name; for a rule, after its scope.
    pub name: String,
    /// What can't be read, for people.
    pub why: String,
}

/// Dead letters that no executor could read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadableJobs {
    /// How many of the newest 100,000 dead letters are such jobs.
    pub jobs: Count,
    /// The last of them.
    pub example: Option<JobId>,
}

/// How many of the newest dead letters are looked at.
pub(crate) const LOOKED_AT: usize = 100_000;

impl UnreadableJobs {
    /// Makes a count of what was found among so many dead letters.
    pub(crate) fn new(jobs: u64, among: u64, example: Option<JobId>) -> Self {
        let all = among < LOOKED_AT as u64;
        Self { jobs: if all { Count::Exact(jobs) } else { Count::AtLeast(jobs) }, example }
    }
}

/// By table and name: the version of the row, and what was logged about it.
type Logged = BTreeMap<(&'static str, String), (i64, String)>;

/// What was last logged about each row.
static LOGGED: Mutex<Logged> = Mutex::new(BTreeMap::new());
/// How many rows are remembered. When there are more, all are forgotten, and some may be logged again.
const MOST: usize = 1000;

/// Returns whether this has not been logged yet. Such rows are met at each read, and are logged once for each change.
pub(crate) fn is_news(table: &'static str, fault: &UnreadableRow, version: i64) -> bool {
    let mut told = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() >= MOST {
        told.clear();
    }
    let now = (version, fault.why.clone());
    told.insert((table, fault.name.clone()), now.clone()) != Some(now)
}
