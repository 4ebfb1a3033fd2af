use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Ran, Summary, TestStore};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::executor::ExecutorBuilder;
use crate::executor::by_hand::ByHand;
use crate::job::{IntoJob, Job, JobError, JobId, NewJob, Outcome};
use crate::message::{MessageService, MessageServices};
use crate::store::{JobFilter, JobState, Page, Store};

/// How long a chain of jobs that send each other may be.
const DEPTH: usize = 100;
/// Attempts of one drain.
const MOST: usize = 10_000;
/// Jobs that a summary lists as left.
const LEFT: usize = 1000;

/// Runs jobs when it is told to, one after the other, in the calling task: by the handlers, middleware, claims and records of the
/// executor that the builder would start, without its background tasks.
///
/// Queues are worked on in the order of their names, one job at a time. Retries are real: a job that failed is due again after
/// its delay, see [`drain_through`](Self::drain_through).
pub struct Runner<S: Store> {
    hand: ByHand<S>,
    family: Arc<Family>,
    depth: usize,
    most: usize,
}

impl<S: Store> Runner<S> {
    /// Runs what this executor would run: give it the builder that the program starts its own with. Works on the database of
    /// the builder's message services, next to any executor there; a [`TestDatabase`](super::TestDatabase) has nobody else.
    ///
    /// # Errors
    /// As [`ExecutorBuilder::start`].
    pub async fn new(builder: ExecutorBuilder<S>) -> Result<Self> {
        let family = Arc::new(Family::default());
        let notes = family.clone();
        let hand = ByHand::new(builder, move |inner| Noting { inner, family: notes.clone() }).await?;
        Ok(Self { hand, family, depth: DEPTH, most: MOST })
    }

    /// Sets how many jobs may have sent each other in a row before a drain gives up: default 100.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Sets how many attempts one drain runs before it gives up: default 10,000.
    #[must_use]
    pub fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Runs the next job that waits or is due, alone even if its kind is run in batches. `None`: there is none for this executor.
    ///
    /// # Errors
    /// When the database does not answer. How the job ended is in [`Ran::end`].
    pub async fn work_one(&mut self) -> Result<Option<Ran>> {
        self.hand.prepare().await?;
        let ran = self.hand.step(false).await?;
        Ok(ran.into_iter().next().map(|(job, recorded)| Ran::new(job, recorded)))
    }

    /// Runs everything that waits or is due, and what that sends, until nothing is left. Handlers' failures are no error here:
    /// they are in the summary.
    ///
    /// # Errors
    /// When jobs keep sending jobs, or keep coming back, beyond the limits; when the database does not answer.
    pub async fn drain(&mut self) -> Result<Summary> {
        let mut summary = Summary::default();
        self.run(&mut summary).await?;
        self.look(&mut summary).await?;
        Ok(summary)
    }

    async fn run(&mut self, summary: &mut Summary) -> Result<()> {
        loop {
            self.hand.prepare().await?;
            let ran = self.hand.step(true).await?;
            if ran.is_empty() {
                return Ok(());
            }
            let deepest = ran.iter().map(|(job, _)| self.family.line(job)).max_by_key(Vec::len).unwrap_or_default();
            summary.ran.extend(ran.into_iter().map(|(job, recorded)| Ran::new(job, recorded)));
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
                    counts(&summary.ran)
                )));
            }
        }
    }

    /// What is left.
    async fn look(&self, summary: &mut Summary) -> Result<()> {
        let jobs = self.hand.messages().jobs();
        let page = Page { limit: LEFT, after: None };
        let waiting = JobFilter { states: Some(vec![JobState::Waiting, JobState::Blocked]), ..JobFilter::default() };
        summary.waiting = jobs.list(&waiting, &page).await?;
        summary.timers = jobs.list(&JobFilter::state(JobState::Timer), &page).await?;
        Ok(())
    }

    /// Runs the handler of a job that is sent nowhere, inside a context of the test: with middleware, timeout and panics as ever,
    /// with what the handler writes and sends going into `cx`. Nothing is committed or rolled back, whatever the outcome: look at
    /// what is in the transaction and [pending](Context::pending), then drop the context, and nothing is left.
    ///
    /// # Errors
    /// What the handler failed with; also when there is none for it, or the job is refused.
    pub async fn work_in(&mut self, cx: &mut Context<S>, job: impl IntoJob<S>) -> Result<Outcome, JobError> {
        self.hand.handle(cx, job.into_job()).await?
    }

    /// The message services that handlers run with.
    pub fn messages(&self) -> &MessageServices<S> {
        self.hand.messages()
    }

    /// Leaves the database: gives back what a cancelled call may have left claimed. Not needed where the database goes away.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn close(self) -> Result<()> {
        self.hand.close().await
    }
}

impl<S: TestStore> Runner<S> {
    /// Drains, and then again and again with the clock moved to the next timer, as long as that is within `ahead`: what would
    /// happen in that time, retries and delayed jobs included. Afterwards all of it has passed.
    ///
    /// # Errors
    /// As [`drain`](Self::drain).
    pub async fn drain_through(&mut self, ahead: Duration) -> Result<Summary> {
        let mut summary = Summary::default();
        let mut left = ahead;
        loop {
            self.run(&mut summary).await?;
            let next = self.hand.prepare().await?;
            // A little more: the clock of the database has gone on a little by itself, and timers count in microseconds.
            let Some(step) = next.map(|next| next + Duration::from_millis(1)).filter(|step| *step <= left) else {
                break;
            };
            self.hand.messages().store().travel(step).await?;
            left -= step;
        }
        self.hand.messages().store().travel(left).await?;
        self.run(&mut summary).await?;
        self.look(&mut summary).await?;
        Ok(summary)
    }
}

/// Notes who sends what.
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

/// Which job was sent by which.
#[derive(Default)]
struct Family(Mutex<HashMap<JobId, (JobId, String)>>);

impl Family {
    fn note(&self, sender: &Job, id: JobId) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A given id that is sent again keeps its first sender, so that no job becomes its own ancestor.
        known.entry(id).or_insert_with(|| (sender.id, sender.kind.clone()));
    }

    /// The kinds of those that sent each other, and its own at the end.
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

fn counts(ran: &[Ran]) -> String {
    let mut counts = BTreeMap::new();
    for ran in ran {
        *counts.entry(ran.job.kind.as_str()).or_insert(0_usize) += 1;
    }
    let mut text = String::new();
    for (kind, count) in counts {
        let _ = write!(text, "{}{count} of {kind}", if text.is_empty() { "" } else { ", " });
    }
    text
}
