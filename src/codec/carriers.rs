//! Encoded content where only JSON or text is possible: results and checkpoints are JSON columns, errors are texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::job::Payload;
use crate::store::ENCODED;

/// JSON around content that is not JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Carrier {
    #[serde(rename = "jobwright:encoded")]
    encoded: Encoded,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Encoded {
    content_type: String,
    /// The content, if it is a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The content in base64, if it is not a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

pub(super) fn to_json(content: Payload) -> Result<Box<RawValue>> {
    let (content_type, body) = match content {
        Payload::Json(json) => return Ok(json),
        Payload::Bytes { content_type, body } => (content_type, body),
    };
    let (text, base64) = match String::from_utf8(body) {
        Ok(text) => (Some(text), None),
        Err(bytes) => (None, Some(STANDARD.encode(bytes.as_bytes()))),
    };
    serde_json::value::to_raw_value(&Carrier { encoded: Encoded { content_type, text, base64 } })
        .map_err(|error| Error::invalid("encoded content can't be written as JSON").with_source(error))
}

/// Unwraps a carrier. JSON that does not look like one is plain.
pub(super) fn from_json(json: Payload) -> Payload {
    let Ok(Carrier { encoded: Encoded { content_type, text, base64 } }) = json.decode() else { return json };
    match (text, base64.map(|encoded| STANDARD.decode(encoded))) {
        (Some(text), None) => Payload::bytes(content_type, text),
        (None, Some(Ok(body))) => Payload::bytes(content_type, body),
        _ => json,
    }
}

/// Writes content as a text: [`ENCODED`], the content type, `] `, then the content. `plain` is the original text, returned if the codecs
/// left it alone.
pub(super) fn to_text(plain: String, content: &Payload) -> String {
    if *content == Payload::text(&plain) {
        return plain;
    }
    let content_type = content.content_type();
    match content.as_str() {
        Some(text) => format!("{ENCODED}{content_type}] {text}"),
        None => format!("{ENCODED}{content_type};base64] {}", STANDARD.encode(content.as_bytes())),
    }
}

pub(super) fn from_text(text: &str) -> Option<Payload> {
    let (content_type, content) = text.strip_prefix(ENCODED)?.split_once("] ")?;
    Some(match content_type.strip_suffix(";base64") {
        Some(content_type) => Payload::bytes(content_type, STANDARD.decode(content).ok()?),
        None => Payload::bytes(content_type, content),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_payloads_are_decoded_and_plain_ones_stay() {
        for content in
            [Payload::bytes("application/jose", "eyJ.a.b"), Payload::bytes("application/gzip", [0, 159, 146])]
        {
            let json = to_json(content.clone()).unwrap();
            assert_eq!(from_json(Payload::Json(json)), content);
            let text = to_text("plain".to_owned(), &content);
            assert_eq!(from_text(&text), Some(content));
        }
        for plain in ["1", r#"{"jobwright:encoded":1}"#, r#"{"jobwright:encoded":{"contentType":"a/b"}}"#] {
            let json = Payload::json_text(plain).unwrap();
            assert_eq!(from_json(json.clone()), json);
        }
        assert_eq!(to_text("plain".to_owned(), &Payload::text("plain")), "plain");
        assert_eq!(from_text("[encoded nothing"), None);
    }
}
