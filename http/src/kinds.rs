//! Waiting jobs by queue and kind, as rows of metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jobwright::admin::Count;
use jobwright::internal::{KindStatus, WaitingKinds};

use crate::encode::{Labels, Writer};

/// The most pairs of queue and kind that have rows of their own. What the others of a queue have is in a row of that queue without a kind.
const PAIRS: usize = 500;
/// The kind of these rows. A name is never empty, and to Prometheus an empty label is none.
const REST: &str = "";

/// The waiting jobs by queue and kind, of a bounded number of pairs.
#[derive(Debug)]
pub(crate) struct Kinds {
    /// How many wait, and the age of the oldest, in seconds.
    rows: BTreeMap<(String, String), (u64, f64)>,
    partial: BTreeSet<String>,
}

impl Kinds {
    pub(crate) fn new(WaitingKinds { mut kinds, partial, .. }: WaitingKinds) -> Self {
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.waiting));
        let mut rows = BTreeMap::new();
        for (place, KindStatus { queue, kind, waiting, oldest_waiting_seconds, .. }) in kinds.into_iter().enumerate() {
            let kind = if place < PAIRS { kind } else { REST.to_owned() };
            let (sum, oldest) = rows.entry((queue, kind)).or_insert((0, 0.0_f64));
            *sum += waiting;
            *oldest = oldest.max(oldest_waiting_seconds);
        }
        Self { rows, partial }
    }

    /// Adds the waiting jobs of queues whose kinds were not read.
    pub(crate) fn add_rest(&mut self, queue: &str, waiting: Count, oldest_waiting_seconds: Option<f64>) {
        let row = (waiting.get(), oldest_waiting_seconds.unwrap_or_default());
        self.rows.insert((queue.to_owned(), REST.to_owned()), row);
        if !waiting.is_exact() {
            self.partial.insert(queue.to_owned());
        }
    }

    fn rows<'a>(&'a self, of: impl Fn(&(u64, f64)) -> f64) -> impl Iterator<Item = (Labels<'a>, f64)> {
        let labels = |queue: &'a str, kind: &'a str| vec![("queue", queue), ("kind", kind)];
        self.rows.iter().map(move |((queue, kind), row)| (labels(queue, kind), of(row)))
    }

    pub(crate) fn encode(&self, to: &mut Writer<'_>) -> fmt::Result {
        to.gauge("jobwright_kind_waiting_jobs", "Waiting jobs by kind", self.rows(|(waiting, _)| *waiting as f64))?;
        to.gauge(
            "jobwright_kind_oldest_waiting_seconds",
            "Age of the oldest waiting job of a kind",
            self.rows(|(_, oldest)| *oldest),
        )?;
        let queues: BTreeSet<&str> = self.rows.keys().map(|(queue, _)| queue.as_str()).collect();
        let partial =
            queues.into_iter().map(|queue| (vec![("queue", queue)], f64::from(u8::from(self.partial.contains(queue)))));
        to.gauge("jobwright_kinds_partial", "1 if a queue has more jobs than were read for its kinds", partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_many_kinds_are_joined_by_queue() {
        let mut found = WaitingKinds::default();
        let kind = |queue: &str, kind: String, waiting, age| {
            let mut one = KindStatus::default();
            (one.queue, one.kind) = (queue.to_owned(), kind);
            (one.waiting, one.oldest_waiting_seconds) = (waiting, age);
            one
        };
        found.kinds = (0..PAIRS as u64).map(|n| kind("large", format!("k{n}"), 10 + n, 1.0)).collect();
        found.kinds.extend((0..7).map(|n| kind("small", format!("k{n}"), 1 + n, n as f64)));
        found.kinds.push(kind("other", "k".to_owned(), 3, 4.0));
        let kinds = Kinds::new(found);
        assert_eq!(kinds.rows.len(), PAIRS + 2);
        let row = |queue: &str, kind: &str| kinds.rows.get(&(queue.to_owned(), kind.to_owned())).copied();
        assert_eq!((row("small", REST), row("small", "k0")), (Some((28, 6.0)), None));
        assert_eq!((row("other", REST), row("large", REST)), (Some((3, 4.0)), None));
        assert_eq!(row("large", "k0"), Some((10, 1.0)));
    }
}
