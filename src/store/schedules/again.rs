//! Repair of schedules whose next occurrence was computed while the clock was ahead.

use jiff::Timestamp;

use super::{ScheduleInfo, ScheduleQuery};
use crate::error::Result;
use crate::job::Misfire;
use crate::store::Schedules;

/// How many schedules are read at once.
const PAGE: usize = 100;

impl ScheduleInfo {
    /// Returns the next occurrence after `now`, with intervals counted from `anchor`.
    ///
    /// Occurrences that have happened do not happen again, as far as they are known. If each occurrence counts ([`Misfire::All`]), all up to the
    /// last one have happened. Otherwise only the last one is known.
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

    /// Returns the repaired schedule if its next occurrence lies later than it should, because the clock was ahead when it was computed.
    /// `None`: nothing is wrong.
    #[doc(hidden)]
    pub fn computed_again(&self, now: Timestamp) -> Option<Self> {
        let at = self.next_at.filter(|at| *at > now && !self.paused)?;
        // No schedule was put in the future.
        let anchor = self.anchor.min(now);
        let next = self.next_from(now, anchor).filter(|next| *next < at)?;
        let mut again = Self { anchor, next_at: Some(next), version: self.version + 1, ..self.clone() };
        again.spec.schedule = again.spec.schedule.counted_from(anchor);
        Some(again)
    }
}

/// Computes the next occurrence again for schedules where it lies later than it should, because the clock was ahead when it was computed. Safe
/// to repeat, and to run on many nodes: a schedule that was changed meanwhile is left alone. Returns the names of the schedules that it changed.
pub async fn repair_clock(jobs: &dyn Schedules) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = ScheduleQuery::Page { after: after.as_deref(), limit: PAGE };
        let (now, found) = jobs.read_schedules(page).await?;
        for schedule in &found {
            if let Some(again) = schedule.computed_again(now)
                && jobs.write_schedule(&again, Some(schedule.version), None).await?
            {
                changed.push(schedule.spec.name.clone());
            }
        }
        // A row that can't be read here makes a page shorter, and ends the loop: then the rest is left to other nodes, as that row is.
        match found.into_iter().nth(PAGE - 1) {
            Some(last) => after = Some(last.spec.name),
            None => return Ok(changed),
        }
    }
}
