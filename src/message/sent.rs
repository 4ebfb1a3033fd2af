//! Counters of the jobs that this process has sent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::Written;
use crate::job::JobMessage;

/// The most pairs of queue and kind that are counted apart. A program that makes up names must not make up counters.
const PAIRS: usize = 500;

/// The jobs that a process has sent through its message services, counted after their commit. Obtained from [`MessageServices::sent`](crate::MessageServices::sent); cheap to clone.
///
/// The crate `jobwright-http` serves it as `/metrics`. An executor's [`Telemetry`](crate::executor::Telemetry) has the same numbers.
///
/// ```no_run
/// # fn f(messages: jobwright::MessageServices) {
/// for sent in messages.sent().read().jobs {
///     println!("{} to {}: {}", sent.kind, sent.queue, sent.sent);
/// }
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Sent(Arc<Counters>);

#[derive(Default)]
struct Counters {
    /// By queue and kind. Written to when a pair is new, and else only read.
    pairs: RwLock<Pairs>,
    /// Jobs of further pairs.
    others: AtomicU64,
}

#[derive(Default)]
struct Pairs {
    /// In two steps, so that a pair is found without a copy of its names.
    of_queue: BTreeMap<String, BTreeMap<String, AtomicU64>>,
    count: usize,
}

impl Pairs {
    fn get(&self, queue: &str, kind: &str) -> Option<&AtomicU64> {
        self.of_queue.get(queue)?.get(kind)
    }
}

/// The numbers of [`Sent`] at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentMetrics {
    /// The first 500 pairs of queue and kind that were sent, in the order of their names.
    pub jobs: Vec<SentJobs>,
    /// Jobs of all other pairs.
    pub others: u64,
}

/// The jobs of a kind that were sent to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentJobs {
    /// The queue.
    pub queue: String,
    /// The kind, by the name that it was sent with.
    pub kind: String,
    /// How many.
    pub sent: u64,
}

impl Sent {
    /// Returns the counters at this moment.
    pub fn read(&self) -> SentMetrics {
        let pairs = self.0.pairs.read().unwrap_or_else(PoisonError::into_inner);
        let kinds = pairs.of_queue.iter().flat_map(|(queue, kinds)| kinds.iter().map(move |kind| (queue, kind)));
        let jobs = kinds.map(|(queue, (kind, sent))| SentJobs {
            queue: queue.clone(),
            kind: kind.clone(),
            sent: sent.load(Ordering::Relaxed),
        });
        SentMetrics { jobs: jobs.collect(), others: self.0.others.load(Ordering::Relaxed) }
    }

    /// Counts what a commit has kept, without those that an earlier one had sent.
    pub(crate) fn count(&self, written: &Written) {
        let known = &written.known;
        // Most commits send one job, or many alike.
        for alike in written.messages.chunk_by(|a, b| (&a.kind, &a.queue) == (&b.kind, &b.queue)) {
            let is_new = |message: &&JobMessage| known.is_empty() || !known.contains(&message.id);
            self.add(&alike[0].queue, &alike[0].kind, alike.iter().filter(is_new).count() as u64);
        }
    }

    fn add(&self, queue: &str, kind: &str, jobs: u64) {
        if jobs == 0 {
            return;
        }
        let add = |counter: &AtomicU64| {
            counter.fetch_add(jobs, Ordering::Relaxed);
        };
        let found = self.0.pairs.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = found.get(queue, kind) {
            return add(counter);
        }
        if found.count >= PAIRS {
            return add(&self.0.others);
        }
        drop(found);
        let mut pairs = self.0.pairs.write().unwrap_or_else(PoisonError::into_inner);
        // Another commit may have added it meanwhile, or the last one that there may be.
        if pairs.get(queue, kind).is_none() {
            if pairs.count >= PAIRS {
                return add(&self.0.others);
            }
            pairs.count += 1;
        }
        add(pairs.of_queue.entry(queue.to_owned()).or_default().entry(kind.to_owned()).or_default());
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sent").field(&self.read()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_beyond_the_bound_are_counted_together() {
        let sent = Sent::default();
        for n in 0..PAIRS + 7 {
            sent.add("q", &format!("k{n}"), 2);
        }
        sent.add("q", "k0", 1);
        let SentMetrics { jobs, others } = sent.read();
        assert_eq!((jobs.len(), others), (PAIRS, 14));
        assert_eq!(jobs[0], SentJobs { queue: "q".into(), kind: "k0".into(), sent: 3 });
    }

    #[test]
    fn commits_at_the_same_time_make_one_counter() {
        let sent = Sent::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1_000).for_each(|n| sent.add("q", &format!("k{}", n % 20), 1)));
            }
        });
        let read = sent.read();
        assert_eq!((read.jobs.len(), read.jobs.iter().map(|it| it.sent).sum::<u64>()), (20, 8_000));
    }
}
