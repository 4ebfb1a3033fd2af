//! Outcomes that wait because the database refuses all of their kind.
//!
//! A missing grant, a table that logical decoding can't follow, or a function that is gone refuses every outcome alike. That is no fault of the
//! jobs, whose handlers have run: nothing is gained by making dead letters of them, or by running them again. So their outcomes stay in memory
//! and are tried again, as in an outage, and outcomes of another kind that the database takes are recorded meanwhile.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::backoff::Reconnect;
use crate::error::Error;
use crate::job::Fence;
use crate::store::Settlement;

/// Longest pause between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// The outcomes that wait, and when they are tried again.
#[derive(Default)]
pub(crate) struct Kept {
    done: Vec<Fence>,
    settled: Vec<Settlement>,
    /// Those to tell when nothing waits any more.
    waiting: Vec<oneshot::Sender<()>>,
    again: Option<Again>,
}

struct Again {
    since: Instant,
    at: Instant,
    delays: Reconnect,
}

impl Kept {
    pub(crate) fn len(&self) -> usize {
        self.done.len() + self.settled.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps outcomes that were refused for this reason. Only the first refusal is a warning.
    pub(crate) fn keep<T: Keep>(&mut self, refused: Vec<T>, error: &Error) {
        let count = refused.len();
        if self.again.is_none() {
            let now = Instant::now();
            self.again = Some(Again { since: now, at: now, delays: Reconnect::new(PAUSE) });
            tracing::warn!(
                %error,
                count,
                "the database refuses outcomes for a reason that is no job's fault; they wait in memory until it takes them"
            );
        } else {
            tracing::debug!(%error, count, "the database still refuses outcomes");
        }
        T::kept(self).extend(refused);
    }

    /// Adds senders to be told when nothing waits. To be called after each try.
    pub(crate) fn tried(&mut self, waiting: Vec<oneshot::Sender<()>>) {
        self.waiting.extend(waiting);
        if self.is_empty() {
            if let Some(again) = self.again.take() {
                tracing::info!(after = ?again.since.elapsed(), "the database takes the outcomes that it had refused");
            }
            for waiting in self.waiting.drain(..) {
                // The receiver may be gone.
                let _ = waiting.send(());
            }
            return;
        }
        if let Some(again) = self.again.as_mut().filter(|again| again.at <= Instant::now()) {
            again.at = Instant::now() + again.delays.next_delay();
        }
    }

    /// Waits until it is time to try again, for ever if nothing waits.
    pub(crate) async fn due(&self) {
        match &self.again {
            Some(again) => tokio::time::sleep_until(again.at).await,
            None => std::future::pending().await,
        }
    }

    /// Takes all that waits, if it is time to try again.
    pub(crate) fn take(&mut self) -> (Vec<Fence>, Vec<Settlement>) {
        if self.again.as_ref().is_some_and(|again| again.at <= Instant::now()) {
            (std::mem::take(&mut self.done), std::mem::take(&mut self.settled))
        } else {
            (Vec::new(), Vec::new())
        }
    }
}

/// An outcome that can be kept.
pub(crate) trait Keep: Sized {
    fn kept(kept: &mut Kept) -> &mut Vec<Self>;
}

impl Keep for Fence {
    fn kept(kept: &mut Kept) -> &mut Vec<Self> {
        &mut kept.done
    }
}

impl Keep for Settlement {
    fn kept(kept: &mut Kept) -> &mut Vec<Self> {
        &mut kept.settled
    }
}
