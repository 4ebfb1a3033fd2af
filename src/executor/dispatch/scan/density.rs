//! How dense a backlog is, and therefore how far a claim will come.
//!
//! The rows of a queue have ascending numbers, with gaps for those of other queues. A claim of some rows comes about as far as the last one
//! did. That range is reserved for it before it begins, so that claims of other processes begin behind it ([`SharedCursor`]). If it comes
//! less far, the rest stays reserved for this dispatcher, whose next claim begins there. If it comes further, it meets the rows of the next
//! claim, which are locked, and skips them. The shared cursor does not know of that, so the next claim moves it on by as much more.
//! Otherwise one displaced claim would displace all that come after it, for as long as the backlog lasts.

use crate::store::{Claimed, SharedCursor};

/// A claim of fewer rows says too little.
const ENOUGH: usize = 16;

/// What the last claims of a backlog found in its worst rank, the one being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BacklogDensity {
    rank: i16,
    rows: i64,
    /// The distance from the first number to the last.
    span: i64,
    /// The end of the reserved rows, if not all of them were taken.
    reserved_until: Option<i64>,
    /// The distance from the last row taken to there.
    left: i64,
    /// The distance from the end of the reserved rows to the last row taken. The shared cursor is too far back by as much.
    beyond: i64,
}

impl BacklogDensity {
    /// Returns what is known after a claim that found as many jobs as it asked for. `before` is what was known when it began, and
    /// `shared_cursor` what it shared.
    pub(crate) fn seen(before: Option<Self>, shared_cursor: Option<SharedCursor>, claimed: &Claimed) -> Option<Self> {
        let jobs = &claimed.jobs;
        let rank = -jobs.last()?.priority;
        let last = jobs.iter().filter(|job| -job.priority == rank).map(|job| job.seq).max()?;
        let before = before.filter(|before| before.rank == rank);
        let shared_cursor = shared_cursor.filter(|shared_cursor| shared_cursor.rank == rank);
        let aside = shared_cursor.and_then(|shared_cursor| shared_cursor.reserved_until);
        let of_rank = jobs.iter().filter(|job| -job.priority == rank).map(|job| job.seq);
        let new: Vec<i64> = of_rank.filter(|seq| aside.is_none_or(|aside| *seq > aside)).collect();
        let until = match (shared_cursor, claimed.reserved_from, new.first()) {
            (Some(shared_cursor), Some(reserved_from), _) => Some(reserved_from.saturating_add(shared_cursor.span)),
            // The store does not report where the reserved rows began.
            (Some(shared_cursor), None, Some(first)) => Some(first.saturating_add(shared_cursor.span) - 1),
            // All rows taken had been reserved before.
            _ => aside,
        };
        let reserved_until = until.filter(|until| *until > last);
        let left = reserved_until.map_or(0, |until| until - last);
        let beyond = until.map_or(0, |until| (last - until).max(0));
        if new.len() < ENOUGH {
            return before.map(|before| Self { reserved_until, left, beyond, ..before });
        }
        // Numbers jump where a large transaction was rolled back. A jump lies in one half only, so the denser half is right.
        let middle = new.len() / 2;
        let halves = [&new[..=middle], &new[middle..]].into_iter();
        let density =
            halves.filter_map(|half| Some((half.last()? - half.first()?, i64::try_from(half.len()).ok()? - 1)));
        let (span, rows) =
            density.filter(|(_, rows)| *rows > 0).min_by_key(|(span, rows)| span.saturating_mul(1000) / rows)?;
        Some(Self { rank, rows, span, reserved_until, left, beyond })
    }

    /// Returns what a claim of `limit` jobs shares.
    pub(crate) fn shared_cursor(&self, limit: usize) -> SharedCursor {
        let span = self.span.saturating_mul(i64::try_from(limit).unwrap_or(i64::MAX)) / self.rows;
        SharedCursor {
            rank: self.rank,
            span: (span - self.left).max(0).saturating_add(self.beyond),
            reserved_until: self.reserved_until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, NewJob};
    use crate::store::testing::{job, message};

    /// Makes jobs of rank 0 with these numbers, as a claim returns them.
    fn jobs(seqs: impl IntoIterator<Item = i64>) -> Vec<Job> {
        let message = message(NewJob::json("kind", &1)).unwrap();
        seqs.into_iter().map(|seq| job(message.clone(), seq, 1, 1, jiff::Timestamp::UNIX_EPOCH)).collect()
    }

    /// Makes the result of a claim: the jobs taken, and where its reserved rows began.
    fn claimed(jobs: Vec<Job>, reserved_from: impl Into<Option<i64>>) -> Claimed {
        Claimed { jobs, reserved_from: reserved_from.into(), allowed: None }
    }

    fn shared_cursor(span: i64, reserved_until: Option<i64>) -> SharedCursor {
        SharedCursor { rank: 0, span, reserved_until }
    }

    /// Returns the density after a first claim, which shared nothing.
    fn first(seqs: impl IntoIterator<Item = i64>) -> BacklogDensity {
        BacklogDensity::seen(None, None, &claimed(jobs(seqs), None)).unwrap()
    }

    #[test]
    fn it_comes_as_far_as_the_last_one_did() {
        assert_eq!(first(100..200).shared_cursor(50), shared_cursor(50, None));
        assert_eq!(first((0..100).map(|n| 3 * n)).shared_cursor(50), shared_cursor(150, None), "every third is ours");
        assert_eq!(first(100..200).shared_cursor(0).span, 0);
    }

    #[test]
    fn a_jump_of_the_numbers_is_not_taken_for_sparse_rows() {
        for at in [1, 10, 60, 99] {
            let seqs = (0..100).map(|n| if n < at { n } else { 1_000_000 + n });
            assert_eq!(first(seqs).shared_cursor(100).span, 100, "a jump before row {at}");
        }
        assert!(
            BacklogDensity::seen(None, None, &claimed(jobs([1, 1_000_000]), None)).is_none(),
            "two rows say too little"
        );
    }

    #[test]
    fn what_was_set_aside_and_not_taken_is_looked_at_first() {
        let shared = first((0..100).map(|n| 2 * n)).shared_cursor(100);
        assert_eq!(shared.span, 200);
        // From there on all rows are of this queue, so half of the reserved range is left.
        let density = BacklogDensity::seen(None, Some(shared), &claimed(jobs(300..400), 299)).unwrap();
        let next = density.shared_cursor(100);
        assert_eq!(next, shared_cursor(0, Some(499)), "it is enough for the next claim");
        // The next claim gets only some of them, and none behind the shared cursor.
        let density = BacklogDensity::seen(Some(density), Some(next), &claimed(jobs(400..440), None)).unwrap();
        let next = density.shared_cursor(100);
        assert_eq!(next, shared_cursor(40, Some(499)));
        // Then the rest, and as many rows behind the shared cursor as are missing.
        let density =
            BacklogDensity::seen(Some(density), Some(next), &claimed(jobs((440..500).chain(900..940)), 899)).unwrap();
        assert_eq!(density.shared_cursor(100), shared_cursor(100, None));
    }

    #[test]
    fn the_shared_cursor_follows_the_claim_that_came_further() {
        let shared = first(100..200).shared_cursor(100);
        assert_eq!(shared.span, 100);
        // Others had taken the first 30 of the reserved rows, 300 to 399.
        let density = BacklogDensity::seen(None, Some(shared), &claimed(jobs(330..430), 299)).unwrap();
        assert_eq!(
            density.shared_cursor(100),
            shared_cursor(130, None),
            "the shared cursor is at 399, and is to be at 529"
        );
        // The shared cursor is corrected once.
        let density =
            BacklogDensity::seen(Some(density), Some(density.shared_cursor(100)), &claimed(jobs(430..530), 399))
                .unwrap();
        assert_eq!(density.shared_cursor(100), shared_cursor(100, None));
        // If the store does not report where the range began, it was before the first row.
        let density =
            BacklogDensity::seen(None, Some(shared), &claimed(jobs((330..400).chain(450..480)), None)).unwrap();
        assert_eq!(density.shared_cursor(100).span, 100 + 479 - 429);
    }

    #[test]
    fn another_rank_begins_anew() {
        let before = first(0..100);
        assert_eq!(before.rank, 0);
        let message = message(NewJob::json("kind", &1).priority(-3)).unwrap();
        let of_worse = |n| job(message.clone(), n, 1, 1, jiff::Timestamp::UNIX_EPOCH);
        let few: Vec<Job> = jobs(200..290).into_iter().chain((0..10).map(of_worse)).collect();
        assert_eq!(BacklogDensity::seen(Some(before), Some(before.shared_cursor(100)), &claimed(few, 289)), None);
        let many: Vec<Job> = (0..100).map(of_worse).collect();
        let density =
            BacklogDensity::seen(Some(before), Some(before.shared_cursor(100)), &claimed(many, None)).unwrap();
        assert_eq!(density.shared_cursor(100), SharedCursor { rank: 3, span: 100, reserved_until: None });
    }
}
