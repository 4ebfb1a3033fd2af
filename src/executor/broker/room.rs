//! Submissions for queues that are full.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::broker::Incoming;
use crate::job::{Due, JobMessage};
use crate::store::{FullQueue, JobStore};

/// How long one waits for room.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long until the next look.
const LOOK: Duration = Duration::from_millis(500);

/// Those that wait for room: unanswered, so that their producer's queue grows and not the table.
pub(super) struct Held {
    /// With their queues.
    messages: Vec<(String, Incoming)>,
    /// How many: the others of what the broker gives us at a time are left to the queues that have room.
    most: usize,
    look: Instant,
}

/// What becomes of a submission.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stored,
    Held,
    Refused,
}

impl Held {
    pub(super) fn new(prefetch: u16) -> Self {
        Self { messages: Vec::new(), most: usize::from(prefetch / 2), look: Instant::now() }
    }

    /// When to look again, if any wait.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.messages.is_empty()).then_some(self.look)
    }

    /// To be looked at again, before those that came later.
    pub(super) fn take(&mut self) -> Vec<Incoming> {
        std::mem::take(&mut self.messages).into_iter().map(|(_, message)| message).collect()
    }

    pub(super) fn put(&mut self, queue: &str, message: Incoming) {
        if self.messages.is_empty() {
            self.look = Instant::now() + LOOK;
        }
        self.messages.push((queue.to_owned(), message));
    }

    /// By its queue.
    pub(super) fn fate(&self, full: &[FullQueue], queue: &str, waited: Duration) -> Fate {
        let waits = self.messages.iter().any(|(waits, _)| waits == queue);
        if !waits && full.iter().all(|full| full.queue != queue) {
            Fate::Stored
        } else if waited < PATIENCE && self.messages.len() < self.most {
            // None overtakes another of its queue.
            Fate::Held
        } else {
            Fate::Refused
        }
    }
}

/// Which of the queues that these are for are full.
pub(super) async fn full(store: &dyn JobStore, messages: impl Iterator<Item = &JobMessage>) -> Vec<FullQueue> {
    let ready = messages.filter(|message| message.due == Due::Now);
    let queues: BTreeSet<_> = ready.map(|message| message.queue.as_str()).collect();
    let queues: Vec<_> = queues.into_iter().collect();
    if queues.is_empty() {
        return Vec::new();
    }
    match store.full(&queues).await {
        Ok(full) => full,
        // It will be said when they are stored.
        Err(error) => {
            tracing::debug!(%error, "whether queues are full is not known");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Tag;

    fn message() -> Incoming {
        Incoming {
            properties: lapin::BasicProperties::default(),
            body: Vec::new(),
            redelivered: false,
            received: std::time::Instant::now(),
            tag: Tag { generation: 1, tag: 1 },
        }
    }

    #[tokio::test]
    async fn what_waits_leaves_half_of_the_hands_free_and_is_not_overtaken() {
        let full = [FullQueue { queue: "full".to_owned(), depth: 1 }];
        let (now, late) = (Duration::ZERO, Duration::from_secs(31));
        let mut held = Held::new(10);
        for _ in 0..5 {
            assert_eq!(held.fate(&full, "full", now), Fate::Held);
            assert_eq!(held.fate(&full, "full", late), Fate::Refused);
            held.put("full", message());
        }
        assert_eq!(held.fate(&full, "full", now), Fate::Refused, "others starve");
        assert_eq!(held.fate(&full, "free", now), Fate::Stored);
        assert_eq!(held.take().len(), 5);
        held.put("full", message());
        assert_eq!(held.fate(&[], "full", now), Fate::Held, "it overtakes");
        assert!(held.next().is_some());
        held.take();
        assert!(held.next().is_none());
    }
}
