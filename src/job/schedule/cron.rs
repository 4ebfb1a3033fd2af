//! Cron expressions, as sets of the numbers that each field allows.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

/// The bit for the last day of a month, whatever its number.
const LAST_DAY: u64 = 1 << 32;
/// Longest time without an occurrence: 29 February on a given day of the week may take 40 years.
const HORIZON: i16 = 100;

/// The allowed values of each field, as bits.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Day of month and day of week are both limited: a day that matches one of them is enough.
    either_day: bool,
    /// The expression is not tied to an hour.
    any_hour: bool,
}

/// The allowed range of a field.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// The first name stands for `least`.
    names: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", least: 0, most: 59, names: &[] };
const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const MONTH: Field = Field { name: "month", least: 1, most: 12, names: MONTHS };
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const WEEKDAY: Field = Field { name: "day of week", least: 0, most: 7, names: WEEKDAYS };

impl Cron {
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (second, fields) = match fields[..] {
            [second, ref rest @ ..] if rest.len() == 5 => (second, rest),
            ref rest if rest.len() == 5 => ("0", rest),
            ref other => {
                return Err(format!("a cron line has 5 fields, or 6 with seconds in front, not {}", other.len()));
            }
        };
        let &[minute, hour, day, month, weekday] = fields else {
            return Err("a cron line has 5 fields".to_owned());
        };
        let mut weekdays = WEEKDAY.parse(weekday)?;
        // 7 is Sunday too.
        weekdays |= weekdays >> 7;
        let is_open = |text: &str| text.starts_with(['*', '?']);
        let cron = Self {
            seconds: SECOND.parse(second)?,
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?,
            weekdays,
            either_day: !is_open(day) && !is_open(weekday),
            any_hour: hour.starts_with('*'),
        };
        // A leap year has every day of the year.
        let exists = |month| Date::new(2024, month, 1).is_ok_and(|date| cron.has_day_of_month(date));
        if !cron.either_day && !(1..=12).any(|month| has(cron.months, month as u32) && exists(month)) {
            return Err("no month it names has such a day, so it would never happen (30 February?)".to_owned());
        }
        Ok(cron)
    }

    /// Whether the month of this date has any of the days.
    fn has_day_of_month(&self, date: Date) -> bool {
        self.days & LAST_DAY != 0 || (1..=date.days_in_month()).any(|day| has(self.days, day.unsigned_abs().into()))
    }

    pub(super) fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if self.any_hour { self.next_going_on(after, zone) } else { self.next_by_the_clock(after, zone) }
    }

    /// Returns the next occurrence of an expression that is tied to an hour: the wall clock decides.
    fn next_by_the_clock(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut local = whole_second(zone.to_datetime(after))?;
        loop {
            local = self.next_local(local.checked_add(1.second()).ok()?)?;
            let at = first_moment(local, zone)?;
            // Otherwise it is a wall-clock time that comes a second time, and has already happened.
            if at > after {
                return Some(at);
            }
        }
    }

    /// Returns the next occurrence of an expression that is not tied to an hour: clock changes do not matter.
    fn next_going_on(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut offset = zone.to_offset(after);
        let mut local = whole_second(offset.to_datetime(after))?.checked_add(1.second()).ok()?;
        let mut changes = zone.following(after);
        loop {
            let next = self.next_local(local)?;
            let at = offset.to_timestamp(next).ok()?;
            match changes.next() {
                // From there on, another offset applies.
                Some(change) if change.timestamp() <= at => {
                    offset = change.offset();
                    local = offset.to_datetime(change.timestamp());
                }
                _ => return Some(at),
            }
        }
    }

    /// Returns the first matching time on the clock, starting with `from`. Ignores time zones.
    fn next_local(&self, from: DateTime) -> Option<DateTime> {
        if self.is_day(from.date())
            && let Some(time) = self.next_time(from.time())
        {
            return Some(from.date().to_datetime(time));
        }
        let first = self.next_time(Time::midnight())?;
        let mut date = from.date().tomorrow().ok()?;
        let horizon = date.year().saturating_add(HORIZON);
        while date.year() <= horizon {
            if !has(self.months, date.month().unsigned_abs().into()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if self.is_day(date) {
                return Some(date.to_datetime(first));
            } else {
                date = date.tomorrow().ok()?;
            }
        }
        None
    }

    fn is_day(&self, date: Date) -> bool {
        let of_month = has(self.days, date.day().unsigned_abs().into())
            || self.days & LAST_DAY != 0 && date.day() == date.days_in_month();
        let of_week = has(self.weekdays, date.weekday().to_sunday_zero_offset().unsigned_abs().into());
        let fits = if self.either_day { of_month || of_week } else { of_month && of_week };
        fits && has(self.months, date.month().unsigned_abs().into())
    }

    /// Returns the first matching time of a day, starting with `from`.
    fn next_time(&self, from: Time) -> Option<Time> {
        let [hour, minute, second] = [from.hour(), from.minute(), from.second()].map(|n| u32::from(n.unsigned_abs()));
        let first = |set| next(set, 0);
        let (hour, minute, second) = 'found: {
            if has(self.hours, hour) {
                if has(self.minutes, minute)
                    && let Some(second) = next(self.seconds, second)
                {
                    break 'found (hour, minute, second);
                }
                if let Some(minute) = next(self.minutes, minute + 1) {
                    break 'found (hour, minute, first(self.seconds)?);
                }
            }
            (next(self.hours, hour + 1)?, first(self.minutes)?, first(self.seconds)?)
        };
        Time::new(hour as i8, minute as i8, second as i8, 0).ok()
    }
}

/// Returns the instant at which a wall-clock time first occurs; if the clock jumps over it, the instant of the jump.
fn first_moment(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        AmbiguousOffset::Gap { before, .. } => {
            // By the offset before the jump, this instant is after the jump.
            let late = before.to_timestamp(local).ok()?.checked_add(1.nanosecond()).ok()?;
            zone.preceding(late).next().map(|change| change.timestamp())
        }
    }
}

fn whole_second(at: DateTime) -> Option<DateTime> {
    at.with().subsec_nanosecond(0).build().ok()
}

fn has(set: u64, number: u32) -> bool {
    set & (1 << number) != 0
}

/// Returns the least number of a set that is not below `from`.
fn next(set: u64, from: u32) -> Option<u32> {
    let rest = set & u64::MAX.checked_shl(from)?;
    (rest != 0).then(|| rest.trailing_zeros())
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |set, part| Ok(set | self.part(part)?))
    }

    /// Reads `*`, `5` or `5-10`, each with or without a step such as `/2`.
    fn part(&self, part: &str) -> Result<u64, String> {
        let refuse = |why: String| format!("{part:?} is no {} ({why})", self.name);
        if part == "L" && self.name == DAY.name {
            return Ok(LAST_DAY);
        }
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => match step.parse::<u32>() {
                Ok(step) if (1..=self.most).contains(&step) => (range, Some(step)),
                _ => return Err(refuse(format!("a step is 1 to {}", self.most))),
            },
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (self.least, self.most),
            Some((from, to)) => (self.number(from).map_err(refuse)?, self.number(to).map_err(refuse)?),
            None => {
                let from = self.number(range).map_err(refuse)?;
                // `3/10` extends to the end of the range.
                (from, if step.is_some() { self.most } else { from })
            }
        };
        let step = step.unwrap_or(1);
        if from <= to {
            // `*` and open ends: 7 is Sunday again, which is already included or skipped by the step.
            let to = if self.most == 7 && !range.contains('-') && from != to { 6 } else { to };
            return Ok((from..=to).step_by(step as usize).fold(0, |set, n| set | 1 << n));
        }
        if self.most != 7 {
            return Err(refuse(format!(
                "{from} is after {to}: write two ranges, `{from}-{},{}-{to}`",
                self.most, self.least
            )));
        }
        // SAT-MON wraps around the end of the week.
        Ok((from..=to + 7).step_by(step as usize).fold(0, |set, n| set | 1 << (n % 7)))
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(at) = named {
            return Ok(self.least + at as u32);
        }
        let hint = if self.names.is_empty() { String::new() } else { format!(", or a name such as {}", self.names[0]) };
        let refuse = || format!("use {} to {}{hint}", self.least, self.most);
        // `parse` would accept `+5`.
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refuse());
        }
        text.parse().ok().filter(|n| (self.least..=self.most).contains(n)).ok_or_else(refuse)
    }
}
