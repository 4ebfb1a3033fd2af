//! How dense a flood is, and so how far a claim is going to come.
//!
//! Rows of a queue have numbers that grow, with gaps for those of other queues. A claim of some rows comes about as far as the last one
//! did. That much is set aside for it before it begins, so that claims of other processes begin behind it ([`ScanFront`]). If it comes less
//! far, the rest stays its own and is looked at first the next time. If it comes further, it meets the next one's rows, which are locked,
//! and skips them; the front has not heard of that, so the next claim moves it on by as much more. Otherwise one claim that was displaced
//! would displace all that come after it, for as long as the flood lasts.

use crate::store::{Claimed, ScanFront};

/// Fewer rows say too little.
const ENOUGH: usize = 16;

/// What the last claims of a flood found in its worst rank, which is the one that is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    rank: i16,
    rows: i64,
    /// Numbers from the first to the last of them.
    span: i64,
    /// Up to here, rows were set aside and not all taken.
    ours_until: Option<i64>,
    /// Numbers from the last row taken to there.
    left: i64,
    /// Numbers from the end of what was set aside to the last row taken: the front is that much too far back.
    beyond: i64,
}

impl Flow {
    /// What is known after a claim that found all it asked for. `before` is what was known when it began, and `front` what it shared.
    pub(super) fn seen(before: Option<Self>, front: Option<ScanFront>, claimed: &Claimed) -> Option<Self> {
        let jobs = &claimed.jobs;
        let rank = -jobs.last()?.priority;
        let last = jobs.iter().filter(|job| -job.priority == rank).map(|job| job.seq).max()?;
        let before = before.filter(|before| before.rank == rank);
        let front = front.filter(|front| front.rank == rank);
        let aside = front.and_then(|front| front.ours_until);
        let of_rank = jobs.iter().filter(|job| -job.priority == rank).map(|job| job.seq);
        let new: Vec<i64> = of_rank.filter(|seq| aside.is_none_or(|aside| *seq > aside)).collect();
        let until = match (front, claimed.began, new.first()) {
            (Some(front), Some(began), _) => Some(began.saturating_add(front.span)),
            // A store that does not tell.
            (Some(front), None, Some(first)) => Some(first.saturating_add(front.span) - 1),
            // All of them had been set aside before.
            _ => aside,
        };
        let ours_until = until.filter(|until| *until > last);
        let left = ours_until.map_or(0, |until| until - last);
        let beyond = until.map_or(0, |until| (last - until).max(0));
        if new.len() < ENOUGH {
            return before.map(|before| Self { ours_until, left, beyond, ..before });
        }
        // Numbers jump where a large transaction was rolled back. A jump lies in one half; the other one tells the truth.
        let middle = new.len() / 2;
        let halves = [&new[..=middle], &new[middle..]].into_iter();
        let density =
            halves.filter_map(|half| Some((half.last()? - half.first()?, i64::try_from(half.len()).ok()? - 1)));
        let (span, rows) =
            density.filter(|(_, rows)| *rows > 0).min_by_key(|(span, rows)| span.saturating_mul(1000) / rows)?;
        Some(Self { rank, rows, span, ours_until, left, beyond })
    }

    /// What a claim of so many shares.
    pub(super) fn front(&self, limit: usize) -> ScanFront {
        let span = self.span.saturating_mul(i64::try_from(limit).unwrap_or(i64::MAX)) / self.rows;
        ScanFront {
            rank: self.rank,
            span: (span - self.left).max(0).saturating_add(self.beyond),
            ours_until: self.ours_until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, NewJob};
    use crate::store::testing::{job, message};

    /// Jobs of rank 0 with these numbers, as a claim answers them.
    fn jobs(seqs: impl IntoIterator<Item = i64>) -> Vec<Job> {
        let message = message(NewJob::json("kind", &1)).unwrap();
        seqs.into_iter().map(|seq| job(message.clone(), seq, 1, 1, jiff::Timestamp::UNIX_EPOCH)).collect()
    }

    /// What a claim took, and where what was set aside for it began.
    fn claimed(jobs: Vec<Job>, began: impl Into<Option<i64>>) -> Claimed {
        Claimed { jobs, began: began.into(), allowed: None }
    }

    fn front(span: i64, ours_until: Option<i64>) -> ScanFront {
        ScanFront { rank: 0, span, ours_until }
    }

    /// After a first claim, which shared nothing.
    fn first(seqs: impl IntoIterator<Item = i64>) -> Flow {
        Flow::seen(None, None, &claimed(jobs(seqs), None)).unwrap()
    }

    #[test]
    fn it_comes_as_far_as_the_last_one_did() {
        assert_eq!(first(100..200).front(50), front(50, None));
        assert_eq!(first((0..100).map(|n| 3 * n)).front(50), front(150, None), "every third is ours");
        assert_eq!(first(100..200).front(0).span, 0);
    }

    #[test]
    fn a_jump_of_the_numbers_is_not_taken_for_sparse_rows() {
        for at in [1, 10, 60, 99] {
            let seqs = (0..100).map(|n| if n < at { n } else { 1_000_000 + n });
            assert_eq!(first(seqs).front(100).span, 100, "a jump before row {at}");
        }
        assert!(Flow::seen(None, None, &claimed(jobs([1, 1_000_000]), None)).is_none(), "two rows say too little");
    }

    #[test]
    fn what_was_set_aside_and_not_taken_is_looked_at_first() {
        let shared = first((0..100).map(|n| 2 * n)).front(100);
        assert_eq!(shared.span, 200);
        // From there on all rows are ours, so that half of what was set aside is left.
        let flow = Flow::seen(None, Some(shared), &claimed(jobs(300..400), 299)).unwrap();
        let next = flow.front(100);
        assert_eq!(next, front(0, Some(499)), "it is enough for the next claim");
        // It gets some of them only, and nothing behind the front.
        let flow = Flow::seen(Some(flow), Some(next), &claimed(jobs(400..440), None)).unwrap();
        let next = flow.front(100);
        assert_eq!(next, front(40, Some(499)));
        // Then the rest, and as many behind the front as are missing.
        let flow = Flow::seen(Some(flow), Some(next), &claimed(jobs((440..500).chain(900..940)), 899)).unwrap();
        assert_eq!(flow.front(100), front(100, None));
    }

    #[test]
    fn the_front_follows_who_came_further() {
        let shared = first(100..200).front(100);
        assert_eq!(shared.span, 100);
        // Others had taken the first 30 of what was set aside, 300 to 399.
        let flow = Flow::seen(None, Some(shared), &claimed(jobs(330..430), 299)).unwrap();
        assert_eq!(flow.front(100), front(130, None), "the front is at 399, and is to be at 529");
        // That is told once.
        let flow = Flow::seen(Some(flow), Some(flow.front(100)), &claimed(jobs(430..530), 399)).unwrap();
        assert_eq!(flow.front(100), front(100, None));
        // A store that does not tell where it began: then it was before the first row.
        let flow = Flow::seen(None, Some(shared), &claimed(jobs((330..400).chain(450..480)), None)).unwrap();
        assert_eq!(flow.front(100).span, 100 + 479 - 429);
    }

    #[test]
    fn another_rank_begins_anew() {
        let before = first(0..100);
        assert_eq!(before.rank, 0);
        let message = message(NewJob::json("kind", &1).priority(-3)).unwrap();
        let of_worse = |n| job(message.clone(), n, 1, 1, jiff::Timestamp::UNIX_EPOCH);
        let few: Vec<Job> = jobs(200..290).into_iter().chain((0..10).map(of_worse)).collect();
        assert_eq!(Flow::seen(Some(before), Some(before.front(100)), &claimed(few, 289)), None);
        let many: Vec<Job> = (0..100).map(of_worse).collect();
        let flow = Flow::seen(Some(before), Some(before.front(100)), &claimed(many, None)).unwrap();
        assert_eq!(flow.front(100), ScanFront { rank: 3, span: 100, ours_until: None });
    }
}
