//! Compression.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::{Codec, ContentKind, Label};
use crate::error::BoxError;
use crate::job::{EVENT_QUEUE, Payload, REPLY_QUEUE};

/// The content type; the original one follows it.
const GZIPPED: &str = "application/gzip;of=";

/// Compresses payloads, results and checkpoints above a certain length with gzip (RFC 1952), if that makes them shorter.
///
/// PostgreSQL compresses long rows itself. This codec also saves network traffic, write-ahead log and broker memory. Errors, events and
/// replies stay as they are. External workers get the payload as stored, with the content type `application/gzip;of=` followed by the
/// original one. With [`Seal`](super::Seal), add this one first: encrypted content can't be compressed.
#[derive(Clone, Copy, Debug)]
pub struct Gzip {
    from: usize,
}

impl Gzip {
    /// Compresses content of 4 KiB or more.
    pub fn new() -> Self {
        Self { from: 4096 }
    }

    /// Compresses content of this many bytes or more.
    #[must_use]
    pub fn min_size(mut self, bytes: usize) -> Self {
        self.from = bytes;
        self
    }
}

impl Default for Gzip {
    fn default() -> Self {
        Self::new()
    }
}

impl Codec for Gzip {
    fn encode(&self, content: Payload, label: Label<'_>) -> Result<Payload, BoxError> {
        let plain = label.part == ContentKind::Error
            || label.queue.is_some_and(|queue| [EVENT_QUEUE, REPLY_QUEUE].contains(&queue));
        let body = content.as_bytes();
        if plain || body.len() < self.from || body.len() > label.largest || content.content_type().starts_with(GZIPPED)
        {
            return Ok(content);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body)?;
        let short = encoder.finish()?;
        if short.len() >= body.len() {
            return Ok(content);
        }
        Ok(Payload::bytes(format!("{GZIPPED}{}", content.content_type()), short))
    }

    fn decode(&self, content: Payload, label: Label<'_>) -> Result<Payload, BoxError> {
        let Some(before) = content.content_type().strip_prefix(GZIPPED) else { return Ok(content) };
        let mut body = Vec::new();
        // Bounded: a few bytes can expand to very many, and any submitter could send such bytes.
        GzDecoder::new(content.as_bytes()).take(label.largest as u64 + 1).read_to_end(&mut body)?;
        if body.len() > label.largest {
            let largest = label.largest;
            return Err(
                format!("it becomes longer than {largest} bytes, which is the limit (`database.max_payload`)").into()
            );
        }
        Ok(if before == "application/json" {
            Payload::json_text(String::from_utf8(body).map_err(|_| "it is labelled as JSON, but is not UTF-8")?)?
        } else {
            Payload::bytes(before, body)
        })
    }
}
