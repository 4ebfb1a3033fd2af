//! The ranges of a queue that a claim scans.

use crate::store::{ScanCursor, ScanRange, SharedCursor};

/// Sorts before every row: no rank is lower, because priorities range from -32,767 to 32,767.
const START: ScanCursor = ScanCursor { rank: i16::MIN, seq: i64::MIN };

/// Ranges of the order (rank, seq), as one array per column. A start is exclusive, an end inclusive.
#[derive(Default)]
pub(super) struct Ranges {
    pub(super) ranks: Vec<i16>,
    /// `None` stands for the shared cursor.
    pub(super) after: Vec<Option<i64>>,
    pub(super) last_ranks: Vec<i16>,
    pub(super) last_seqs: Vec<i64>,
}

impl Ranges {
    /// Converts a scan range. `shared_cursor` is the one that the range names, if it is to be used.
    pub(super) fn of(range: &ScanRange<'_>, shared_cursor: Option<SharedCursor>) -> Self {
        match range {
            ScanRange::All => Self::after(&[], None),
            ScanRange::After { cursors, .. } => Self::after(cursors, shared_cursor),
            ScanRange::UpTo(last) => {
                let mut ranges = Self::default();
                ranges.push(START.rank, Some(START.seq), (last.rank, last.seq));
                ranges
            }
        }
    }

    /// Covers everything except rows before the cursor of their rank, or before the shared cursor. `cursors` are ordered by rank.
    fn after(cursors: &[ScanCursor], shared_cursor: Option<SharedCursor>) -> Self {
        let starts = std::iter::once(&START).chain(cursors);
        let ends = cursors.iter().map(|next| next.rank.saturating_sub(1)).chain(std::iter::once(i16::MAX));
        let mut ranges = Self::default();
        for (start, last) in starts.zip(ends) {
            match shared_cursor.filter(|shared_cursor| shared_cursor.rank == start.rank) {
                Some(shared_cursor) => {
                    if let Some(until) = shared_cursor.reserved_until.filter(|until| *until > start.seq) {
                        ranges.push(start.rank, Some(start.seq), (start.rank, until));
                    }
                    ranges.push(start.rank, None, (last, i64::MAX));
                }
                None => ranges.push(start.rank, Some(start.seq), (last, i64::MAX)),
            }
        }
        ranges
    }

    fn push(&mut self, rank: i16, after: Option<i64>, last: (i16, i64)) {
        self.ranks.push(rank);
        self.after.push(after);
        self.last_ranks.push(last.0);
        self.last_seqs.push(last.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: i64 = i64::MAX;

    fn ranges(cursors: &[(i16, i64)], shared_cursor: Option<SharedCursor>) -> Vec<(i16, Option<i64>, i16, i64)> {
        let cursors: Vec<_> = cursors.iter().map(|(rank, seq)| ScanCursor { rank: *rank, seq: *seq }).collect();
        columns(Ranges::of(&ScanRange::After { cursors: &cursors, shared_cursor }, shared_cursor))
    }

    fn columns(ranges: Ranges) -> Vec<(i16, Option<i64>, i16, i64)> {
        let Ranges { ranks, after, last_ranks, last_seqs } = ranges;
        let (starts, ends) = (ranks.into_iter().zip(after), last_ranks.into_iter().zip(last_seqs));
        starts.zip(ends).map(|((rank, after), (last_rank, last_seq))| (rank, after, last_rank, last_seq)).collect()
    }

    #[test]
    fn everything_without_marks() {
        let everything = [(i16::MIN, Some(i64::MIN), i16::MAX, END)];
        assert_eq!(ranges(&[], None), everything);
        assert_eq!(columns(Ranges::of(&ScanRange::All, None)), everything);
    }

    #[test]
    fn nothing_beyond_the_last_place() {
        let range = ScanRange::UpTo(ScanCursor { rank: -3, seq: 7 });
        assert_eq!(columns(Ranges::of(&range, None)), [(i16::MIN, Some(i64::MIN), -3, 7)]);
    }

    #[test]
    fn ranks_without_a_mark_are_whole() {
        assert_eq!(
            ranges(&[(-3, 7), (0, 40)], None),
            [(i16::MIN, Some(i64::MIN), -4, END), (-3, Some(7), -1, END), (0, Some(40), i16::MAX, END)],
        );
        assert_eq!(
            ranges(&[(1, 7), (2, 40)], None),
            [(i16::MIN, Some(i64::MIN), 0, END), (1, Some(7), 1, END), (2, Some(40), i16::MAX, END)]
        );
    }

    #[test]
    fn the_shared_cursor_comes_after_passed_over_rows() {
        let shared_cursor = |reserved_until| Some(SharedCursor { rank: 0, span: 10, reserved_until });
        let first = (i16::MIN, Some(i64::MIN), -1, END);
        assert_eq!(ranges(&[(0, 40)], shared_cursor(None)), [first, (0, None, i16::MAX, END)]);
        assert_eq!(
            ranges(&[(0, 40)], shared_cursor(Some(45))),
            [first, (0, Some(40), 0, 45), (0, None, i16::MAX, END)]
        );
        assert_eq!(
            ranges(&[(0, 40)], shared_cursor(Some(40))),
            [first, (0, None, i16::MAX, END)],
            "all of it was taken"
        );
        // Without a cursor of its rank the shared cursor has no starting point.
        assert_eq!(ranges(&[(3, 40)], shared_cursor(None)).iter().filter(|range| range.1.is_none()).count(), 0);
    }
}
