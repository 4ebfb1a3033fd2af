//! Encryption.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::jwe::{self, ALG, ENC, Header, Sealed};
use super::{Codec, ContentKind, Label, SealKey};
use crate::error::BoxError;
use crate::job::{EVENT_QUEUE, Payload, REPLY_QUEUE};

/// The content type of sealed content (RFC 7515, section 9.2.1).
const SEALED: &str = "application/jose";
const DEFLATE: &str = "DEF";
/// Shorter content is not compressed: there is next to nothing to gain.
const WORTH_IT: usize = 512;

/// Encrypts with AES-256 and authenticates, as JWE (RFC 7516: `A256KW`, `A256GCM`).
///
/// Sealed content names its key, and is bound to the job's kind and to its part of the job. So a writer of the table can't pass off the
/// payload of another kind, or a result, as the payload of a kind. It can still swap payloads between jobs of the same kind.
///
/// # Key rotation
///
/// First give the new key to every node with [`also_opens`](Self::also_opens). Then make it the sealing key and keep the old one with
/// `also_opens`. Drop the old one when no content sealed with it is left. A node without the needed key fails the attempt, and the job is
/// retried, here or elsewhere.
///
/// # Readers
///
/// External workers get the payload as stored, with the content type `application/jose`. Events and replies are messages to other systems
/// and stay plain, unless [`plain_queues`](Self::plain_queues) says otherwise.
#[derive(Clone, Debug)]
pub struct Seal {
    key: SealKey,
    keys: BTreeMap<String, SealKey>,
    compress: bool,
    plain_queues: BTreeSet<String>,
    plain_errors: bool,
    only_sealed: bool,
}

impl Seal {
    /// Creates a codec that seals and opens with this key.
    pub fn new(key: SealKey) -> Self {
        Self {
            keys: BTreeMap::from([(key.id().to_owned(), key.clone())]),
            key,
            compress: false,
            plain_queues: [EVENT_QUEUE, REPLY_QUEUE].map(str::to_owned).into(),
            plain_errors: false,
            only_sealed: false,
        }
    }

    /// Also opens content that was sealed with this key.
    #[must_use]
    pub fn also_opens(mut self, key: SealKey) -> Self {
        self.keys.entry(key.id().to_owned()).or_insert(key);
        self
    }

    /// Compresses content of 512 bytes or more before encryption, if that makes it shorter. Off by default: the length of sealed content
    /// then reveals something about it, which matters where an attacker can add to the content and see the length.
    #[must_use]
    pub fn compress(mut self, on: bool) -> Self {
        self.compress = on;
        self
    }

    /// Leaves payloads of jobs in these queues plain. Default: those of events and replies, [`EVENT_QUEUE`] and [`REPLY_QUEUE`].
    #[must_use]
    pub fn plain_queues(mut self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.plain_queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves errors plain, so that people without a key can read them, and dead letters can be grouped by them. Off by default: the text
    /// of an error often contains the data it is about.
    #[must_use]
    pub fn plain_errors(mut self, on: bool) -> Self {
        self.plain_errors = on;
        self
    }

    /// Refuses payloads that are not sealed, so that a writer of the table without a key can't create jobs that run. Jobs sent by SQL or by
    /// other senders without a key then fail. Off by default.
    #[must_use]
    pub fn only_sealed(mut self, on: bool) -> Self {
        self.only_sealed = on;
        self
    }

    fn stays_plain(&self, label: Label<'_>) -> bool {
        match label.part {
            ContentKind::Payload => label.queue.is_some_and(|queue| self.plain_queues.contains(queue)),
            ContentKind::Error => self.plain_errors,
            ContentKind::Result | ContentKind::Checkpoint => false,
        }
    }
}

impl Codec for Seal {
    fn encode(&self, content: Payload, label: Label<'_>) -> Result<Payload, BoxError> {
        // The sender has sealed it.
        if self.stays_plain(label) || content.content_type() == SEALED {
            return Ok(content);
        }
        let short = (self.compress && (WORTH_IT..=label.largest).contains(&content.as_bytes().len()))
            .then(|| deflated(content.as_bytes()))
            .transpose()?
            .filter(|short| short.len() < content.as_bytes().len());
        let header = Header {
            kid: self.key.id().to_owned(),
            alg: ALG.to_owned(),
            enc: ENC.to_owned(),
            typ: typ(label.part),
            cty: content.content_type().to_owned(),
            kind: label.kind.to_owned(),
            zip: short.is_some().then(|| DEFLATE.to_owned()),
            crit: None,
        };
        let sealed = jwe::seal(&self.key, &header, short.as_deref().unwrap_or(content.as_bytes()))?;
        Ok(Payload::bytes(SEALED, sealed))
    }

    fn decode(&self, content: Payload, label: Label<'_>) -> Result<Payload, BoxError> {
        if content.content_type() != SEALED {
            if self.only_sealed && label.part == ContentKind::Payload && !self.stays_plain(label) {
                return Err("it is not sealed, and only sealed content is accepted".into());
            }
            return Ok(content);
        }
        let sealed = Sealed::parse(content.as_str().ok_or("it is not a JWE: it is not text")?)?;
        let header = &sealed.header;
        if (header.alg.as_str(), header.enc.as_str()) != (ALG, ENC) || header.crit.is_some() {
            return Err(format!("it is not sealed with {ALG} and {ENC}").into());
        }
        if header.kind != label.kind || header.typ != typ(label.part) {
            return Err("it was sealed for a job of another kind, or for another part of one".into());
        }
        let key = self.keys.get(&header.kid).ok_or_else(|| {
            let known: Vec<&str> = self.keys.keys().map(String::as_str).collect();
            format!("it is sealed with the key {:?}; here there are {}", header.kid, known.join(", "))
        })?;
        let (header, body) = sealed.open(key)?;
        let body = match header.zip.as_deref() {
            None => body,
            Some(DEFLATE) => inflated(&body, label.largest)?,
            Some(_) => return Err("it is not compressed with DEF".into()),
        };
        Ok(if header.cty == "application/json" {
            let text = String::from_utf8(body).map_err(|_| "it is labelled as JSON, but is not UTF-8")?;
            Payload::json_text(text)?
        } else {
            Payload::bytes(header.cty, body)
        })
    }

    fn is_current(&self, content: &Payload) -> bool {
        content
            .as_str()
            .and_then(|text| Sealed::parse(text).ok())
            .is_some_and(|sealed| sealed.header.kid == self.key.id())
    }
}

fn typ(part: ContentKind) -> String {
    format!("jobwright-{}", part.as_str())
}

pub(super) fn deflated(content: &[u8]) -> Result<Vec<u8>, BoxError> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

/// Bounded: a few bytes can expand to very many.
fn inflated(body: &[u8], largest: usize) -> Result<Vec<u8>, BoxError> {
    let mut content = Vec::new();
    DeflateDecoder::new(body).take(largest as u64 + 1).read_to_end(&mut content)?;
    if content.len() > largest {
        return Err(
            format!("it becomes longer than {largest} bytes, which is the limit (`database.max_payload`)").into()
        );
    }
    Ok(content)
}
