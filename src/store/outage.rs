//! Whether a database can be reached, told once.
//!
//! An outage hits everything that uses the database at the same moment: claims, timers, outcomes, the heart. Each of them goes on by itself,
//! and none of them can tell an outage from its own bad luck. So whoever loses a connection, or gets no answer in time, says so here;
//! one task then tries to connect until it can, and this logs that the database is down, and that it is back. Errors that belong to it are
//! marked, and whoever logs them does it quietly (`warn_of!`).
//!
//! ```text
//!       lost, unanswered          can't connect
//!  Up ──────────────────▶ Doubted ─────────────▶ Down     "is down (why)"
//!   ▲ connected: "connections were lost (why)" │    │
//!   └──────────────────────────────────────────┴────┘     "is back after …"
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::backoff::Reconnect;

/// Longest pause between two attempts to reach it.
const PAUSE: Duration = Duration::from_secs(1);

/// Tries to reach the database by a connection of its own; or says why it can't, without secrets.
pub(crate) type Probe = Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;
/// How many jobs somebody has in hand.
pub(crate) type InHand = dyn Fn() -> usize + Send + Sync;

/// How a database stands for this process. Shared by all connections to it that belong together.
pub struct Outage {
    /// What and where, for people.
    place: String,
    state: Mutex<State>,
    probe: Option<Probe>,
    hands: Mutex<Vec<Weak<InHand>>>,
    /// Where it tries to connect: whoever finds out may be on a runtime that ends before the outage does.
    runtime: Option<Handle>,
}

#[derive(Clone, Debug)]
enum State {
    /// Nobody looks: it was never reached.
    Unwatched,
    Up,
    /// Something went wrong, and it is being found out whether that is an outage.
    Doubted {
        since: Instant,
        /// Connections were lost, for this reason.
        lost: Option<String>,
    },
    Down {
        since: Instant,
    },
}

impl Outage {
    /// Of a database that has not been reached yet: nothing is said about it until [`watch`](Self::watch).
    pub(crate) fn new(place: String, probe: Option<Probe>) -> Arc<Self> {
        let (state, runtime) = (Mutex::new(State::Unwatched), Handle::try_current().ok());
        Arc::new(Self { place, state, probe, hands: Mutex::default(), runtime })
    }

    /// It was reached: from now on an outage is told.
    pub(crate) fn watch(&self) {
        let mut state = self.state();
        if matches!(*state, State::Unwatched) {
            *state = State::Up;
        }
    }

    /// It can't be reached at the moment, and the log says so.
    pub fn is_down(&self) -> bool {
        matches!(*self.state(), State::Down { .. })
    }

    /// Has the number of jobs in hand told when the database is back, for as long as the caller keeps this.
    pub(crate) fn count(&self, hands: &Arc<InHand>) {
        let mut all = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|each| each.strong_count() > 0);
        all.push(Arc::downgrade(hands));
    }

    /// A connection was lost, or could not be made. That is told here, whatever comes of it.
    pub(crate) fn lost(self: &Arc<Self>, why: &str) {
        let mut state = self.state();
        match &mut *state {
            State::Up => {
                *state = State::Doubted { since: Instant::now(), lost: Some(why.to_owned()) };
                drop(state);
                self.find_out();
            }
            State::Doubted { lost, .. } if lost.is_none() => *lost = Some(why.to_owned()),
            _ => {}
        }
    }

    /// No answer came in time. `true`: others have met the same, and it is or will be told what it means. Otherwise the caller should say
    /// it, because it may be about his call alone.
    pub(crate) fn unanswered(self: &Arc<Self>) -> bool {
        let mut state = self.state();
        match *state {
            State::Unwatched => false,
            State::Up => {
                *state = State::Doubted { since: Instant::now(), lost: None };
                drop(state);
                self.find_out();
                false
            }
            State::Doubted { .. } | State::Down { .. } => true,
        }
    }

    /// Something else failed that an outage brings with it. `true`: there is one.
    pub(crate) fn explains(&self) -> bool {
        matches!(*self.state(), State::Doubted { .. } | State::Down { .. })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries until it can be reached. There is one such task for each doubt.
    fn find_out(self: &Arc<Self>) {
        let (Some(runtime), true) = (&self.runtime, self.probe.is_some()) else {
            *self.state() = State::Up;
            return;
        };
        let weak = Arc::downgrade(self);
        runtime.spawn(async move {
            let mut delays = Reconnect::new(PAUSE);
            // Whoever has no use for the database any more has none for its state.
            while let Some(attempt) = weak.upgrade().and_then(|outage| outage.probe.as_ref().map(|probe| probe())) {
                let reached = attempt.await;
                let Some(outage) = weak.upgrade() else { return };
                match reached {
                    Ok(()) => return outage.reached(),
                    Err(why) => outage.not_reached(&why),
                }
                drop(outage);
                tokio::time::sleep(delays.next_delay()).await;
            }
        });
    }

    fn not_reached(&self, why: &str) {
        let mut state = self.state();
        if let State::Doubted { since, .. } = *state {
            *state = State::Down { since };
            drop(state);
            tracing::warn!("the database {} is down ({why}): what needs it waits until it is back", self.place);
        }
    }

    fn reached(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Up);
        let place = &self.place;
        match before {
            State::Down { since } => {
                let (after, kept) = (since.elapsed().as_secs_f64(), self.kept());
                tracing::info!("the database {place} is back after {after:.1} s{kept}");
            }
            State::Doubted { lost: Some(why), .. } => {
                tracing::warn!("connections to the database {place} were lost ({why}); it can be reached");
            }
            _ => {}
        }
    }

    fn kept(&self) -> String {
        let hands: Vec<_> = self.hands.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let hands: Vec<_> = hands.iter().filter_map(Weak::upgrade).collect();
        match hands.iter().map(|count| count()).sum::<usize>() {
            _ if hands.is_empty() => String::new(),
            0 => "; no job is in hand".to_owned(),
            1 => "; 1 job in hand kept".to_owned(),
            n => format!("; {n} jobs in hand kept"),
        }
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage").field("place", &self.place).field("state", &*self.state()).finish_non_exhaustive()
    }
}
