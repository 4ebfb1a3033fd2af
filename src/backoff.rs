//! Delays between attempts to reconnect to a server.
//!
//! This is the only file that uses the `backoff` crate. The crate is unmaintained (RUSTSEC-2025-0012) but was asked for. `backon` is its
//! replacement, and swapping it changes this file alone. Delays between attempts of a *job* are different: they are stored in the database
//! and come from [`RetryPolicy`](crate::RetryPolicy).

use std::time::Duration;

use backoff::backoff::Backoff as _;

/// Endless exponential delays with jitter: 100 ms, doubling to `max`.
#[derive(Debug)]
pub(crate) struct Reconnect(backoff::ExponentialBackoff);

impl Reconnect {
    pub(crate) fn new(max: Duration) -> Self {
        let initial = Duration::from_millis(100).min(max);
        Self(backoff::ExponentialBackoff {
            current_interval: initial,
            initial_interval: initial,
            multiplier: 2.0,
            randomization_factor: 0.3,
            max_interval: max,
            // The crate's default gives up after 15 minutes; a reconnect must not.
            max_elapsed_time: None,
            ..Default::default()
        })
    }

    pub(crate) fn next_delay(&mut self) -> Duration {
        self.0.next_backoff().unwrap_or(self.0.max_interval)
    }

    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}

/// How much longer the tasks of a node wait before they look without a signal, in polls. One task polls for all of them
/// (`executor/maintenance/look_ahead.rs`).
pub(crate) const FALLBACK_POLLS: u32 = 120;

/// Returns `duration` shortened or lengthened at random by up to a fifth, so that nodes that started together do not poll together.
pub(crate) fn jitter(duration: Duration) -> Duration {
    duration.mul_f64(0.8 + 0.4 * chance())
}

/// Returns `duration` lengthened at random by up to two fifths.
pub(crate) fn later(duration: Duration) -> Duration {
    duration.mul_f64(1.0 + 0.4 * chance())
}

/// Returns a random time of this range, so that what is rarely done is not done by all nodes that started together, nor while they start.
pub(crate) fn between(least: Duration, most: Duration) -> Duration {
    least + most.saturating_sub(least).mul_f64(chance())
}

/// Returns a random number between 0 and 1.
fn chance() -> f64 {
    (uuid::Uuid::new_v4().as_u64_pair().1 & 0xffff) as f64 / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_the_maximum_and_never_gives_up() {
        let mut delays = Reconnect::new(Duration::from_secs(1));
        let first = delays.next_delay();
        assert!((70..=130).contains(&first.as_millis()), "{first:?}");
        for _ in 0..50 {
            delays.next_delay();
        }
        assert!((700..=1300).contains(&delays.next_delay().as_millis()));
        delays.reset();
        assert!(delays.next_delay() < Duration::from_millis(140));
    }
}
