//! What is said of rows that can't be read: somebody's own SQL wrote them, or a later build.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

use super::clip;

/// How the reason of such a dead letter begins.
pub(crate) const BEGINNING: &str = "can't be read: ";
/// Longer explanations quote what was found.
const LONGEST: usize = 500;

/// The reason, with what is behind the error.
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

/// A schedule or a rule that can't be read as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFault {
    /// Its name; of a rule with its scope in front.
    pub name: String,
    /// What can't be read, for people.
    pub why: String,
}

/// By table and name: which version it was, and what was said of it.
type Told = BTreeMap<(&'static str, String), (i64, String)>;

/// What was told last of each.
static TOLD: Mutex<Told> = Mutex::new(BTreeMap::new());
/// More than a log should say; then it may say some again.
const MOST: usize = 1000;

/// Whether the log has yet to say this: such rows are met at each look, and it says so once for each change of them.
pub(crate) fn is_news(table: &'static str, fault: &RowFault, version: i64) -> bool {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() >= MOST {
        told.clear();
    }
    let now = (version, fault.why.clone());
    told.insert((table, fault.name.clone()), now.clone()) != Some(now)
}
