//! A checked job as a statement for other drivers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::shared::Shared;
use super::unique::on_conflict;
use crate::error::{Error, Result};
use crate::job::{Due, JobId, JobMessage, JobOptions, Payload};

/// Bytes of a payload in JSON that the server may add when it writes it out: a space behind each comma and each colon.
const SPACES: usize = 2;

/// The parameter of `send_by_sql`. A field that is missing counts as not given.
#[derive(Serialize)]
struct Parameter<'m> {
    id: JobId,
    kind: &'m str,
    queue: &'m str,
    priority: i16,
    max_attempts: u32,
    // As a text: a payload that is null would be none.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'m str>,
    max_payload: i32,
    headers: &'m BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'m str>,
    ordered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_key: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    #[serde(flatten)]
    unique: Option<UniqueParameter>,
}

/// What a unique job adds.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "so are the arguments of the function")]
struct UniqueParameter {
    unique_digest: String,
    unique_hold: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_period: Option<String>,
    unique_conflict: &'static str,
}

/// Returns the statement and its parameter. `largest`: the longest payload that the message was checked for.
pub(super) fn by_sql(shared: &Shared, message: &JobMessage, largest: usize) -> Result<(String, String)> {
    Ok((shared.sql.send_by_sql.sql.to_string(), parameter(message, largest)?))
}

fn parameter(message: &JobMessage, largest: usize) -> Result<String> {
    // All fields are named, so that a new one is not forgotten. The server computes when the time to live ends, and no delivery hides the row. An id
    // is always decided about, so that the statement may be run again.
    let JobMessage {
        id,
        id_given: _,
        kind,
        queue,
        priority,
        max_attempts,
        due,
        payload,
        headers,
        options,
        hidden_for: _,
    } = message;
    let JobOptions { group, ordered, tenant, limit_key, ttl, expires: _, retry, unique } = options;
    let (json, body, content_type) = match payload {
        Payload::Json(raw) => (Some(raw.get()), None, None),
        Payload::Bytes { content_type, body } => (None, Some(hex(body)), Some(content_type.as_str())),
    };
    // A codec may have made it longer than what was checked.
    let max_payload = payload.as_bytes().len().max(largest).saturating_mul(SPACES);
    let (due_at, delay) = match due {
        Due::Now => (None, None),
        Due::In(delay) => (None, Some(interval(*delay))),
        Due::At(at) => (Some(format!("{at:.6}")), None),
    };
    let unique = unique.as_ref().map(|unique| UniqueParameter {
        unique_digest: format!("\\x{}", unique.key),
        unique_hold: unique.hold.as_str(),
        unique_period: unique.period.map(|period| interval(Duration::from_micros(period.unsigned_abs()))),
        unique_conflict: on_conflict(unique.conflict),
    });
    let parameter = Parameter {
        id: *id,
        kind,
        queue,
        priority: *priority,
        max_attempts: *max_attempts,
        payload: json,
        body,
        content_type,
        max_payload: i32::try_from(max_payload).unwrap_or(i32::MAX),
        headers,
        due_at,
        delay,
        group: group.as_deref(),
        ordered: *ordered,
        tenant: tenant.as_deref(),
        limit_key: limit_key.as_deref(),
        ttl: ttl.map(interval),
        retry: retry.as_ref().map(ToString::to_string),
        unique,
    };
    serde_json::to_string(&parameter)
        .map_err(|error| Error::invalid("the job can't be written as JSON").with_source(error))
}

/// Writes a duration as PostgreSQL reads it exactly: a number of seconds may be beyond what versions before 15 read.
fn interval(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}:{:02}.{:06}", seconds / 3600, seconds / 60 % 60, seconds % 60, duration.subsec_micros())
}

/// Writes bytes as PostgreSQL reads them.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Limits, NewJob};

    #[test]
    fn a_plain_job_says_little() {
        let message = NewJob::json("k", &()).validate(Limits::default()).unwrap();
        let text = parameter(&message, 5).unwrap();
        let id = message.id;
        assert_eq!(
            text,
            format!(
                r#"{{"id":"{id}","kind":"k","queue":"default","priority":0,"max_attempts":10,"payload":"null","max_payload":10,"headers":{{}},"ordered":false}}"#
            )
        );
    }

    #[test]
    fn bytes_and_durations_are_written_as_the_server_reads_them() {
        assert_eq!(hex(&[0, 255, 16]), r"\x00ff10");
        assert_eq!(interval(Duration::from_micros(3_600_000_000 * 30 + 61_000_005)), "30:01:01.000005");
    }
}
