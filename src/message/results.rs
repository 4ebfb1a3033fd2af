//! Waiting for the end of a job, and for the result of its handler.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::MessageServices;
use crate::config::Keep;
use crate::error::{Error, ErrorKind, Result};
use crate::job::JobId;
use crate::store::{HistoryFilter, HistoryOutcome, JobResult, JobState, Store};

/// The first pause between two checks; each further one is half as long again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long the database may take to answer a check, even if the time of the caller is over: the last check begins then.
const LAST_CHECK: Duration = Duration::from_secs(1);

/// The end of a job that a caller waited for.
///
/// A job that has ended has no row any more. What is left is the result of its handler and the [history](crate::config::HistoryConfig),
/// provided that the nodes that end jobs keep all of it. Without them it is known *that* a job is over, and not *how*: a job that is done,
/// one that was cancelled, one that was deleted and one that was never sent look the same.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Awaited {
    /// The job is done, and its handler left this result. Only [`wait_for_result`](MessageServices::wait_for_result) returns it.
    Result(JobResult),
    /// The job is done, according to the history, or because its handler left a result that was not asked for. Otherwise its handler left no
    /// result, or the result has expired.
    Done,
    /// Its handler or an operator cancelled the job, according to the history.
    Cancelled,
    /// An operator deleted the job, according to the history.
    Deleted,
    /// The job became a dead letter, for this reason (`expired` if its time to live ended before it could start). It may be retried.
    Dead(String),
    /// The job does not exist, and the history, which keeps all ends ([`Keep::All`]), does not have it. It was never committed, or it ended
    /// longer ago than history and results are kept, or on a node that keeps less.
    Unknown,
    /// The job does not exist and left no result. Whether it was done, cancelled, deleted or never sent is unknown, because no history is
    /// kept, or only that of failures.
    NotKept,
    /// The job was still waiting or running when the time was over.
    Pending,
}

impl Awaited {
    /// Returns whether the job no longer waits or runs, whatever its end was. A dead letter is over, although an operator may retry it; so is
    /// a job that was never sent.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Pending)
    }
}

/// What a caller waits for.
#[derive(Clone, Copy)]
enum Wanted {
    Result,
    End,
}

impl<S: Store> MessageServices<S> {
    /// Waits for the end of a job and for the result that its handler left ([`JobContext::result`](crate::JobContext::result)), for at most
    /// `timeout`.
    ///
    /// If an executor of this process (one built with these services) runs the job, the caller is notified at once. Otherwise, or if that
    /// notification is missed, this polls the database: first after 20 ms, then less and less often, down to once a second. So a caller
    /// sees the result within a second of the commit, and costs about two small queries a second. It is meant for a few callers that wait
    /// for seconds. For many callers or long waits, use a reply ([`NewJob::reply_to`](crate::NewJob::reply_to)) or a job that the handler
    /// sends.
    ///
    /// # Errors
    /// When the database refuses, or when it does not answer at the end of the time, for which it has a second. An outage that ends before
    /// is waited through.
    pub async fn wait_for_result(&self, id: JobId, timeout: Duration) -> Result<Awaited> {
        self.wait(id, timeout, Wanted::Result).await
    }

    /// Waits until a job is over, for at most `timeout`: done, cancelled, deleted, or a dead letter. A failed attempt that is followed by
    /// another one is no end. Send and commit the job first: one that does not exist is over.
    ///
    /// [`Awaited::is_over`] is the answer. How the job ended is known for a dead letter, for a handler that left a result
    /// ([`Done`](Awaited::Done)), and where the [history](crate::config::HistoryConfig) keeps all ends. Of any other job that is gone, nothing
    /// is left to tell done from cancelled, deleted or never sent: [`NotKept`](Awaited::NotKept).
    ///
    /// It wakes as [`wait_for_result`](Self::wait_for_result) does, and each check is one query that reads nothing but the job's state.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
    /// # use jobwright::testing::TestDatabase;
    /// # use jobwright::{CommandExecutor, NewJob, Outcome};
    /// # use std::time::Duration;
    /// # let db = TestDatabase::sqlite().await?;
    /// # let messages = db.messages();
    /// # let executor = CommandExecutor::builder(messages.clone()).handle("greet", |_| async { Ok(Outcome::Done) }).start().await?;
    /// let id = messages.send(NewJob::json("greet", "Ada")).await?;
    /// assert!(messages.wait_for_end(id, Duration::from_secs(30)).await?.is_over());
    /// # executor.shutdown(Duration::from_secs(30)).await?;
    /// # Ok(()) }
    /// # #[cfg(feature = "sqlite")]
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test()).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`wait_for_result`](Self::wait_for_result).
    pub async fn wait_for_end(&self, id: JobId, timeout: Duration) -> Result<Awaited> {
        self.wait(id, timeout, Wanted::End).await
    }

    async fn wait(&self, id: JobId, timeout: Duration, wanted: Wanted) -> Result<Awaited> {
        let begun = Instant::now();
        // A time that no clock reaches is as good as a year.
        let deadline = begun.checked_add(timeout).unwrap_or(begun + LONGEST_WAIT);
        let mut pause = FIRST_PAUSE;
        let waiter = self.shared.wakeup.job_waiters.wait(id);
        loop {
            let mut signalled = pin!(waiter.signal.notified());
            // Listens before it checks, so that an end in between is not missed.
            signalled.as_mut().enable();
            let answered = deadline.max(Instant::now() + LAST_CHECK);
            let failed = match timeout_at(answered, self.check(id, wanted)).await {
                Ok(Ok(Awaited::Pending)) => None,
                Ok(Err(error)) if error.is_retryable() => Some(error),
                Ok(ended) => return ended,
                Err(_) => Some(self.unanswered(id)),
            };
            if Instant::now() >= deadline {
                return failed.map_or(Ok(Awaited::Pending), Err);
            }
            tokio::select! {
                () = signalled => {}
                () = tokio::time::sleep_until((Instant::now() + pause).min(deadline)) => {
                    pause = (pause * 3 / 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn unanswered(&self, id: JobId) -> Error {
        Error::new(
            ErrorKind::Timeout,
            format!(
                "whether the job {id} is over is unknown: {} did not answer within the time that the caller waits; ask again, or wait longer",
                self.shared.jobs.describe()
            ),
        )
    }

    async fn check(&self, id: JobId, wanted: Wanted) -> Result<Awaited> {
        match wanted {
            Wanted::Result => self.find_result(id).await,
            Wanted::End => match self.shared.jobs.job_state(id).await? {
                Some(state) if state != JobState::Dead => Ok(Awaited::Pending),
                // Asked once, because it is over: for the reason, or how it ended.
                _ => Ok(match self.find_result(id).await? {
                    Awaited::Result(_) => Awaited::Done,
                    other => other,
                }),
            },
        }
    }

    async fn find_result(&self, id: JobId) -> Result<Awaited> {
        let detail = self.shared.jobs.show(id).await?.map(|detail| self.shared.codecs.detail(detail));
        if let Some(detail) = &detail
            && detail.summary.state == JobState::Dead
        {
            return Ok(Awaited::Dead(detail.dead.as_ref().map(|(_, reason)| reason.clone()).unwrap_or_default()));
        }
        if detail.is_some() {
            return Ok(Awaited::Pending);
        }
        // Asked second, because the result was committed together with the end of the job.
        if let Some(result) = self.shared.jobs.result(id).await? {
            return Ok(Awaited::Result(self.shared.codecs.result(result)?));
        }
        self.search_history(id).await
    }

    /// Finds out how a job ended that left no row and no result.
    async fn search_history(&self, id: JobId) -> Result<Awaited> {
        let ends = vec![
            HistoryOutcome::Done,
            HistoryOutcome::Cancelled,
            HistoryOutcome::Deleted,
            HistoryOutcome::Dead,
            HistoryOutcome::Expired,
        ];
        let filter = HistoryFilter { id: Some(id), outcomes: Some(ends), ..HistoryFilter::default() };
        // Read whatever this process keeps: the nodes that end jobs write the history.
        let last = self.shared.jobs.history(&filter, 1).await?.pop();
        let all = self.shared.jobs.history_config().keep == Keep::All;
        Ok(
            match last
                .map(|entry| (entry.outcome, entry.error.map(|error| self.shared.codecs.read_text(error, &entry.kind))))
            {
                Some((HistoryOutcome::Done, _)) => Awaited::Done,
                Some((HistoryOutcome::Cancelled, _)) => Awaited::Cancelled,
                Some((HistoryOutcome::Deleted, _)) => Awaited::Deleted,
                // The dead letter was pruned. If only failures are in the history, the job may as well have been retried and be done.
                Some((_, reason)) if all => Awaited::Dead(reason.unwrap_or_default()),
                None if all => Awaited::Unknown,
                _ => Awaited::NotKept,
            },
        )
    }
}
