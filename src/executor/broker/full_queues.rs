//! Submissions to queues that are full.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::broker::Incoming;
use crate::executor::broker::mode::BATCH;
use crate::job::{Due, JobId, JobMessage, Submission};
use crate::store::{Enqueue, FullQueue};

/// How long a submission waits for capacity.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time until the next check.
const LOOK: Duration = Duration::from_millis(500);

/// A message that was parsed.
pub(crate) struct ParsedSubmission {
    pub(crate) message: Incoming,
    pub(crate) submission: Submission,
    /// When this process saw it first.
    since: Instant,
}

impl ParsedSubmission {
    /// Splits it into its message, with the time when this process saw it first, and what it asks for.
    pub(crate) fn split(self) -> ((Incoming, Instant), Submission) {
        ((self.message, self.since), self.submission)
    }

    /// Joins what [`split`](Self::split) returned.
    pub(crate) fn joined((message, since): (Incoming, Instant), submission: Submission) -> Self {
        Self { message, submission, since }
    }
}

/// Submissions that wait for capacity. They stay unacked, so that the broker's queue grows and not the table.
pub(crate) struct DeferredSubmissions {
    waiting: Vec<ParsedSubmission>,
    /// The most that may wait. The rest of the prefetched messages are left to queues with capacity.
    most: usize,
    look: Instant,
    /// When each deferred submission was seen first. One that is delivered again gets no more time than others.
    seen: HashMap<JobId, Instant>,
    /// The channel that delivered the last one.
    generation: u64,
}

/// What happens to a submission.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IntakeDecision {
    Stored,
    Deferred,
    Refused,
}

impl DeferredSubmissions {
    pub(crate) fn new(prefetch: u16) -> Self {
        let (waiting, seen) = (Vec::new(), HashMap::new());
        Self { waiting, most: usize::from(prefetch / 2), look: Instant::now(), seen, generation: 0 }
    }

    /// Takes in a message that arrived.
    pub(crate) fn parsed(&mut self, message: Incoming, submission: Submission) -> ParsedSubmission {
        if message.tag.generation != self.generation {
            // Their channel is gone: the broker delivers them again, to this node or another.
            self.waiting.clear();
            self.generation = message.tag.generation;
        }
        // A submission that its producer sends again waits from now on.
        let seen = self.seen.get(&submission.message.id).filter(|_| message.redelivered);
        let since = seen.copied().unwrap_or(message.received);
        ParsedSubmission { message, submission, since }
    }

    /// Returns when to check again, if any submissions wait.
    pub(crate) fn next(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.look)
    }

    /// Takes out the waiting submissions for another check, in the order in which they arrived.
    pub(crate) fn take(&mut self) -> Vec<ParsedSubmission> {
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn put(&mut self, parsed: ParsedSubmission) {
        if self.waiting.is_empty() {
            self.look = Instant::now() + LOOK;
        }
        // Forgetting one costs a wait.
        if self.seen.len() >= 10 * BATCH {
            self.seen.clear();
        }
        self.seen.insert(parsed.submission.message.id, parsed.since);
        self.waiting.push(parsed);
    }

    pub(crate) fn decide(&mut self, full: &[FullQueue], parsed: &ParsedSubmission, now: Instant) -> IntakeDecision {
        let JobMessage { id, queue, due, .. } = &parsed.submission.message;
        let waits = self.waiting.iter().any(|other| other.submission.message.queue == *queue);
        // A job that is due later takes no capacity yet.
        if *due != Due::Now || !waits && full.iter().all(|full| full.queue != *queue) {
            self.seen.remove(id);
            IntakeDecision::Stored
        } else if now.saturating_duration_since(parsed.since) < PATIENCE && self.waiting.len() < self.most {
            // No submission overtakes another of its queue.
            IntakeDecision::Deferred
        } else {
            IntakeDecision::Refused
        }
    }
}

/// Returns which of the queues of these submissions are full.
pub(crate) async fn full(store: &dyn Enqueue, submissions: &[ParsedSubmission]) -> Vec<FullQueue> {
    let ready = submissions.iter().map(|parsed| &parsed.submission.message).filter(|message| message.due == Due::Now);
    let queues: BTreeSet<_> = ready.map(|message| message.queue.as_str()).collect();
    let queues: Vec<_> = queues.into_iter().collect();
    if queues.is_empty() {
        return Vec::new();
    }
    match store.full(&queues).await {
        Ok(full) => full,
        // Storing them will report the error.
        Err(error) => {
            tracing::debug!(%error, "could not check whether queues are full");
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
        let mut deferred = DeferredSubmissions::new(10);
        let of = |deferred: &mut DeferredSubmissions, queue| {
            deferred.parsed(message(1, false), submission(JobId::new(), queue))
        };
        let now = Instant::now();
        let late = now + Duration::from_secs(31);
        for _ in 0..5 {
            let parsed = of(&mut deferred, "full");
            assert_eq!(deferred.decide(&full(), &parsed, now), IntakeDecision::Deferred);
            assert_eq!(deferred.decide(&full(), &parsed, late), IntakeDecision::Refused);
            deferred.put(parsed);
        }
        let (more, free) = (of(&mut deferred, "full"), of(&mut deferred, "free"));
        assert_eq!(deferred.decide(&full(), &more, now), IntakeDecision::Refused, "others starve");
        assert_eq!(deferred.decide(&full(), &free, now), IntakeDecision::Stored);
        assert_eq!(deferred.take().len(), 5);
        deferred.put(more);
        let next = of(&mut deferred, "full");
        assert_eq!(deferred.decide(&[], &next, now), IntakeDecision::Deferred, "it overtakes");
        assert!(deferred.next().is_some());
        deferred.take();
        assert!(deferred.next().is_none());
    }

    #[test]
    fn what_comes_again_has_waited_since_it_was_seen_first_and_what_is_submitted_again_has_not() {
        let mut deferred = DeferredSubmissions::new(10);
        let (id, begun) = (JobId::new(), Instant::now());
        let parsed = deferred.parsed(message(1, false), submission(id, "full"));
        deferred.put(parsed);
        deferred.take();
        let late = begun + Duration::from_secs(31);
        let came = |redelivered| Incoming { received: late, ..message(2, redelivered) };
        let again = deferred.parsed(came(true), submission(id, "full"));
        assert_eq!(deferred.decide(&full(), &again, late), IntakeDecision::Refused, "it waits for ever");
        let again = deferred.parsed(came(false), submission(id, "full"));
        assert_eq!(deferred.decide(&full(), &again, late), IntakeDecision::Deferred, "it may not wait");
        deferred.put(again);
        deferred.take();
        let again = deferred.parsed(came(true), submission(id, "full"));
        assert_eq!(deferred.decide(&[], &again, late), IntakeDecision::Stored);
        assert!(deferred.seen.is_empty());
    }

    #[test]
    fn what_came_by_a_lost_channel_leaves_its_place_to_what_comes_by_the_next() {
        let mut deferred = DeferredSubmissions::new(4);
        for generation in 1..4 {
            for _ in 0..2 {
                let parsed = deferred.parsed(message(generation, true), submission(JobId::new(), "full"));
                assert_eq!(deferred.decide(&full(), &parsed, Instant::now()), IntakeDecision::Deferred);
                deferred.put(parsed);
            }
        }
        assert_eq!(deferred.take().len(), 2);
    }
}
