//! What a response means for its job.

use std::io::Read as _;
use std::time::Duration;

use jiff::Timestamp;
use jobwright::{JobError, Payload};
use ureq::Body;
use ureq::http::Response;

use crate::handlers::ANY_BYTES;

/// How much of a response is kept.
const KEPT: u64 = 4 * 1024;
/// How much of a response is read that nobody wants. The connection of a response that was not read to its end can't be used for another request.
const UNWANTED: u64 = 64 * 1024;
/// The longest delay a server may ask for.
const LATEST: Duration = Duration::from_secs(24 * 3600);

pub(super) fn judge(answer: Response<Body>, place: &str, longest: Option<usize>) -> Result<Option<Payload>, JobError> {
    let status = answer.status();
    if status.is_success() {
        let Some(longest) = longest else {
            read_rest(answer);
            return Ok(None);
        };
        return body(answer, place, longest).map(Some);
    }
    let wait = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()).and_then(retry_after);
    let location = answer.headers().get("location").is_some();
    let error = match status.as_u16() {
        408 | 425 | 429 | 500..=599 => {
            let text = format!("{place} answered {status}");
            wait.map_or_else(|| JobError::new(&text), |wait| JobError::retry_after(&text, wait))
        }
        300..=399 => JobError::fatal(format!(
            "{place} answered {status}{}: redirects are not followed, configure the URL it points to",
            if location { " with another location" } else { "" }
        )),
        _ => JobError::fatal(format!("{place} answered {status}")),
    };
    let text = beginning(answer);
    Err(if text.is_empty() { error } else { error.detail(text) })
}

/// Reads a body that nobody wants, if it is short, so that its connection is kept. The client limits the time.
fn read_rest(answer: Response<Body>) {
    let length = answer.body().content_length();
    // A body without a length that is not sent in chunks ends with its connection.
    if length.map_or_else(|| answer.headers().contains_key("transfer-encoding"), |length| length <= UNWANTED) {
        // The work is done, whatever becomes of the rest.
        let _ = std::io::copy(&mut answer.into_body().into_reader().take(UNWANTED + 1), &mut std::io::sink());
    }
}

/// Reads the whole body, with its type.
fn body(answer: Response<Body>, place: &str, longest: usize) -> Result<Payload, JobError> {
    let header = |name| answer.headers().get(name).map(|value| value.to_str().ok().map(str::trim));
    let encoded = header("content-encoding").is_some_and(|encoding| !encoding.is_some_and(is_identity));
    let content_type = match header("content-type") {
        // No encoding was asked for, and a requester would not know of it.
        _ if encoded => ANY_BYTES.to_owned(),
        None => "text/plain".to_owned(),
        // `reply` looks at the type itself.
        Some(name) => name.unwrap_or(ANY_BYTES).to_owned(),
    };
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to refuse it.
    let read = answer.into_body().into_reader().take(longest as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| JobError::new(format!("the answer of {place} could not be read to its end: {error}")))?;
    if bytes.len() > longest {
        return Err(JobError::fatal(format!(
            "the answer of {place} has more than {longest} bytes (`database.max_payload`), too much for a result"
        )));
    }
    if content_type.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("application/json"))
        && let Ok(text) = std::str::from_utf8(&bytes)
        && let Ok(json) = Payload::json_text(text.to_owned())
    {
        return Ok(json);
    }
    Ok(Payload::bytes(content_type, bytes))
}

fn is_identity(encoding: &str) -> bool {
    encoding.is_empty() || encoding.eq_ignore_ascii_case("identity")
}

/// Reads the beginning of the body, as text.
fn beginning(answer: Response<Body>) -> String {
    let mut bytes = Vec::new();
    // What was read before an error is still useful.
    let _ = answer.into_body().into_reader().take(KEPT).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads seconds, or an HTTP date.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds).min(LATEST));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let wait = at.duration_since(Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default().min(LATEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("99999999999"), Some(LATEST));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
        let soon = Timestamp::now() + Duration::from_secs(60);
        let text = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&soon).unwrap();
        let wait = retry_after(&text).unwrap();
        assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60), "{wait:?}");
    }
}
