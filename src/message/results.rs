//! Waiting for what a job's handler returns.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::MessageServices;
use crate::error::Result;
use crate::job::JobId;
use crate::store::{JobResult, JobState, Store};

/// The first pause between two looks; each further one is half as long again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What became of a job somebody waited for.
#[derive(Clone, Debug)]
pub enum Awaited {
    /// It is done, and its handler left this.
    Result(JobResult),
    /// It is gone and left nothing: done without a result, cancelled, deleted, never there, or its result was kept long enough.
    Gone,
    /// It became a dead letter, for this reason. It may be retried.
    Dead(String),
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
        let waiter = self.wakeup.bells.wait(id);
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
        let detail = self.jobs.show(id).await?.map(|detail| self.codecs.detail(detail));
        if let Some(detail) = &detail
            && detail.summary.state == JobState::Dead
        {
            return Ok(Awaited::Dead(detail.dead.as_ref().map(|(_, reason)| reason.clone()).unwrap_or_default()));
        }
        if detail.is_some() {
            return Ok(Awaited::Pending);
        }
        // Asked second: it was committed together with the end of the job.
        let result = self.jobs.result(id).await?.map(|result| self.codecs.result(result)).transpose()?;
        Ok(result.map_or(Awaited::Gone, Awaited::Result))
    }
}
