//! How jobs run.

use std::time::Duration;

use serde::Deserialize;

use super::duration::duration;
use crate::error::{Error, Result};

/// Number of errors that a job keeps; more deaths than that could not be counted.
const ERRORS_KEPT: u32 = 10;

/// How jobs run.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ExecutorConfig {
    /// Name of this node for people. Default `host:pid`.
    #[doc(hidden)]
    pub name: Option<String>,
    /// How long a node's heartbeat is valid. After the death of a node, its jobs run elsewhere within about one and a half leases. 1 s or
    /// more; default 30 s.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub lease: Duration,
    /// How long a shutdown waits for running handlers before it cancels them. Default 30 s. The library does not read it; programs pass it
    /// to [`CommandExecutor::shutdown`](crate::CommandExecutor::shutdown).
    #[serde(deserialize_with = "duration")]
    pub grace: Duration,
    /// How long a handler may go on after its job was cancelled, to clean up, before it is dropped. 0 to 1 h; default 5 s.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub cancel_grace: Duration,
    /// How long the runtime of the process may run no task, because handlers block its threads, until the node gives up its lease, so that others
    /// take its jobs. A time shorter than the lease means the lease. 0 = never; default 5 min.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub stall_timeout: Duration,
    /// Time between two polls of the tables when nothing wakes the executor. It is lengthened at random by up to two fifths. 10 ms or more; default
    /// 5 s.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub poll_interval: Duration,
    /// How often a handler that lost a conflict in the database runs again at once, within its attempt. Default 3; 0 makes a conflict an
    /// ordinary failure.
    #[doc(hidden)]
    pub conflict_retries: u32,
    /// How often a job's node may die while the job runs. Then the job becomes a dead letter, whatever attempts remain, because it may be
    /// the cause. 1 to 10; default 3. 0 = never, for nodes that die for other reasons, such as preemptible machines.
    #[doc(hidden)]
    pub quarantine_after: u32,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            name: None,
            lease: Duration::from_secs(30),
            grace: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(300),
            poll_interval: Duration::from_secs(5),
            conflict_retries: 3,
            quarantine_after: 3,
        }
    }
}

impl ExecutorConfig {
    /// Returns how long the runtime may run no task. `None`: for ever.
    pub(crate) fn stall_limit(&self) -> Option<Duration> {
        (!self.stall_timeout.is_zero()).then(|| self.stall_timeout.max(self.lease))
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.lease < Duration::from_secs(1) || self.lease > Duration::from_secs(24 * 3600) {
            return Err(Error::config(format!("executor.lease is {:?}; use 1s to 24h", self.lease)));
        }
        if self.poll_interval < Duration::from_millis(10) || self.poll_interval > Duration::from_secs(3600) {
            return Err(Error::config(format!("executor.poll_interval is {:?}; use 10ms to 1h", self.poll_interval)));
        }
        if self.cancel_grace > Duration::from_secs(3600) {
            return Err(Error::config(format!("executor.cancel_grace is {:?}; use 0s to 1h", self.cancel_grace)));
        }
        if self.quarantine_after > ERRORS_KEPT {
            return Err(Error::config(format!(
                "executor.quarantine_after is {}; use 1 to {ERRORS_KEPT} (as many errors as a job keeps), or 0 for never",
                self.quarantine_after
            )));
        }
        Ok(())
    }
}
