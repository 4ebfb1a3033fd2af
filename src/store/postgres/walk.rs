//! Walks over all jobs, a range of pages at a time. There is no other way to find the jobs of a node, because an index on the owner would
//! cost every claim its HOT update. Each range is a separate statement. So a table of any size is walked within the deadline of each call,
//! and a walk can stop between two ranges.

use std::sync::atomic::{AtomicU64, Ordering};

use super::types::Tid;

/// How many pages one statement reads: 128 MiB, which a slow disk reads within a second.
const RANGE: u64 = 16_384;
/// Beyond every page that a table can have.
const END: u64 = u32::MAX as u64;

/// Where the next walk begins: the range in which the last one stopped early.
#[derive(Debug, Default)]
pub(super) struct WalkPosition(AtomicU64);

impl WalkPosition {
    /// Returns the ranges of a walk over so many pages. The last range also covers all pages that are added meanwhile.
    pub(super) fn ranges(&self, pages: u64) -> Vec<Pages> {
        cut(pages, self.0.load(Ordering::Relaxed))
    }

    pub(super) fn stopped_in(&self, range: &Pages) {
        self.0.store(range.first, Ordering::Relaxed);
    }
}

/// A range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    first: u64,
    end: u64,
}

impl Pages {
    /// Returns the location before the first row of the range.
    pub(super) fn from(&self) -> Tid {
        Tid::first_of(self.first)
    }

    /// Returns the location after its last row.
    pub(super) fn to(&self) -> Tid {
        Tid::first_of(self.end)
    }
}

fn cut(pages: u64, start: u64) -> Vec<Pages> {
    let count = pages.div_ceil(RANGE).max(1);
    let mut ranges: Vec<Pages> = (0..count)
        .map(|n| Pages { first: n * RANGE, end: if n + 1 == count { END } else { (n + 1) * RANGE } })
        .collect();
    let at = ranges.iter().position(|range| range.first == start).unwrap_or(0);
    ranges.rotate_left(at);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_every_page_once() {
        for pages in [0, 1, RANGE, RANGE + 1, 5 * RANGE - 1] {
            let mut ranges = cut(pages, 2 * RANGE);
            ranges.sort_by_key(|range| range.first);
            assert_eq!((ranges[0].first, ranges[ranges.len() - 1].end), (0, END), "{pages} pages");
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].first), "{ranges:?}");
        }
    }

    #[test]
    fn a_walk_goes_on_where_the_last_one_had_enough() {
        let first = |start| cut(4 * RANGE, start)[0].first;
        assert_eq!([first(0), first(3 * RANGE)], [0, 3 * RANGE]);
        assert_eq!(first(9 * RANGE), 0, "the table has become smaller");
    }
}
