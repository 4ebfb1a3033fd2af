//! Schedules whose next occurrence was computed by a clock that was ahead.

use jiff::Timestamp;

use super::{ScheduleInfo, Which};
use crate::error::Result;
use crate::job::Misfire;
use crate::store::JobStore;

/// Schedules read at once.
const PAGE: usize = 100;

impl ScheduleInfo {
    /// The next occurrence after this moment, when one job more was sent for each of `sent`.
    ///
    /// What has happened does not happen again, as far as is known: where each occurrence counts, all up to the last one have; of others only
    /// that one is known.
    fn next_from(&self, now: Timestamp, anchor: Timestamp) -> Option<Timestamp> {
        let mut spec = self.spec.clone();
        spec.schedule = spec.schedule.counted_from(anchor);
        match self.last_at.filter(|last| *last > now) {
            Some(last) if spec.misfire == Misfire::All => spec.next(last, self.fired),
            last => spec
                .next(now, self.fired)
                .and_then(|next| if Some(next) == last { spec.next(next, self.fired) } else { Some(next) }),
        }
    }

    /// How it has to stand, if its next occurrence lies later than the next one there is: the clock was ahead when that was computed.
    /// `None`: all is well.
    pub fn computed_again(&self, now: Timestamp) -> Option<Self> {
        let at = self.next_at.filter(|at| *at > now && !self.paused)?;
        // Nothing was put in the future.
        let anchor = self.anchor.min(now);
        let next = self.next_from(now, anchor).filter(|next| *next < at)?;
        let mut again = Self { anchor, next_at: Some(next), version: self.version + 1, ..self.clone() };
        again.spec.schedule = again.spec.schedule.counted_from(anchor);
        Some(again)
    }
}

/// Computes the next occurrence of schedules anew that lies later than it can, because the clock was ahead when it was computed. Safe to repeat
/// and from many nodes: one that was changed meanwhile is left alone. Returns the names of those that it changed.
pub async fn set_right(jobs: &dyn JobStore) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = Which::Page { after: after.as_deref(), limit: PAGE };
        let (now, found) = jobs.read_schedules(page).await?;
        for schedule in &found {
            if let Some(again) = schedule.computed_again(now)
                && jobs.write_schedule(&again, Some(schedule.version), None).await?
            {
                changed.push(schedule.spec.name.clone());
            }
        }
        // A row that can't be read here makes a page shorter: then the rest is another node's, as that row is.
        match found.into_iter().nth(PAGE - 1) {
            Some(last) => after = Some(last.spec.name),
            None => return Ok(changed),
        }
    }
}
