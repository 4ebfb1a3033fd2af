//! Counters of the messages that went through the broker.

use std::sync::atomic::{AtomicU64, Ordering};

use super::message::Published;
use super::stats::{BrokerStats, ModeChanges};

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
