//! `[queues.NAME]`.

use std::time::Duration;

use jobwright::{ExternalQueue, RetryPolicy};

use super::keys::Value;

/// The settings of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    /// `None` = not set.
    pub(crate) concurrency: Option<usize>,
    /// Delay between attempts, for handlers that do not set their own.
    pub(crate) retry: Option<RetryPolicy>,
    /// Set if external workers run its jobs.
    pub(crate) external: Option<ExternalQueue>,
    is_external: bool,
    lease: Option<Duration>,
    depth: Option<u32>,
}

impl Queue {
    pub(super) fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match (key, value) {
            ("concurrency", Value::Number(0)) => return Err("it must be 1 or more".to_owned()),
            ("concurrency", Value::Number(n)) => self.concurrency = Some(n),
            ("retry", Value::Retry(retry)) => self.retry = Some(retry),
            ("external", Value::Flag(on)) => self.is_external = on,
            ("lease", Value::Duration(lease)) => self.lease = Some(lease),
            ("depth", Value::Number(n)) => self.depth = Some(depth(n)?),
            _ => return Err("unknown key".to_owned()),
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, name: &str) -> Result<(), String> {
        if !self.is_external {
            return match (self.lease, self.depth) {
                (None, None) => Ok(()),
                (Some(_), _) => Err(only_external("lease")),
                (None, Some(_)) => Err(only_external("depth")),
            };
        }
        if self.concurrency.is_some() {
            return Err("has both `concurrency` and `external = true`: external workers decide themselves how many jobs they run, \
                        so remove one of them"
                .to_owned());
        }
        let mut queue = ExternalQueue::new(name);
        if let Some(lease) = self.lease {
            queue = queue.lease(lease);
        }
        if let Some(depth) = self.depth {
            queue = queue.depth(depth);
        }
        self.external = Some(queue);
        Ok(())
    }
}

fn only_external(key: &str) -> String {
    format!("has `{key}`, which is for queues with `external = true` only: add that, or remove `{key}`")
}

/// Checks the most messages that wait in the broker.
pub(super) fn depth(n: usize) -> Result<u32, String> {
    u32::try_from(n).ok().filter(|n| (1..=1_000_000).contains(n)).ok_or_else(|| "use 1 to 1000000".to_owned())
}
