//! Outcomes that can't be recorded yet, because another transaction has locked their jobs.
//!
//! An application, an operator or a mere reader may lock the row of a job for as long as it likes. The outcomes of all other jobs go on. This one
//! stays in flight, costs nothing while it waits, and is tried again with growing pauses.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::executor::node::unrecorded::Unrecorded;
use crate::job::{Fence, JobId};

/// The time until the first further try.
const FIRST: Duration = Duration::from_millis(250);
/// The longest time until a further try.
const LONGEST: Duration = Duration::from_secs(10);
/// How many jobs the log names at a time.
const NAMED: usize = 3;

/// The outcomes that wait for other transactions.
#[derive(Debug, Default)]
pub(crate) struct Held {
    waiting: Vec<(Instant, Unrecorded)>,
    /// The next pause of each outcome that had to wait. It is forgotten when the outcome is decided.
    pauses: HashMap<Fence, Duration>,
}

impl Held {
    /// Returns when to try again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.iter().map(|(at, _)| *at).min()
    }

    /// Takes out what is to be tried again.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Unrecorded> {
        self.waiting.extract_if(.., |(at, _)| *at <= now).map(|(_, outcome)| outcome).collect()
    }

    /// Takes out all of them.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Unrecorded> {
        self.waiting.drain(..).map(|(_, outcome)| outcome)
    }

    pub(crate) fn put(&mut self, outcome: Unrecorded) {
        let pause = self.pauses.entry(outcome.fence()).or_insert(FIRST);
        self.waiting.push((Instant::now() + *pause, outcome));
        *pause = (2 * *pause).min(LONGEST);
    }

    /// Names in the log those that had not to wait before.
    pub(crate) fn tell(&self, held: &HashMap<Fence, String>) {
        let news: Vec<_> = held.iter().filter(|(fence, _)| !self.pauses.contains_key(fence)).collect();
        let Some((_, held_by)) = news.first() else { return };
        let jobs: Vec<_> = news.iter().take(NAMED).map(|(fence, _)| fence.id.to_string()).collect();
        tracing::warn!(
            n = news.len(),
            jobs = jobs.join(", "),
            held_by,
            "outcomes can't be recorded yet: another transaction has locked these jobs; trying again until it ends, and the others go on"
        );
    }

    /// Notes that these outcomes were accepted or refused.
    pub(crate) fn decided(&mut self, fences: impl Iterator<Item = Fence>) {
        if self.pauses.is_empty() {
            return;
        }
        for fence in fences {
            if self.pauses.remove(&fence).is_some() {
                tracing::info!(job = %fence.id, "the outcome of a job that was locked is recorded, or the job was no longer this node's");
            }
        }
    }

    /// Returns whether an outcome of these jobs waits.
    pub(crate) fn holds_any(&self, jobs: &HashSet<JobId>) -> bool {
        !jobs.is_empty() && self.waiting.iter().any(|(_, outcome)| jobs.contains(&outcome.fence().id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_it_is_decided() {
        let mut held = Held::default();
        let (mine, other) = (Fence::new(JobId::new(), 1), Fence::new(JobId::new(), 1));
        for outcome in [mine, other].map(Unrecorded::Done) {
            held.put(outcome);
        }
        for pause in [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000].map(Duration::from_millis) {
            assert!(held.due(Instant::now() + pause - Duration::from_millis(1)).is_empty());
            let due = held.due(Instant::now() + pause);
            assert_eq!(due.len(), 2, "after {pause:?}");
            for outcome in due {
                held.put(outcome);
            }
        }
        held.waiting.retain(|(_, outcome)| outcome.fence() == other);
        held.decided([mine].into_iter());
        assert!(!held.holds_any(&HashSet::from([mine.id])) && held.holds_any(&HashSet::from([mine.id, other.id])));
        assert!(held.pauses.contains_key(&other) && !held.pauses.contains_key(&mine));
    }
}
