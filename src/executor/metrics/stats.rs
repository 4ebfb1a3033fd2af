//! Counters that need no label.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::executor::metrics::histogram::{Sizes, Times};

/// What an executor did since it started. This process counts it; the database is authoritative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorStats {
    /// Jobs claimed.
    pub claimed: u64,
    /// Jobs that came straight from a commit in this process, with no claim.
    pub handed_over: u64,
    /// Jobs done, and removed.
    pub done: u64,
    /// Attempts that failed (each retry counts).
    pub failed: u64,
    /// Handlers run again at once, within their attempt, after losing a conflict.
    pub conflicts: u64,
    /// Attempts that ended with snooze, cancel or dead.
    pub other: u64,
    /// Jobs that became dead letters after an attempt here.
    pub dead: u64,
    /// Jobs given back unfinished, as recorded. [`ExecutorMetrics::released`](crate::executor::ExecutorMetrics::released) has the reasons.
    pub released: u64,
    /// Outcomes that were refused because the claim was no longer current.
    pub refused: u64,
    /// Handlers that stopped or were stopped because their job was cancelled or taken away while they ran.
    pub cancelled: u64,
    /// Jobs in flight now, running or waiting to start.
    pub in_flight: u64,
    /// How often this executor lost its lease and had to register again.
    pub leases_lost: u64,
    /// Claimed jobs that came through the broker.
    pub delivered: u64,
    /// Rows named by deliveries that were gone, owned or newer.
    pub stale: u64,
    /// Rows named by deliveries that found no free slot, or no handler here, in time. They were left to the table.
    pub left_to_table: u64,
    /// Jobs taken in from external producers.
    pub submitted: u64,
    /// Messages that could not be used. They were rejected with the reason.
    pub messages_refused: u64,
    /// Jobs handed to external workers.
    pub handed_out: u64,
    /// Ends of jobs that external workers reported in time.
    pub reported: u64,
    /// Reports of external workers that came too late, or twice.
    pub reports_refused: u64,
    /// Events and replies that the broker has confirmed.
    pub relayed: u64,
    /// Dead letters removed because they were older than [`HistoryConfig::dead_letters`](crate::HistoryConfig::dead_letters).
    pub dead_letters_removed: u64,
    /// Entries of the audit removed because they were older than [`HistoryConfig::audit`](crate::HistoryConfig::audit).
    pub audit_removed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) claimed: AtomicU64,
    pub(crate) handed_over: AtomicU64,
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) other: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) released: AtomicU64,
    /// Outcomes that were refused, by outcome.
    pub(crate) refused: Tally,
    /// Jobs that wait again without an outcome, by reason.
    pub(crate) releases: Tally,
    pub(crate) cancelled: AtomicU64,
    pub(crate) leases_lost: AtomicU64,
    pub(crate) delivered: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) left_to_table: AtomicU64,
    pub(crate) submitted: AtomicU64,
    /// Messages that were refused, by the reason that their header gives (broker/README.md).
    pub(crate) messages_refused: Tally,
    pub(crate) handed_out: AtomicU64,
    pub(crate) reported: AtomicU64,
    pub(crate) reports_refused: AtomicU64,
    pub(crate) relayed: AtomicU64,
    pub(crate) dead_letters_removed: AtomicU64,
    pub(crate) audit_removed: AtomicU64,
    /// How long the statements took that claim jobs.
    pub(crate) claims: Times,
    /// How many jobs each of them claimed.
    pub(crate) claim_sizes: Sizes,
    /// How long the statements took that record outcomes.
    pub(crate) records: Times,
}

/// Counts by name what happens rarely, or costs a statement anyway, so that a lock costs little.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    /// Counts one for each name.
    pub(crate) fn add(&self, names: impl IntoIterator<Item = &'static str>) {
        for name in names {
            self.add_many(name, 1);
        }
    }

    pub(crate) fn add_many(&self, name: &'static str, n: u64) {
        if n > 0 {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += n;
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    pub(crate) fn read(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn snapshot(&self, in_flight: usize) -> ExecutorStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ExecutorStats {
            claimed: get(&self.claimed),
            handed_over: get(&self.handed_over),
            done: get(&self.done),
            failed: get(&self.failed),
            conflicts: get(&self.conflicts),
            other: get(&self.other),
            dead: get(&self.dead),
            released: get(&self.released),
            refused: self.refused.sum(),
            cancelled: get(&self.cancelled),
            in_flight: in_flight as u64,
            leases_lost: get(&self.leases_lost),
            delivered: get(&self.delivered),
            stale: get(&self.stale),
            left_to_table: get(&self.left_to_table),
            submitted: get(&self.submitted),
            messages_refused: self.messages_refused.sum(),
            handed_out: get(&self.handed_out),
            reported: get(&self.reported),
            reports_refused: get(&self.reports_refused),
            relayed: get(&self.relayed),
            dead_letters_removed: get(&self.dead_letters_removed),
            audit_removed: get(&self.audit_removed),
        }
    }
}
