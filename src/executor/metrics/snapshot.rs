//! The values of the counters at a moment.

use std::collections::BTreeMap;

pub use super::histogram::Histogram;
use crate::broker::{BrokerMode, BrokerStats};
use crate::executor::metrics::stats::ExecutorStats;
use crate::message::SentMetrics;

/// The numbers of an executor since it started, from [`Telemetry::metrics`](crate::executor::Telemetry::metrics). This process counts them:
/// the database is authoritative.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExecutorMetrics {
    /// The counters that need no label.
    pub stats: ExecutorStats,
    /// The jobs of each kind and queue of which one has begun here: as many as the program has kinds and queues at most.
    pub jobs: Vec<JobMetrics>,
    /// How many jobs of each queue may run at the same time.
    pub slots: BTreeMap<String, usize>,
    /// Times of the statements that claim jobs, in seconds; also of those that found none.
    pub claims: Histogram,
    /// How many jobs each of them claimed.
    pub claimed: Histogram,
    /// Times of the statements that record outcomes, in seconds.
    pub records: Histogram,
    /// Jobs that the process has sent through the message services of this executor, not by its handlers alone:
    /// [`MessageServices::sent`](crate::MessageServices::sent).
    pub sent: SentMetrics,
    /// Outcomes that were refused because the claim was no longer current, by the outcome: `done`, `retry`, `snooze`, `cancel`, `dead` and
    /// `released`, as far as there were any.
    pub fenced: BTreeMap<&'static str, u64>,
    /// Jobs that were given back without an outcome, by [`ReleaseReason`](crate::executor::ReleaseReason). Each reason has an entry. Those of which the database did not take it are also
    /// in [`fenced`](Self::fenced), as `released`.
    pub released: BTreeMap<&'static str, u64>,
    /// Messages that were refused, by the reason in their header.
    pub messages_refused: BTreeMap<&'static str, u64>,
    /// Seconds until the node must stop its work unless its lease is renewed. `None`: it has no lease at the moment.
    pub lease_seconds_left: Option<f64>,
    /// The mode and the messages of the broker, if there is one.
    pub broker: Option<(BrokerMode, BrokerStats)>,
}

/// The jobs of a kind in a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobMetrics {
    /// The queue.
    pub queue: String,
    /// The kind: the first of its names.
    pub kind: String,
    /// Attempts that have begun.
    pub started: u64,
    /// Attempts that have ended, by outcome: `done`, `retry`, `snooze`, `cancel`, `dead`, `released` (given back, without costing an attempt) and
    /// `lost` (the claim was no longer current, and nothing was committed).
    pub finished: BTreeMap<&'static str, u64>,
    /// Seconds from the flush to an attempt with the number 1, with the delay that the job was sent with. One that was snoozed or given back has
    /// another such attempt.
    pub wait: Histogram,
    /// Seconds that attempts ran.
    pub run: Histogram,
    /// Seconds from the flush until the job was done, over all its attempts.
    pub end_to_end: Histogram,
}

impl JobMetrics {
    /// Returns how many attempts run now.
    pub fn running(&self) -> u64 {
        // They are read one after the other, while attempts end.
        self.started.saturating_sub(self.finished.values().sum())
    }
}
