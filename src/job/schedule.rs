//! When a repeating job runs: a value, and a pure function from one instant to the next occurrence.

mod cron;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use self::cron::Cron;
use super::parse_duration;
use crate::error::{Error, Result};

/// The time zone of a schedule that names none.
const UTC: &str = "UTC";
/// Longest text of a schedule in bytes.
const TEXT_MAX: usize = 200;
/// Shorter intervals would be a busy loop, not a schedule.
const SHORTEST: Duration = Duration::from_millis(100);
/// Longer intervals are useless.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// When a repeating job runs.
///
/// | text | meaning |
/// |---|---|
/// | `30 9 * * MON-FRI` | cron: minute, hour, day of month, month, day of week |
/// | `*/10 * * * * *` | cron with seconds as the first field |
/// | `@daily` | also `@hourly`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually` |
/// | `30s`, `1h 30m`, `PT5M` | at this interval, counted from when the schedule was put |
/// | `R/PT1H`, `R5/PT10S` | the same in ISO 8601; `R5`: five times |
/// | `R3/2026-01-01T00:00:00Z/P1D` | three times, the first at that time |
///
/// Cron fields accept `*`, lists (`1,15`), ranges (`8-17`), steps (`*/5`, `8-17/2`, `3/10`), names (`JAN`, `MON`) and `?` for `*`. Sunday
/// is 0 or 7, and days of the week may wrap around (`SAT-MON`). `L` is the last day of the month. If day of month and day of week are both
/// limited, a day that matches one of them is enough.
///
/// # Summer time
/// Cron follows the wall clock in the schedule's time zone. A time that a clock change skips occurs once, when the gap ends. A time that
/// comes twice occurs only the first time. An expression with `*` or `*/n` as its hour is not tied to an hour: it simply continues, also in
/// the hour that comes twice, and nothing is made up for a skipped hour. Intervals are absolute: `P1D` is 24 hours.
///
/// ```
/// use jobwright::Schedule;
///
/// let schedule = Schedule::in_zone("30 2 * * *", "Europe/Berlin")?;
/// // There is no half past two on this night: the clock goes from 02:00 to 03:00.
/// let next = schedule.next_after("2026-03-28T12:00:00Z".parse().unwrap());
/// assert_eq!(next, Some("2026-03-29T01:00:00Z".parse().unwrap()));
/// # Ok::<_, jobwright::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    text: String,
    zone_name: String,
    zone: TimeZone,
    rule: Rule,
    /// Start for counting intervals that have no start of their own.
    anchor: Option<Timestamp>,
}

#[derive(Clone, Debug)]
enum Rule {
    Cron(Box<Cron>),
    Every {
        /// Microseconds.
        interval: i64,
        start: Option<Timestamp>,
        count: Option<u64>,
    },
}

impl Schedule {
    /// Reads a schedule whose clock is UTC.
    ///
    /// # Errors
    /// When the text is not a schedule, or can never occur (`0 0 30 2 *`).
    pub fn new(text: &str) -> Result<Self> {
        Self::in_zone(text, UTC)
    }

    /// Reads a schedule whose clock is that of a time zone, given by its IANA name: `Europe/Berlin`.
    ///
    /// # Errors
    /// When the text is not a schedule or can never occur, or the zone is not known on this machine.
    pub fn in_zone(text: &str, zone: &str) -> Result<Self> {
        let text = text.trim();
        if text.len() > TEXT_MAX {
            return Err(Error::invalid(format!("the schedule has {} bytes; {TEXT_MAX} is the limit", text.len())));
        }
        let tz = if zone.eq_ignore_ascii_case(UTC) {
            TimeZone::UTC
        } else {
            TimeZone::get(zone).map_err(|error| {
                Error::invalid(format!(
                    "{zone:?} is not a time zone that is known here: use an IANA name such as `Europe/Berlin`, and make sure \
                     that this machine has them (package `tzdata`)"
                ))
                .with_source(error)
            })?
        };
        let rule = Rule::parse(text, &tz).map_err(|why| {
            Error::invalid(format!(
                "{text:?} is not a schedule: {why}; write a cron line (`30 9 * * MON-FRI`, with seconds in front if needed), \
                 `@daily`, an interval (`30s`, `PT5M`) or a repetition (`R5/PT10S`, `R3/2026-01-01T00:00:00Z/P1D`)"
            ))
        })?;
        Ok(Self { text: text.to_owned(), zone_name: zone.to_owned(), zone: tz, rule, anchor: None })
    }

    /// Returns the first occurrence after this time; `None` if there is none any more.
    ///
    /// It is a pure function, and monotone: a later time never has an earlier next occurrence.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            Rule::Cron(cron) => cron.next_after(after, &self.zone),
            Rule::Every { interval, start, count } => {
                let interval = i128::from(*interval);
                // Without a start, the first occurrence is one interval after the anchor.
                let (base, first) = match (start, self.anchor) {
                    (Some(start), _) => (start.as_microsecond(), 0),
                    (None, Some(anchor)) => (anchor.as_microsecond(), 1),
                    (None, None) => {
                        let next = floor_micros(after) + interval;
                        return i64::try_from(next).ok().and_then(|next| Timestamp::from_microsecond(next).ok());
                    }
                };
                let passed = (floor_micros(after) - i128::from(base)).div_euclid(interval) + 1;
                let n = passed.max(first);
                if count.is_some_and(|count| n - first >= i128::from(count)) {
                    return None;
                }
                let next = i64::try_from(i128::from(base) + n * interval).ok()?;
                Timestamp::from_microsecond(next).ok()
            }
        }
    }

    /// Returns the last occurrence up to `now`, given that `first` is an occurrence not later than `now`.
    pub(crate) fn latest(&self, first: Timestamp, now: Timestamp) -> Timestamp {
        // Searches the largest time whose next occurrence is not after now, which is just before the wanted occurrence.
        let (mut low, mut high) = (first.as_microsecond().saturating_sub(1), now.as_microsecond());
        let next = |micros: i64| Timestamp::from_microsecond(micros).ok().and_then(|after| self.next_after(after));
        let mut latest = first;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match next(middle) {
                Some(next) if next <= now => (low, latest) = (middle, next),
                _ => high = middle,
            }
        }
        latest
    }

    /// Sets the anchor from which intervals without a start of their own are counted; the first occurrence is one interval later. Stores
    /// keep it with the schedule, so that its occurrences are the same on every node. A schedule without an anchor counts each interval
    /// from the time asked for, and never ends.
    #[must_use]
    pub fn counted_from(mut self, anchor: Timestamp) -> Self {
        self.anchor = Some(anchor);
        self
    }

    /// Returns the text it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name of its time zone.
    pub fn zone(&self) -> &str {
        &self.zone_name
    }
}

impl PartialEq for Schedule {
    /// Equal if written the same, for the same time zone.
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.zone_name) == (&other.text, &other.zone_name)
    }
}

impl Eq for Schedule {}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::new(text)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

fn floor_micros(at: Timestamp) -> i128 {
    at.as_nanosecond().div_euclid(1000)
}

impl Rule {
    fn parse(text: &str, zone: &TimeZone) -> Result<Self, String> {
        if let Some(word) = text.strip_prefix('@') {
            return Self::word(word);
        }
        if text.starts_with('R') && text.contains('/') {
            return Self::repetition(text, zone);
        }
        if let Ok(interval) = parse_duration(text) {
            return Ok(Self::Every { interval: micros(text, interval)?, start: None, count: None });
        }
        match text.split_whitespace().count() {
            0 => Err("it is empty".to_owned()),
            // Returns the reason why it is not a duration.
            1 => Err(parse_duration(text).err().unwrap_or_default()),
            _ => Cron::parse(text).map(|cron| Self::Cron(Box::new(cron))),
        }
    }

    fn word(word: &str) -> Result<Self, String> {
        let line = match word {
            "yearly" | "annually" => "0 0 1 1 *",
            "monthly" => "0 0 1 * *",
            "weekly" => "0 0 * * 0",
            "daily" | "midnight" => "0 0 * * *",
            "hourly" => "0 * * * *",
            _ => return Err(format!("`@{word}` is not known (use @yearly, @monthly, @weekly, @daily or @hourly)")),
        };
        Cron::parse(line).map(|cron| Self::Cron(Box::new(cron)))
    }

    /// Reads `R[n]/[start/]interval`.
    fn repetition(text: &str, zone: &TimeZone) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (times, start, interval) = match parts[..] {
            [times, interval] => (times, None, interval),
            [times, start, interval] => (times, Some(start), interval),
            _ => return Err(format!("a repetition has two or three parts, not {}", parts.len())),
        };
        let count = match &times[1..] {
            "" => None,
            number => match number.parse::<u64>() {
                Ok(n) if n > 0 => Some(n),
                _ => return Err(format!("{times:?} is not a number of repetitions (`R` or `R5`)")),
            },
        };
        let length = parse_duration(interval).map_err(|why| {
            if moment(interval, zone).is_ok() {
                "the interval comes last: an end is set with `until`".to_owned()
            } else {
                why
            }
        })?;
        let start = start.map(|start| moment(start, zone)).transpose()?;
        Ok(Self::Every { interval: micros(interval, length)?, start, count })
    }
}

/// Reads a time with its offset, or by the clock of the zone.
fn moment(text: &str, zone: &TimeZone) -> Result<Timestamp, String> {
    let at = match text.parse::<Timestamp>() {
        Ok(at) => at,
        Err(_) => text.parse::<DateTime>().and_then(|local| zone.to_timestamp(local)).map_err(|_| {
            format!("{text:?} is not a point in time (`2026-01-01T00:00:00Z`, or without `Z` in the schedule's zone)")
        })?,
    };
    // Rounded to the precision of a database.
    Timestamp::from_microsecond(at.as_microsecond()).map_err(|error| error.to_string())
}

fn micros(text: &str, interval: Duration) -> Result<i64, String> {
    if interval < SHORTEST || interval > LONGEST {
        return Err(format!("the interval {text:?} is not between {SHORTEST:?} and 100 years"));
    }
    i64::try_from(interval.as_micros()).map_err(|error| error.to_string())
}
