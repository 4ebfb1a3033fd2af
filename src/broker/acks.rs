//! Answers to messages, in as few frames as possible.

use std::collections::BTreeSet;

use tokio::sync::mpsc;

use super::message::Tag;

/// Sends answers to messages. It never waits: answers go out in batches, and an answer for a channel that is gone is dropped.
#[derive(Clone, Debug)]
pub struct Acks(pub(super) mpsc::UnboundedSender<Answer>);

#[derive(Debug)]
pub(super) enum Answer {
    Ack(Vec<Tag>),
    Requeue(Tag),
    Waits(Tag),
}

impl Acks {
    /// Acks messages.
    pub fn ack(&self, tags: impl IntoIterator<Item = Tag>) {
        let tags: Vec<_> = tags.into_iter().collect();
        if !tags.is_empty() {
            let _ = self.0.send(Answer::Ack(tags));
        }
    }

    /// Puts a message back into its queue. A broker that limits deliveries counts this as one.
    pub fn requeue(&self, tag: Tag) {
        let _ = self.0.send(Answer::Requeue(tag));
    }

    /// Notes that a message is not finished, but its consumer survived it: others may arrive beside it.
    pub fn waits(&self, tag: Tag) {
        let _ = self.0.send(Answer::Waits(tag));
    }
}

/// The messages that a channel has delivered and that are unanswered.
#[derive(Debug)]
pub(super) struct Outstanding {
    generation: u64,
    tags: BTreeSet<u64>,
    /// Unanswered messages that wait.
    waiting: BTreeSet<u64>,
    newest: u64,
}

/// A frame that answers messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Reject(u64),
    Ack { tag: u64, multiple: bool },
}

impl Outstanding {
    pub(super) fn new(generation: u64) -> Self {
        Self { generation, tags: BTreeSet::new(), waiting: BTreeSet::new(), newest: 0 }
    }

    pub(super) fn delivered(&mut self, tag: u64) -> Tag {
        self.tags.insert(tag);
        self.newest = tag;
        Tag { generation: self.generation, tag }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.tags.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many do not wait.
    pub(super) fn at_work(&self) -> usize {
        self.tags.len() - self.waiting.len()
    }

    /// Returns whether the newest message is one that waits.
    pub(super) fn newest_waits(&self) -> bool {
        self.waiting.contains(&self.newest)
    }

    /// Forgets a message that will get no answer.
    pub(super) fn forget(&mut self, tag: Tag) {
        if tag.generation == self.generation {
            self.tags.remove(&tag.tag);
            self.waiting.remove(&tag.tag);
        }
    }

    /// Returns the frames for these answers. Answers for other channels, and second answers, are left out: a tag means nothing to another
    /// channel, and a second answer would end this one.
    pub(super) fn frames(&mut self, answers: impl IntoIterator<Item = Answer>) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut acked = BTreeSet::new();
        for answer in answers {
            match answer {
                Answer::Ack(tags) => {
                    let own = tags.into_iter().filter(|tag| tag.generation == self.generation);
                    acked.extend(own.map(|tag| tag.tag).filter(|tag| self.tags.contains(tag)));
                }
                Answer::Requeue(tag) => {
                    if tag.generation == self.generation && !acked.contains(&tag.tag) && self.tags.remove(&tag.tag) {
                        frames.push(Frame::Reject(tag.tag));
                    }
                }
                Answer::Waits(tag) => {
                    if tag.generation == self.generation {
                        self.waiting.insert(tag.tag);
                    }
                }
            }
        }
        self.tags.retain(|tag| !acked.contains(tag));
        self.waiting.retain(|tag| self.tags.contains(tag));
        // `multiple` answers everything up to a tag, so it may cover only tags before the first unanswered one.
        let open = self.tags.first().copied().unwrap_or(u64::MAX);
        let run: Vec<_> = acked.range(..open).copied().collect();
        if let Some(last) = run.last() {
            frames.push(Frame::Ack { tag: *last, multiple: run.len() > 1 });
        }
        frames.extend(acked.range(open..).map(|tag| Frame::Ack { tag: *tag, multiple: false }));
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(generation: u64, tags: &[u64]) -> Answer {
        Answer::Ack(tags.iter().map(|tag| Tag { generation, tag: *tag }).collect())
    }

    fn one(tag: u64) -> Frame {
        Frame::Ack { tag, multiple: false }
    }

    fn open(tags: std::ops::RangeInclusive<u64>) -> Outstanding {
        let mut outstanding = Outstanding::new(7);
        for tag in tags {
            outstanding.delivered(tag);
        }
        outstanding
    }

    #[test]
    fn multiple_covers_only_what_was_acked() {
        let mut outstanding = open(1..=10);
        assert_eq!(
            outstanding.frames([ack(7, &[2, 1]), ack(7, &[3, 5])]),
            [Frame::Ack { tag: 3, multiple: true }, one(5)]
        );
        assert_eq!(outstanding.frames([ack(7, &[6, 7])]), [one(6), one(7)]);
        assert_eq!(outstanding.frames([ack(7, &[4, 8])]), [Frame::Ack { tag: 8, multiple: true }]);
        assert_eq!(outstanding.frames([ack(7, &[9, 10])]), [Frame::Ack { tag: 10, multiple: true }]);
        assert!(outstanding.is_empty());
    }

    #[test]
    fn rejects_go_first_and_are_not_covered() {
        let mut outstanding = open(1..=4);
        let requeue = Answer::Requeue(Tag { generation: 7, tag: 2 });
        assert_eq!(
            outstanding.frames([ack(7, &[1, 3, 4]), requeue]),
            [Frame::Reject(2), Frame::Ack { tag: 4, multiple: true }]
        );
    }

    #[test]
    fn stale_and_second_answers_are_left_out() {
        let mut outstanding = open(1..=3);
        assert_eq!(outstanding.frames([ack(6, &[1, 2, 3]), ack(7, &[99])]), []);
        assert_eq!(outstanding.frames([ack(7, &[1, 1])]), [one(1)]);
        assert_eq!(outstanding.frames([ack(7, &[1]), Answer::Requeue(Tag { generation: 7, tag: 1 })]), []);
        assert_eq!(outstanding.frames([ack(7, &[2]), Answer::Requeue(Tag { generation: 7, tag: 2 })]), [one(2)]);
    }
}
