//! Submissions whose id or unique key another transaction holds that has not ended.
//!
//! They stay unacked. Nobody can say yet whether they will be stored, so they are never refused for it, and no try is counted. If all messages that a
//! node may have in flight wait like that, the rest wait in the broker.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::broker::Tag;
use crate::executor::broker::full_queues::ParsedSubmission;
use crate::job::JobMessage;
use crate::store::waits_behind;

/// The time until the next try, at first.
const FIRST: Duration = Duration::from_secs(1);
/// The longest time until the next try.
const LONGEST: Duration = Duration::from_secs(30);

struct Waiting {
    parsed: ParsedSubmission,
    pause: Duration,
    next: Instant,
}

/// Submissions that wait for other transactions, in the order in which they arrived.
#[derive(Default)]
pub(crate) struct UndecidedSubmissions {
    waiting: Vec<Waiting>,
    /// The last pause of those that are being tried again.
    tried: HashMap<Tag, Duration>,
}

impl UndecidedSubmissions {
    /// Forgets those that came by another channel: the broker delivers them again, to this node or another.
    pub(crate) fn on_channel(&mut self, generation: u64) {
        self.waiting.retain(|waiting| waiting.parsed.message.tag.generation == generation);
    }

    /// Returns when to try again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.next).min()
    }

    /// Whether a message has to wait for one of these: it needs the same, or would overtake it in its group.
    pub(crate) fn holds_up(&self, message: &JobMessage) -> bool {
        self.waiting.iter().any(|waiting| waits_behind(message, &waiting.parsed.submission.message))
    }

    /// Makes a submission wait. Returns whether it has to wait for the first time.
    pub(crate) fn put(&mut self, parsed: ParsedSubmission, now: Instant) -> bool {
        let before = self.tried.remove(&parsed.message.tag);
        let pause = before.map_or(FIRST, |before| (2 * before).min(LONGEST));
        self.waiting.push(Waiting { parsed, pause, next: now + pause });
        before.is_none()
    }

    /// Takes out those to be tried again. None overtakes an earlier one that it waits behind.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<ParsedSubmission> {
        self.tried.clear();
        let (mut due, mut rest): (Vec<ParsedSubmission>, Vec<Waiting>) = (Vec::new(), Vec::new());
        for mut waiting in std::mem::take(&mut self.waiting) {
            let message = &waiting.parsed.submission.message;
            let ahead = rest.iter().find(|other| waits_behind(message, &other.parsed.submission.message));
            if let Some(ahead) = ahead {
                waiting.next = ahead.next;
            }
            if waiting.next > now {
                rest.push(waiting);
            } else {
                self.tried.insert(waiting.parsed.message.tag, waiting.pause);
                due.push(waiting.parsed);
            }
        }
        self.waiting = rest;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Incoming;
    use crate::executor::broker::full_queues::DeferredSubmissions;
    use crate::job::{JobId, Limits, NewJob, Submission, Unique};

    fn parsed(tag: u64, job: NewJob) -> ParsedSubmission {
        let message = Incoming {
            properties: lapin::BasicProperties::default(),
            body: Vec::new(),
            redelivered: false,
            received: Instant::now(),
            tag: Tag { generation: 1, tag },
        };
        let job = job.id(JobId::new()).validate(Limits::default()).unwrap();
        DeferredSubmissions::new(10).parsed(message, Submission { message: job, digest: [0; 32] })
    }

    fn keyed(tag: u64, key: &str) -> ParsedSubmission {
        parsed(tag, NewJob::json("note", &1).unique(Unique::key(key)))
    }

    #[test]
    fn the_pauses_of_each_grow_to_half_a_minute() {
        let (mut undecided, mut now) = (UndecidedSubmissions::default(), Instant::now());
        assert!(undecided.put(keyed(1, "k"), now));
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            let pause = Duration::from_secs(pause);
            assert_eq!(undecided.next(), Some(now + pause));
            assert!(undecided.due(now + pause / 2).is_empty());
            now += pause;
            let due = undecided.due(now).pop().unwrap();
            assert!(!undecided.put(due, now), "it is told again");
        }
    }

    #[test]
    fn who_needs_the_same_waits_behind_and_others_do_not() {
        let (mut undecided, now) = (UndecidedSubmissions::default(), Instant::now());
        let first = parsed(1, NewJob::json("note", &1).unique(Unique::key("k")).exclusive("g"));
        undecided.put(first, now);
        let message = |parsed: ParsedSubmission| parsed.submission.message;
        assert!(undecided.holds_up(&message(keyed(2, "k"))), "of the same key");
        assert!(undecided.holds_up(&message(parsed(2, NewJob::json("note", &1).exclusive("g")))), "of the same group");
        assert!(!undecided.holds_up(&message(keyed(2, "other"))));
        assert!(!undecided.holds_up(&message(parsed(2, NewJob::json("note", &1).exclusive("other")))));
        let again = undecided.due(now + Duration::from_secs(1)).pop().unwrap();
        undecided.put(again, now + Duration::from_secs(1));
        undecided.put(keyed(2, "k"), now + Duration::from_secs(1));
        assert_eq!(undecided.due(now + Duration::from_secs(2)).len(), 0, "it overtakes");
        let due = undecided.due(now + Duration::from_secs(3));
        assert_eq!(due.iter().map(|parsed| parsed.message.tag.tag).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_lost_channel_takes_its_messages_with_it() {
        let mut undecided = UndecidedSubmissions::default();
        undecided.put(keyed(1, "k"), Instant::now());
        undecided.on_channel(1);
        assert!(undecided.next().is_some());
        undecided.on_channel(2);
        assert!(undecided.next().is_none());
    }
}
