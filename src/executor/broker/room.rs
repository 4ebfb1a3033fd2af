//! Submissions for queues that are full.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::BATCH;
use crate::broker::Incoming;
use crate::job::{Due, JobId, JobMessage, Submission};
use crate::store::{FullQueue, JobStore};

/// How long one waits for room.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long until the next look.
const LOOK: Duration = Duration::from_millis(500);

/// A message that was understood.
pub(super) struct Good {
    pub(super) message: Incoming,
    pub(super) submission: Submission,
    /// When this process saw it first.
    since: Instant,
}

/// Those that wait for room: unanswered, so that their producer's queue grows and not the table.
pub(super) struct Held {
    waiting: Vec<Good>,
    /// How many: the others of what the broker gives us at a time are left to the queues that have room.
    most: usize,
    look: Instant,
    /// When those that had to wait were seen first. One that comes again has no more time than others.
    seen: HashMap<JobId, Instant>,
    /// The channel by which the last one came.
    generation: u64,
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
        let (waiting, seen) = (Vec::new(), HashMap::new());
        Self { waiting, most: usize::from(prefetch / 2), look: Instant::now(), seen, generation: 0 }
    }

    /// A message came.
    pub(super) fn good(&mut self, message: Incoming, submission: Submission) -> Good {
        if message.tag.generation != self.generation {
            // Their channel is gone: the broker delivers them again, to us or to others.
            self.waiting.clear();
            self.generation = message.tag.generation;
        }
        // What somebody submits again waits from now on.
        let seen = self.seen.get(&submission.message.id).filter(|_| message.redelivered);
        let since = seen.copied().unwrap_or(message.received);
        Good { message, submission, since }
    }

    /// When to look again, if any wait.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.look)
    }

    /// To be looked at again, in the order in which they came.
    pub(super) fn take(&mut self) -> Vec<Good> {
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn put(&mut self, good: Good) {
        if self.waiting.is_empty() {
            self.look = Instant::now() + LOOK;
        }
        // Forgetting one costs a wait.
        if self.seen.len() >= 10 * BATCH {
            self.seen.clear();
        }
        self.seen.insert(good.submission.message.id, good.since);
        self.waiting.push(good);
    }

    pub(super) fn fate(&mut self, full: &[FullQueue], good: &Good, now: Instant) -> Fate {
        let JobMessage { id, queue, due, .. } = &good.submission.message;
        let waits = self.waiting.iter().any(|other| other.submission.message.queue == *queue);
        // What is due later takes no room yet.
        if *due != Due::Now || !waits && full.iter().all(|full| full.queue != *queue) {
            self.seen.remove(id);
            Fate::Stored
        } else if now.saturating_duration_since(good.since) < PATIENCE && self.waiting.len() < self.most {
            // None overtakes another of its queue.
            Fate::Held
        } else {
            Fate::Refused
        }
    }
}

/// Which of the queues that these are for are full.
pub(super) async fn full(store: &dyn JobStore, submissions: &[Good]) -> Vec<FullQueue> {
    let ready = submissions.iter().map(|good| &good.submission.message).filter(|message| message.due == Due::Now);
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
    use crate::job::{Limits, NewJob};

    fn message(generation: u64, redelivered: bool) -> Incoming {
        Incoming {
            properties: lapin::BasicProperties::default(),
            body: Vec::new(),
            redelivered,
            received: Instant::now(),
            tag: Tag { generation, tag: 1 },
        }
    }

    fn submission(id: JobId, queue: &str) -> Submission {
        let message = NewJob::json("note", &1).id(id).queue(queue).validate(Limits::default()).unwrap();
        Submission { message, digest: [0; 32] }
    }

    fn full() -> [FullQueue; 1] {
        [FullQueue { queue: "full".to_owned(), depth: 1 }]
    }

    #[test]
    fn what_waits_leaves_half_of_the_hands_free_and_is_not_overtaken() {
        let mut held = Held::new(10);
        let of = |held: &mut Held, queue| held.good(message(1, false), submission(JobId::new(), queue));
        let now = Instant::now();
        let late = now + Duration::from_secs(31);
        for _ in 0..5 {
            let good = of(&mut held, "full");
            assert_eq!(held.fate(&full(), &good, now), Fate::Held);
            assert_eq!(held.fate(&full(), &good, late), Fate::Refused);
            held.put(good);
        }
        let (more, free) = (of(&mut held, "full"), of(&mut held, "free"));
        assert_eq!(held.fate(&full(), &more, now), Fate::Refused, "others starve");
        assert_eq!(held.fate(&full(), &free, now), Fate::Stored);
        assert_eq!(held.take().len(), 5);
        held.put(more);
        let next = of(&mut held, "full");
        assert_eq!(held.fate(&[], &next, now), Fate::Held, "it overtakes");
        assert!(held.next().is_some());
        held.take();
        assert!(held.next().is_none());
    }

    #[test]
    fn what_comes_again_has_waited_since_it_was_seen_first_and_what_is_submitted_again_has_not() {
        let mut held = Held::new(10);
        let (id, begun) = (JobId::new(), Instant::now());
        let good = held.good(message(1, false), submission(id, "full"));
        held.put(good);
        held.take();
        let late = begun + Duration::from_secs(31);
        let came = |redelivered| Incoming { received: late, ..message(2, redelivered) };
        let again = held.good(came(true), submission(id, "full"));
        assert_eq!(held.fate(&full(), &again, late), Fate::Refused, "it waits for ever");
        let again = held.good(came(false), submission(id, "full"));
        assert_eq!(held.fate(&full(), &again, late), Fate::Held, "it may not wait");
        held.put(again);
        held.take();
        let again = held.good(came(true), submission(id, "full"));
        assert_eq!(held.fate(&[], &again, late), Fate::Stored);
        assert!(held.seen.is_empty());
    }

    #[test]
    fn what_came_by_a_lost_channel_leaves_its_place_to_what_comes_by_the_next() {
        let mut held = Held::new(4);
        for generation in 1..4 {
            for _ in 0..2 {
                let good = held.good(message(generation, true), submission(JobId::new(), "full"));
                assert_eq!(held.fate(&full(), &good, Instant::now()), Fate::Held);
                held.put(good);
            }
        }
        assert_eq!(held.take().len(), 2);
    }
}
