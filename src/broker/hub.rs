//! The state that the tasks of one broker handle share.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lapin::Channel;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::address::Addresses;
use super::counters::Counters;
use super::failure::Failure;
use super::member::Member;
use super::message::QueueRole;
use super::mode::BrokerMode;
use super::mode_tracker::{ModeTracker, Side};
use super::names::Names;
use super::session::Session;
use crate::config::BrokerConfig;

pub(super) struct Hub {
    pub(super) config: BrokerConfig,
    pub(super) addresses: Addresses,
    pub(super) names: Names,
    pub(super) mode_tracker: ModeTracker,
    pub(super) counters: Counters,
    publish: watch::Sender<Option<Arc<Session>>>,
    consume: watch::Sender<Option<Arc<Session>>>,
    numbers: AtomicU64,
    /// Roles whose queues were seen to exist, for this session and this count of doubts.
    pub(super) ensured: Mutex<((u64, u64), HashSet<QueueRole>)>,
    /// Raised when a queue may have been deleted.
    pub(super) doubts: AtomicU64,
    /// Set to make the publisher replace its channel, once everything on it is answered.
    pub(super) renew: AtomicBool,
    /// Whether the last attempt at a connection beside the two of the links failed.
    pub(super) no_more_connections: AtomicBool,
    /// The channel that asks for depths, with the number of its session.
    pub(super) asking: Mutex<Option<(u64, Channel)>>,
    /// The installation whose executors use this handle. Whoever opens a connection for consuming holds it until that was asked.
    pub(super) member: Mutex<Member>,
    /// Cancelled when there is to be no new work. Subscriptions and the publisher end.
    pub(super) stop: CancellationToken,
    /// Cancelled when the connections are to end.
    pub(super) hang_up: CancellationToken,
    pub(super) workers: TaskTracker,
    pub(super) links: TaskTracker,
}

impl Hub {
    pub(super) fn new(config: BrokerConfig, addresses: Addresses) -> Self {
        Self {
            names: Names::new(config.prefix.clone()),
            mode_tracker: ModeTracker::new(addresses.to_string()),
            counters: Counters::default(),
            publish: watch::Sender::new(None),
            consume: watch::Sender::new(None),
            numbers: AtomicU64::new(0),
            ensured: Mutex::default(),
            doubts: AtomicU64::new(0),
            renew: AtomicBool::new(false),
            no_more_connections: AtomicBool::new(false),
            asking: Mutex::default(),
            member: Mutex::default(),
            stop: CancellationToken::new(),
            hang_up: CancellationToken::new(),
            workers: TaskTracker::new(),
            links: TaskTracker::new(),
            config,
            addresses,
        }
    }

    /// Returns a number that no connection and no channel had before.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn line(&self, side: Side) -> &watch::Sender<Option<Arc<Session>>> {
        match side {
            Side::Publish => &self.publish,
            Side::Consume => &self.consume,
        }
    }

    /// Returns the present connection.
    pub(super) fn session(&self, side: Side) -> Result<Arc<Session>, Failure> {
        let session = self.line(side).borrow().clone();
        session.ok_or_else(|| match self.mode_tracker.mode() {
            BrokerMode::Down { why, .. } => Failure::Lost(why),
            _ => Failure::Lost("not connected".to_owned()),
        })
    }

    /// Returns how long one call may take.
    pub(super) fn rpc(&self) -> Duration {
        self.config.connect_timeout
    }

    /// Ends everything, gracefully within `patience`.
    pub(super) async fn shut_down(&self, patience: Duration) {
        let end = tokio::time::Instant::now() + patience;
        self.stop.cancel();
        self.workers.close();
        let _ = tokio::time::timeout_at(end, self.workers.wait()).await;
        self.hang_up.cancel();
        self.links.close();
        let _ = tokio::time::timeout_at(end, self.links.wait()).await;
    }
}
