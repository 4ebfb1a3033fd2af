//! The mode of the broker, combined from the states of both connections.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use super::mode::BrokerMode;
use super::stats::ModeChanges;

/// One of the two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Publish,
    Consume,
}

impl Side {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Consume => "consume",
        }
    }
}

/// The state of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// No attempt has finished yet.
    Starting,
    Up,
    /// Up, but nothing may be published on it.
    Blocked(String),
    Down(String),
}

/// The reason when this program itself closes the connection: no outage, and no cause for a warning.
pub(super) const CLOSED: &str = "closed";

/// The mode that was logged last, so that each change is logged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoggedMode {
    Nothing,
    Up,
    Blocked,
    Down,
}

/// Combines the states of the connections, notifies watchers, and logs each change once.
#[derive(Debug)]
pub(super) struct ModeTracker {
    inner: Mutex<Inner>,
    mode: watch::Sender<BrokerMode>,
    /// The address of the broker, for people.
    address: String,
}

#[derive(Debug)]
struct Inner {
    publish: LinkState,
    consume: LinkState,
    generation: u64,
    changes: ModeChanges,
    logged: LoggedMode,
}

impl ModeTracker {
    pub(super) fn new(address: String) -> Self {
        Self {
            inner: Mutex::new(Inner {
                publish: LinkState::Starting,
                consume: LinkState::Starting,
                generation: 0,
                changes: ModeChanges::default(),
                logged: LoggedMode::Nothing,
            }),
            mode: watch::Sender::new(BrokerMode::Down { since: Instant::now(), why: "not connected yet".to_owned() }),
            address,
        }
    }

    pub(super) fn mode(&self) -> BrokerMode {
        self.mode.borrow().clone()
    }

    pub(super) fn is_up(&self) -> bool {
        self.mode.borrow().is_up()
    }

    pub(super) fn watch(&self) -> watch::Receiver<BrokerMode> {
        self.mode.subscribe()
    }

    pub(super) fn changes(&self) -> ModeChanges {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).changes
    }

    pub(super) fn set(&self, side: Side, state: LinkState) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match side {
            Side::Publish => inner.publish = state,
            Side::Consume => inner.consume = state,
        }
        let (logged, why) = match (&inner.publish, &inner.consume) {
            (LinkState::Down(why), _) | (_, LinkState::Down(why)) => (LoggedMode::Down, why.clone()),
            (LinkState::Starting, _) | (_, LinkState::Starting) if inner.logged == LoggedMode::Nothing => return,
            (LinkState::Starting, _) | (_, LinkState::Starting) => (LoggedMode::Down, "not connected".to_owned()),
            (LinkState::Blocked(why), _) | (_, LinkState::Blocked(why)) => (LoggedMode::Blocked, why.clone()),
            (LinkState::Up, LinkState::Up) => (LoggedMode::Up, String::new()),
        };
        let news = logged != inner.logged;
        if news {
            inner.logged = logged;
            let changes = &mut inner.changes;
            *match logged {
                LoggedMode::Up => &mut changes.up,
                LoggedMode::Blocked => &mut changes.blocked,
                LoggedMode::Down | LoggedMode::Nothing => &mut changes.down,
            } += 1;
        }
        let address = &self.address;
        let mode = match logged {
            LoggedMode::Up if !news => return,
            LoggedMode::Up => {
                inner.generation += 1;
                tracing::info!("broker {address} is up");
                BrokerMode::Up(inner.generation)
            }
            LoggedMode::Blocked => {
                if news {
                    tracing::warn!("broker {address} takes no messages ({why}): jobs run from the table until it does");
                }
                BrokerMode::Blocked(why)
            }
            LoggedMode::Down | LoggedMode::Nothing => {
                if news && why == CLOSED {
                    tracing::debug!("the connections to broker {address} are closed");
                } else if news {
                    tracing::warn!("broker {address} is down ({why}): jobs run from the table until it is back");
                }
                let since = match &*self.mode.borrow() {
                    BrokerMode::Down { since, .. } => *since,
                    _ => Instant::now(),
                };
                BrokerMode::Down { since, why }
            }
        };
        // Still under the lock, so changes are sent in their order.
        self.mode.send_if_modified(|current| {
            let changed = *current != mode;
            *current = mode;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(why: &str) -> LinkState {
        LinkState::Down(why.to_owned())
    }

    #[test]
    fn up_only_when_both_are() {
        let mode_tracker = ModeTracker::new("here".to_owned());
        mode_tracker.set(Side::Publish, LinkState::Up);
        assert!(!mode_tracker.is_up());
        assert_eq!(mode_tracker.changes(), ModeChanges::default());
        mode_tracker.set(Side::Consume, LinkState::Up);
        assert_eq!(mode_tracker.mode(), BrokerMode::Up(1));

        mode_tracker.set(Side::Publish, LinkState::Blocked("low on memory".to_owned()));
        assert_eq!(mode_tracker.mode(), BrokerMode::Blocked("low on memory".to_owned()));
        mode_tracker.set(Side::Consume, down("cut"));
        assert!(matches!(mode_tracker.mode(), BrokerMode::Down { why, .. } if why == "cut"));
        mode_tracker.set(Side::Consume, LinkState::Up);
        assert!(matches!(mode_tracker.mode(), BrokerMode::Blocked(_)));
        mode_tracker.set(Side::Publish, LinkState::Up);
        assert_eq!(mode_tracker.mode(), BrokerMode::Up(2));
        assert_eq!(mode_tracker.changes(), ModeChanges { up: 2, blocked: 2, down: 1 });
    }

    #[test]
    fn an_outage_is_one_change_however_often_an_attempt_fails() {
        let mode_tracker = ModeTracker::new("here".to_owned());
        mode_tracker.set(Side::Publish, down("refused"));
        let BrokerMode::Down { since: first, .. } = mode_tracker.mode() else { panic!("{:?}", mode_tracker.mode()) };
        mode_tracker.set(Side::Consume, down("refused"));
        mode_tracker.set(Side::Publish, down("no route"));
        let BrokerMode::Down { since, why } = mode_tracker.mode() else { panic!("{:?}", mode_tracker.mode()) };
        assert_eq!((since, why.as_str(), mode_tracker.changes().down), (first, "no route", 1));
    }
}
