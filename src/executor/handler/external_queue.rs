//! Queues whose jobs are run elsewhere.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::{EVENT_QUEUE, REPLY_QUEUE};

/// A queue whose jobs are run by external workers, over the broker.
///
/// Each job is published whole, with a lease. If the worker has not reported when the lease ends, the attempt counts as failed and the job
/// is handed out again. Jobs that do not fit into the broker's queue wait in the table, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalQueue {
    pub(crate) name: String,
    pub(crate) lease: Duration,
    pub(crate) depth: u32,
}

impl ExternalQueue {
    /// Creates a queue with a lease of 5 minutes and at most 100 jobs waiting in the broker.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), lease: Duration::from_secs(300), depth: 100 }
    }

    /// Sets how long a worker has for a job, including the time the job waits in the broker. Workers ask for more by `extend`. 1 s to 24 h;
    /// default 5 min.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the most jobs that wait in the broker's queue. 1 to [`BrokerConfig::depth`](crate::BrokerConfig::depth); default 100.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Returns the queue's name.
    #[doc(hidden)]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks the settings. `limit`: how much its queue of the broker takes.
    pub(crate) fn validate(&self, limit: u32) -> Result<()> {
        let Self { name, lease, depth } = self;
        if *lease < Duration::from_secs(1) || *lease > Duration::from_secs(24 * 3600) {
            return Err(Error::config(format!("the lease of the external queue {name:?} is {lease:?}; use 1s to 24h")));
        }
        if *depth == 0 || *depth > limit {
            return Err(Error::config(format!(
                "the depth of the external queue {name:?} is {depth}; use 1 to {limit}, the most its queue of the broker takes (`broker.depth`)"
            )));
        }
        Ok(())
    }
}

/// Returns the table's queues whose jobs are sent to the broker and not run here.
pub(crate) fn outbound(external: &[ExternalQueue]) -> impl Iterator<Item = String> {
    [EVENT_QUEUE, REPLY_QUEUE].into_iter().chain(external.iter().map(ExternalQueue::name)).map(str::to_owned)
}
