//! Explores a subject completely, or until a promise is broken.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::kernel::Actions as _;
use crate::vocabulary::{Promise, Subject};

/// More steps than any repair takes.
const PATIENCE: usize = 200;
/// Steps of a repair that are printed.
const SHOWN: usize = 12;

/// A subject in the form the checker needs.
#[derive(Clone)]
struct Checked<S: Subject> {
    subject: S,
    alphabet: Arc<Vec<S::Action>>,
    sights: Arc<AtomicU32>,
}

impl<S: Subject> Model for Checked<S> {
    type State = S::State;
    type Action = S::Action;

    fn init_states(&self) -> Vec<S::State> {
        vec![self.subject.start()]
    }

    fn actions(&self, state: &S::State, actions: &mut Vec<S::Action>) {
        actions.extend(self.alphabet.iter().filter(|action| self.subject.within_bounds(state, **action)));
    }

    fn next_state(&self, state: &S::State, action: S::Action) -> Option<S::State> {
        self.subject.step(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        // A single property, so that each state is judged once; the last state of the path shows which promise was broken.
        vec![Property::always("promises", |model: &Self, state: &S::State| {
            let seen = model.subject.sights(state);
            if model.sights.load(Ordering::Relaxed) & seen != seen {
                model.sights.fetch_or(seen, Ordering::Relaxed);
            }
            judge(&model.subject, state).is_none()
        })]
    }
}

/// Returns the promise that a state breaks: at once, or because it does not recover without further faults.
fn judge<S: Subject>(subject: &S, state: &S::State) -> Option<Promise> {
    subject.broken(state).or_else(|| {
        let looked_at = subject.watches(Promise::EverythingComesRight);
        (looked_at && !comes_right(subject, state, |_| ())).then_some(Promise::EverythingComesRight)
    })
}

/// Plays a world without further faults. The subject chooses each action, so this is one fair future and not all of them.
fn comes_right<S: Subject>(subject: &S, state: &S::State, mut step: impl FnMut(S::Action)) -> bool {
    let mut state = state.clone();
    for _ in 0..PATIENCE {
        let Some(action) = subject.repair(&state) else {
            return subject.at_rest(&state);
        };
        step(action);
        match subject.step(&state, action) {
            Some(next) => state = next,
            None => return false,
        }
    }
    false
}

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Finding<A> {
    /// Distinct states.
    pub states: usize,
    /// Steps of the longest path that was followed.
    pub depth: usize,
    /// The duration.
    pub took: Duration,
    /// The promise that was broken, and the shortest path there.
    pub refuted: Option<Refutation<A>>,
    /// Sights that a complete exploration should have seen and did not.
    pub unseen: Vec<&'static str>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Refutation<A> {
    /// The promise.
    pub promise: Promise,
    /// The path there. With one thread no path is shorter.
    pub path: Vec<A>,
    /// The steps after it without further faults, where these were not enough.
    pub repair: Vec<A>,
}

impl<A: fmt::Display> fmt::Display for Refutation<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, action) in self.path.iter().enumerate() {
            writeln!(f, "  {:>2}. {action}", number + 1)?;
        }
        if !self.repair.is_empty() {
            writeln!(f, "  and without further faults")?;
        }
        for action in self.repair.iter().take(SHOWN) {
            writeln!(f, "    - {action}")?;
        }
        if self.repair.len() > SHOWN {
            writeln!(f, "    - and so on")?;
        }
        write!(f, "  then: {}", self.promise)
    }
}

impl<A: fmt::Display> Finding<A> {
    pub(crate) fn in_words(self) -> Finding<String> {
        let words = |actions: Vec<A>| actions.iter().map(ToString::to_string).collect();
        let refuted = self.refuted.map(|Refutation { promise, path, repair }| Refutation {
            promise,
            path: words(path),
            repair: words(repair),
        });
        Finding { states: self.states, depth: self.depth, took: self.took, refuted, unseen: self.unseen }
    }
}

/// Explores all states within the subject's bounds, breadth first. A state that breaks a promise ends the exploration.
pub fn explore<S: Subject>(subject: &S, threads: usize) -> Finding<S::Action> {
    let begin = Instant::now();
    let sights = Arc::new(AtomicU32::new(0));
    let model = Checked {
        subject: subject.clone(),
        alphabet: Arc::new(S::Action::all(&subject.ranges())),
        sights: sights.clone(),
    };
    let checker = model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let refuted = checker.discoveries().into_values().next().and_then(|path| {
        let promise = judge(subject, path.last_state())?;
        let mut repair = Vec::new();
        if promise == Promise::EverythingComesRight {
            comes_right(subject, path.last_state(), |action| repair.push(action));
        }
        Some(Refutation { promise, path: path.into_actions(), repair })
    });
    let seen = sights.load(Ordering::Relaxed);
    let unseen = S::SIGHTS.iter().enumerate().filter(|(bit, _)| seen >> bit & 1 == 0).map(|(_, name)| *name).collect();
    let depth = checker.max_depth().saturating_sub(1);
    Finding { states: checker.unique_state_count(), depth, took: begin.elapsed(), refuted, unseen }
}

/// Follows a path from the start; `None`: a step of it can't happen.
pub fn replay<S: Subject>(subject: &S, path: &[S::Action]) -> Option<Vec<S::State>> {
    let mut states = vec![subject.start()];
    for action in path {
        let next = subject.step(states.last()?, *action)?;
        states.push(next);
    }
    Some(states)
}

/// Walks through the model: `choose` gets the number of possible actions and picks one. Tests play such a walk against a real database; `wanted`
/// leaves out actions that the test can't do at this point.
pub fn walk<S: Subject>(
    subject: &S,
    steps: usize,
    wanted: impl Fn(&S::State, S::Action) -> bool,
    mut choose: impl FnMut(usize) -> usize,
) -> Vec<S::Action> {
    let alphabet = S::Action::all(&subject.ranges());
    let mut state = subject.start();
    let mut path = Vec::new();
    for _ in 0..steps {
        let possible = |action: &S::Action| {
            let within = subject.within_bounds(&state, *action) && wanted(&state, *action);
            within.then(|| subject.step(&state, *action)).flatten().map(|next| (*action, next))
        };
        let possible: Vec<_> = alphabet.iter().filter_map(possible).collect();
        if possible.is_empty() {
            break;
        }
        let (action, next) = possible[choose(possible.len()) % possible.len()].clone();
        path.push(action);
        state = next;
    }
    path
}
