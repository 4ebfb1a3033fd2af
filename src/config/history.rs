use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::duration;
use crate::error::{Error, Result};

/// Which ends of jobs are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// None. Costs nothing.
    #[default]
    Off,
    /// Attempts that failed or were lost, and jobs that became dead letters, for whatever reason, or expired.
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

/// What is remembered of jobs that ended, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// Which ends. Each process keeps the ends it records itself, so all should be told the same. Default off.
    pub keep: Keep,
    /// For how long; older ones are removed by executors, a few thousand at a time. Default 7 days.
    #[serde(deserialize_with = "duration")]
    pub retention: Duration,
    /// How long results are kept that handlers store, unless they say otherwise. Default 1 day.
    #[serde(deserialize_with = "duration")]
    pub results: Duration,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self { keep: Keep::Off, retention: 7 * DAY, results: DAY }
    }
}
