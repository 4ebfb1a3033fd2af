//! Counters of the messages that went through the broker.

use std::sync::atomic::{AtomicU64, Ordering};

use super::message::Published;

/// What went through the broker since the start. It counts messages: one that delivers jobs to executors may name several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerStats {
    /// Changes of the mode.
    pub changes: ModeChanges,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages refused: the queue was full.
    pub nacked: u64,
    /// Messages returned because no queue took them.
    pub returned: u64,
    /// Messages whose confirm did not arrive.
    pub unknown: u64,
    /// Messages published and not confirmed yet.
    pub unconfirmed: u64,
    /// Messages received.
    pub received: u64,
    /// Messages received that the broker had delivered before.
    pub redelivered: u64,
}

/// How often the mode of a broker changed, by the mode that began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModeChanges {
    /// It could be reached, and took messages.
    pub up: u64,
    /// It could be reached, and took no messages.
    pub blocked: u64,
    /// It could not be reached.
    pub down: u64,
}

impl ModeChanges {
    /// Returns all of them.
    pub fn total(&self) -> u64 {
        self.up + self.blocked + self.down
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    confirmed: AtomicU64,
    nacked: AtomicU64,
    returned: AtomicU64,
    unknown: AtomicU64,
    pub(super) unconfirmed: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) redelivered: AtomicU64,
}

impl Counters {
    pub(super) fn published(&self, outcome: Published) {
        let counter = match outcome {
            Published::Acked => &self.confirmed,
            Published::Nacked => &self.nacked,
            Published::Returned => &self.returned,
            Published::Unknown => &self.unknown,
            Published::NotSent => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn received(&self, redelivered: bool) {
        self.received.fetch_add(1, Ordering::Relaxed);
        if redelivered {
            self.redelivered.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn snapshot(&self, changes: ModeChanges) -> BrokerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BrokerStats {
            changes,
            confirmed: read(&self.confirmed),
            nacked: read(&self.nacked),
            returned: read(&self.returned),
            unknown: read(&self.unknown),
            unconfirmed: read(&self.unconfirmed),
            received: read(&self.received),
            redelivered: read(&self.redelivered),
        }
    }
}
