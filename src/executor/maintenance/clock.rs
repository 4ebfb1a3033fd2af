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

/// Compares the database's clock with a monotonic one.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    last: Option<(Instant, Timestamp)>,
}

impl ClockWatch {
    /// Returns by how much the clock was set since the last call; negative is backwards. `asked` is an instant just before it was read.
    pub(crate) fn look(&mut self, asked: Instant, now: Timestamp) -> Option<SignedDuration> {
        let (before, then) = self.last.replace((asked, now))?;
        let passed = SignedDuration::try_from(asked.duration_since(before)).ok()?;
        let step = now.duration_since(then).checked_sub(passed)?;
        (step.abs() > STEP).then_some(step)
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
            "repaired what lay ahead of the database's clock: that clock was ahead once"
        );
    }
    let schedules = repair_clock(schedules).await?;
    if !schedules.is_empty() {
        tracing::warn!(
            ?schedules,
            "computed the next occurrence anew: it lay later than there is one, because the database's clock was ahead"
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

    #[test]
    fn a_step_is_told_and_time_that_passes_is_not() {
        let (began, clock) = (Instant::now(), Timestamp::now());
        let mut watch = ClockWatch::default();
        let mut look = |after: u64, clock: Timestamp| watch.look(began + Duration::from_secs(after), clock);
        let at = |seconds: i64| clock.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        assert_eq!(look(0, at(0)), None, "there is nothing to compare it with");
        assert_eq!(look(1000, at(1001)), None);
        assert_eq!(look(1001, at(4602)), Some(SignedDuration::from_secs(3600)));
        assert_eq!(look(1002, at(4603)), None, "told once");
        assert_eq!(look(1003, at(1004)), Some(SignedDuration::from_secs(-3600)));
    }
}
