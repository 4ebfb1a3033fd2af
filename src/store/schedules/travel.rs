//! For the test kit: schedules as seen by a clock that is ahead of the database's.
//!
//! The due date of a timer can be moved to let time pass. An occurrence is a point of the calendar and can't: so the clock moves.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{FireOutcome, Firing, ScheduleInfo, ScheduleQuery};
use crate::config::HistoryConfig;
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::{AuditNote, Outage, Schedules, StoreInfo};

/// How many schedules are read at once.
const PAGE: usize = 1000;

/// The schedules of a store, by a clock that a test can put forward.
pub(crate) struct TravelledSchedules {
    store: Arc<dyn Schedules>,
    /// How far its clock is ahead, in microseconds.
    ahead: AtomicU64,
}

impl fmt::Debug for TravelledSchedules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TravelledSchedules").field("ahead", &self.ahead()).finish_non_exhaustive()
    }
}

impl TravelledSchedules {
    pub(crate) fn new(store: Arc<dyn Schedules>) -> Self {
        Self { store, ahead: AtomicU64::new(0) }
    }

    /// Puts its clock forward.
    pub(crate) fn travel(&self, by: Duration) {
        self.ahead.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    fn ahead(&self) -> Duration {
        Duration::from_micros(self.ahead.load(Ordering::SeqCst))
    }

    /// Returns the time by its clock, and all schedules.
    pub(crate) async fn all(&self) -> Result<(Timestamp, Vec<ScheduleInfo>)> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|last: &ScheduleInfo| last.spec.name.clone());
            let page = ScheduleQuery::Page { after: after.as_deref(), limit: PAGE };
            let (now, page) = self.store.read_schedules(page).await?;
            // Not "less than a page": unreadable rows are left out of a page.
            if page.is_empty() {
                return Ok((later(now, self.ahead()), all));
            }
            all.extend(page);
        }
    }
}

/// The time is at most the largest one there is.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl StoreInfo for TravelledSchedules {
    fn describe(&self) -> String {
        self.store.describe()
    }

    fn outage(&self) -> Option<&Arc<Outage>> {
        self.store.outage()
    }

    fn is_single_writer(&self) -> bool {
        self.store.is_single_writer()
    }

    fn history_config(&self) -> HistoryConfig {
        self.store.history_config()
    }
}

#[async_trait]
impl Schedules for TravelledSchedules {
    fn has_own_clock(&self) -> bool {
        true
    }

    async fn next_schedule(&self) -> Result<Option<Duration>> {
        Ok(self.store.next_schedule().await?.map(|next| next.saturating_sub(self.ahead())))
    }

    async fn read_schedules(&self, which: ScheduleQuery<'_>) -> Result<(Timestamp, Vec<ScheduleInfo>)> {
        let ScheduleQuery::Due(limit) = which else {
            let (now, found) = self.store.read_schedules(which).await?;
            return Ok((later(now, self.ahead()), found));
        };
        let (now, mut due) = self.all().await?;
        due.retain(|schedule| schedule.is_due(now));
        due.sort_by_key(|schedule| schedule.next_at);
        due.truncate(limit);
        Ok((now, due))
    }

    async fn write_schedule(
        &self,
        schedule: &ScheduleInfo,
        seen: Option<i64>,
        note: Option<&AuditNote<'_>>,
    ) -> Result<bool> {
        self.store.write_schedule(schedule, seen, note).await
    }

    async fn delete_schedules(&self, names: &[String], note: Option<&AuditNote<'_>>) -> Result<u64> {
        self.store.delete_schedules(names, note).await
    }

    async fn send_of_schedule(&self, jobs: &[JobMessage], note: Option<&mut AuditNote<'_>>) -> Result<u64> {
        self.store.send_of_schedule(jobs, note).await
    }

    async fn fire_schedules(&self, firings: &[Firing]) -> Result<Vec<FireOutcome>> {
        self.store.fire_schedules(firings).await
    }
}
