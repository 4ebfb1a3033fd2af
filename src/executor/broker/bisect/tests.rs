//! Tests with a store that fails on request, because no server fails at will for one message of a batch.

use std::future::ready;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::broker::Tag;
use crate::executor::broker::bisect::*;

/// Fails each call that contains a given item, and counts calls and checks.
#[derive(Default)]
struct Faulty {
    /// Items, and how a call with them fails.
    bad: Vec<(usize, ErrorKind)>,
    /// How many calls and checks fail before the store is up.
    down: Mutex<u32>,
    calls: Mutex<Vec<Range<usize>>>,
    questions: Mutex<u32>,
}

impl Faulty {
    fn is_down(&self) -> bool {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        *down = down.saturating_sub(1);
        *down > 0
    }

    fn call(&self, part: &Range<usize>) -> Result<()> {
        self.calls.lock().unwrap().push(part.clone());
        if self.is_down() {
            return Err(Error::new(ErrorKind::Unreachable, "down"));
        }
        match self.bad.iter().find(|(item, _)| part.contains(item)) {
            Some((item, kind)) => Err(Error::new(*kind, format!("because of {item}"))),
            None => Ok(()),
        }
    }

    fn alive(&self) -> Result<()> {
        *self.questions.lock().unwrap() += 1;
        if self.is_down() { Err(Error::new(ErrorKind::Unreachable, "down")) } else { Ok(()) }
    }

    /// What was stored and what was refused, in the order reported.
    async fn take(&self, count: usize) -> (Vec<usize>, Vec<usize>) {
        let (mut stored, mut refused) = (Vec::new(), Vec::new());
        in_parts(
            "store",
            count,
            |part| ready(self.call(&part)),
            || ready(self.alive()),
            |part, outcome| match outcome {
                Ok(()) => stored.extend(part),
                Err(_) => refused.extend(part),
            },
        )
        .await;
        (stored, refused)
    }

    /// How often this item was tried alone.
    fn alone(&self, item: usize) -> usize {
        self.calls.lock().unwrap().iter().filter(|part| **part == (item..item + 1)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn what_ends_connections_is_found_and_its_neighbours_are_stored() {
    for kind in [ErrorKind::Timeout, ErrorKind::Unreachable, ErrorKind::CommitUnknown] {
        let store = Faulty { bad: vec![(37, kind)], ..Faulty::default() };
        let (stored, refused) = store.take(100).await;
        assert_eq!(refused, [37]);
        assert_eq!(stored, (0..100).filter(|n| *n != 37).collect::<Vec<_>>(), "lost, or out of order");
        assert_eq!(store.alone(37), 3, "{kind:?}");
        assert!(store.calls.lock().unwrap().len() < 25, "one by one");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_put_off_for_ever_is_refused_in_the_end() {
    let store = Faulty { bad: vec![(2, ErrorKind::Aborted)], ..Faulty::default() };
    assert_eq!(store.take(5).await, (vec![0, 1, 3, 4], vec![2]));
    assert_eq!(store.alone(2), 8);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_not_tried_again() {
    let store = Faulty { bad: vec![(0, ErrorKind::Database), (4, ErrorKind::Database)], ..Faulty::default() };
    assert_eq!(store.take(5).await, (vec![1, 2, 3], vec![0, 4]));
    assert_eq!((store.alone(0), store.alone(4), *store.questions.lock().unwrap()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_and_nobody_is_blamed() {
    let store = Faulty { down: Mutex::new(1000), ..Faulty::default() };
    assert_eq!(store.take(1).await, (vec![0], Vec::new()));
    assert!(*store.questions.lock().unwrap() > 990);
    assert!(store.calls.lock().unwrap().len() < 4, "counted against it");
}

#[test]
fn parts_are_bounded_by_bytes_and_keep_their_order() {
    let mib = 1024 * 1024;
    let sizes = |parts: Vec<Vec<usize>>| parts.into_iter().map(|part| part.len()).collect::<Vec<_>>();
    assert_eq!(sizes(cut(vec![mib; 20], |size| *size)), [8, 8, 4]);
    assert_eq!(sizes(cut(vec![1, 16 * mib, 1, 1], |size| *size)), [1, 1, 2]);
    assert_eq!(sizes(cut(vec![0; 500], |size| *size)), [500]);
    assert!(cut(Vec::<usize>::new(), |size| *size).is_empty());
    assert_eq!(cut((0..99).collect(), |_| mib).concat(), (0..99).collect::<Vec<_>>());
}

fn came((tag, redelivered): (u64, bool)) -> Incoming {
    Incoming {
        properties: lapin::BasicProperties::default(),
        body: Vec::new(),
        redelivered,
        received: Instant::now(),
        tag: Tag { generation: 1, tag },
    }
}

fn tags(parts: &[Vec<Incoming>]) -> Vec<Vec<u64>> {
    parts.iter().map(|part| part.iter().map(|message| message.tag.tag).collect()).collect()
}

#[test]
fn what_came_before_is_taken_by_itself_and_after_the_rest() {
    let messages: Vec<_> = [(1, true), (2, false), (3, true), (4, false)].into_iter().map(came).collect();
    assert_eq!(tags(&batches(messages)), [vec![2, 4], vec![1], vec![3]]);
    assert!(batches(Vec::new()).is_empty());
}

#[test]
fn what_has_waited_keeps_its_order_and_what_came_before_is_taken_by_itself() {
    let messages: Vec<_> =
        [(1, false), (2, true), (3, true), (4, false), (5, false), (6, true)].into_iter().map(came).collect();
    assert_eq!(tags(&in_order(messages, |message| message)), [vec![1], vec![2], vec![3], vec![4, 5], vec![6]]);
}

#[test]
fn the_larger_messages_may_be_the_fewer_are_in_hand() {
    let of = |payload| prefetch(Limits { payload, ..Limits::default() });
    assert_eq!([of(1024), of(1024 * 1024), of(100 * 1024 * 1024), of(0)], [500, 64, 10, 500]);
}
