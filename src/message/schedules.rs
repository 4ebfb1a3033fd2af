//! Repeating jobs, for applications.

use jiff::Timestamp;

use super::MessageServices;
use crate::error::Result;
use crate::job::{JobId, NewSchedule};
use crate::store::schedules::{self, Backfilled, Put, ScheduleInfo, ScheduleQuery};
use crate::store::{Hint, JobStore, OperatorOptions, Store};

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
#[must_use = "this is a handle, and does nothing by itself"]
pub struct ScheduleService<'a, S: Store> {
    messages: &'a MessageServices<S>,
    by: Option<String>,
}

impl<S: Store> MessageServices<S> {
    /// Returns the repeating jobs, to put, operate and list them. Executors on the same store fire each occurrence once.
    pub fn schedules(&self) -> ScheduleService<'_, S> {
        ScheduleService { messages: self, by: None }
    }
}

impl<S: Store> ScheduleService<'_, S> {
    fn jobs(&self) -> &dyn JobStore {
        &*self.messages.shared.jobs
    }

    /// Names the operator of the following calls, for the audit log: each change, `run` and `backfill` leaves an entry. At most 200 bytes.
    /// Programs that put their schedules at each start need no name.
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
    pub async fn put_seen(&self, schedule: NewSchedule, seen: i64) -> Result<Put> {
        self.put_if(schedule, Some(seen)).await
    }

    async fn put_if(&self, schedule: NewSchedule, seen: Option<i64>) -> Result<Put> {
        let spec = schedule.validate(self.messages.shared.limits)?;
        let stored =
            if self.messages.shared.codecs.is_empty() { None } else { schedules::get(self.jobs(), &spec.name).await? };
        let spec = self.messages.shared.codecs.schedule(spec, stored.as_ref().map(|stored| &stored.spec))?;
        let mut put = schedules::put(self.jobs(), &spec, seen, self.by.as_deref()).await?;
        put.schedule = self.messages.shared.codecs.plain_schedule(put.schedule);
        self.messages.shared.wakeup.notify([Hint::Schedule]);
        Ok(put)
    }

    /// Stops a schedule until it is resumed. Returns `false` if it was paused already.
    ///
    /// # Errors
    /// When there is no schedule of this name.
    pub async fn pause(&self, name: &str) -> Result<bool> {
        schedules::pause(self.jobs(), name, self.by.as_deref()).await
    }

    /// Resumes a schedule with the first occurrence from now. Returns `false` if it was not paused.
    ///
    /// # Errors
    /// When there is no schedule of this name.
    pub async fn resume(&self, name: &str) -> Result<bool> {
        let resumed = schedules::resume(self.jobs(), name, self.by.as_deref()).await?;
        self.messages.shared.wakeup.notify([Hint::Schedule]);
        Ok(resumed)
    }

    /// Removes a schedule; jobs it has sent stay. Returns `false` if there was none of this name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn delete(&self, name: &str) -> Result<bool> {
        schedules::delete(self.jobs(), name, self.by.as_deref()).await
    }

    /// Sends a job of a schedule now, in addition to its occurrences, even if the schedule is paused or one of its jobs still runs.
    ///
    /// # Errors
    /// When there is no schedule of this name.
    pub async fn run(&self, name: &str) -> Result<JobId> {
        let (id, hint) = schedules::run_now(self.jobs(), name, self.by.as_deref()).await?;
        self.messages.shared.wakeup.notify([hint]);
        Ok(id)
    }

    /// Sends the jobs of all occurrences from `from` (inclusive) to `to` (exclusive), including those that were sent before, but not where
    /// the job of an occurrence still exists. At most 10,000. With `dry_run` it only counts them.
    ///
    /// # Errors
    /// When there is no schedule of this name, `to` is in the future, or there are too many occurrences.
    pub async fn backfill(&self, name: &str, from: Timestamp, to: Timestamp, dry_run: bool) -> Result<Backfilled> {
        let operator = OperatorOptions { dry_run, by: self.by.as_deref() };
        let done = schedules::backfill(self.jobs(), name, (from, to), operator).await?;
        if done.jobs > 0 {
            self.messages.shared.wakeup.notify([done.hint.clone()]);
        }
        Ok(done)
    }

    /// Returns one schedule; `None` if there is none of this name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn get(&self, name: &str) -> Result<Option<ScheduleInfo>> {
        Ok(schedules::get(self.jobs(), name)
            .await?
            .map(|schedule| self.messages.shared.codecs.plain_schedule(schedule)))
    }

    /// Returns all schedules, ordered by name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn list(&self) -> Result<Vec<ScheduleInfo>> {
        let mut all: Vec<ScheduleInfo> = Vec::new();
        loop {
            let after = all.last().map(|last| last.spec.name.clone());
            let (_, page) =
                self.jobs().read_schedules(ScheduleQuery::Page { after: after.as_deref(), limit: PAGE }).await?;
            // Not "less than a page": unreadable rows are left out of a page.
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page.into_iter().map(|schedule| self.messages.shared.codecs.plain_schedule(schedule)));
        }
    }
}
