//! Schedules whose occurrences come while a test lets time pass.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::Result;
use crate::job::{JobId, SCHEDULED_AT};
use crate::store::Schedules;
use crate::store::schedules::travel::later;
use crate::store::schedules::{FireOutcome, Firing, ScheduleInfo, TravelledSchedules, plan_due};

/// The most jobs sent in one transaction, as in an executor.
const BATCH: usize = 1000;

/// An occurrence of a schedule in the time that a [drain](super::Runner::drain_through) let pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// The name of the schedule.
    pub schedule: String,
    /// When it was due.
    pub at: Timestamp,
    /// The job that it sent; `None` = it sent none, because it was missed and its schedule skips those, or because the job before was not over
    /// and its schedule forbids overlap.
    pub job: Option<JobId>,
}

impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedule, at, job } = self;
        match job {
            Some(_) => write!(f, "schedule {schedule}: due at {at}, sent a job"),
            None => write!(
                f,
                "schedule {schedule}: due at {at}, SENT NOTHING: it was missed, or the previous job has not ended"
            ),
        }
    }
}

/// Fires schedules while a test lets time pass. An executor compares their occurrences with its clock; here each is fired at its own time,
/// however long the test takes. So none is late, and two never become one.
pub(super) struct Firings {
    schedules: Arc<TravelledSchedules>,
    /// No occurrence after this time is fired.
    end: Timestamp,
    /// The time of the occurrences that are fired next.
    at: Timestamp,
}

impl Firings {
    /// Begins with the occurrences that have come already.
    pub(super) async fn begin(schedules: Arc<TravelledSchedules>, ahead: Duration) -> Result<Self> {
        let (now, _) = schedules.all().await?;
        Ok(Self { schedules, end: later(now, ahead), at: now })
    }

    /// Returns how long it is until the next occurrence. [`skip`](Self::skip) goes there.
    pub(super) async fn next(&self) -> Result<Option<(Duration, Timestamp)>> {
        let (now, all) = self.schedules.all().await?;
        let next = all.iter().filter(|schedule| !schedule.paused).filter_map(|schedule| schedule.next_at).min();
        Ok(next
            .filter(|next| *next <= self.end)
            // Zero: the test itself took longer.
            .map(|next| (Duration::try_from(next.duration_since(now)).unwrap_or_default(), next)))
    }

    /// Goes to an occurrence.
    pub(super) fn skip(&mut self, to: Timestamp) {
        self.at = to;
    }

    /// Fires the schedules that are due, and returns their occurrences; none once all are fired.
    pub(super) async fn fire(&self) -> Result<Vec<Occurrence>> {
        let (_, mut due) = self.schedules.all().await?;
        due.retain(|schedule: &ScheduleInfo| schedule.is_due(self.at));
        let firings = plan_due(&due, self.at, BATCH);
        if firings.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes = self.schedules.fire_schedules(&firings).await?;
        Ok(firings.iter().zip(outcomes).flat_map(|(firing, outcome)| occurrences(firing, outcome)).collect())
    }
}

fn occurrences(firing: &Firing, outcome: FireOutcome) -> Vec<Occurrence> {
    let schedule = || firing.name.clone();
    let sent = firing.jobs.iter().map(|job| {
        let at = job.headers.get(SCHEDULED_AT).and_then(|at| at.parse().ok());
        Occurrence { schedule: schedule(), at: at.unwrap_or(firing.due), job: Some(job.id) }
    });
    match outcome {
        // Another node fired it.
        FireOutcome::Lost => Vec::new(),
        FireOutcome::Sent if !firing.jobs.is_empty() => sent.collect(),
        FireOutcome::Sent | FireOutcome::Skipped => {
            vec![Occurrence { schedule: schedule(), at: firing.due, job: None }]
        }
    }
}
