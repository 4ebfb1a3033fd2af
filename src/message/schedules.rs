//! Repeating jobs, for applications and operators.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{MessageServices, WakeUp};
use crate::codec::Codecs;
use crate::error::{Error, Result};
use crate::job::{JobId, Limits, NewSchedule};
use crate::store::schedules::{self, Backfilled, Put, ScheduleInfo, ScheduleQuery};
use crate::store::{Hint, OperatorOptions, Schedules, Store};

/// Most schedules on one page.
const PAGE: usize = 1000;

/// The repeating jobs of a store. See [`MessageServices::schedules`].
///
/// ```no_run
/// # async fn f(messages: jobwright::MessageServices) -> jobwright::Result<()> {
/// use jobwright::{NewJob, NewSchedule, Schedule};
///
/// let every_morning = Schedule::in_zone("0 6 * * MON-FRI", "Europe/Berlin")?;
/// messages.schedules().put(NewSchedule::new("report", every_morning, NewJob::json("report", &()))).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "this is a handle, and does nothing by itself"]
pub struct ScheduleService {
    store: Arc<dyn Schedules>,
    wakeup: Arc<WakeUp>,
    codecs: Codecs,
    limits: Limits,
    by: Option<String>,
    dry_run: bool,
}

impl std::fmt::Debug for ScheduleService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScheduleService")
            .field("store", &self.store.describe())
            .field("by", &self.by)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

impl<S: Store> MessageServices<S> {
    /// Returns the repeating jobs, to put, operate and list them. Executors on the same store fire each occurrence once.
    ///
    /// A program that puts its schedules at each start leaves no entry in the audit. Operators use
    /// [`Admin::schedules`](crate::admin::Admin::schedules), which leaves one of each change.
    pub fn schedules(&self) -> ScheduleService {
        let shared = &self.shared;
        ScheduleService::new(shared.schedules.clone(), shared.wakeup.clone(), shared.codecs.clone(), shared.limits)
    }
}

impl ScheduleService {
    pub(crate) fn new(store: Arc<dyn Schedules>, wakeup: Arc<WakeUp>, codecs: Codecs, limits: Limits) -> Self {
        Self { store, wakeup, codecs, limits, by: None, dry_run: false }
    }

    /// Refuses all changes but a [`backfill`](Self::backfill), which it only counts.
    pub(crate) fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    fn meant(&self, what: &str) -> Result<()> {
        if self.dry_run { Err(Error::no_dry_run(what)) } else { Ok(()) }
    }

    /// Names who makes the following calls, for the audit log: each change, `run` and `backfill` leaves an entry. At most 200 bytes.
    pub fn by(mut self, name: impl Into<String>) -> Self {
        self.by = Some(name.into());
        self
    }

    /// Stores a schedule, in place of one with the same name if there is one. It is safe to call at each start of a program. The next
    /// occurrence stays as it is unless schedule, zone, end or number of times changed. A paused schedule stays paused.
    ///
    /// # Errors
    /// When the schedule or its job is refused, or the store can't be reached.
    pub async fn put(&self, schedule: NewSchedule) -> Result<Put> {
        self.put_if(schedule, None).await
    }

    /// Stores a schedule, but only in place of the [version](ScheduleInfo::version) that the caller has seen.
    ///
    /// # Errors
    /// Also when it was changed since.
    #[doc(hidden)]
    pub async fn put_seen(&self, schedule: NewSchedule, seen: i64) -> Result<Put> {
        self.put_if(schedule, Some(seen)).await
    }

    async fn put_if(&self, schedule: NewSchedule, seen: Option<i64>) -> Result<Put> {
        self.meant("put a schedule")?;
        let spec = schedule.validate(self.limits)?;
        let stored = if self.codecs.is_empty() { None } else { schedules::get(&*self.store, &spec.name).await? };
        let spec = self.codecs.schedule(spec, stored.as_ref().map(|stored| &stored.spec))?;
        let mut put = schedules::put(&*self.store, &spec, seen, self.by.as_deref()).await?;
        put.schedule = self.codecs.plain_schedule(put.schedule);
        self.wakeup.notify([Hint::Schedule]);
        Ok(put)
    }

    /// Stops a schedule until it is resumed. Returns `false` if it was paused already.
    ///
    /// # Errors
    /// When there is no schedule of this name.
    pub async fn pause(&self, name: &str) -> Result<bool> {
        self.meant("pause a schedule")?;
        schedules::pause(&*self.store, name, self.by.as_deref()).await
    }

    /// Resumes a schedule with the first occurrence from now. Returns `false` if it was not paused.
    ///
    /// # Errors
    /// When there is no schedule of this name.
    pub async fn resume(&self, name: &str) -> Result<bool> {
        self.meant("resume a schedule")?;
        let resumed = schedules::resume(&*self.store, name, self.by.as_deref()).await?;
        self.wakeup.notify([Hint::Schedule]);
        Ok(resumed)
    }

    /// Removes a schedule; jobs it has sent stay. Returns `false` if there was none of this name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn delete(&self, name: &str) -> Result<bool> {
        self.meant("delete a schedule")?;
        schedules::delete(&*self.store, name, self.by.as_deref()).await
    }

    /// Sends a job of a schedule now, in addition to its occurrences, even if the schedule is paused or one of its jobs still runs.
    ///
    /// # Errors
    /// When there is no schedule of this name.
    pub async fn run(&self, name: &str) -> Result<JobId> {
        self.meant("run a schedule")?;
        let (id, hint) = schedules::run_now(&*self.store, name, self.by.as_deref()).await?;
        self.wakeup.notify([hint]);
        Ok(id)
    }

    /// Sends the jobs of all occurrences from `from` (inclusive) to `to` (exclusive), including those that were sent before, but not where
    /// the job of an occurrence still exists. At most 10,000.
    ///
    /// # Errors
    /// When there is no schedule of this name, `to` is in the future, or there are too many occurrences.
    pub async fn backfill(&self, name: &str, from: Timestamp, to: Timestamp) -> Result<Backfilled> {
        self.fill_in(name, (from, to), self.dry_run).await
    }

    /// Counts what [`backfill`](Self::backfill) would send.
    ///
    /// # Errors
    /// As for [`backfill`](Self::backfill).
    #[doc(hidden)]
    pub async fn count_backfill(&self, name: &str, from: Timestamp, to: Timestamp) -> Result<Backfilled> {
        self.fill_in(name, (from, to), true).await
    }

    async fn fill_in(&self, name: &str, (from, to): (Timestamp, Timestamp), dry_run: bool) -> Result<Backfilled> {
        let operator = OperatorOptions { dry_run, by: self.by.as_deref(), ..OperatorOptions::default() };
        let done = schedules::backfill(&*self.store, name, (from, to), operator).await?;
        if done.jobs > 0 {
            self.wakeup.notify([done.hint.clone()]);
        }
        Ok(done)
    }

    /// Returns one schedule; `None` if there is none of this name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn get(&self, name: &str) -> Result<Option<ScheduleInfo>> {
        Ok(schedules::get(&*self.store, name).await?.map(|schedule| self.codecs.plain_schedule(schedule)))
    }

    /// Returns all schedules, ordered by name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn list(&self) -> Result<Vec<ScheduleInfo>> {
        let mut all = Vec::new();
        self.each(|_, schedule| all.push(self.codecs.plain_schedule(schedule))).await?;
        Ok(all)
    }

    /// Calls `take` with each schedule as it is stored, and the database's time when it was read.
    async fn each(&self, mut take: impl FnMut(Timestamp, ScheduleInfo) + Send) -> Result<()> {
        let mut after: Option<String> = None;
        loop {
            let page = ScheduleQuery::Page { after: after.as_deref(), limit: PAGE };
            let (now, page) = self.store.read_schedules(page).await?;
            // Not "less than a page": unreadable rows are left out of a page.
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.spec.name.clone());
            for schedule in page {
                take(now, schedule);
            }
        }
    }

    /// Returns schedules that are due but have not fired yet, the longest overdue first, at most `limit`, and for how long each has been. It is
    /// normal to see some for a moment.
    ///
    /// # Errors
    /// When the store can't be reached.
    #[doc(hidden)]
    pub async fn overdue(&self, limit: usize) -> Result<Vec<(ScheduleInfo, Duration)>> {
        let (now, due) = self.store.read_schedules(ScheduleQuery::Due(limit)).await?;
        let late = |schedule: ScheduleInfo| {
            let next = schedule.next_at?;
            Some((
                self.codecs.plain_schedule(schedule),
                Duration::try_from(now.duration_since(next)).unwrap_or_default(),
            ))
        };
        Ok(due.into_iter().filter_map(late).collect())
    }

    /// Returns schedules whose next occurrence lies later than there is one, because the database's clock was ahead once, and by how much. An
    /// executor repairs them within minutes.
    ///
    /// # Errors
    /// When the store can't be reached.
    #[doc(hidden)]
    pub async fn clock_skew(&self) -> Result<Vec<(ScheduleInfo, Duration)>> {
        let mut skewed = Vec::new();
        self.each(|now, schedule| {
            let ahead = schedule.computed_again(now).and(schedule.next_at).map(|next| next.duration_since(now));
            if let Some(Ok(ahead)) = ahead.map(Duration::try_from) {
                skewed.push((self.codecs.plain_schedule(schedule), ahead));
            }
        })
        .await?;
        Ok(skewed)
    }
}
