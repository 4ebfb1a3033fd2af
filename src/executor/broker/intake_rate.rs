//! How fast a node takes in the submissions of external producers.

use std::time::{Duration, Instant};

use crate::config::BrokerConfig;
use crate::executor::broker::mode::BATCH;

/// A limit on messages and one on bytes. An intake that exceeds one waits until the excess is made up for.
pub(crate) struct IntakeRate {
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
}

/// Fills at its rate and holds at most one second's worth. It may be overdrawn, because messages that arrive together are stored together.
struct Bucket {
    rate: f64,
    level: f64,
    at: Instant,
}

impl IntakeRate {
    pub(crate) fn new(config: &BrokerConfig, now: Instant) -> Self {
        let bucket = |rate: u32| (rate > 0).then(|| Bucket { rate: f64::from(rate), level: f64::from(rate), at: now });
        Self { messages: bucket(config.intake_rate), bytes: bucket(config.intake_bytes) }
    }

    /// Returns the most messages to store together: one second's worth, so that the messages behind them wait no longer than that.
    pub(crate) fn most(&self) -> usize {
        self.messages.as_ref().map_or(BATCH, |bucket| BATCH.min(bucket.rate as usize))
    }

    /// Takes messages and bytes, and returns how long to wait before storing them.
    pub(crate) fn take(&mut self, messages: usize, bytes: usize, now: Instant) -> Duration {
        let wait =
            |bucket: &mut Option<Bucket>, count| bucket.as_mut().map_or(Duration::ZERO, |it| it.take(count, now));
        wait(&mut self.messages, messages).max(wait(&mut self.bytes, bytes))
    }
}

impl Bucket {
    fn take(&mut self, count: usize, now: Instant) -> Duration {
        let brought = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.at = now;
        // No batch is large enough for the rest of the number to matter.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.level = (self.level + brought).min(self.rate) - f64::from(count);
        Duration::from_secs_f64((-self.level).max(0.0) / self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(intake_rate: u32, intake_bytes: u32, now: Instant) -> IntakeRate {
        IntakeRate::new(&BrokerConfig { intake_rate, intake_bytes, ..BrokerConfig::default() }, now)
    }

    #[test]
    fn nobody_waits_without_a_bound() {
        let now = Instant::now();
        let mut pace = pace(0, 0, now);
        for _ in 0..1000 {
            assert_eq!(pace.take(500, 1 << 30, now), Duration::ZERO);
        }
    }

    #[test]
    fn no_more_is_taken_at_a_time_than_a_second_brings() {
        let most = |rate| pace(rate, 0, Instant::now()).most();
        assert_eq!([most(0), most(1), most(20), most(10_000)], [BATCH, 1, 20, BATCH]);
    }

    #[test]
    fn over_time_no_more_than_the_rate_passes() {
        let begun = Instant::now();
        let (mut pace, mut now) = (pace(100, 0, begun), begun);
        let mut passed = 0;
        for size in [1, 50, 500, 3, 64].into_iter().cycle().take(1000) {
            now += pace.take(size, 1 << 20, now);
            passed += size;
        }
        let least = (passed - 100) as f64 / 100.0;
        let took = (now - begun).as_secs_f64();
        assert!((least - 1.0..=least + 1.0).contains(&took), "{passed} took {took} s");
    }

    #[test]
    fn the_stricter_bound_holds_and_a_pause_saves_up_a_second_at_most() {
        let begun = Instant::now();
        let mut pace = pace(10, 1000, begun);
        assert_eq!(pace.take(1, 3000, begun), Duration::from_secs(2));
        let later = begun + Duration::from_secs(3600);
        assert_eq!(pace.take(10, 1000, later), Duration::ZERO);
        assert_eq!(pace.take(20, 1, later), Duration::from_secs(2));
    }
}
