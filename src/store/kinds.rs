use std::collections::BTreeSet;

use serde::Serialize;

/// How many waiting jobs are read at most to tell their kinds apart, of all queues together.
const READ: usize = 100_000;

/// The waiting jobs of some queues by kind, from [`Admin::waiting_kinds`](crate::admin::Admin::waiting_kinds).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WaitingKinds {
    /// The jobs of each kind, by queue and kind.
    pub kinds: Vec<KindStatus>,
    /// Queues of which only the first jobs were read: they have more than these, perhaps of other kinds and older ones.
    pub partial: BTreeSet<String>,
}

/// The waiting jobs of a kind in a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KindStatus {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// How many jobs wait.
    pub waiting: u64,
    /// Seconds since the oldest of them was flushed.
    pub oldest_waiting_seconds: f64,
}

impl WaitingKinds {
    /// Returns how many jobs of each queue are read at most.
    pub(crate) fn each(queues: usize) -> usize {
        (READ / queues.max(1)).max(1)
    }

    /// Sorts what was read, and finds the queues that may have more.
    pub(crate) fn new(mut kinds: Vec<KindStatus>, each: usize) -> Self {
        kinds.sort_by(|a, b| (&a.queue, &a.kind).cmp(&(&b.queue, &b.kind)));
        let of_one_queue = kinds.chunk_by(|a, b| a.queue == b.queue);
        let cut = of_one_queue.filter(|kinds| kinds.iter().map(|kind| kind.waiting).sum::<u64>() >= each as u64);
        let partial = cut.map(|kinds| kinds[0].queue.clone()).collect();
        Self { kinds, partial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(queue: &str, kind: &str, waiting: u64) -> KindStatus {
        KindStatus { queue: queue.to_owned(), kind: kind.to_owned(), waiting, oldest_waiting_seconds: 1.0 }
    }

    #[test]
    fn a_queue_of_which_as_many_were_read_as_may_be_is_partial() {
        let read = vec![kind("b", "y", 6), kind("a", "x", 9), kind("b", "x", 4)];
        let found = WaitingKinds::new(read, 10);
        assert_eq!(found.partial, BTreeSet::from(["b".to_owned()]));
        assert_eq!(found.kinds, [kind("a", "x", 9), kind("b", "x", 4), kind("b", "y", 6)]);
    }

    #[test]
    fn all_queues_share_what_may_be_read() {
        let shares = [0, 1, 200, 1_000_000].map(WaitingKinds::each);
        assert_eq!(shares, [100_000, 100_000, 500, 1]);
    }
}
