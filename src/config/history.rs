//! What is remembered of jobs that have ended.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::duration::duration;
use crate::error::{Error, Result};
use crate::job::parse_duration;

/// Which ends of jobs are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Keep {
    /// None. Costs nothing.
    #[default]
    Off,
    /// Attempts that failed or were lost, and jobs that expired or became dead letters, for whatever reason.
    Failed,
    /// All: a row for each attempt and each job that ends.
    All,
}

impl FromStr for Keep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "off" => Ok(Self::Off),
            "failed" => Ok(Self::Failed),
            "all" => Ok(Self::All),
            _ => Err(Error::config("history.keep is one of \"off\", \"failed\" and \"all\"")),
        }
    }
}

/// What is remembered of jobs that have ended, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HistoryConfig {
    /// Which ends are remembered. Each process writes the ends it records, so all of them should have the same setting. Default off.
    #[doc(hidden)]
    pub keep: Keep,
    /// How long they are kept; executors remove older ones, a few thousand at a time. Default 7 days.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub retention: Duration,
    /// How long the results of handlers are kept, unless the handler says otherwise. Default 1 day.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub results: Duration,
    /// How long the audit log of operator actions is kept; `None` (`"forever"`) = for ever. Executors remove older entries. Default 365
    /// days.
    #[serde(deserialize_with = "span")]
    #[doc(hidden)]
    pub audit: Option<Duration>,
    /// How long dead letters are kept; executors remove older ones. Default `None` (`"forever"`): each waits until an operator retries or
    /// deletes it.
    #[serde(deserialize_with = "span")]
    #[doc(hidden)]
    pub dead_letters: Option<Duration>,
}

/// A shorter time is a mistake: a dead letter would be gone before anyone saw it.
const SHORTEST: Duration = Duration::from_secs(3600);
/// A longer time is a date that databases can't count back to.
const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 3600);

impl HistoryConfig {
    pub(crate) fn validate(&self) -> Result<()> {
        if self.retention > LONGEST {
            return Err(Error::config(format!("history.retention is {:?}; use at most 36500d", self.retention)));
        }
        for (name, kept) in [("audit", self.audit), ("dead_letters", self.dead_letters)] {
            if let Some(kept) = kept.filter(|kept| !(SHORTEST..=LONGEST).contains(kept)) {
                return Err(Error::config(format!("history.{name} is {kept:?}; use 1h to 36500d, or \"forever\"")));
            }
        }
        Ok(())
    }
}

/// Reads a duration, or `forever`.
///
/// # Errors
/// When the text is neither a duration nor `forever`. The error names only the durations.
pub fn parse_span(text: &str) -> Result<Option<Duration>, String> {
    if text == "forever" { Ok(None) } else { parse_duration(text).map(Some) }
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    parse_span(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

impl Default for HistoryConfig {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self { keep: Keep::Off, retention: 7 * DAY, results: DAY, audit: Some(365 * DAY), dead_letters: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_keep_is_long_enough_and_no_date_before_all_dates() {
        let check = |key: &str, text: &str| {
            let config = serde_json::from_value::<HistoryConfig>(serde_json::json!({ key: text }));
            config.map_err(|error| error.to_string())?.validate().map_err(|error| error.to_string())
        };
        for (key, good) in [("audit", "forever"), ("audit", "1h"), ("dead_letters", "36500d"), ("retention", "0s")] {
            assert_eq!(check(key, good), Ok(()), "{key} {good}");
        }
        let bad = [("audit", "0s"), ("dead_letters", "59m"), ("dead_letters", "36501d"), ("retention", "36501d")];
        for (key, bad) in bad.into_iter().chain([("audit", "never")]) {
            assert!(check(key, bad).is_err(), "{key} {bad}");
        }
    }
}
