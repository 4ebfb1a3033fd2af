//! Notices when the database's clock is set, and repairs times that it wrote while it was ahead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::backoff::jitter;
use crate::error::Result;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::message::WakeUp;
use crate::store::schedules::repair_clock;
use crate::store::{Hint, Maintenance, Schedules};

/// A clock that deviates by less between two checks was not set: its rate was corrected, or the answer took a while.
const STEP: SignedDuration = SignedDuration::from_secs(2);
/// The first repair after the start, because the clock may have been set while no node ran. Not at once, when there are jobs to claim.
const FIRST: Duration = Duration::from_secs(2);
/// The interval of further repairs, for changes that went unnoticed: another server that answers, or many small steps.
pub(crate) const INTERVAL: Duration = Duration::from_secs(600);

/// How long statements that began before the clock was set may go on to write times of the old one.
const STRAGGLERS: Duration = Duration::from_secs(5);

/// Compares the database's clock with a monotonic one.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    last: Option<Reading>,
    /// When times are to be repaired once more.
    again: Option<Instant>,
}

/// A time that was read from the database's clock, at some instant between the question and its answer.
#[derive(Clone, Copy, Debug)]
struct Reading {
    asked: Instant,
    answered: Instant,
    clock: Timestamp,
}

impl ClockWatch {
    /// Returns by how much the clock was set since the last call, at least; negative is backwards. The clock was read between the two instants. An
    /// answer that a lock or a frozen server held up says little about the time in between, so only what lies outside is a step.
    pub(crate) fn look(&mut self, asked: Instant, answered: Instant, clock: Timestamp) -> Option<SignedDuration> {
        let now = Reading { asked, answered, clock };
        let before = self.last.replace(now)?;
        let span = |from: Instant, to: Instant| SignedDuration::try_from(to.saturating_duration_since(from)).ok();
        let (least, most) = (span(before.answered, now.asked)?, span(before.asked, now.answered)?);
        let passed = now.clock.duration_since(before.clock);
        let step = if passed > most {
            passed.checked_sub(most)?
        } else {
            passed.checked_sub(least)?.min(SignedDuration::ZERO)
        };
        let step = (step.abs() > STEP).then_some(step)?;
        self.again = Some(answered + STRAGGLERS);
        Some(step)
    }

    /// Returns, once after each step, that statements which began before it have ended, so that times are to be repaired again.
    pub(crate) fn is_due_again(&mut self, now: Instant) -> bool {
        self.again.take_if(|at| *at <= now).is_some()
    }
}

/// Repairs times after the start, at an interval, and when it is signalled that a clock was set. Every node does.
pub(crate) struct ClockRepair {
    pub(crate) store: Arc<dyn Maintenance>,
    pub(crate) schedules: Arc<dyn Schedules>,
    pub(crate) wakeup: Arc<WakeUp>,
}

impl ClockRepair {
    /// Returns how long the first run waits.
    pub(crate) fn first() -> Duration {
        jitter(FIRST)
    }
}

impl Periodic for ClockRepair {
    const FAILED: &'static str = "could not repair timestamps that a wrong clock wrote";

    async fn run(&mut self) -> Result<Next> {
        repair(&*self.store, &*self.schedules, &self.wakeup).await?;
        Ok(Next::After(jitter(INTERVAL)))
    }
}

async fn repair(store: &dyn Maintenance, schedules: &dyn Schedules, wakeup: &WakeUp) -> Result<()> {
    let found = store.repair_clock().await?;
    for ahead in &found {
        tracing::warn!(
            what = ahead.what, rows = ahead.rows, farthest = ?ahead.farthest,
            "repaired timestamps that lay ahead of the database's clock: that clock was ahead once"
        );
    }
    let schedules = repair_clock(schedules).await?;
    if !schedules.is_empty() {
        tracing::warn!(
            ?schedules,
            "computed the next occurrence again: the recorded one was too late, because the database's clock was ahead"
        );
    }
    if !found.is_empty() || !schedules.is_empty() {
        wakeup.notify([Hint::Any, Hint::Schedule]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch, with a clock that shows the same seconds as the instants unless it was set.
    struct Watched {
        watch: ClockWatch,
        began: Instant,
        clock: Timestamp,
    }

    impl Watched {
        fn new() -> Self {
            Self { watch: ClockWatch::default(), began: Instant::now(), clock: Timestamp::now() }
        }

        /// Asks and is answered at these seconds, and reads this second.
        fn look(&mut self, asked: u64, answered: u64, clock: i64) -> Option<i64> {
            let at = |seconds| self.began + Duration::from_secs(seconds);
            let clock = self.clock.checked_add(SignedDuration::from_secs(clock)).unwrap();
            self.watch.look(at(asked), at(answered), clock).map(|step| step.as_secs())
        }
    }

    #[test]
    fn a_step_is_told_and_time_that_passes_is_not() {
        let mut watched = Watched::new();
        assert_eq!(watched.look(0, 0, 0), None, "there is nothing to compare it with");
        assert_eq!(watched.look(1000, 1000, 1001), None);
        assert_eq!(watched.look(1001, 1001, 4602), Some(3600));
        assert_eq!(watched.look(1002, 1002, 4603), None, "told once");
        assert_eq!(watched.look(1003, 1003, 1004), Some(-3600));
    }

    #[test]
    fn times_are_repaired_again_once_when_statements_that_began_before_a_step_have_ended() {
        let mut watched = Watched::new();
        let at = |watched: &Watched, seconds| watched.began + Duration::from_secs(seconds);
        watched.look(0, 0, 0);
        let (now, later) = (at(&watched, 1), at(&watched, 100));
        assert!(!watched.watch.is_due_again(later), "no step");
        assert_eq!(watched.look(1, 1, 301), Some(300));
        assert!(!watched.watch.is_due_again(now));
        assert!(watched.watch.is_due_again(now + STRAGGLERS));
        assert!(!watched.watch.is_due_again(later), "once");
    }

    #[test]
    fn an_answer_that_came_late_is_no_step() {
        // A lock held it up: the clock was read at the start, or at the end.
        for read in [10, 70] {
            let mut watched = Watched::new();
            for (asked, answered, clock) in
                [(0, 0, 0), (10, 70, read), (71, 71, 71), (72, 132, 72), (133, 193, 193), (194, 194, 194)]
            {
                assert_eq!(watched.look(asked, answered, clock), None, "asked at {asked}, read at {read}");
            }
        }
    }

    #[test]
    fn a_step_during_a_late_answer_is_told_as_far_as_it_is_certain() {
        let mut watched = Watched::new();
        assert_eq!(watched.look(0, 0, 0), None);
        assert_eq!(watched.look(1, 11, 3601), Some(3590));
        assert_eq!(watched.look(12, 12, 12), Some(-3590), "and back");
    }
}
