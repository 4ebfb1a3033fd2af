//! Waiting for the result of a job's handler.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::MessageServices;
use crate::config::Keep;
use crate::error::Result;
use crate::job::JobId;
use crate::store::{HistoryFilter, HistoryOutcome, JobResult, JobState, Store};

/// The first pause between two checks; each further one is half as long again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The end of a job that a caller waited for.
///
/// A job that has ended has no row any more. What is left is the result of its handler and the [history](crate::config::HistoryConfig),
/// provided that the nodes that end jobs keep all of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Awaited {
    /// The job is done, and its handler left this result.
    Result(JobResult),
    /// The job is done, according to the history. Its handler left no result, or the result has expired.
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
    /// When the database does not answer.
    pub async fn wait_for_result(&self, id: JobId, timeout: Duration) -> Result<Awaited> {
        let deadline = Instant::now() + timeout;
        let mut pause = FIRST_PAUSE;
        let waiter = self.shared.wakeup.job_waiters.wait(id);
        loop {
            let mut signalled = pin!(waiter.signal.notified());
            // Listens before it checks, so that an end in between is not missed.
            signalled.as_mut().enable();
            match self.find_result(id).await? {
                Awaited::Pending if Instant::now() < deadline => {}
                ended => return Ok(ended),
            }
            tokio::select! {
                () = signalled => {}
                () = tokio::time::sleep_until((Instant::now() + pause).min(deadline)) => {
                    pause = (pause * 3 / 2).min(LONGEST_PAUSE);
                }
            }
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
