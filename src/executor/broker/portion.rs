//! How many messages go out at a time: by their size, which nobody knows before they are in memory.

use super::parts::prefetch;
use crate::job::Limits;

/// For one queue of the table. Begins with what the largest payloads need, so that about 64 MiB are in hand at a time.
pub(super) struct Portion {
    limits: Limits,
    /// So many of them are in hand at a time.
    parts: usize,
    count: usize,
}

impl Portion {
    pub(super) fn new(limits: Limits, parts: usize) -> Self {
        let mut portion = Self { limits, parts, count: 0 };
        portion.count = portion.fit(limits.payload);
        portion
    }

    /// How many there are room for if each has so many bytes.
    fn fit(&self, payload: usize) -> usize {
        prefetch(Limits { payload: payload.saturating_mul(self.parts), ..self.limits }).into()
    }

    /// Most messages of the next round.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// What a round took, so many bytes in all. The next is to have as many as fit by their mean, and more than this one only if it was full:
    /// a few small messages say nothing about a burst of large ones.
    pub(super) fn took(&mut self, messages: usize, bytes: usize) {
        let Some(mean) = bytes.checked_div(messages) else { return };
        let fit = self.fit(mean);
        if fit < self.count || messages >= self.count {
            self.count = fit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::broker::BATCH;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_portion_is_64_mebibytes_or_500_messages() {
        let mut portion = Portion::new(Limits::default(), 1);
        assert_eq!(portion.count(), 64);
        portion.took(64, 64 * 100);
        assert_eq!(portion.count(), BATCH);
        portion.took(500, 500 * MIB / 4);
        assert_eq!(portion.count(), 256);
        portion.took(10, 160 * MIB);
        assert_eq!(portion.count(), 10);
        portion.took(0, 0);
        assert_eq!(portion.count(), 10);
        assert_eq!(Portion::new(Limits::default(), 2).count(), 32, "two of them are 64 mebibytes");
    }

    #[test]
    fn a_few_small_messages_do_not_make_room_for_large_ones() {
        let mut portion = Portion::new(Limits::default(), 1);
        portion.took(63, 0);
        assert_eq!(portion.count(), 64);
        portion.took(64, 0);
        assert_eq!(portion.count(), BATCH);
    }
}
