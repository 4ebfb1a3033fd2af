//! Which users may submit what over the broker.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, Result};

/// Submission rules by the names of the broker's users. A user that is not listed may submit nothing.
pub type SubmitRules = BTreeMap<String, SubmitRule>;

/// What a user of the broker may submit: names, or prefixes of names such as `invoice-*`. A missing list means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SubmitRule {
    /// Kinds of jobs.
    pub kinds: Option<Vec<String>>,
    /// Queues.
    pub queues: Option<Vec<String>>,
    /// Tenants; with this list, a job must have one.
    pub tenants: Option<Vec<String>>,
}

impl SubmitRule {
    fn lists(&self) -> [(&'static str, Option<&Vec<String>>); 3] {
        [("kinds", self.kinds.as_ref()), ("queues", self.queues.as_ref()), ("tenants", self.tenants.as_ref())]
    }

    /// Checks the rule of a user.
    ///
    /// # Errors
    /// When it can't be what was meant.
    pub fn validate(&self, user: &str) -> Result<()> {
        let error = |what: String| Error::config(format!("`[submit.rules]` of the user {user:?}: {what}"));
        if user.is_empty() {
            return Err(error("name the user".to_owned()));
        }
        for (what, patterns) in self.lists() {
            let Some(patterns) = patterns else { continue };
            if patterns.is_empty() {
                return Err(error(format!("`{what}` allows nothing; name some, or leave it out to allow all")));
            }
            if let Some(bad) = patterns.iter().find(|pattern| !is_pattern(pattern)) {
                return Err(error(format!(
                    "`{what}` has {bad:?}; use names, or beginnings of names with a * at their end"
                )));
            }
        }
        Ok(())
    }

    /// Checks a job. The error is the reason why it is not allowed.
    pub(crate) fn check(&self, kind: &str, queue: &str, tenant: Option<&str>) -> std::result::Result<(), String> {
        for ((what, patterns), value) in self.lists().into_iter().zip([Some(kind), Some(queue), tenant]) {
            let Some(patterns) = patterns else { continue };
            let Some(value) = value else { return Err(format!("`{what}` is limited, and the job has none")) };
            if !allows(patterns, value) {
                return Err(format!("`{what}` does not allow {value:?}"));
            }
        }
        Ok(())
    }
}

/// Whether a text is a name, or a prefix that ends in `*`.
pub(crate) fn is_pattern(pattern: &str) -> bool {
    !pattern.is_empty() && !pattern.strip_suffix('*').unwrap_or(pattern).contains('*')
}

/// Whether a name matches one of the patterns.
pub(crate) fn allows(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start)))
}
