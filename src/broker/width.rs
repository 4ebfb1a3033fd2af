//! How many messages the consumer of a careful subscription may have in hand.
//!
//! What came again may be what ended its consumer the last time. Whoever had it in hand together with others had those counted as delivered
//! too, and a broker with a limit would take them all for poison. And what has more bytes than we take is not to be gathered in memory. So a
//! channel begins narrow, with one message at a time, and stays narrow as long as such come. One with too many bytes that comes later makes
//! the channel narrow again: what is on its way comes too, and no more follows until one comes that is as it should be. One that has to wait
//! has been looked at, and whoever did that lives: the next may come beside it.
//!
//! A broker counts for each consumer what it has in hand: whoever is followed by another keeps what it has.

use super::acks::Outstanding;

/// Of one channel.
#[derive(Debug)]
pub(super) struct Width {
    prefetch: u16,
    /// The most bytes that a message may have; `None`: nobody is careful.
    legal: Option<usize>,
    /// As it should be.
    narrow: bool,
    /// The message that came last to this consumer is as it should be.
    good: bool,
    /// As the consumer is.
    consumer: Consumer,
}

#[derive(Debug)]
struct Consumer {
    narrow: bool,
    prefetch: u16,
    /// It has been given a message.
    given: bool,
}

impl Width {
    pub(super) fn new(prefetch: u16, legal: Option<usize>) -> Self {
        let (narrow, prefetch) = (legal.is_some(), prefetch.max(1));
        Self { prefetch, legal, narrow, good: false, consumer: Consumer { narrow, prefetch, given: false } }
    }

    /// A message came.
    pub(super) fn came(&mut self, redelivered: bool, bytes: usize) {
        let Some(legal) = self.legal else { return };
        let lawful = bytes <= legal;
        self.good = !redelivered && lawful;
        self.narrow |= !lawful;
        self.consumer.given = true;
    }

    /// Whether another consumer has to follow, of another width.
    pub(super) fn is_due(&mut self, hands: &Outstanding) -> bool {
        if self.legal.is_none() {
            return false;
        }
        // What came narrowly has to be done with first: else there would be as many of those as of all others.
        if self.narrow && self.consumer.narrow && self.good && hands.at_work() <= 1 {
            self.narrow = false;
        }
        if self.narrow != self.consumer.narrow {
            return true;
        }
        if self.narrow {
            self.consumer.given && hands.newest_waits() && hands.len() < usize::from(self.prefetch)
        } else {
            // What waited before is gone, and its place can be given to others. Twice as many are worth another consumer.
            let more = self.prefetch.saturating_sub(count(hands.len()));
            self.consumer.prefetch < self.prefetch && (hands.is_empty() || more / 2 >= self.consumer.prefetch)
        }
    }

    /// For the consumer that comes now. What the others have in hand keeps its place, but for the one that showed that there may be more.
    pub(super) fn next(&mut self, hands: &Outstanding) -> u16 {
        let kept = count(hands.waiting() + hands.at_work().saturating_sub(1));
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

    /// A channel, played by hand.
    struct Channel {
        width: Width,
        hands: Outstanding,
        last: u64,
    }

    impl Channel {
        fn new() -> Self {
            let (mut width, hands) = (Width::new(10, Some(100)), Outstanding::new(1));
            assert_eq!(width.next(&hands), 1);
            Self { width, hands, last: 0 }
        }

        /// A message comes. The prefetch of the consumer that has to follow.
        fn came(&mut self, redelivered: bool, bytes: usize) -> Option<u16> {
            self.last += 1;
            self.hands.delivered(self.last);
            self.width.came(redelivered, bytes);
            self.due()
        }

        fn answered(&mut self, answers: impl IntoIterator<Item = Answer>) -> Option<u16> {
            self.hands.frames(answers);
            self.due()
        }

        fn due(&mut self) -> Option<u16> {
            self.width.is_due(&self.hands).then(|| self.width.next(&self.hands))
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
        assert_eq!(channel.came(false, 1), None, "there are others in hand yet");
        assert_eq!(channel.answered(acked(1..5)), Some(10));
    }

    #[test]
    fn who_is_not_careful_stays_as_wide() {
        let (mut width, mut hands) = (Width::new(10, None), Outstanding::new(1));
        assert_eq!(width.next(&hands), 10);
        hands.delivered(1);
        width.came(true, usize::MAX);
        assert!(!width.is_due(&hands));
        hands.frames(acked([1]));
        assert!(!width.is_due(&hands));
    }
}
