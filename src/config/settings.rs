//! All settings together.

use serde::Deserialize;

use super::broker::BrokerConfig;
use super::database::DatabaseConfig;
use super::executor::ExecutorConfig;
use super::history::HistoryConfig;

/// All settings of the library. Unknown keys are refused.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// Where jobs are kept.
    pub database: DatabaseConfig,
    /// How jobs run.
    pub executor: ExecutorConfig,
    /// What is remembered of jobs that have ended.
    pub history: HistoryConfig,
    /// The broker that deliveries go through, if there is one.
    pub broker: BrokerConfig,
}
