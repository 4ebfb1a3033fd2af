//! How many messages the consumer of a careful subscription may have in flight.
//!
//! A redelivered message may be the one that crashed its consumer the last time. If it was in flight together with others, those were
//! counted as delivered too, and a broker with a delivery limit would treat them all as poison. And messages with more bytes than this
//! program accepts must not be gathered in memory. So a channel begins narrow, with one message at a time, and stays narrow while such
//! messages arrive. A message with too many bytes that arrives later makes the channel narrow again: messages on their way still arrive,
//! and no more follow until a good one arrives. A message that has to wait was processed without a crash, so the next may arrive beside it.
//!
//! A broker counts the messages in flight per consumer: a consumer that is replaced by another keeps what it has.

use super::acks::Outstanding;

/// The window of one channel.
#[derive(Debug)]
pub(super) struct PrefetchWindow {
    prefetch: u16,
    /// The most bytes that a message may have; `None`: the subscription is not careful.
    legal: Option<usize>,
    /// Whether the window should be narrow.
    narrow: bool,
    /// Whether the last message to this consumer was good: not redelivered, and not too large.
    good: bool,
    /// The present consumer.
    consumer: Consumer,
}

#[derive(Debug)]
struct Consumer {
    narrow: bool,
    prefetch: u16,
    /// Whether it has been given a message.
    given: bool,
}

impl PrefetchWindow {
    pub(super) fn new(prefetch: u16, legal: Option<usize>) -> Self {
        let (narrow, prefetch) = (legal.is_some(), prefetch.max(1));
        Self { prefetch, legal, narrow, good: false, consumer: Consumer { narrow, prefetch, given: false } }
    }

    /// Notes that a message arrived.
    pub(super) fn came(&mut self, redelivered: bool, bytes: usize) {
        let Some(legal) = self.legal else { return };
        let lawful = bytes <= legal;
        self.good = !redelivered && lawful;
        self.narrow |= !lawful;
        self.consumer.given = true;
    }

    /// Returns whether another consumer has to follow, with another window.
    pub(super) fn is_due(&mut self, outstanding: &Outstanding) -> bool {
        if self.legal.is_none() {
            return false;
        }
        // Messages that arrived narrowly must be finished first. Otherwise as many of those would arrive as of all others.
        if self.narrow && self.consumer.narrow && self.good && outstanding.at_work() <= 1 {
            self.narrow = false;
        }
        if self.narrow != self.consumer.narrow {
            return true;
        }
        if self.narrow {
            self.consumer.given && outstanding.newest_waits() && outstanding.len() < usize::from(self.prefetch)
        } else {
            // Former waiting messages are gone, so others can take their places. Twice as many are worth another consumer.
            let more = self.prefetch.saturating_sub(count(outstanding.len()));
            self.consumer.prefetch < self.prefetch && (outstanding.is_empty() || more / 2 >= self.consumer.prefetch)
        }
    }

    /// Returns the prefetch of the consumer that starts now. Messages in flight at the others keep their places, except the one that showed
    /// that there may be more.
    pub(super) fn next(&mut self, outstanding: &Outstanding) -> u16 {
        let kept = count(outstanding.waiting() + outstanding.at_work().saturating_sub(1));
        let prefetch = if self.narrow { 1 } else { self.prefetch.saturating_sub(kept).max(1) };
        (self.good, self.consumer) = (false, Consumer { narrow: self.narrow, prefetch, given: false });
        prefetch
    }
}

fn count(messages: usize) -> u16 {
    u16::try_from(messages).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::acks::Answer;
    use crate::broker::message::Tag;

    /// A channel operated by hand.
    struct Channel {
        width: PrefetchWindow,
        outstanding: Outstanding,
        last: u64,
    }

    impl Channel {
        fn new() -> Self {
            let (mut width, outstanding) = (PrefetchWindow::new(10, Some(100)), Outstanding::new(1));
            assert_eq!(width.next(&outstanding), 1);
            Self { width, outstanding, last: 0 }
        }

        /// Delivers a message. Returns the prefetch of the consumer that has to follow.
        fn came(&mut self, redelivered: bool, bytes: usize) -> Option<u16> {
            self.last += 1;
            self.outstanding.delivered(self.last);
            self.width.came(redelivered, bytes);
            self.due()
        }

        fn answered(&mut self, answers: impl IntoIterator<Item = Answer>) -> Option<u16> {
            self.outstanding.frames(answers);
            self.due()
        }

        fn due(&mut self) -> Option<u16> {
            self.width.is_due(&self.outstanding).then(|| self.width.next(&self.outstanding))
        }
    }

    fn tag(tag: u64) -> Tag {
        Tag { generation: 1, tag }
    }

    fn acked(tags: impl IntoIterator<Item = u64>) -> [Answer; 1] {
        [Answer::Ack(tags.into_iter().map(tag).collect())]
    }

    #[test]
    fn a_channel_is_narrow_until_one_comes_for_the_first_time() {
        let mut channel = Channel::new();
        assert_eq!(channel.came(true, 1), None);
        assert_eq!(channel.answered(acked([1])), None);
        assert_eq!(channel.came(true, 1), None);
        assert_eq!(channel.answered(acked([2])), None);
        assert_eq!(channel.came(false, 1), Some(10));
        assert_eq!(channel.came(true, 1), None);
    }

    #[test]
    fn beside_each_that_waits_one_more_comes_and_no_two_that_are_not_known() {
        let mut channel = Channel::new();
        for n in 1..10 {
            assert_eq!(channel.came(true, 1), None, "another one comes before {n} was looked at");
            assert_eq!(channel.answered([Answer::Waits(tag(n))]), Some(1), "nothing comes beside {n}");
            assert_eq!(channel.answered([Answer::Waits(tag(n))]), None, "two come beside {n}");
        }
        assert_eq!(channel.came(true, 1), None);
        assert_eq!(channel.answered([Answer::Waits(tag(10))]), None, "more than all");
        assert_eq!(channel.answered(acked([3])), Some(1));
        assert_eq!(channel.came(false, 1), Some(1), "what waits has lost its place");
        assert_eq!(channel.answered(acked([11])), None);
        assert_eq!(channel.came(false, 1), None);
        assert_eq!(channel.answered(acked(1..8)), Some(7), "its place is lost as long as there is work");
        assert_eq!(channel.answered(acked(8..12)), None);
        assert_eq!(channel.answered(acked([12])), Some(10), "its place is lost for good");
    }

    #[test]
    fn a_body_beyond_the_limit_makes_a_channel_narrow_again_until_a_good_one_comes_alone() {
        let mut channel = Channel::new();
        assert_eq!(channel.came(false, 1), Some(10));
        assert_eq!(channel.came(false, 100), None);
        assert_eq!(channel.came(false, 101), Some(1), "more of those come together");
        assert_eq!(channel.came(false, 101), None);
        assert_eq!(channel.came(false, 1), None, "others are not acked yet");
        assert_eq!(channel.answered(acked(1..5)), Some(10));
    }

    #[test]
    fn without_a_size_limit_the_prefetch_stays_wide() {
        let (mut width, mut outstanding) = (PrefetchWindow::new(10, None), Outstanding::new(1));
        assert_eq!(width.next(&outstanding), 10);
        outstanding.delivered(1);
        width.came(true, usize::MAX);
        assert!(!width.is_due(&outstanding));
        outstanding.frames(acked([1]));
        assert!(!width.is_due(&outstanding));
    }
}
