//! The parts of a queue that a claim looks at.

use crate::store::{ScanFront, ScanMark, ScanPart};

/// Before every row: no rank is lower, because priorities end at -32,767 and 32,767.
const START: ScanMark = ScanMark { rank: i16::MIN, seq: i64::MIN };

/// Parts of the order (rank, seq), as one array a column. Each begins after a place, and ends with one.
#[derive(Default)]
pub(super) struct Ranges {
    pub(super) ranks: Vec<i16>,
    /// `None`: the front that processes share.
    pub(super) after: Vec<Option<i64>>,
    pub(super) last_ranks: Vec<i16>,
    pub(super) last_seqs: Vec<i64>,
}

impl Ranges {
    /// `front` is the one that the part names, if it is to be used.
    pub(super) fn of(part: &ScanPart<'_>, front: Option<ScanFront>) -> Self {
        match part {
            ScanPart::All => Self::after(&[], None),
            ScanPart::After { marks, .. } => Self::after(marks, front),
            ScanPart::UpTo(last) => {
                let mut ranges = Self::default();
                ranges.push(START.rank, Some(START.seq), (last.rank, last.seq));
                ranges
            }
        }
    }

    /// All but what lies before the mark of its rank, or before the front. `marks` are in the order of their ranks.
    fn after(marks: &[ScanMark], front: Option<ScanFront>) -> Self {
        let starts = std::iter::once(&START).chain(marks);
        let ends = marks.iter().map(|next| next.rank.saturating_sub(1)).chain(std::iter::once(i16::MAX));
        let mut ranges = Self::default();
        for (start, last) in starts.zip(ends) {
            match front.filter(|front| front.rank == start.rank) {
                Some(front) => {
                    if let Some(until) = front.ours_until.filter(|until| *until > start.seq) {
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

    fn ranges(marks: &[(i16, i64)], front: Option<ScanFront>) -> Vec<(i16, Option<i64>, i16, i64)> {
        let marks: Vec<_> = marks.iter().map(|(rank, seq)| ScanMark { rank: *rank, seq: *seq }).collect();
        columns(Ranges::of(&ScanPart::After { marks: &marks, front }, front))
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
        assert_eq!(columns(Ranges::of(&ScanPart::All, None)), everything);
    }

    #[test]
    fn nothing_beyond_the_last_place() {
        let part = ScanPart::UpTo(ScanMark { rank: -3, seq: 7 });
        assert_eq!(columns(Ranges::of(&part, None)), [(i16::MIN, Some(i64::MIN), -3, 7)]);
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
    fn the_front_comes_after_what_was_set_aside() {
        let front = |ours_until| Some(ScanFront { rank: 0, span: 10, ours_until });
        let first = (i16::MIN, Some(i64::MIN), -1, END);
        assert_eq!(ranges(&[(0, 40)], front(None)), [first, (0, None, i16::MAX, END)]);
        assert_eq!(ranges(&[(0, 40)], front(Some(45))), [first, (0, Some(40), 0, 45), (0, None, i16::MAX, END)]);
        assert_eq!(ranges(&[(0, 40)], front(Some(40))), [first, (0, None, i16::MAX, END)], "all of it was taken");
        // Without a mark of its rank there is nothing to begin at.
        assert_eq!(ranges(&[(3, 40)], front(None)).iter().filter(|range| range.1.is_none()).count(), 0);
    }
}
