use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::Error;

/// The content of a job: JSON, or bytes with a content type.
#[derive(Clone)]
pub enum Payload {
    /// A JSON document, stored as its text. PostgreSQL stores it as `jsonb`, so whitespace, the order of keys and duplicate keys are not
    /// preserved there.
    Json(Box<RawValue>),
    /// Anything else, stored byte for byte.
    Bytes {
        /// A media type such as `text/plain; charset=utf-8`.
        content_type: String,
        /// The content.
        body: Vec<u8>,
    },
}

impl Payload {
    /// Serialises `value` as JSON.
    ///
    /// # Errors
    /// When `value` can't be written as JSON, for example a map whose keys are not strings.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        serde_json::value::to_raw_value(value)
            .map(Self::Json)
            .map_err(|e| Error::invalid(format!("the payload can't be written as JSON: {e}")))
    }

    /// Takes a JSON text unchanged.
    ///
    /// # Errors
    /// When `text` is not a single JSON document that both stores can hold: numbers beyond the range of a double and lone surrogates
    /// (`"\ud800"`) are refused.
    pub fn json_text(text: impl Into<String>) -> Result<Self, Error> {
        let text = text.into();
        // `RawValue` only checks the syntax; parsing to a value also finds what PostgreSQL's `jsonb` would refuse.
        serde_json::from_str::<serde_json::Value>(&text)
            .and_then(|_| RawValue::from_string(text))
            .map(Self::Json)
            .map_err(|e| Error::invalid(format!("the payload is not JSON: {e}")))
    }

    /// Creates a payload from bytes with their media type.
    pub fn bytes(content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self::Bytes { content_type: content_type.into(), body: body.into() }
    }

    /// Creates a payload from text, as `text/plain; charset=utf-8`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::bytes("text/plain; charset=utf-8", text.into())
    }

    /// Returns the media type: `application/json` for JSON.
    pub fn content_type(&self) -> &str {
        match self {
            Self::Json(_) => "application/json",
            Self::Bytes { content_type, .. } => content_type,
        }
    }

    /// Returns the content as bytes: the JSON text, or the body.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Json(raw) => raw.get().as_bytes(),
            Self::Bytes { body, .. } => body,
        }
    }

    /// Returns the content as bytes, without a copy.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Json(raw) => String::from(Box::<str>::from(raw)).into_bytes(),
            Self::Bytes { body, .. } => body,
        }
    }

    /// Returns the content as text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// Whether both mean the same: a store may write JSON differently from how it was sent.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json(_), Self::Json(_)) => {
                let value = |payload: &Self| payload.decode::<serde_json::Value>().ok();
                value(self) == value(other)
            }
            _ => self == other,
        }
    }

    /// Decodes the content as JSON, whatever the content type says (external senders often send a useless one).
    ///
    /// # Errors
    /// When it is not JSON of the shape of `T`. The message names the position, never the content.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.as_bytes())
    }
}

/// Shows only type and size: a payload may hold data that must not be in a log.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, {} bytes)", self.content_type(), self.as_bytes().len())
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.content_type() == other.content_type() && self.as_bytes() == other.as_bytes()
    }
}
