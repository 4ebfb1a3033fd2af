//! Rows of which some make a statement fail: they are tried in halves, down to the single ones at fault.

use std::time::{Duration, Instant};

use uuid::Uuid;

/// A job, as such a statement finds it.
pub(super) trait Named: Copy {
    fn id(&self) -> Uuid;
}

impl Named for Uuid {
    fn id(&self) -> Uuid {
        *self
    }
}

/// The parts that are still to be tried, the first rows on top.
#[derive(Debug)]
pub(super) struct Halves<'a, R> {
    left: Vec<&'a [R]>,
    until: Instant,
}

impl<'a, R> Halves<'a, R> {
    /// Begins with all rows. After this time no part is begun any more: what is left has to wait for another run.
    pub(super) fn of(rows: &'a [R], time: Duration) -> Self {
        Self { left: vec![rows], until: Instant::now() + time }
    }

    /// Returns the next part, which is not empty.
    pub(super) fn next(&mut self) -> Option<&'a [R]> {
        if Instant::now() >= self.until {
            return None;
        }
        self.left.pop().filter(|part| !part.is_empty())
    }

    /// Says that this part failed because of some of its rows. Returns its row if there is one only; otherwise its halves come next.
    pub(super) fn failed(&mut self, part: &'a [R]) -> Option<&'a R> {
        if let [one] = part {
            return Some(one);
        }
        let (first, second) = part.split_at(part.len() / 2);
        self.left.extend([second, first]);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Tries rows of which some are bad. Returns the good ones, the bad ones, and how many parts were tried.
    fn sorted(rows: &[u32], bad: &[u32]) -> (Vec<u32>, Vec<u32>, usize) {
        let (mut good, mut found, mut tried) = (Vec::new(), Vec::new(), 0);
        let mut halves = Halves::of(rows, LONG);
        while let Some(part) = halves.next() {
            tried += 1;
            if part.iter().any(|row| bad.contains(row)) {
                found.extend(halves.failed(part));
            } else {
                good.extend(part);
            }
        }
        (good, found, tried)
    }

    #[test]
    fn the_good_ones_pass_in_their_order_and_the_bad_ones_are_found() {
        let rows: Vec<u32> = (0..1000).collect();
        for bad in [vec![], vec![0], vec![999], vec![3, 4, 500], rows.clone()] {
            let (good, found, _) = sorted(&rows, &bad);
            assert_eq!(found, bad);
            assert_eq!(good, rows.iter().copied().filter(|row| !bad.contains(row)).collect::<Vec<_>>());
        }
        assert_eq!(sorted(&[], &[]), (vec![], vec![], 0));
    }

    #[test]
    fn one_bad_row_takes_as_many_steps_as_it_can_be_halved() {
        let rows: Vec<u32> = (0..1024).collect();
        assert_eq!(sorted(&rows, &[700]).2, 21, "the whole, and two halves ten times");
    }

    #[test]
    fn nothing_is_begun_after_its_time() {
        assert!(Halves::of(&[1, 2], Duration::ZERO).next().is_none());
    }
}
