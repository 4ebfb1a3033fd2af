//! Rows that deliveries have named and that wait for a slot.
//!
//! A delivery of several rows may come to a node that has slots for some of them only. Those are taken, and the delivery is cut in two: the
//! rest waits here for as long as slots come free one after the other, and goes back to the table when that stops, for others to take. A row
//! that came alone waits until its hold ends: the broker spreads those over the nodes by itself.
//!
//! A delivery that was given back is acked when slots are free, one each 20 ms for each of them, or when its hold would have ended. Else a busy node
//! would get the next at once, would give it back too, and senders would never see that the queue is full.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::broker::Tag;
use crate::broker::wire::Pointed;
use crate::job::JobId;
use crate::message::pipe::HOLD;

/// How long what came with others waits when no slot comes free. Jobs that take longer are long: what they would be waited for can run elsewhere.
const STALLED: Duration = Duration::from_millis(20);
/// How long it waits though slots come free.
const PATIENCE: Duration = Duration::from_millis(250);

/// A row that waits for a slot.
pub(super) struct Waiting {
    pub(super) row: Pointed,
    came: Instant,
    /// Not the only one of its delivery.
    together: bool,
    /// Its delivery, if it is the last row of it: when that is decided about, all are.
    pub(super) last: Option<Tag>,
}

/// In the order in which they came.
pub(super) struct Hands {
    rows: VecDeque<Waiting>,
    /// Deliveries that were given back, and when their holds would have ended.
    given_back: VecDeque<(Instant, Tag)>,
    /// When to look whether there are slots for the next of these.
    again: Instant,
    /// When there was a slot.
    moved: Instant,
}

/// What this node does not take.
#[derive(Default)]
pub(super) struct Over {
    /// Rows that are still held.
    pub(super) held: Vec<JobId>,
    /// How many are not any more.
    pub(super) free: usize,
    /// Deliveries that are done with.
    pub(super) tags: Vec<Tag>,
}

impl Hands {
    pub(super) fn new() -> Self {
        Self { rows: VecDeque::new(), given_back: VecDeque::new(), again: Instant::now(), moved: Instant::now() }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// No row waits for a slot.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// No row waits for a slot, and no delivery is to be acked.
    pub(super) fn is_idle(&self) -> bool {
        self.is_empty() && self.given_back.is_empty()
    }

    /// A delivery came.
    pub(super) fn put(&mut self, rows: Vec<Pointed>, came: Instant, tag: Tag) {
        let count = rows.len();
        self.rows.extend(rows.into_iter().enumerate().map(|(n, row)| {
            let last = (n + 1 == count).then_some(tag);
            Waiting { row, came, together: count > 1, last }
        }));
    }

    /// For slots that are there now.
    pub(super) fn take(&mut self, most: usize, now: Instant) -> impl Iterator<Item = Waiting> {
        self.moved = now;
        self.rows.drain(..most.min(self.rows.len()))
    }

    /// When the next of them are over.
    pub(super) fn until(&self) -> Option<Instant> {
        // Those of a kind are over one after the other.
        let alone = self.rows.front().map(|first| first.came + HOLD);
        let together = self.rows.iter().find(|waiting| waiting.together).map(|waiting| self.patience(waiting));
        let given_back = self.given_back.front().map(|(until, _)| self.again.min(*until));
        alone.into_iter().chain(together).chain(given_back).min()
    }

    fn patience(&self, waiting: &Waiting) -> Instant {
        (waiting.came.max(self.moved) + STALLED).min(waiting.came + PATIENCE)
    }

    /// Takes out what has waited for too long, and deliveries that were given back, if so many slots are free. What these are for is taken next, and
    /// stays, however long the claim took that it came beside.
    pub(super) fn over(&mut self, now: Instant, free: usize) -> Over {
        let mut over = Over::default();
        for waiting in std::mem::take(&mut self.rows) {
            if waiting.came + HOLD <= now {
                over.free += 1;
            } else if waiting.together && self.rows.len() >= free && self.patience(&waiting) <= now {
                over.held.push(waiting.row.fence.id);
                if self.given_back.is_empty() {
                    self.again = now + STALLED;
                }
                self.given_back.extend(waiting.last.map(|tag| (waiting.came + HOLD, tag)));
                continue;
            } else {
                self.rows.push_back(waiting);
                continue;
            }
            over.tags.extend(waiting.last);
        }
        while let Some((_, tag)) = self.given_back.pop_front_if(|(until, _)| *until <= now) {
            over.tags.push(tag);
        }
        if self.again <= now {
            self.again = now + STALLED;
            over.tags.extend(self.given_back.drain(..free.min(self.given_back.len())).map(|(_, tag)| tag));
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Fence;

    fn rows(count: usize) -> Vec<Pointed> {
        (0..count).map(|_| Pointed { fence: Fence::new(JobId::new(), 0), kind: "note".to_owned() }).collect()
    }

    fn tag(tag: u64) -> Tag {
        Tag { generation: 1, tag }
    }

    /// What is done with when these are taken.
    fn taken(hands: &mut Hands, most: usize, now: Instant) -> Vec<Tag> {
        hands.take(most, now).filter_map(|waiting| waiting.last).collect()
    }

    #[test]
    fn a_delivery_that_is_cut_is_done_with_when_its_last_row_is() {
        let (mut hands, now) = (Hands::new(), Instant::now());
        let (first, second) = (rows(6), rows(2));
        let rest: Vec<JobId> = first[4..].iter().chain(&second).map(|row| row.fence.id).collect();
        hands.put(first, now, tag(1));
        hands.put(second, now, tag(2));
        assert_eq!(taken(&mut hands, 4, now), []);
        let over = hands.over(hands.until().unwrap(), 0);
        assert_eq!((over.held, over.free, over.tags), (rest, 0, vec![]));
        assert_eq!(hands.len(), 0);
        assert_eq!(hands.over(now + HOLD, 0).tags, [tag(1), tag(2)]);
        assert!(hands.is_idle() && hands.until().is_none());
    }

    #[test]
    fn a_busy_node_gets_no_more_in_place_of_what_it_gave_back() {
        let (mut hands, now) = (Hands::new(), Instant::now());
        for n in 1..=3 {
            hands.put(rows(4), now, tag(n));
        }
        let later = now + STALLED;
        assert_eq!(hands.over(later, 0).tags, []);
        assert!(!hands.is_idle(), "they are to be acked");
        assert_eq!(hands.until(), Some(later + STALLED));
        assert_eq!(hands.over(later + STALLED, 0).tags, [], "no slot is free");
        assert_eq!(hands.over(later + 2 * STALLED, 1).tags, [tag(1)]);
        assert_eq!(hands.over(later + 2 * STALLED, 1).tags, [], "it is the same slot");
        assert_eq!(hands.over(later + 3 * STALLED, 5).tags, [tag(2), tag(3)]);
        assert!(hands.is_idle());
    }

    #[test]
    fn what_came_with_others_waits_while_slots_come_free_and_not_for_ever() {
        let (mut hands, now) = (Hands::new(), Instant::now());
        hands.put(rows(30), now, tag(1));
        assert_eq!(hands.until(), Some(now + STALLED), "nothing moves");
        let later = now + STALLED / 2;
        assert_eq!(taken(&mut hands, 1, later), []);
        assert_eq!(hands.over(now + STALLED, 0).held.len(), 0, "a slot came free meanwhile");
        assert_eq!(hands.until(), Some(later + STALLED));
        let late = now + PATIENCE - STALLED / 2;
        assert_eq!(taken(&mut hands, 1, late), []);
        assert_eq!(hands.until(), Some(now + PATIENCE));
        let over = hands.over(now + PATIENCE, 0);
        assert_eq!((over.held.len(), over.tags), (28, vec![]));
    }

    /// The claim of the rows before them took long, and it is this node's own: nothing keeps them from the slots that are free.
    #[test]
    fn what_there_are_slots_for_is_not_left() {
        let (mut hands, now) = (Hands::new(), Instant::now());
        hands.put(rows(20), now, tag(1));
        let over = hands.over(now + PATIENCE, 15);
        assert_eq!((over.held.len(), hands.len()), (5, 15));
        assert_eq!(taken(&mut hands, 15, now + PATIENCE), []);
    }

    #[test]
    fn what_came_alone_waits_until_its_row_is_free() {
        let (mut hands, now) = (Hands::new(), Instant::now());
        hands.put(rows(1), now, tag(1));
        hands.put(rows(2), now, tag(2));
        let over = hands.over(now + PATIENCE, 0);
        assert_eq!((over.held.len(), over.free, over.tags), (2, 0, vec![]));
        assert_eq!(hands.len(), 1);
        let over = hands.over(now + HOLD, 0);
        assert_eq!((over.held.len(), over.free, over.tags), (0, 1, vec![tag(1), tag(2)]));
    }
}
