//! One mode for both connections.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use super::BrokerMode;

/// Which of the two.
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

/// How one connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// Never tried to the end.
    Starting,
    Up,
    /// Up, and not to be published on.
    Blocked(String),
    Down(String),
}

/// The reason when this program itself hangs up: no outage, and nothing to warn of.
pub(super) const CLOSED: &str = "closed";

/// What is said of each change, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Up,
    Blocked,
    Down,
}

/// Puts the states of the connections together, tells who watches, and logs each change once.
#[derive(Debug)]
pub(super) struct Board {
    inner: Mutex<Inner>,
    mode: watch::Sender<BrokerMode>,
    /// Where the broker is, for people.
    address: String,
}

#[derive(Debug)]
struct Inner {
    publish: LinkState,
    consume: LinkState,
    generation: u64,
    changes: u64,
    said: Said,
}

impl Board {
    pub(super) fn new(address: String) -> Self {
        Self {
            inner: Mutex::new(Inner {
                publish: LinkState::Starting,
                consume: LinkState::Starting,
                generation: 0,
                changes: 0,
                said: Said::Nothing,
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

    pub(super) fn changes(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).changes
    }

    pub(super) fn set(&self, side: Side, state: LinkState) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match side {
            Side::Publish => inner.publish = state,
            Side::Consume => inner.consume = state,
        }
        let (said, why) = match (&inner.publish, &inner.consume) {
            (LinkState::Down(why), _) | (_, LinkState::Down(why)) => (Said::Down, why.clone()),
            (LinkState::Starting, _) | (_, LinkState::Starting) if inner.said == Said::Nothing => return,
            (LinkState::Starting, _) | (_, LinkState::Starting) => (Said::Down, "not connected".to_owned()),
            (LinkState::Blocked(why), _) | (_, LinkState::Blocked(why)) => (Said::Blocked, why.clone()),
            (LinkState::Up, LinkState::Up) => (Said::Up, String::new()),
        };
        let news = said != inner.said;
        if news {
            inner.said = said;
            inner.changes += 1;
        }
        let address = &self.address;
        let mode = match said {
            Said::Up if !news => return,
            Said::Up => {
                inner.generation += 1;
                tracing::info!("broker {address} is up");
                BrokerMode::Up(inner.generation)
            }
            Said::Blocked => {
                if news {
                    tracing::warn!(
                        "broker {address} takes no messages ({why}): work goes on by the table until it does"
                    );
                }
                BrokerMode::Blocked(why)
            }
            Said::Down | Said::Nothing => {
                if news && why == CLOSED {
                    tracing::debug!("the connections to broker {address} are closed");
                } else if news {
                    tracing::warn!("broker {address} is down ({why}): work goes on by the table until it is back");
                }
                let since = match &*self.mode.borrow() {
                    BrokerMode::Down { since, .. } => *since,
                    _ => Instant::now(),
                };
                BrokerMode::Down { since, why }
            }
        };
        // Still under the lock, so changes are told in their order.
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
        let board = Board::new("here".to_owned());
        board.set(Side::Publish, LinkState::Up);
        assert!(!board.is_up());
        assert_eq!(board.changes(), 0);
        board.set(Side::Consume, LinkState::Up);
        assert_eq!(board.mode(), BrokerMode::Up(1));

        board.set(Side::Publish, LinkState::Blocked("low on memory".to_owned()));
        assert_eq!(board.mode(), BrokerMode::Blocked("low on memory".to_owned()));
        board.set(Side::Consume, down("cut"));
        assert!(matches!(board.mode(), BrokerMode::Down { why, .. } if why == "cut"));
        board.set(Side::Consume, LinkState::Up);
        assert!(matches!(board.mode(), BrokerMode::Blocked(_)));
        board.set(Side::Publish, LinkState::Up);
        assert_eq!(board.mode(), BrokerMode::Up(2));
        assert_eq!(board.changes(), 5);
    }

    #[test]
    fn an_outage_is_one_change_however_often_an_attempt_fails() {
        let board = Board::new("here".to_owned());
        board.set(Side::Publish, down("refused"));
        let BrokerMode::Down { since: first, .. } = board.mode() else { panic!("{:?}", board.mode()) };
        board.set(Side::Consume, down("refused"));
        board.set(Side::Publish, down("no route"));
        let BrokerMode::Down { since, why } = board.mode() else { panic!("{:?}", board.mode()) };
        assert_eq!((since, why.as_str(), board.changes()), (first, "no route", 1));
    }
}
