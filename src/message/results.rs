//! Waiting for what a job's handler returns.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::MessageServices;
use crate::config::Keep;
use crate::error::Result;
use crate::job::JobId;
use crate::store::{Ending, HistoryFilter, JobResult, JobState, Store};

/// The first pause between two looks; each further one is half as long again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What became of a job somebody waited for.
///
/// A job that ended is a row no more. What there is to tell is the result that its handler left, and the
/// [history](crate::config::HistoryConfig), if those who end jobs keep all of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Awaited {
    /// It is done, and its handler left this.
    Result(JobResult),
    /// It is done, says the history. Its handler left no result, or one whose time is over.
    Done,
    /// Its handler or an operator cancelled it, says the history.
    Cancelled,
    /// An operator deleted it, says the history.
    Deleted,
    /// It became a dead letter, for this reason (`expired`, if its time to live was over before it could start). It may be retried.
    Dead(String),
    /// It is not there, and the history, which keeps all ends ([`Keep::All`]), does not have it: it was never committed, or it ended longer
    /// ago than history and results are kept, or where less is kept.
    Unknown,
    /// It is not there, and left no result. Whether it is done, cancelled, deleted, or never was there nobody can tell, because the history is
    /// not kept, or of failures only.
    NotKept,
    /// It was still waiting or running when the time was over.
    Pending,
}

impl<S: Store> MessageServices<S> {
    /// Waits for the end of a job and for the result that its handler left ([`JobContext::result`](crate::JobContext::result)), at
    /// most for `timeout`.
    ///
    /// If an executor of this process runs the job (one that was built with these services), its end is heard at once. Else, and should
    /// that be missed, it looks into the database again and again: after 20 ms, then less and less often, at last once a second. So it
    /// sees the result within a second of the commit, and a waiter costs about two small queries a second. It is for a few callers that
    /// wait for seconds; many, or long waits, are better served by a reply ([`NewJob::reply_to`](crate::NewJob::reply_to)) or by a job
    /// that the handler sends.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn wait_for_result(&self, id: JobId, timeout: Duration) -> Result<Awaited> {
        let deadline = Instant::now() + timeout;
        let mut pause = FIRST_PAUSE;
        let waiter = self.shared.wakeup.bells.wait(id);
        loop {
            let mut rung = pin!(waiter.bell.notified());
            // Listens before it looks, so that an end in between is not missed.
            rung.as_mut().enable();
            match self.look_for_result(id).await? {
                Awaited::Pending if Instant::now() < deadline => {}
                ended => return Ok(ended),
            }
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep_until((Instant::now() + pause).min(deadline)) => {
                    pause = (pause * 3 / 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn look_for_result(&self, id: JobId) -> Result<Awaited> {
        let detail = self.shared.jobs.show(id).await?.map(|detail| self.shared.codecs.detail(detail));
        if let Some(detail) = &detail
            && detail.summary.state == JobState::Dead
        {
            return Ok(Awaited::Dead(detail.dead.as_ref().map(|(_, reason)| reason.clone()).unwrap_or_default()));
        }
        if detail.is_some() {
            return Ok(Awaited::Pending);
        }
        // Asked second: it was committed together with the end of the job.
        if let Some(result) = self.shared.jobs.result(id).await? {
            return Ok(Awaited::Result(self.shared.codecs.result(result)?));
        }
        self.look_into_history(id).await
    }

    /// How a job ended that is gone and left no result.
    async fn look_into_history(&self, id: JobId) -> Result<Awaited> {
        let ends = vec![Ending::Done, Ending::Cancelled, Ending::Deleted, Ending::Dead, Ending::Expired];
        let filter = HistoryFilter { id: Some(id), outcomes: Some(ends), ..HistoryFilter::default() };
        // Looked for whatever this process keeps: it is those that end jobs that remember them.
        let last = self.shared.jobs.history(&filter, 1).await?.pop();
        let all = self.shared.jobs.history_config().keep == Keep::All;
        Ok(
            match last
                .map(|entry| (entry.outcome, entry.error.map(|error| self.shared.codecs.read_text(error, &entry.kind))))
            {
                Some((Ending::Done, _)) => Awaited::Done,
                Some((Ending::Cancelled, _)) => Awaited::Cancelled,
                Some((Ending::Deleted, _)) => Awaited::Deleted,
                // The dead letter is gone: it was kept long enough. Where only failures are remembered it may as well have been tried again and be done.
                Some((_, reason)) if all => Awaited::Dead(reason.unwrap_or_default()),
                None if all => Awaited::Unknown,
                _ => Awaited::NotKept,
            },
        )
    }
}
