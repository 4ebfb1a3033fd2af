use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::schedules::Firings;
use super::store::travel;
use super::{JobRun, Summary, TestStore};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::executor::ExecutorBuilder;
use crate::executor::manual::ManualExecutor;
use crate::job::{IntoJob, Job, JobError, JobId, NewJob, Outcome};
use crate::message::{MessageService, MessageServices};
use crate::store::schedules::TravelledSchedules;
use crate::store::{JobFilter, JobState, Page, Reason, Store};

/// Longest allowed chain of jobs that send each other.
const DEPTH: usize = 100;
/// Most attempts in one drain.
const MOST: usize = 10_000;
/// Most remaining jobs that a summary lists.
const LEFT: usize = 1000;
/// Of how many of them it says why they wait.
const EXPLAINED: usize = 20;

/// Runs jobs on demand, one after the other, in the calling task. It uses the handlers, middleware, claims and records of the executor that
/// the builder would start, without its background tasks.
///
/// It works through the queues in the order of their names, one job at a time. Retries are real: a job that failed is due again after its
/// delay. See [`drain_through`](Self::drain_through).
pub struct Runner<S: Store> {
    hand: ManualExecutor<S>,
    schedules: Arc<TravelledSchedules>,
    family: Arc<Family>,
    depth: usize,
    most: usize,
}

impl<S: Store> fmt::Debug for Runner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("messages", self.messages())
            .field("depth", &self.depth)
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Runner<S> {
    /// Creates a runner that runs what this executor would run: pass the builder that the program starts its executor with. It works on the
    /// database of the builder's message services, next to any executor there. A [`TestDatabase`](super::TestDatabase) has no other.
    ///
    /// # Errors
    /// As [`ExecutorBuilder::start`].
    pub async fn new(mut builder: ExecutorBuilder<S>) -> Result<Self> {
        let schedules;
        (builder.messages, schedules) = builder.messages.travelling();
        let family = Arc::new(Family::default());
        let notes = family.clone();
        let hand = ManualExecutor::new(builder, move |inner| Noting { inner, family: notes.clone() }).await?;
        Ok(Self { hand, schedules, family, depth: DEPTH, most: MOST })
    }

    /// Sets how many jobs may have sent each other in a row before a drain gives up. Default 100.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Sets how many attempts one drain runs, and how many occurrences of schedules it fires, before it gives up. Default 10,000 of each.
    #[must_use]
    pub fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Runs the next job that is waiting or due, on its own even if its kind is run in batches. `None` means that this executor has no such
    /// job.
    ///
    /// # Errors
    /// When the database does not answer. [`JobRun::end`] says how the job ended.
    pub async fn work_one(&mut self) -> Result<Option<JobRun>> {
        self.hand.resume();
        self.hand.prepare().await?;
        let ran = self.hand.step(false).await?;
        Ok(ran.into_iter().next().map(|(job, recorded)| JobRun::new(job, recorded)))
    }

    /// Runs every job that is waiting or due, and the jobs that these send, until none is left. A handler's failure is no error here: it is
    /// in the summary. Jobs of a kind whose handler says that this node can't run it ([`JobError::not_here`]) are left until the next call.
    ///
    /// # Errors
    /// When jobs keep sending jobs, or keep coming back, beyond the limits; or when the database does not answer.
    pub async fn drain(&mut self) -> Result<Summary> {
        let mut summary = Summary::default();
        self.hand.resume();
        self.run(&mut summary).await?;
        self.look(&mut summary).await?;
        Ok(summary)
    }

    async fn run(&mut self, summary: &mut Summary) -> Result<()> {
        loop {
            self.hand.prepare().await?;
            // Boxed: the futures of handlers are in it, and tests keep this one on the stack.
            let ran = Box::pin(self.hand.step(true)).await?;
            if ran.is_empty() {
                return Ok(());
            }
            let deepest = ran.iter().map(|(job, _)| self.family.line(job)).max_by_key(Vec::len).unwrap_or_default();
            summary.ran.extend(ran.into_iter().map(|(job, recorded)| JobRun::new(job, recorded)));
            if deepest.len() > self.depth {
                return Err(Error::invalid(format!(
                    "jobs keep sending jobs: {} were sent by each other in a row, the last of them {}; set `depth` if that is meant",
                    deepest.len(),
                    tail(&deepest)
                )));
            }
            if summary.ran.len() >= self.most {
                return Err(Error::invalid(format!(
                    "the drain ran {} attempts and there may be more ({}); set `most` if that is meant",
                    summary.ran.len(),
                    counts(summary.ran.iter().map(|ran| ran.job.kind.as_str()))
                )));
            }
        }
    }

    /// Lists the remaining jobs.
    async fn look(&self, summary: &mut Summary) -> Result<()> {
        let jobs = &self.hand.messages().shared.jobs;
        let page = Page { limit: LEFT, after: None };
        let waiting = JobFilter { states: Some(vec![JobState::Waiting, JobState::Blocked]), ..JobFilter::default() };
        summary.waiting = jobs.list(&waiting, &page).await?;
        summary.timers = jobs.list(&JobFilter::state(JobState::Timer), &page).await?;
        let left_alone = self.hand.left_alone();
        for job in summary.waiting.iter().take(EXPLAINED) {
            let Some(mut why) = self.messages().admin().why(job.id).await? else { continue };
            // An executor writes that into its node's row, and this node has no tasks.
            if let Some((error, _)) = left_alone.get(&job.kind) {
                why.reasons.retain(Reason::lasts);
                let (kind, node, error) = (job.kind.clone(), "here".to_owned(), error.clone());
                why.reasons.push(Reason::LeftAlone { kind, node, error });
            }
            summary.why.push(why);
        }
        Ok(())
    }

    /// Runs the handler of a job that is not sent, inside a context of the test. Middleware, timeouts and panics work as usual, and the
    /// handler's writes and messages go into `cx`. Nothing is committed or rolled back, whatever the outcome. Check the transaction and the
    /// [pending](Context::pending) messages, then drop the context, and nothing is left.
    ///
    /// # Errors
    /// The handler's error; also when there is no handler for the job, or the job is refused.
    pub async fn work_in(&mut self, cx: &mut Context<S>, job: impl IntoJob<S>) -> Result<Outcome, JobError> {
        self.hand.handle(cx, job.into_job()).await?
    }

    /// Sends a job of a schedule now, as [`ScheduleService::run`](crate::ScheduleService::run) does, whether or not an occurrence is due. The
    /// next [`drain`](Self::drain) runs it.
    ///
    /// # Errors
    /// When there is no schedule of this name; the message has the names of those that there are.
    pub async fn fire(&self, schedule: &str) -> Result<JobId> {
        let schedules = self.messages().schedules();
        if schedules.get(schedule).await?.is_none() {
            let known: Vec<String> = schedules.list().await?.into_iter().map(|known| known.spec.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Error::invalid(format!(
                "there is no schedule {schedule:?} to fire; there are schedules: {known}"
            )));
        }
        schedules.run(schedule).await
    }

    /// Returns the message services that handlers run with.
    pub fn messages(&self) -> &MessageServices<S> {
        self.hand.messages()
    }

    /// Leaves the database and releases jobs that a cancelled call may have left claimed. Not needed if the database is removed.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn close(self) -> Result<()> {
        self.hand.close().await
    }
}

impl<S: TestStore> Runner<S> {
    /// Drains repeatedly and moves the clock to the next timer or the next occurrence of a schedule each time, while that is within `ahead`.
    /// So it runs all jobs of that time: retries, delayed jobs, and one for each occurrence of each schedule, by the schedule's own rules for
    /// overlaps, end and number of times ([`Summary::fired`]). Occurrences that had come before are fired first, as missed ones are. Afterwards all of that time
    /// has passed.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
    /// # use jobwright::testing::TestDatabase;
    /// # use jobwright::{NewJob, NewSchedule, Outcome, Schedule};
    /// # use std::time::Duration;
    /// # let db = TestDatabase::sqlite().await?;
    /// let nightly = NewSchedule::new("nightly-report", Schedule::new("0 3 * * *")?, NewJob::json("report", &()));
    /// db.messages().schedules().put(nightly).await?;
    /// let mut runner = db.runner(|executor| executor.handle("report", |_| async { Ok(Outcome::Done) })).await?;
    ///
    /// let summary = runner.drain_through(Duration::from_secs(7 * 24 * 3600)).await?;
    /// assert_eq!(summary.expect_done().fired.len(), 7);
    /// # Ok(()) }
    /// # #[cfg(feature = "sqlite")]
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test()).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`drain`](Self::drain); also when schedules fire more often than [`most`](Self::most) says.
    pub async fn drain_through(&mut self, ahead: Duration) -> Result<Summary> {
        let mut summary = Summary::default();
        let mut left = ahead;
        let mut firings = Firings::begin(self.schedules.clone(), ahead).await?;
        loop {
            self.fire_due(&firings, &mut summary).await?;
            self.run(&mut summary).await?;
            // A little more, because the database's clock has advanced meanwhile, and timers count in microseconds.
            let timer = self.hand.prepare().await?.map(|next| next + Duration::from_millis(1));
            let step = match (firings.next().await?, timer) {
                (Some((until, at)), timer) if timer.is_none_or(|timer| until <= timer) => {
                    firings.skip(at);
                    until.min(left)
                }
                (_, Some(timer)) if timer <= left => timer,
                _ => break,
            };
            travel(self.messages().store(), &self.schedules, step).await?;
            left -= step;
        }
        travel(self.messages().store(), &self.schedules, left).await?;
        self.run(&mut summary).await?;
        self.look(&mut summary).await?;
        Ok(summary)
    }

    async fn fire_due(&self, firings: &Firings, summary: &mut Summary) -> Result<()> {
        loop {
            let fired = firings.fire().await?;
            if fired.is_empty() {
                return Ok(());
            }
            summary.fired.extend(fired);
            if summary.fired.len() >= self.most {
                return Err(Error::invalid(format!(
                    "schedules fired {} times and there may be more ({}); set `most` if that is meant",
                    summary.fired.len(),
                    counts(summary.fired.iter().map(|fired| fired.schedule.as_str()))
                )));
            }
        }
    }
}

/// Records which job sends which.
struct Noting<S: Store> {
    inner: Box<dyn MessageService<S>>,
    family: Arc<Family>,
}

impl<S: Store> MessageService<S> for Noting<S> {
    fn inner(&self) -> Option<&dyn MessageService<S>> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<S>> {
        Some(&mut *self.inner)
    }

    fn send(&mut self, job: NewJob, sender: Option<&Job>) -> Result<JobId> {
        let id = self.inner.send(job, sender)?;
        if let Some(sender) = sender {
            self.family.note(sender, id);
        }
        Ok(id)
    }
}

/// The sender of each job.
#[derive(Default)]
struct Family(Mutex<HashMap<JobId, (JobId, String)>>);

impl Family {
    fn note(&self, sender: &Job, id: JobId) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A given id that is sent again keeps its first sender, so that no job becomes its own ancestor.
        known.entry(id).or_insert_with(|| (sender.id, sender.kind.clone()));
    }

    /// Returns the kinds of the job's ancestors in order, with its own at the end.
    fn line(&self, job: &Job) -> Vec<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = vec![job.kind.clone()];
        let mut at = job.id;
        // A job that sends its own id again would be its own ancestor.
        while let Some((sender, kind)) = known.get(&at).filter(|_| line.len() <= known.len()) {
            line.push(kind.clone());
            at = *sender;
        }
        line.reverse();
        line
    }
}

/// `… → b → a → b`
fn tail(line: &[String]) -> String {
    let from = line.len().saturating_sub(6);
    format!("{}{}", if from > 0 { "… → " } else { "" }, line[from..].join(" → "))
}

/// `3 of a, 1 of b`
fn counts<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_insert(0_usize) += 1;
    }
    let mut text = String::new();
    for (name, count) in counts {
        let _ = write!(text, "{}{count} of {name}", if text.is_empty() { "" } else { ", " });
    }
    text
}
