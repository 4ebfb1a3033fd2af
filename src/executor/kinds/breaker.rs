//! Kinds that this node can't run at the moment: a circuit breaker for each kind.
//!
//! A handler may find that its node can't run its jobs now: its program is missing, or the system starts no more processes. The job is not
//! at fault. It is given back without costing an attempt, for any node to take, and the breaker of its kind opens: this node claims no such
//! job for a while. When the pause is over, the kind's own check is asked, if it has one, and then jobs are claimed again. A further refusal
//! makes the next pause twice as long, up to a minute. The first attempt that begins after a pause and ends in any other way closes the
//! breaker.
//!
//! A node that starts nothing would otherwise fail jobs as fast as it can claim them, and so get most of the jobs of its cluster.
//!
//! What costs no attempt has to be bounded in another way. The pauses bound how often jobs are claimed in vain. A job that comes back to the
//! same node in the same trouble waits longer than the pause, so that another job is tried first. And a job that is refused again and again
//! although others of its kind have run since is itself the cause: it has failed.
//!
//! For some kinds a check knows at any time whether they can run, because something else finds it out: whether a server can be reached, for instance. Such
//! a check decides alone. It is asked often, it closes the breaker without a job that proves it, and no job is ever to blame.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::job::JobId;
use crate::store::clip;

/// The pause after the first refusal. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The pause before a check that decides is asked again.
const ASKED_AGAIN: Duration = Duration::from_millis(500);
/// How often a job may be refused although others of its kind have run since its last refusal. A system that is short of processes or files
/// refuses some jobs and runs others.
const EXCUSED: u32 = 3;
/// The longest reason that is kept. The node's row shows it.
const REASON_MOST: usize = 1024;
/// For how many jobs of a kind refusals are remembered.
const REMEMBERED: usize = 256;

/// A check whether this node can run a kind.
pub(crate) struct Check {
    /// Returns the reason if it can't.
    pub(crate) ask: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Whether it knows the answer at any time, without a wait. Then it alone decides.
    pub(crate) decides: bool,
}

/// What all breakers of an executor share. It outlives a lost lease.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    all: Vec<Arc<Breaker>>,
    signals: Arc<Signals>,
}

#[derive(Debug, Default)]
struct Signals {
    /// Changes whenever a breaker opens or lets jobs through again.
    revision: AtomicU64,
    /// The number of open breakers.
    open: AtomicUsize,
    changed: Notify,
}

impl Breakers {
    /// Makes the breaker of another kind.
    pub(crate) fn add(&mut self, kind: &str, check: Option<Check>) -> Arc<Breaker> {
        let breaker = Arc::new(Breaker {
            kind: kind.to_owned(),
            check,
            is_open: AtomicBool::new(false),
            has_refused: AtomicBool::new(false),
            state: Mutex::default(),
            signals: self.signals.clone(),
        });
        self.all.push(breaker.clone());
        breaker
    }

    pub(crate) fn revision(&self) -> u64 {
        self.signals.revision.load(Ordering::Acquire)
    }

    /// Returns whether this node leaves any kind alone.
    pub(crate) fn any_open(&self) -> bool {
        self.signals.open.load(Ordering::Acquire) > 0
    }

    /// Waits until a breaker opens, or lets jobs through again.
    pub(crate) async fn changed(&self) {
        self.signals.changed.notified().await;
    }

    /// Returns the breakers whose kinds have a check.
    pub(crate) fn checked(&self) -> impl Iterator<Item = &Arc<Breaker>> {
        self.all.iter().filter(|breaker| breaker.check.is_some())
    }

    /// Returns the breakers whose pause is over.
    pub(crate) fn due(&self, now: Instant) -> Vec<Arc<Breaker>> {
        self.all.iter().filter(|breaker| breaker.until().is_some_and(|until| until <= now)).cloned().collect()
    }

    /// Returns when the next pause is over.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.all.iter().filter_map(|breaker| breaker.until()).min()
    }

    /// Returns the kinds that this node leaves alone, with the reasons and since when it can't run them.
    pub(crate) fn left_alone(&self) -> BTreeMap<String, (String, Instant)> {
        let open = |breaker: &Arc<Breaker>| {
            let state = breaker.lock();
            let trouble = state.trouble.as_ref().filter(|trouble| trouble.until.is_some())?;
            Some((breaker.kind.clone(), (trouble.reason.clone(), trouble.since)))
        };
        self.all.iter().filter_map(open).collect()
    }
}

/// Whether this node can run a kind.
pub(crate) struct Breaker {
    kind: String,
    check: Option<Check>,
    is_open: AtomicBool,
    /// Whether `state` has anything in it: attempts of a kind that was never refused need no lock.
    has_refused: AtomicBool,
    state: Mutex<State>,
    signals: Arc<Signals>,
}

#[derive(Debug, Default)]
struct State {
    trouble: Option<Trouble>,
    /// Jobs that were refused and have not run here since.
    refusals: HashMap<JobId, Refusals>,
    /// The latest begin of an attempt that ran.
    proven: Option<Instant>,
}

/// The time from a first refusal until an attempt runs.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    /// The reason of the last refusal.
    reason: String,
    pause: Duration,
    /// When the pause is over, while the breaker is open.
    until: Option<Instant>,
    /// When the last pause was over.
    resumed: Instant,
    /// Whether only the check has refused. Then the check is enough to end it.
    by_check: bool,
}

#[derive(Debug)]
struct Refusals {
    last: Instant,
    /// How often it was refused although others had run since its last refusal.
    disproved: u32,
}

/// What becomes of a refused job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It waits again at once, for any node.
    Back,
    /// It waits for this long, so that another job is tried first.
    Later(Duration),
    /// It is itself the cause, and has failed.
    Failed,
}

impl Breaker {
    /// Returns whether this node leaves the kind alone.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Notes that this node could not run a job, and opens.
    pub(crate) fn refuse(&self, job: JobId, reason: &str, now: Instant) -> Refused {
        let answer = self.deciding().map(|check| (check.ask)());
        if answer.as_ref().is_some_and(Result::is_ok) {
            // The trouble was over before this job came back.
            return Refused::Back;
        }
        let mut state = self.lock();
        self.has_refused.store(true, Ordering::Release);
        if let Some(Err(reason)) = answer {
            self.open(&mut state, &reason, now, true);
            return Refused::Back;
        }
        let proven = state.proven;
        let before = state.refusals.get(&job).map(|refusals| refusals.last);
        let refusals = state.refusals.entry(job).or_insert(Refusals { last: now, disproved: 0 });
        if before.zip(proven).is_some_and(|(before, proven)| proven > before) {
            refusals.disproved += 1;
        }
        refusals.last = now;
        if refusals.disproved > EXCUSED {
            return Refused::Failed;
        }
        state.forget_some();
        let (pause, since) = self.open(&mut state, reason, now, false);
        if before.is_some_and(|before| before >= since) { Refused::Later(2 * pause) } else { Refused::Back }
    }

    /// Notes that an attempt which began then has run, however it ended.
    pub(crate) fn ran(&self, job: JobId, began: Instant) {
        if !self.has_refused.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.lock();
        // This was the attempt that was refused.
        if state.refusals.get(&job).is_some_and(|refusals| refusals.last >= began) {
            return;
        }
        state.refusals.remove(&job);
        state.proven = state.proven.max(Some(began));
        if state.trouble.as_ref().is_some_and(|trouble| trouble.until.is_none() && began >= trouble.resumed) {
            self.close(&mut state);
        }
        if state.trouble.is_none() && state.refusals.is_empty() {
            self.has_refused.store(false, Ordering::Release);
        }
    }

    /// Asks the check, and opens if it says that this node can't run the kind. It may take long. Returns whether jobs may run.
    pub(crate) fn passes(&self) -> bool {
        let Some(check) = &self.check else { return true };
        let Err(reason) = (check.ask)() else { return true };
        self.cannot_run(&reason, Instant::now());
        false
    }

    /// Opens for this reason, without a job that was refused.
    pub(crate) fn cannot_run(&self, reason: &str, now: Instant) {
        let mut state = self.lock();
        self.has_refused.store(true, Ordering::Release);
        let by_check = state.trouble.as_ref().is_none_or(|trouble| trouble.by_check);
        if let Some(trouble) = &mut state.trouble {
            // The pause before it is over.
            trouble.until = trouble.until.filter(|until| *until > now);
        }
        self.open(&mut state, reason, now, by_check);
    }

    /// Lets jobs through again after a pause.
    pub(crate) fn resume(&self, now: Instant) {
        let mut state = self.lock();
        let Some(trouble) = &mut state.trouble else { return };
        trouble.until = None;
        trouble.resumed = now;
        if trouble.by_check {
            self.close(&mut state);
        }
        self.turn(false);
    }

    /// Returns its check, if that alone decides.
    fn deciding(&self) -> Option<&Check> {
        self.check.as_ref().filter(|check| check.decides)
    }

    fn until(&self) -> Option<Instant> {
        if !self.is_open() {
            return None;
        }
        self.lock().trouble.as_ref().and_then(|trouble| trouble.until)
    }

    /// Opens, unless it is open. Returns the pause and when the trouble began.
    fn open(&self, state: &mut State, reason: &str, now: Instant, by_check: bool) -> (Duration, Instant) {
        let reason = clip(reason, REASON_MOST);
        let decides = self.deciding().is_some();
        let Some(trouble) = &mut state.trouble else {
            let pause = if decides { ASKED_AGAIN } else { FIRST_PAUSE };
            tracing::error!(
                kind = self.kind, reason, first_pause = ?pause,
                "this node can't run jobs of this kind: it leaves them to other nodes, without costing an attempt, and tries again"
            );
            let until = Some(now + pause);
            state.trouble = Some(Trouble { since: now, reason, pause, until, resumed: now, by_check });
            self.turn(true);
            return (pause, now);
        };
        trouble.reason.clone_from(&reason);
        trouble.by_check &= by_check;
        if trouble.until.is_none() {
            trouble.pause = if decides { ASKED_AGAIN } else { (2 * trouble.pause).min(LONGEST_PAUSE) };
            trouble.until = Some(now + trouble.pause);
            tracing::debug!(kind = self.kind, reason, pause = ?trouble.pause, "this node still can't run jobs of this kind");
        }
        self.turn(true);
        (trouble.pause, trouble.since)
    }

    fn close(&self, state: &mut State) {
        if let Some(trouble) = state.trouble.take() {
            tracing::info!(kind = self.kind, after = ?trouble.since.elapsed(), "this node can run jobs of this kind again");
        }
    }

    /// Opens or lets jobs through. `state` is locked.
    fn turn(&self, open: bool) {
        if self.is_open.swap(open, Ordering::AcqRel) == open {
            return;
        }
        if open {
            self.signals.open.fetch_add(1, Ordering::AcqRel);
        } else {
            self.signals.open.fetch_sub(1, Ordering::AcqRel);
        }
        self.signals.revision.fetch_add(1, Ordering::AcqRel);
        self.signals.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Forgets the oldest refusals if there are too many.
    fn forget_some(&mut self) {
        if self.refusals.len() <= REMEMBERED {
            return;
        }
        let mut times: Vec<Instant> = self.refusals.values().map(|refusals| refusals.last).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        self.refusals.retain(|_, refusals| refusals.last >= middle);
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker").field("kind", &self.kind).field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
