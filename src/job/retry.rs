use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::Error;

/// The longest delay between two attempts: a year. Longer delays are cut to it.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long a failed job waits before its next attempt. It is a pure function of the attempt's number (and of a random number for the
/// jitter); state that has to survive a restart is in the row.
///
/// As text, for configuration files:
///
/// | text | meaning |
/// |---|---|
/// | `exponential(2s, 2, 1h)` | base, factor, maximum |
/// | `fixed(30s)` | always the same |
/// | `PT1M,PT5M,PT1H` | a list of intervals, the last one repeats (Camunda's `failedJobRetryTimeCycle`) |
///
/// Durations are ISO 8601 (`PT1M30S`) or jiff's friendly form (`1m 30s`).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RetryPolicy {
    /// `base * factor^(attempt - 1)`, at most `max`. Up to 20 % is added or subtracted at random, so that jobs that failed together do not
    /// come back together.
    Exponential {
        /// Delay after the first failure.
        base: Duration,
        /// Factor for each further failure; at least 1.
        factor: f64,
        /// The longest delay.
        max: Duration,
    },
    /// The same delay after each failure.
    Fixed(Duration),
    /// One interval for each failure in order; the last one repeats.
    Intervals(Vec<Duration>),
}

impl Default for RetryPolicy {
    /// Returns an exponential policy from 2 s, doubling, at most an hour: ten attempts take about 17 minutes.
    fn default() -> Self {
        Self::Exponential { base: Duration::from_secs(2), factor: 2.0, max: Duration::from_secs(3600) }
    }
}

impl RetryPolicy {
    /// Returns the delay after the failure of attempt number `attempt` (the first is 1).
    pub fn delay(&self, attempt: u32) -> Duration {
        self.delay_with(attempt, random_fraction())
    }

    /// Returns the delay for a given random number between 0 and 1; 0.5 means no jitter.
    fn delay_with(&self, attempt: u32, chance: f64) -> Duration {
        let failures = attempt.max(1);
        match self {
            Self::Exponential { base, factor, max } => {
                // In floating point, a huge attempt number gives infinity instead of an overflow.
                let exponent = f64::from(failures - 1);
                let growth = factor.max(1.0).powf(exponent);
                // Zero times infinity would be no number.
                let seconds = if base.is_zero() { 0.0 } else { base.as_secs_f64() * growth };
                let jittered = seconds.min(max.as_secs_f64()) * (0.8 + 0.4 * chance);
                Duration::try_from_secs_f64(jittered).unwrap_or(LONGEST).min(LONGEST)
            }
            Self::Fixed(delay) => (*delay).min(LONGEST),
            Self::Intervals(intervals) => {
                let index = usize::try_from(failures - 1).unwrap_or(usize::MAX);
                intervals.get(index).or(intervals.last()).copied().unwrap_or_default().min(LONGEST)
            }
        }
    }
}

/// Returns a number between 0 and 1 from the random tail of a UUID: good enough for jitter, without another crate.
fn random_fraction() -> f64 {
    let bits = uuid::Uuid::new_v4().as_u64_pair().1 & 0xffff_ffff;
    bits as f64 / f64::from(u32::MAX)
}

impl FromStr for RetryPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |why: String| {
            Error::config(format!(
                "{text:?} is not a retry policy: {why}; use `exponential(2s, 2, 1h)`, `fixed(30s)` or a list such as `PT1M,PT5M,PT1H`"
            ))
        };
        let arguments = |name: &str| -> Option<Vec<&str>> {
            let rest = text.trim().strip_prefix(name)?.trim_start();
            let inner = rest.strip_prefix('(')?.strip_suffix(')')?;
            Some(inner.split(',').map(str::trim).collect())
        };
        if let Some(args) = arguments("exponential") {
            let [base, factor, max] = args[..] else {
                return Err(refuse(format!("`exponential` takes 3 values, not {}", args.len())));
            };
            let factor: f64 = factor.parse().map_err(|_| refuse(format!("{factor:?} is not a number")))?;
            if !factor.is_finite() || factor < 1.0 {
                return Err(refuse("the factor must be at least 1".into()));
            }
            return Ok(Self::Exponential {
                base: parse_duration(base).map_err(refuse)?,
                factor,
                max: parse_duration(max).map_err(refuse)?,
            });
        }
        if let Some(args) = arguments("fixed") {
            let [delay] = args[..] else {
                return Err(refuse(format!("`fixed` takes 1 value, not {}", args.len())));
            };
            return Ok(Self::Fixed(parse_duration(delay).map_err(refuse)?));
        }
        text.split(',')
            .map(|part| parse_duration(part.trim()).map_err(refuse))
            .collect::<Result<_, _>>()
            .map(Self::Intervals)
    }
}

impl fmt::Display for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential { base, factor, max } => {
                write!(f, "exponential({base:?}, {factor}, {max:?})")
            }
            Self::Fixed(delay) => write!(f, "fixed({delay:?})"),
            Self::Intervals(intervals) => {
                let texts: Vec<_> = intervals.iter().map(|interval| format!("{interval:?}")).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

/// Reads `30s`, `1m 30s` or ISO 8601's `PT1M30S`. Units up to weeks; days count 24 hours.
///
/// # Errors
/// A text that says why it is not a duration.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: jiff::Span = text
        .parse()
        .map_err(|_| format!("{text:?} is not a duration (write `500ms`, `30s`, `1m 30s`, `2h`, `1d` or `PT1M30S`)"))?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err(format!("{text:?} has years or months, whose length varies: use days or weeks"));
    }
    let signed = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .map_err(|e| format!("{text:?} is not a duration that can be used: {e}"))?;
    Duration::try_from(signed).map_err(|_| format!("{text:?} is negative"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn exponential_doubles_to_its_maximum() {
        let policy = RetryPolicy::default();
        let delays: Vec<_> = (1..=4).map(|n| policy.delay_with(n, 0.5).as_secs()).collect();
        assert_eq!(delays, [2, 4, 8, 16]);
        assert_eq!(policy.delay_with(100, 0.5), s(3600));
    }

    #[test]
    fn jitter_stays_within_a_fifth() {
        let policy = RetryPolicy::default();
        for _ in 0..1000 {
            let delay = policy.delay(3).as_secs_f64();
            assert!((6.4..=9.6).contains(&delay), "{delay}");
        }
    }

    /// Another job executor's backoff overflowed at attempt 310.
    #[test]
    fn an_enormous_attempt_does_not_overflow() {
        for attempt in [0, 310, 1100, u32::MAX] {
            let delay = RetryPolicy::Exponential { base: s(1), factor: 10.0, max: Duration::MAX }.delay(attempt);
            assert!(delay <= LONGEST);
            RetryPolicy::Intervals(vec![]).delay(attempt);
            let none = RetryPolicy::Exponential { base: Duration::ZERO, factor: 10.0, max: s(60) };
            assert_eq!(none.delay(attempt), Duration::ZERO);
        }
    }

    #[test]
    fn reads_what_it_writes_and_camundas_lists() {
        assert_eq!("PT1M,PT5M".parse::<RetryPolicy>().unwrap(), RetryPolicy::Intervals(vec![s(60), s(300)]));
        assert_eq!("fixed(30s)".parse::<RetryPolicy>().unwrap(), RetryPolicy::Fixed(s(30)));
        let policy: RetryPolicy = "exponential(2s, 2, 1h)".parse().unwrap();
        assert_eq!(policy, RetryPolicy::default());
        assert_eq!(policy.to_string().parse::<RetryPolicy>().unwrap(), policy);
        assert_eq!(RetryPolicy::Intervals(vec![s(60), s(300)]).delay_with(7, 0.0), s(300));
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, why) in [
            ("soon", "not a duration"),
            ("fixed(1s, 2s)", "takes 1 value"),
            ("exponential(1s, 0.5, 1h)", "at least 1"),
            ("fixed(-5s)", "negative"),
            ("fixed(1mo)", "months"),
        ] {
            let error = text.parse::<RetryPolicy>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("PT1M,PT5M"), "{error}");
        }
    }
}
