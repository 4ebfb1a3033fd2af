//! The parts of a queue that a claim looks at.

use crate::store::ScanMark;

/// Parts of the order (rank, seq), as one array a column. Each begins after a place and ends with a rank.
pub(super) struct Ranges {
    pub(super) ranks: Vec<i16>,
    pub(super) after: Vec<i64>,
    pub(super) last_ranks: Vec<i16>,
}

impl Ranges {
    /// All but what lies before the mark of its rank. `marks` are in the order of their ranks.
    pub(super) fn after(marks: &[ScanMark]) -> Self {
        // Before every row: no rank is lower, because priorities end at -32,767 and 32,767.
        let start = ScanMark { rank: i16::MIN, seq: i64::MIN };
        let starts = std::iter::once(&start).chain(marks);
        let ends = marks.iter().map(|next| next.rank.saturating_sub(1)).chain(std::iter::once(i16::MAX));
        let mut ranges = Self { ranks: Vec::new(), after: Vec::new(), last_ranks: Vec::new() };
        for (start, last) in starts.zip(ends) {
            ranges.ranks.push(start.rank);
            ranges.after.push(start.seq);
            ranges.last_ranks.push(last);
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(marks: &[(i16, i64)]) -> Vec<(i16, i64, i16)> {
        let marks: Vec<_> = marks.iter().map(|(rank, seq)| ScanMark { rank: *rank, seq: *seq }).collect();
        let Ranges { ranks, after, last_ranks } = Ranges::after(&marks);
        ranks.into_iter().zip(after).zip(last_ranks).map(|((rank, after), last)| (rank, after, last)).collect()
    }

    #[test]
    fn everything_without_marks() {
        assert_eq!(ranges(&[]), [(i16::MIN, i64::MIN, i16::MAX)]);
    }

    #[test]
    fn ranks_without_a_mark_are_whole() {
        assert_eq!(ranges(&[(-3, 7), (0, 40)]), [(i16::MIN, i64::MIN, -4), (-3, 7, -1), (0, 40, i16::MAX)],);
        assert_eq!(ranges(&[(1, 7), (2, 40)]), [(i16::MIN, i64::MIN, 0), (1, 7, 1), (2, 40, i16::MAX)]);
    }
}
