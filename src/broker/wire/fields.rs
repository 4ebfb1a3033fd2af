//! Reads the properties and headers of a message.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use super::Refusal;
use crate::job::parse_duration;

/// The header that shows that the reporter was handed the job.
pub(super) const REPORT_TOKEN: &str = "reportToken";
/// The longest piece of third-party text that an explanation repeats, in characters.
const QUOTED: usize = 60;

/// Properties and headers of an incoming message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) properties: &'a BasicProperties,
}

impl<'a> Fields<'a> {
    pub(super) fn headers(self) -> Option<&'a FieldTable> {
        self.properties.headers().as_ref()
    }

    fn value(self, name: &str) -> Option<&'a AMQPValue> {
        self.headers()?.inner().get(name).filter(|value| !matches!(value, AMQPValue::Void))
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Returns a header as text. Numbers and booleans are converted.
    pub(super) fn text(self, name: &str) -> Result<Option<String>, Refusal> {
        self.value(name).map(|value| as_text(name, value)).transpose()
    }

    /// Does the same, with an empty text taken as none.
    pub(super) fn filled(self, name: &str) -> Result<Option<String>, Refusal> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// Returns a whole number, which may be written as text: some clients can set nothing else.
    pub(super) fn number(self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.value(name) else { return Ok(None) };
        if let Some(number) = whole(value) {
            return Ok(Some(number));
        }
        let text = as_text(name, value)?;
        text.trim()
            .parse()
            .map(Some)
            .map_err(|_| bad(format!("header {name} is {}, not a whole number", quoted(&text))))
    }

    /// Returns a timestamp: RFC 3339 as text, or an AMQP timestamp.
    pub(super) fn moment(self, name: &str) -> Result<Option<jiff::Timestamp>, Refusal> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let text = as_text(name, value)?;
        text.trim().parse().map(Some).map_err(|_| {
            Refusal::new(
                "bad-due",
                format!("header {name} is {}, not a point in time such as 2027-01-31T12:00:00Z", quoted(&text)),
            )
        })
    }
}

/// Refuses a bad header.
pub(super) fn bad(text: impl Into<String>) -> Refusal {
    Refusal::new("bad-header", text)
}

/// Quotes third-party text for an explanation: its beginning, escaped.
pub(super) fn quoted(text: &str) -> String {
    if text.chars().nth(QUOTED).is_none() {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(QUOTED).collect();
    format!("{start:?}…")
}

fn whole(value: &AMQPValue) -> Option<i64> {
    match *value {
        AMQPValue::ShortShortInt(n) => Some(n.into()),
        AMQPValue::ShortShortUInt(n) => Some(n.into()),
        AMQPValue::ShortInt(n) => Some(n.into()),
        AMQPValue::ShortUInt(n) => Some(n.into()),
        AMQPValue::LongInt(n) => Some(n.into()),
        AMQPValue::LongUInt(n) => Some(n.into()),
        AMQPValue::LongLongInt(n) => Some(n),
        _ => None,
    }
}

/// Returns the value of a header as text. Lists, tables and bytes have no text form.
pub(super) fn as_text(name: &str, value: &AMQPValue) -> Result<String, Refusal> {
    if let Some(number) = whole(value) {
        return Ok(number.to_string());
    }
    match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes())
            .map(str::to_owned)
            .map_err(|_| bad(format!("header {} is not UTF-8", quoted(name)))),
        AMQPValue::ShortString(text) => Ok(text.as_str().to_owned()),
        AMQPValue::Boolean(value) => Ok(value.to_string()),
        AMQPValue::Float(number) => Ok(number.to_string()),
        AMQPValue::Double(number) => Ok(number.to_string()),
        AMQPValue::Timestamp(seconds) => i64::try_from(*seconds)
            .ok()
            .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
            .map(|moment| moment.to_string())
            .ok_or_else(|| bad(format!("header {} is a timestamp beyond the year 9999", quoted(name)))),
        other => Err(bad(format!(
            "header {} is a {:?}; use a string, a number or a boolean, and put anything else into the body",
            quoted(name),
            other.get_type()
        ))),
    }
}

/// Parses milliseconds, or a text such as `90s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match text.trim().parse::<u64>() {
        Ok(millis) => Ok(Duration::from_millis(millis)),
        Err(_) if text.chars().count() > 60 => Err(format!("{} is not a duration", quoted(text))),
        Err(_) => parse_duration(text.trim()),
    }
}
