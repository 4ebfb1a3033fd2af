//! Which users may submit what over the broker.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::duration::optional_duration;
use crate::error::{Error, Result};

/// Submission rules by the names of the broker's users. A user that is not listed may submit nothing.
pub type SubmitRules = BTreeMap<String, SubmitRule>;

/// The highest priority of a user whose rule names none: what a JMS client can ask for.
const USUAL_PRIORITY: i16 = 5;

/// What a user of the broker may submit: names, or prefixes of names such as `invoice-*`.
///
/// Kinds, queues and tenants without a list are not limited. Groups, limit keys and unique keys without a list are not allowed at all: all
/// users share them, so a job could hold up everybody's jobs of a group, or keep their unique jobs from being sent. `["*"]` allows all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SubmitRule {
    /// Kinds of jobs; `None` = all.
    #[doc(hidden)]
    pub kinds: Option<Vec<String>>,
    /// Queues; `None` = all.
    #[doc(hidden)]
    pub queues: Option<Vec<String>>,
    /// Tenants; with this list, a job must have one. `None` = all.
    #[doc(hidden)]
    pub tenants: Option<Vec<String>>,
    /// Groups; `None` = a job may be in no group.
    #[doc(hidden)]
    pub groups: Option<Vec<String>>,
    /// Limit keys; `None` = a job may have none.
    #[doc(hidden)]
    pub limit_keys: Option<Vec<String>>,
    /// Unique keys; `None` = a job may have none.
    #[doc(hidden)]
    pub unique_keys: Option<Vec<String>>,
    /// The highest priority, -32767 to 32767; `None` = 5, the highest that a JMS client can ask for.
    #[doc(hidden)]
    pub max_priority: Option<i16>,
    /// The longest delay; `None` = any.
    #[serde(deserialize_with = "optional_duration")]
    #[doc(hidden)]
    pub max_delay: Option<Duration>,
}

/// What a submitted job asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) kind: &'a str,
    pub(crate) queue: &'a str,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) limit_key: Option<&'a str>,
    pub(crate) unique_key: Option<&'a str>,
    pub(crate) priority: i16,
    pub(crate) delay: Duration,
}

/// A list of a rule, by its name.
struct List<'a> {
    name: &'static str,
    patterns: Option<&'a Vec<String>>,
    /// What a rule without the list means.
    otherwise: Otherwise,
}

/// What a rule without a list means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// All values are allowed. With the list, a job must have a value.
    All,
    /// A job may have no value.
    None,
}

impl SubmitRule {
    fn lists(&self) -> [List<'_>; 6] {
        [
            ("kinds", &self.kinds, Otherwise::All),
            ("queues", &self.queues, Otherwise::All),
            ("tenants", &self.tenants, Otherwise::All),
            ("groups", &self.groups, Otherwise::None),
            ("limit_keys", &self.limit_keys, Otherwise::None),
            ("unique_keys", &self.unique_keys, Otherwise::None),
        ]
        .map(|(name, patterns, otherwise)| List { name, patterns: patterns.as_ref(), otherwise })
    }

    /// Checks the rule of a user.
    ///
    /// # Errors
    /// When it can't be what was meant.
    #[doc(hidden)]
    pub fn validate(&self, user: &str) -> Result<()> {
        let error = |what: String| Error::config(format!("`[submit.rules]` of the user {user:?}: {what}"));
        if user.is_empty() {
            return Err(error("name the user".to_owned()));
        }
        for List { name, patterns, otherwise } in self.lists() {
            let Some(patterns) = patterns else { continue };
            if patterns.is_empty() {
                let left_out = if otherwise == Otherwise::All { "allow all" } else { "allow none" };
                return Err(error(format!("`{name}` allows nothing; name some, or leave it out to {left_out}")));
            }
            if let Some(bad) = patterns.iter().find(|pattern| !is_pattern(pattern)) {
                return Err(error(format!(
                    "`{name}` has {bad:?}; use names, or beginnings of names with a * at their end"
                )));
            }
        }
        Ok(())
    }

    /// Checks a job. The error is the reason why it is not allowed.
    pub(crate) fn check(&self, asked: Asked<'_>) -> std::result::Result<(), String> {
        let Asked { kind, queue, tenant, group, limit_key, unique_key, priority, delay } = asked;
        let values = [Some(kind), Some(queue), tenant, group, limit_key, unique_key];
        for (List { name, patterns, otherwise }, value) in self.lists().into_iter().zip(values) {
            match (patterns, value, otherwise) {
                (None, Some(value), Otherwise::None) => {
                    return Err(format!("it has no `{name}`, so it does not allow {value:?}"));
                }
                (Some(_), None, Otherwise::All) => return Err(format!("`{name}` is limited, and the job has none")),
                (Some(patterns), Some(value), _) if !allows(patterns, value) => {
                    return Err(format!("`{name}` does not allow {value:?}"));
                }
                _ => {}
            }
        }
        let highest = self.max_priority.unwrap_or(USUAL_PRIORITY);
        if priority > highest {
            return Err(format!("`max_priority` is {highest}, and the job's priority is {priority}"));
        }
        match self.max_delay {
            Some(longest) if delay > longest => {
                Err(format!("`max_delay` is {longest:?}, and the job is to wait for {delay:?}"))
            }
            _ => Ok(()),
        }
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
