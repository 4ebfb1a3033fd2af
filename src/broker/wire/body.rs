//! Converts a body and its content type into a payload.

use super::Refusal;
use super::fields::{Fields, quoted};
use crate::job::{Limits, Payload};

/// The first bytes of a serialised Java object.
const JAVA: [u8; 4] = [0xac, 0xed, 0x00, 0x05];
const JAVA_TYPE: &str = "application/x-java-serialized-object";
const UNKNOWN_TYPE: &str = "application/octet-stream";
/// Encodings that change nothing.
const PLAIN: [&str; 6] = ["utf-8", "utf8", "us-ascii", "identity", "binary", ""];

/// Reads a body as its content type says. `application/octet-stream`, which JMS clients use for everything, and no type at all mean: JSON
/// if it is valid, else text if it is valid, else bytes.
pub(super) fn payload(fields: Fields<'_>, body: &[u8], limits: Limits) -> Result<Payload, Refusal> {
    if body.len() > limits.payload {
        return Err(Refusal::new(
            "too-large",
            format!(
                "the body has {} bytes; {} is the limit: store it elsewhere and send a reference",
                body.len(),
                limits.payload
            ),
        ));
    }
    let content_type = fields.properties.content_type().as_ref().map_or("", |text| text.as_str()).trim();
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media == JAVA_TYPE || body.starts_with(&JAVA) {
        return Err(Refusal::new("java-serialized", "the body is a serialised Java object; send JSON, text or bytes"));
    }
    let encoding = fields.properties.content_encoding().as_ref().map_or("", |text| text.as_str());
    if !PLAIN.contains(&encoding.trim().to_ascii_lowercase().as_str()) {
        return Err(Refusal::new(
            "bad-encoding",
            format!("content_encoding is {}; send the body as it is, text as UTF-8", quoted(encoding)),
        ));
    }
    if is_json(&media) {
        return json(body, limits);
    }
    if media.is_empty() || media == UNKNOWN_TYPE {
        return Ok(guessed(body, limits));
    }
    Ok(Payload::bytes(content_type, body))
}

/// Returns whether a media type, without parameters and in lower case, is JSON that is kept as JSON.
pub(super) fn is_json(media: &str) -> bool {
    matches!(media, "application/json" | "text/json") || media.ends_with("+json")
}

fn json(body: &[u8], limits: Limits) -> Result<Payload, Refusal> {
    let bad = |why: String| Refusal::new("bad-json", format!("the content type is JSON, and the body is not: {why}"));
    let text = std::str::from_utf8(body).map_err(|_| bad("it is not UTF-8".to_owned()))?;
    limits.json(text).map_err(|error| bad(error.to_string()))
}

fn guessed(body: &[u8], limits: Limits) -> Payload {
    let Ok(text) = std::str::from_utf8(body) else {
        return Payload::bytes(UNKNOWN_TYPE, body);
    };
    // Text that can't be kept as JSON, such as an escaped NUL, stays a text: the sender did not call it JSON.
    limits.json(text).unwrap_or_else(|_| Payload::text(text))
}
