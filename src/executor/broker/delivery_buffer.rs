//! Rows that deliveries have named and that wait for a slot.
//!
//! A delivery of several rows may come to a node that has slots for only some of them. Those are claimed. The others wait here while slots
//! keep becoming free. When that stops, they go back to the table for other nodes. A row that came alone waits until its head start ends:
//! the broker already spreads such rows over the nodes.
//!
//! A delivery that was given back is acked when slots are free, at most one per free slot every 20 ms, or when its head start would have
//! ended. Otherwise a busy node would get the next delivery at once and give it back too, and senders would never see that the queue is
//! full.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::broker::Tag;
use crate::broker::wire::RowRef;
use crate::job::JobId;
use crate::message::HEAD_START;

/// How long a row that came with others waits while no slot becomes free. The running jobs are long then, and other nodes can run the row
/// sooner.
const STALLED: Duration = Duration::from_millis(20);
/// How long such a row waits although slots become free.
const PATIENCE: Duration = Duration::from_millis(250);

/// A row that waits for a slot.
pub(crate) struct BufferedRow {
    pub(crate) row: RowRef,
    came: Instant,
    /// Whether its delivery has other rows.
    together: bool,
    /// Its delivery, if this is the last row of it: once this row is decided, all are.
    pub(crate) last: Option<Tag>,
    /// Whether other rows of its delivery were given back. Then the delivery is not acked with this row, but like one that was given back.
    pub(crate) cut: bool,
}

impl BufferedRow {
    /// Returns when its head start ends.
    pub(crate) fn until(&self) -> Instant {
        self.came + HEAD_START
    }
}

/// Waiting rows, in the order in which they arrived.
pub(crate) struct DeliveryBuffer {
    rows: VecDeque<BufferedRow>,
    /// Deliveries that were given back, and when their head starts would have ended.
    given_back: VecDeque<(Instant, Tag)>,
    /// When to check next whether slots are free for these deliveries.
    again: Instant,
    /// When a slot was free last.
    moved: Instant,
}

/// The rows that this node does not take.
#[derive(Default)]
pub(crate) struct TimedOutRows {
    /// Rows that are still hidden.
    pub(crate) hidden: Vec<JobId>,
    /// The number of rows that are visible again.
    pub(crate) free: usize,
    /// Deliveries to ack.
    pub(crate) tags: Vec<Tag>,
}

impl DeliveryBuffer {
    pub(crate) fn new() -> Self {
        Self { rows: VecDeque::new(), given_back: VecDeque::new(), again: Instant::now(), moved: Instant::now() }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether no row waits for a slot.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether no row waits for a slot and no delivery is to be acked.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && self.given_back.is_empty()
    }

    /// Adds the rows of a delivery.
    pub(crate) fn put(&mut self, rows: Vec<RowRef>, came: Instant, tag: Tag) {
        let count = rows.len();
        self.rows.extend(rows.into_iter().enumerate().map(|(n, row)| {
            let last = (n + 1 == count).then_some(tag);
            BufferedRow { row, came, together: count > 1, last, cut: false }
        }));
    }

    /// Takes rows for free slots, at most `most`.
    pub(crate) fn take(&mut self, most: usize, now: Instant) -> impl Iterator<Item = BufferedRow> {
        self.moved = now;
        self.rows.drain(..most.min(self.rows.len()))
    }

    /// Keeps a delivery whose rows are all decided, some of them by giving them back, until it can be acked.
    pub(crate) fn give_back(&mut self, tag: Tag, until: Instant, now: Instant) {
        if self.given_back.is_empty() {
            self.again = now + STALLED;
        }
        self.given_back.push_back((until, tag));
    }

    /// Takes out all deliveries that were given back, for a node that stops.
    pub(crate) fn all_given_back(&mut self) -> Vec<Tag> {
        self.given_back.drain(..).map(|(_, tag)| tag).collect()
    }

    /// Returns when the next rows time out.
    pub(crate) fn until(&self) -> Option<Instant> {
        // Rows of a sort time out in their order.
        let alone = self.rows.front().map(BufferedRow::until);
        let together = self.rows.iter().find(|waiting| waiting.together).map(|waiting| self.patience(waiting));
        let given_back = self.given_back.front().map(|(until, _)| self.again.min(*until));
        alone.into_iter().chain(together).chain(given_back).min()
    }

    fn patience(&self, waiting: &BufferedRow) -> Instant {
        (waiting.came.max(self.moved) + STALLED).min(waiting.came + PATIENCE)
    }

    /// Takes out rows that have waited too long, and deliveries that were given back, if `free` slots are free. Rows that the free slots
    /// are for stay and are taken next, however long the claim before them took.
    pub(crate) fn over(&mut self, now: Instant, free: usize) -> TimedOutRows {
        let mut over = TimedOutRows::default();
        for waiting in std::mem::take(&mut self.rows) {
            if waiting.until() <= now {
                over.free += 1;
            } else if waiting.together && self.rows.len() >= free && self.patience(&waiting) <= now {
                over.hidden.push(waiting.row.fence.id);
                let Some(tag) = waiting.last else { continue };
                match self.rows.back_mut() {
                    // An earlier row of the delivery stays. The delivery is finished with that one.
                    Some(kept) if kept.last.is_none() => (kept.last, kept.cut) = (Some(tag), true),
                    _ => self.give_back(tag, waiting.until(), now),
                }
                continue;
            } else {
                self.rows.push_back(waiting);
                continue;
            }
            over.tags.extend(waiting.last);
        }
        while self.given_back.front().is_some_and(|(until, _)| *until <= now) {
            over.tags.extend(self.given_back.pop_front().map(|(_, tag)| tag));
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

    fn rows(count: usize) -> Vec<RowRef> {
        (0..count).map(|_| RowRef { fence: Fence::new(JobId::new(), 0), kind: "note".to_owned() }).collect()
    }

    fn tag(tag: u64) -> Tag {
        Tag { generation: 1, tag }
    }

    /// Returns the deliveries that are finished when these rows are taken.
    fn taken(buffered: &mut DeliveryBuffer, most: usize, now: Instant) -> Vec<Tag> {
        buffered.take(most, now).filter_map(|waiting| waiting.last).collect()
    }

    #[test]
    fn a_delivery_that_is_cut_is_done_with_when_its_last_row_is() {
        let (mut buffered, now) = (DeliveryBuffer::new(), Instant::now());
        let (first, second) = (rows(6), rows(2));
        let rest: Vec<JobId> = first[4..].iter().chain(&second).map(|row| row.fence.id).collect();
        buffered.put(first, now, tag(1));
        buffered.put(second, now, tag(2));
        assert_eq!(taken(&mut buffered, 4, now), []);
        let over = buffered.over(buffered.until().unwrap(), 0);
        assert_eq!((over.hidden, over.free, over.tags), (rest, 0, vec![]));
        assert_eq!(buffered.len(), 0);
        assert_eq!(buffered.over(now + HEAD_START, 0).tags, [tag(1), tag(2)]);
        assert!(buffered.is_idle() && buffered.until().is_none());
    }

    #[test]
    fn a_busy_node_gets_no_more_in_place_of_what_it_gave_back() {
        let (mut buffered, now) = (DeliveryBuffer::new(), Instant::now());
        for n in 1..=3 {
            buffered.put(rows(4), now, tag(n));
        }
        let later = now + STALLED;
        assert_eq!(buffered.over(later, 0).tags, []);
        assert!(!buffered.is_idle(), "they are to be acked");
        assert_eq!(buffered.until(), Some(later + STALLED));
        assert_eq!(buffered.over(later + STALLED, 0).tags, [], "no slot is free");
        assert_eq!(buffered.over(later + 2 * STALLED, 1).tags, [tag(1)]);
        assert_eq!(buffered.over(later + 2 * STALLED, 1).tags, [], "it is the same slot");
        assert_eq!(buffered.over(later + 3 * STALLED, 5).tags, [tag(2), tag(3)]);
        assert!(buffered.is_idle());
    }

    #[test]
    fn what_came_with_others_waits_while_slots_come_free_and_not_for_ever() {
        let (mut buffered, now) = (DeliveryBuffer::new(), Instant::now());
        buffered.put(rows(30), now, tag(1));
        assert_eq!(buffered.until(), Some(now + STALLED), "nothing moves");
        let later = now + STALLED / 2;
        assert_eq!(taken(&mut buffered, 1, later), []);
        assert_eq!(buffered.over(now + STALLED, 0).hidden.len(), 0, "a slot came free meanwhile");
        assert_eq!(buffered.until(), Some(later + STALLED));
        let late = now + PATIENCE - STALLED / 2;
        assert_eq!(taken(&mut buffered, 1, late), []);
        assert_eq!(buffered.until(), Some(now + PATIENCE));
        let over = buffered.over(now + PATIENCE, 0);
        assert_eq!((over.hidden.len(), over.tags), (28, vec![]));
    }

    /// The claim of the rows before them was this node's own and took long. Nothing keeps the rows from the free slots.
    #[test]
    fn what_there_are_slots_for_is_not_left() {
        let (mut buffered, now) = (DeliveryBuffer::new(), Instant::now());
        buffered.put(rows(20), now, tag(1));
        let over = buffered.over(now + PATIENCE, 15);
        assert_eq!((over.hidden.len(), over.tags, buffered.len()), (5, vec![], 15));
        let over = buffered.over(now + PATIENCE + STALLED, 15);
        assert_eq!((over.hidden.len(), over.tags), (0, vec![]), "its rows are not claimed yet");
        let last = buffered.take(15, now + PATIENCE + STALLED).last().unwrap();
        assert_eq!((last.last, last.cut), (Some(tag(1)), true), "it is acked like one that was given back");
    }

    #[test]
    fn what_came_alone_waits_until_its_row_is_free() {
        let (mut buffered, now) = (DeliveryBuffer::new(), Instant::now());
        buffered.put(rows(1), now, tag(1));
        buffered.put(rows(2), now, tag(2));
        let over = buffered.over(now + PATIENCE, 0);
        assert_eq!((over.hidden.len(), over.free, over.tags), (2, 0, vec![]));
        assert_eq!(buffered.len(), 1);
        let over = buffered.over(now + HEAD_START, 0);
        assert_eq!((over.hidden.len(), over.free, over.tags), (0, 1, vec![tag(1), tag(2)]));
    }
}
