//! Outcomes that wait because the database refuses all of their kind.
//!
//! A missing grant, a table that logical decoding can't follow, or a function that is gone refuses every outcome alike. That is no fault of the
//! jobs, whose handlers have run: nothing is gained by making dead letters of them, or by running them again. So their outcomes stay in memory
//! and are tried again, as in an outage, and outcomes of another kind that the database takes are recorded meanwhile.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Reconnect;
use crate::error::Error;
use crate::executor::node::unrecorded::Unrecorded;

/// Longest pause between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// The outcomes that wait, and when they are tried again.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    outcomes: Vec<Unrecorded>,
    again: Option<Again>,
}

#[derive(Debug)]
struct Again {
    since: Instant,
    at: Instant,
    delays: Reconnect,
    /// Whether a warning has told it. A reason that belongs to an outage is told there, and another one may follow.
    told: bool,
}

impl Kept {
    pub(crate) fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Returns when to try again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.again.as_ref().map(|again| again.at)
    }

    /// Keeps outcomes that were refused for this reason. Only the first refusal is a warning.
    pub(crate) fn keep(&mut self, refused: Vec<Unrecorded>, error: &Error) {
        let count = refused.len();
        let again = self.again.get_or_insert_with(|| {
            let now = Instant::now();
            Again { since: now, at: now, delays: Reconnect::new(PAUSE), told: false }
        });
        if !again.told && !error.is_already_logged() {
            again.told = true;
            tracing::warn!(
                %error,
                count,
                "the database refuses outcomes for a reason that is no job's fault; they wait in memory until it takes them"
            );
        } else {
            tracing::debug!(%error, count, "the database still refuses outcomes");
        }
        self.outcomes.extend(refused);
    }

    /// Takes all that waits, if it is time to try again.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Unrecorded> {
        if self.next().is_some_and(|at| at <= now) { std::mem::take(&mut self.outcomes) } else { Vec::new() }
    }

    /// Takes out all of them.
    pub(crate) fn take_all(&mut self) -> Vec<Unrecorded> {
        std::mem::take(&mut self.outcomes)
    }

    /// Decides when to try again. To be called after each try.
    pub(crate) fn tried(&mut self, now: Instant) {
        if self.outcomes.is_empty() {
            if let Some(again) = self.again.take().filter(|again| again.told) {
                tracing::info!(after = ?again.since.elapsed(), "the database takes the outcomes that it had refused");
            }
            return;
        }
        if let Some(again) = self.again.as_mut().filter(|again| again.at <= now) {
            again.at = now + again.delays.next_delay();
        }
    }
}
