//! Repeating jobs, for applications.

use jiff::Timestamp;

use super::MessageServices;
use crate::error::Result;
use crate::job::{JobId, NewSchedule};
use crate::store::schedules::{self, Backfilled, Put, ScheduleInfo, Which};
use crate::store::{Hint, JobStore, Order, Store};

/// Most schedules of one page.
const PAGE: usize = 1000;

/// The repeating jobs of a store: see [`MessageServices::schedules`].
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
    /// Puts, steers and lists repeating jobs. Every executor on the same store lets them happen, each occurrence once.
    pub fn schedules(&self) -> ScheduleService<'_, S> {
        ScheduleService { messages: self, by: None }
    }
}

impl<S: Store> ScheduleService<'_, S> {
    fn jobs(&self) -> &dyn JobStore {
        &*self.messages.shared.jobs
    }

    /// Who does what follows, for the audit: each change, `run` and `backfill` leaves an entry. At most 200 bytes. Programs that put
    /// their schedules at each start need no name.
    pub fn by(mut self, name: impl Into<String>) -> Self {
        self.by = Some(name.into());
        self
    }

    /// Keeps a schedule, in place of the one of that name if there is one: safe to call at each start of a program. The next
    /// occurrence stays as it is unless schedule, zone, end or number of times changed; a paused schedule stays paused.
    ///
    /// # Errors
    /// When the schedule or its job is refused, or the store can't be reached.
    pub async fn put(&self, schedule: NewSchedule) -> Result<Put> {
        self.put_if(schedule, None).await
    }

    /// The same, but only in place of the [version](ScheduleInfo::version) that was seen.
    ///
    /// # Errors
    /// Also when somebody else has changed it since.
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
        self.messages.shared.wakeup.tell([Hint::Schedule]);
        Ok(put)
    }

    /// Stops a schedule until it is resumed. `false`: it was paused already.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn pause(&self, name: &str) -> Result<bool> {
        schedules::pause(self.jobs(), name, self.by.as_deref()).await
    }

    /// Lets a schedule go on with the first occurrence from now. `false`: it was not paused.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn resume(&self, name: &str) -> Result<bool> {
        let resumed = schedules::resume(self.jobs(), name, self.by.as_deref()).await?;
        self.messages.shared.wakeup.tell([Hint::Schedule]);
        Ok(resumed)
    }

    /// Removes a schedule; jobs it has sent stay. `false`: there was none of this name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn delete(&self, name: &str) -> Result<bool> {
        schedules::delete(self.jobs(), name, self.by.as_deref()).await
    }

    /// Sends a job of a schedule now, beside its occurrences, whether or not it is paused or a job of it still runs.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn run(&self, name: &str) -> Result<JobId> {
        let (id, hint) = schedules::run_now(self.jobs(), name, self.by.as_deref()).await?;
        self.messages.shared.wakeup.tell([hint]);
        Ok(id)
    }

    /// Sends the jobs of all occurrences from `from` up to `to`, without that moment, also of those that have happened; but not
    /// where the job of an occurrence is still there. At most 10,000. `dry_run`: only counts them.
    ///
    /// # Errors
    /// When there is none of this name, `to` is in the future, or there are too many.
    pub async fn backfill(&self, name: &str, from: Timestamp, to: Timestamp, dry_run: bool) -> Result<Backfilled> {
        let order = Order { dry_run, by: self.by.as_deref() };
        let done = schedules::backfill(self.jobs(), name, (from, to), order).await?;
        if done.jobs > 0 {
            self.messages.shared.wakeup.tell([done.hint.clone()]);
        }
        Ok(done)
    }

    /// One schedule; `None` = there is none of this name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn get(&self, name: &str) -> Result<Option<ScheduleInfo>> {
        Ok(schedules::get(self.jobs(), name)
            .await?
            .map(|schedule| self.messages.shared.codecs.plain_schedule(schedule)))
    }

    /// All schedules, by name.
    ///
    /// # Errors
    /// When the store can't be reached.
    pub async fn list(&self) -> Result<Vec<ScheduleInfo>> {
        let mut all: Vec<ScheduleInfo> = Vec::new();
        loop {
            let after = all.last().map(|last| last.spec.name.clone());
            let (_, page) = self.jobs().read_schedules(Which::Page { after: after.as_deref(), limit: PAGE }).await?;
            // Not "less than a page": rows that can't be read here are left out.
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page.into_iter().map(|schedule| self.messages.shared.codecs.plain_schedule(schedule)));
        }
    }
}
