//! Histograms with fixed buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of times, in microseconds: 1 ms to 1 hour.
const TIMES: [u64; 15] = [
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    600_000_000,
    1_800_000_000,
    3_600_000_000,
];
/// Upper bounds of numbers of jobs.
const SIZES: [u64; 10] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500];

/// How often values were in which range, at the moment.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// The upper bound of each bucket (inclusive) with the number of values in it, smallest first. The last bound is infinite. A value is counted in one
    /// bucket only.
    pub buckets: Vec<(f64, u64)>,
    /// The sum of all values: seconds, or a number of jobs.
    pub sum: f64,
}

impl Histogram {
    /// Returns how many values there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

/// A histogram that tasks add to. `N`: the number of bounds.
#[derive(Debug)]
struct Buckets<const N: usize> {
    counts: [AtomicU64; N],
    above: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; N], above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }
}

impl<const N: usize> Buckets<N> {
    fn add(&self, bounds: &[u64; N], value: u64) {
        let place = bounds.partition_point(|bound| *bound < value);
        self.counts.get(place).unwrap_or(&self.above).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Reads it while others add to it: the sum may be that of a value more or less.
    fn read(&self, bounds: &[u64; N], unit: f64) -> Histogram {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let below = bounds.iter().zip(&self.counts).map(|(bound, count)| (*bound as f64 / unit, get(count)));
        Histogram {
            buckets: below.chain([(f64::INFINITY, get(&self.above))]).collect(),
            sum: get(&self.sum) as f64 / unit,
        }
    }
}

/// Times, read in seconds.
#[derive(Debug, Default)]
pub(crate) struct Times(Buckets<{ TIMES.len() }>);

impl Times {
    pub(crate) fn add(&self, time: Duration) {
        self.0.add(&TIMES, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn read(&self) -> Histogram {
        self.0.read(&TIMES, 1e6)
    }
}

/// Numbers of jobs.
#[derive(Debug, Default)]
pub(crate) struct Sizes(Buckets<{ SIZES.len() }>);

impl Sizes {
    pub(crate) fn add(&self, size: usize) {
        self.0.add(&SIZES, size as u64);
    }

    pub(crate) fn read(&self) -> Histogram {
        self.0.read(&SIZES, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_that_is_not_below_it() {
        let times = Times::default();
        for micros in [0, 1_000, 1_001, 5_000, 3_600_000_000, 3_600_000_001] {
            times.add(Duration::from_micros(micros));
        }
        let read = times.read();
        let filled: Vec<_> = read.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(0.001, 2), (0.005, 2), (3600.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((read.count(), read.sum), (6, 7_200.007_002));
        assert!(read.buckets.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn a_claim_that_found_nothing_has_its_own_bucket() {
        let sizes = Sizes::default();
        for size in [0, 0, 1, 500, 501] {
            sizes.add(size);
        }
        let filled: Vec<_> = sizes.read().buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.0, 2), (1.0, 1), (500.0, 1), (f64::INFINITY, 1)]);
    }
}
