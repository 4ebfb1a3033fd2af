//! How many messages go out at a time, by their size, which is unknown until they are in memory.

use crate::executor::broker::bisect::prefetch;
use crate::job::Limits;

/// Sizes the batches of one queue of the table. The first fits the largest payloads, so that about 64 MiB are in memory at a time.
pub(crate) struct BatchSizer {
    limits: Limits,
    /// How many batches are in flight at a time.
    parts: usize,
    count: usize,
}

impl BatchSizer {
    pub(crate) fn new(limits: Limits, parts: usize) -> Self {
        let mut batch_sizer = Self { limits, parts, count: 0 };
        batch_sizer.count = batch_sizer.fit(limits.payload);
        batch_sizer
    }

    /// Returns how many messages fit if each has `payload` bytes.
    fn fit(&self, payload: usize) -> usize {
        prefetch(Limits { payload: payload.saturating_mul(self.parts), ..self.limits }).into()
    }

    /// Returns the most messages of the next batch.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Takes in a batch of `messages` with `bytes` in all. The next is to have as many as fit by their mean size. It may be larger than
    /// this one only if this one was full: a few small messages say nothing about a burst of large ones.
    pub(crate) fn took(&mut self, messages: usize, bytes: usize) {
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
    use crate::executor::broker::mode::BATCH;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_batch_is_64_mebibytes_or_500_messages() {
        let mut batch_sizer = BatchSizer::new(Limits::default(), 1);
        assert_eq!(batch_sizer.count(), 64);
        batch_sizer.took(64, 64 * 100);
        assert_eq!(batch_sizer.count(), BATCH);
        batch_sizer.took(500, 500 * MIB / 4);
        assert_eq!(batch_sizer.count(), 256);
        batch_sizer.took(10, 160 * MIB);
        assert_eq!(batch_sizer.count(), 10);
        batch_sizer.took(0, 0);
        assert_eq!(batch_sizer.count(), 10);
        assert_eq!(BatchSizer::new(Limits::default(), 2).count(), 32, "two of them are 64 mebibytes");
    }

    #[test]
    fn a_few_small_messages_do_not_make_room_for_large_ones() {
        let mut batch_sizer = BatchSizer::new(Limits::default(), 1);
        batch_sizer.took(63, 0);
        assert_eq!(batch_sizer.count(), 64);
        batch_sizer.took(64, 0);
        assert_eq!(batch_sizer.count(), BATCH);
    }
}
