//! The worker processes, and their faults.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::worker::Orders;
use crate::support::process::Worker;
use crate::support::seeded_random::Chance;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Another process takes its place at once.
    Killed,
    /// Another process takes its place later.
    KilledAndAway,
    /// Stopped for less than its lease, for longer, or until it is killed.
    Paused,
    Zombie,
    ZombieKilled,
}

const FAULTS: [Fault; 8] = [
    Fault::Killed,
    Fault::Killed,
    Fault::KilledAndAway,
    Fault::Paused,
    Fault::Zombie,
    Fault::Zombie,
    Fault::Zombie,
    Fault::ZombieKilled,
];

pub(super) struct Member {
    orders: Orders,
    worker: Worker,
    pub(super) counts: BTreeMap<String, u64>,
}

impl Member {
    pub(super) fn start(orders: Orders) -> Self {
        Self { worker: orders.start(), orders, counts: BTreeMap::new() }
    }

    /// Causes faults until `end`; then repairs everything.
    pub(super) async fn trouble(&mut self, mut chance: Chance, end: Instant) {
        loop {
            tokio::time::sleep(chance.millis(300, 2500)).await;
            if Instant::now() >= end {
                break;
            }
            let fault = chance.pick(&FAULTS);
            let (short, long) = (chance.millis(50, 700), chance.millis(1300, 3500));
            assert!(self.worker.is_running(), "a worker ended by itself");
            *self.counts.entry(format!("{fault:?}")).or_default() += 1;
            match fault {
                Fault::Killed => self.worker.kill(),
                Fault::KilledAndAway => {
                    self.worker.kill();
                    tokio::time::sleep(short).await;
                }
                Fault::Paused => self.stopped_for(short).await,
                Fault::Zombie => self.stopped_for(long).await,
                Fault::ZombieKilled => {
                    self.worker.signal("STOP");
                    tokio::time::sleep(long).await;
                    self.worker.kill();
                }
            }
            if !self.worker.is_running() {
                self.worker = self.orders.start();
            }
        }
        assert!(self.worker.is_running(), "a worker ended by itself");
    }

    async fn stopped_for(&self, pause: Duration) {
        self.worker.signal("STOP");
        tokio::time::sleep(pause).await;
        self.worker.signal("CONT");
    }
}
