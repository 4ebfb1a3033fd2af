//! Detection of database outages, each logged once.
//!
//! An outage hits everything that uses the database at once: claims, timers, outcomes, the heartbeat. Each of them retries alone and can't tell
//! an outage from a failure of its own call. So every caller that loses a connection, or gets no answer in time, reports it here. One task
//! then tries to connect until it can, and logs that the database is down and that it is back. Errors that belong to the outage are marked, and
//! are logged at a lower level (`warn_of!`).
//!
//! ```text
//!       lost, unanswered          can't connect
//!  Up ──────────────────▶ Doubted ─────────────▶ Down     "is down (why)", "can't be used (why)"
//!   ▲ connected: "connections were lost (why)" │    │
//!   └──────────────────────────────────────────┴────┘     "is back after …"
//! ```
//!
//! A server that answers and lets this process not in hits everything alike, too: a password that was changed, a database that was dropped. One that
//! takes no writes does not hit readers, and one that has no connection left does not hit those that have one, so these are no states here: a line tells it,
//! at most once a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::backoff::Reconnect;

/// Longest pause between two attempts to reach the database.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a [`Shortage`] is told, or that an outage goes on for another reason, such as a server that is up again and refuses.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// Tries to reach the database by a connection of its own.
pub(crate) type Probe = Box<dyn Fn() -> BoxFuture<'static, Result<(), Unusable>> + Send + Sync>;

/// Why a database can't be used, without secrets.
pub(crate) struct Unusable {
    pub(crate) why: String,
    /// Whether the server is up, and refuses.
    pub(crate) refuses: bool,
}

/// Returns how many jobs a part of the process has in flight.
pub(crate) type InFlightCount = dyn Fn() -> usize + Send + Sync;

/// Whether this process can reach a database. All connections of one store share it.
pub struct Outage {
    /// The database and its location, for people.
    label: String,
    state: Mutex<State>,
    probe: Option<Probe>,
    in_flight_counts: Mutex<Vec<Weak<InFlightCount>>>,
    /// When each was told last.
    told: Mutex<BTreeMap<Shortage, Instant>>,
    /// The runtime on which it tries to connect: that of the caller that reports a failure may end before the outage does.
    runtime: Option<Handle>,
}

/// A trouble that hits a part of the tasks only, while others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shortage {
    /// The database takes no writes.
    Writes,
    /// The server has no connection left.
    Connections,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing is logged yet: the database was never reached.
    Unwatched,
    Up,
    /// A call failed, and a task is finding out whether that is an outage.
    Doubted {
        since: Instant,
        /// Why connections were lost, if any were.
        lost: Option<String>,
    },
    Down {
        since: Instant,
        /// The reason that was told last, and when.
        why: String,
        told: Instant,
    },
}

impl Outage {
    /// Creates the state of a database that has not been reached yet. Nothing is logged about it until [`watch`](Self::watch).
    pub(crate) fn new(label: String, probe: Option<Probe>) -> Arc<Self> {
        let (state, runtime) = (Mutex::new(State::Unwatched), Handle::try_current().ok());
        let (in_flight_counts, told) = (Mutex::default(), Mutex::default());
        Arc::new(Self { label, state, probe, in_flight_counts, told, runtime })
    }

    /// Notes that the database was reached: from now on outages are logged.
    pub(crate) fn watch(&self) {
        let mut state = self.state();
        if matches!(*state, State::Unwatched) {
            *state = State::Up;
        }
    }

    /// Returns whether the database can't be reached now. The log says so then.
    pub fn is_down(&self) -> bool {
        matches!(*self.state(), State::Down { .. })
    }

    /// Adds a count of jobs in flight, to be logged when the database is back, for as long as the caller keeps the `Arc`.
    pub(crate) fn count(&self, in_flight_counts: &Arc<InFlightCount>) {
        let mut all = self.in_flight_counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|each| each.strong_count() > 0);
        all.push(Arc::downgrade(in_flight_counts));
    }

    /// Reports that a connection was lost or could not be made. The outcome is logged here, whatever it is.
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

    /// Reports that no answer came in time. `true`: other callers have met the same, and the outcome is or will be logged here. Otherwise the
    /// caller should log it, because its call alone may be affected.
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

    /// Tells that a call of the engine failed for this reason: once a minute for all tasks of the executors that meet it. `false`: there is no executor,
    /// and the caller should say it.
    pub(crate) fn lacks(&self, shortage: Shortage, why: &str) -> bool {
        let counts = self.in_flight_counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.iter().all(|count| count.strong_count() == 0) {
            return false;
        }
        drop(counts);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(&shortage).is_none_or(|at| at.elapsed() >= TOLD_AGAIN) {
            told.insert(shortage, Instant::now());
            drop(told);
            let label = &self.label;
            match shortage {
                Shortage::Writes => {
                    tracing::warn!(
                        "the database {label} takes no writes ({why}): statements that write wait until it does"
                    );
                }
                Shortage::Connections => tracing::warn!(
                    "the database {label} has no connection left for this process ({why}): calls that need another one wait until it has"
                ),
            }
        }
        true
    }

    /// Returns whether there is, or may be, an outage that explains another failure.
    pub(crate) fn explains(&self) -> bool {
        matches!(*self.state(), State::Doubted { .. } | State::Down { .. })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task that tries until the database can be reached. There is one such task for each time that it is doubted.
    fn find_out(self: &Arc<Self>) {
        let (Some(runtime), true) = (&self.runtime, self.probe.is_some()) else {
            *self.state() = State::Up;
            return;
        };
        let weak = Arc::downgrade(self);
        let undecided = Undecided(weak.clone());
        runtime.spawn(async move {
            let mut delays = Reconnect::new(PAUSE);
            // When nothing uses the database any more, nothing needs its state.
            while let Some(attempt) = weak.upgrade().and_then(|outage| outage.probe.as_ref().map(|probe| probe())) {
                let reached = attempt.await;
                let Some(outage) = weak.upgrade() else { return };
                match reached {
                    Ok(()) => {
                        // From here on the next doubt, which has a task of its own, may begin.
                        undecided.decided();
                        return outage.reached();
                    }
                    Err(why) => outage.not_reached(&why),
                }
                drop(outage);
                tokio::time::sleep(delays.next_delay()).await;
            }
        });
    }

    fn not_reached(&self, Unusable { why, refuses }: &Unusable) {
        let mut state = self.state();
        let (since, again) = match &*state {
            State::Doubted { since, .. } => (*since, false),
            State::Down { since, why: before, told } if !is_same(before, why) && told.elapsed() >= TOLD_AGAIN => {
                (*since, true)
            }
            _ => return,
        };
        *state = State::Down { since, why: why.clone(), told: Instant::now() };
        drop(state);
        let what = match (refuses, again) {
            (true, false) => "can't be used",
            (true, true) => "still can't be used",
            (false, false) => "is down",
            (false, true) => "is still down",
        };
        tracing::warn!("the database {} {what} ({why}): calls that need it wait until it is back", self.label);
    }

    fn reached(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Up);
        let label = &self.label;
        match before {
            State::Down { since, .. } => {
                let (after, kept) = (since.elapsed().as_secs_f64(), self.kept());
                tracing::info!("the database {label} is back after {after:.1} s{kept}");
            }
            State::Doubted { lost: Some(why), .. } => {
                tracing::warn!("connections to the database {label} were lost ({why}); it can be reached");
            }
            _ => {}
        }
    }

    fn kept(&self) -> String {
        let in_flight_counts: Vec<_> = self.in_flight_counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let in_flight_counts: Vec<_> = in_flight_counts.iter().filter_map(Weak::upgrade).collect();
        match in_flight_counts.iter().map(|count| count()).sum::<usize>() {
            _ if in_flight_counts.is_empty() => String::new(),
            0 => "; no job is claimed".to_owned(),
            1 => "; 1 claimed job kept".to_owned(),
            n => format!("; {n} claimed jobs kept"),
        }
    }
}

/// Returns whether two reasons are the same, but for the order in which several servers were tried.
fn is_same(one: &str, other: &str) -> bool {
    let parts = |why: &str| why.split("; ").map(str::to_owned).collect::<BTreeSet<_>>();
    parts(one) == parts(other)
}

/// Ends a doubt whose task is dropped before it has decided, because its runtime ends. Otherwise no error would be logged any more.
struct Undecided(Weak<Outage>);

impl Undecided {
    fn decided(mut self) {
        self.0 = Weak::new();
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        let Some(outage) = self.0.upgrade() else { return };
        let mut state = outage.state();
        if matches!(*state, State::Doubted { .. } | State::Down { .. }) {
            *state = State::Up;
        }
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage").field("place", &self.label).field("state", &*self.state()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers are tried in any order.
    #[test]
    fn the_same_reasons_in_another_order_are_the_same() {
        assert!(is_same("a: refused; b: no answer", "b: no answer; a: refused"));
        assert!(!is_same("a: refused; b: no answer", "a: refused; b: refused"));
    }

    /// A program may connect on a runtime of its own, and drop that.
    #[test]
    fn the_end_of_its_runtime_ends_a_doubt() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let outage = runtime.block_on(async {
            let outage = Outage::new("db".to_owned(), Some(Box::new(|| Box::pin(std::future::pending()))));
            outage.watch();
            outage.lost("the network is away");
            assert!(outage.explains(), "a task finds out");
            outage
        });
        drop(runtime);
        assert!(!outage.explains(), "nothing finds out any more, so errors are logged by their callers");
    }
}
