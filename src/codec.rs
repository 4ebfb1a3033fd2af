//! How the content of jobs is stored: as it is, compressed, encrypted, or in a custom way.
//!
//! A [`Codec`] stands between jobs as programs see them and jobs as they are stored and sent. It encodes a payload when it is sent, after
//! the job was checked, and decodes it before a handler sees it. It does the same with results, checkpoints and error texts. So the
//! database, its backups and replicas, and the broker only ever contain encoded content.
//!
//! ```text
//!  NewJob ─▶ checked ─▶ encode ─▶ table or broker ─▶ claimed ─▶ decode ─▶ handler ─▶ result, error ─▶ encode ─▶ table
//! ```
//!
//! Two codecs come with the feature `codecs`: [`Seal`] encrypts (JWE, RFC 7516, which libraries for Java and Python can read), and [`Gzip`]
//! compresses.
//!
//! ```
//! # #[cfg(feature = "codecs")] {
//! use jobwright::codec::{Gzip, Seal, SealKey};
//!
//! # fn f(messages: jobwright::MessageServices, key: [u8; 32]) -> jobwright::MessageServices {
//! messages.with_codec(Seal::new(SealKey::new("2026-11", key).unwrap()))
//! # }
//! # }
//! ```
//!
//! A codec does not see kind, queue, headers, tenant, group and names of schedules, because the engine needs them. It does not see the
//! digest of a unique job or progress notes either. SQL that sends a job directly stores it unencoded, and the job runs like that; a statement of
//! [`as_sql`](crate::MessageServices::as_sql) has encoded content.

mod carriers;
#[cfg(feature = "codecs")]
mod gzip;
#[cfg(feature = "codecs")]
mod jwe;
#[cfg(feature = "codecs")]
mod keys;
#[cfg(feature = "codecs")]
mod seal;
#[cfg(test)]
#[cfg(feature = "codecs")]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::value::RawValue;

#[cfg(feature = "codecs")]
pub use self::gzip::Gzip;
#[cfg(feature = "codecs")]
pub use self::keys::SealKey;
#[cfg(feature = "codecs")]
pub use self::seal::Seal;
use crate::error::{BoxError, Error, Result};
use crate::job::{Job, JobError, JobMessage, Limits, Payload, ScheduleSpec};
use crate::store::schedules::ScheduleInfo;
use crate::store::{JobDetail, JobResult, Settlement};

/// The kind of a job's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentKind {
    /// The payload of the job.
    Payload,
    /// The result of its handler.
    Result,
    /// The checkpoint from which its next attempt continues.
    Checkpoint,
    /// The error of an attempt, or its details.
    Error,
}

impl ContentKind {
    /// Returns the word for it: `payload`, `result`, `checkpoint`, `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Result => "result",
            Self::Checkpoint => "checkpoint",
            Self::Error => "error",
        }
    }
}

/// Describes the job and part that a content belongs to.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Label<'a> {
    /// The part of the job.
    pub part: ContentKind,
    /// The job's kind. It alone never changes about a job, so a codec may bind the content to it.
    pub kind: &'a str,
    /// The job's queue. It is known on encoding, but not always on decoding.
    pub queue: Option<&'a str>,
    /// Longest content of a job, in bytes ([`DatabaseConfig::max_payload`](crate::DatabaseConfig::max_payload)). Content that is longer
    /// after decoding has not passed the size check of a send.
    pub largest: usize,
}

impl<'a> Label<'a> {
    /// Creates a label for a part of a job of this kind.
    pub fn new(part: ContentKind, kind: &'a str) -> Self {
        Self { part, kind, queue: None, largest: Limits::default().payload }
    }

    /// Sets the longest content, in bytes; the default is 1 MiB.
    #[must_use]
    pub fn largest(mut self, largest: usize) -> Self {
        self.largest = largest;
        self
    }

    /// Sets the queue.
    #[must_use]
    pub fn queue(mut self, queue: &'a str) -> Self {
        self.queue = Some(queue);
        self
    }
}

/// Encodes and decodes stored content.
///
/// `decode` gets everything that is read, including content from before the codec was added, and content written by SQL or another program.
/// It recognizes its own by the content type, and returns the rest unchanged. An error in `encode` refuses the content. An error in
/// `decode` fails the job's attempt, which is retried like any other, so a temporarily missing key costs no job.
///
/// Both run on the task of the sender or the handler. They should take well under a millisecond, and must not block.
pub trait Codec: Send + Sync + fmt::Debug + 'static {
    /// Returns the content to store instead of `content`.
    ///
    /// # Errors
    /// When the content can't be encoded.
    fn encode(&self, content: Payload, label: Label<'_>) -> Result<Payload, BoxError>;

    /// Returns the content that [`encode`](Self::encode) was given. Content that this codec did not encode is returned unchanged.
    ///
    /// # Errors
    /// When the codec encoded the content but can't read it: the key is missing, or the content was changed.
    fn decode(&self, content: Payload, label: Label<'_>) -> Result<Payload, BoxError>;

    /// Whether `encode` would still produce this content. If so, a schedule that is put again unchanged keeps its stored content.
    fn is_current(&self, content: &Payload) -> bool {
        let _ = content;
        true
    }
}

/// Codecs in the order in which they encode. Without codecs there is no cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codecs(Option<Arc<All>>);

#[derive(Debug)]
struct All {
    each: Vec<Arc<dyn Codec>>,
    /// Longest content, in bytes.
    largest: usize,
}

impl Codecs {
    pub(crate) fn and(&self, codec: Arc<dyn Codec>, largest: usize) -> Self {
        let each = self.each().iter().cloned().chain([codec]).collect();
        Self(Some(Arc::new(All { each, largest })))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn each(&self) -> &[Arc<dyn Codec>] {
        self.0.as_deref().map_or(&[], |all| &all.each)
    }

    fn bounded<'a>(&self, label: Label<'a>) -> Label<'a> {
        self.0.as_deref().map_or(label, |all| label.largest(all.largest))
    }

    fn encode(&self, content: Payload, label: Label<'_>) -> Result<Payload> {
        let label = self.bounded(label);
        let each = |content, codec: &Arc<dyn Codec>| guarded(|| codec.encode(content, label));
        self.each().iter().try_fold(content, each).map_err(|why| {
            let Label { part, kind, .. } = label;
            Error::invalid(format!("the {} of a {kind:?} job can't be encoded: {why}", part.as_str())).with_source(why)
        })
    }

    fn decode(&self, content: Payload, label: Label<'_>) -> Result<Payload> {
        let label = self.bounded(label);
        let each = |content, codec: &Arc<dyn Codec>| guarded(|| codec.decode(content, label));
        self.each().iter().rev().try_fold(content, each).map_err(|why| {
            let Label { part, kind, .. } = label;
            Error::invalid(format!("the {} of this {kind:?} job can't be decoded: {why}", part.as_str()))
                .with_source(why)
        })
    }

    /// Encodes a checked message for storage.
    pub(crate) fn message(&self, message: &mut JobMessage) -> Result<()> {
        if self.0.is_some() {
            let label = Label::new(ContentKind::Payload, &message.kind).queue(&message.queue);
            // Moved out, not copied: after a failure nothing is stored.
            message.payload = self.encode(taken(&mut message.payload), label)?;
        }
        Ok(())
    }

    /// Encodes a schedule for storage. If `stored`, the existing schedule, has the same content, that content is kept, because encoding it
    /// again would look like a change.
    pub(crate) fn schedule(&self, mut spec: ScheduleSpec, stored: Option<&ScheduleSpec>) -> Result<ScheduleSpec> {
        if self.0.is_none() {
            return Ok(spec);
        }
        if let Some(stored) = stored {
            let payload = &stored.message.payload;
            let current = self.each().iter().all(|codec| codec.is_current(payload));
            let same = self.decode(payload.clone(), Label::new(ContentKind::Payload, &stored.message.kind)).is_ok_and(
                |plain| stored.message.kind == spec.message.kind && plain.says_the_same(&spec.message.payload),
            );
            if current && same {
                spec.message.payload = payload.clone();
                return Ok(spec);
            }
        }
        self.message(&mut spec.message)?;
        Ok(spec)
    }

    /// Decodes a schedule for display. Content that can't be decoded stays as it is.
    pub(crate) fn plain_schedule(&self, mut schedule: ScheduleInfo) -> ScheduleInfo {
        if self.0.is_some() {
            let message = &mut schedule.spec.message;
            if let Ok(plain) = self.decode(message.payload.clone(), Label::new(ContentKind::Payload, &message.kind)) {
                message.payload = plain;
            }
        }
        schedule
    }

    /// Decodes a claimed job for its handler. It works in place, because many jobs are in flight at the same time.
    pub(crate) fn open(&self, job: &mut Job) -> Result<(), JobError> {
        if self.0.is_some() {
            let label = Label::new(ContentKind::Payload, &job.kind).queue(&job.queue);
            job.payload = self.decode(job.payload.clone(), label).map_err(|error| JobError::new(error.to_string()))?;
        }
        Ok(())
    }

    /// Encodes a handler's JSON for storage.
    pub(crate) fn keep_json(&self, json: Box<RawValue>, label: Label<'_>) -> Result<Box<RawValue>> {
        if self.0.is_none() {
            return Ok(json);
        }
        carriers::to_json(self.encode(Payload::Json(json), label)?)
    }

    /// Decodes stored JSON.
    pub(crate) fn read_json(&self, json: Payload, label: Label<'_>) -> Result<Payload> {
        if self.0.is_none() {
            return Ok(json);
        }
        self.decode(carriers::from_json(json), label)
    }

    /// Encodes an error for storage. An error that can't be encoded is dropped, because it may contain just what must not be readable.
    pub(crate) fn settlement(&self, mut settlement: Settlement, kind: &str, queue: &str) -> Settlement {
        if self.0.is_some() {
            let label = Label::new(ContentKind::Error, kind).queue(queue);
            let keep = |text: String| {
                self.encode(Payload::text(&text), label)
                    .map_or_else(|error| error.to_string(), |kept| carriers::to_text(text, &kept))
            };
            settlement.error = settlement.error.map(keep);
            settlement.detail = settlement.detail.map(keep);
        }
        settlement
    }

    /// Decodes the stored error of a settlement.
    pub(crate) fn plain_settlement(&self, mut settlement: Settlement, kind: &str) -> Settlement {
        self.read_error(&mut settlement.error, kind);
        self.read_error(&mut settlement.detail, kind);
        settlement
    }

    /// Decodes a stored text. If it can't be decoded, the returned text says so.
    pub(crate) fn read_text(&self, text: String, kind: &str) -> String {
        if self.0.is_none() {
            return text;
        }
        let Some(kept) = carriers::from_text(&text) else { return text };
        match self.decode(kept, Label::new(ContentKind::Error, kind)) {
            Ok(plain) => plain.as_str().map_or(text, str::to_owned),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) fn read_error(&self, error: &mut Option<String>, kind: &str) {
        *error = error.take().map(|text| self.read_text(text, kind));
    }

    pub(crate) fn read_checkpoint(&self, checkpoint: &mut Box<RawValue>, kind: &str) {
        let label = Label::new(ContentKind::Checkpoint, kind);
        if let Ok(Payload::Json(plain)) = self.read_json(Payload::Json(checkpoint.clone()), label) {
            *checkpoint = plain;
        }
    }

    /// Decodes a job for display. Content that can't be decoded stays as it is.
    pub(crate) fn detail(&self, mut detail: JobDetail) -> JobDetail {
        if self.0.is_none() {
            return detail;
        }
        let kind = detail.summary.kind.clone();
        if let Ok(plain) = self.decode(detail.payload.clone(), Label::new(ContentKind::Payload, &kind)) {
            detail.payload = plain;
        }
        for attempt in &mut detail.errors {
            attempt.error = self.read_text(std::mem::take(&mut attempt.error), &kind);
            self.read_error(&mut attempt.detail, &kind);
        }
        self.read_error(&mut detail.summary.last_error, &kind);
        detail.dead = detail.dead.take().map(|(at, reason)| (at, self.read_text(reason, &kind)));
        detail
    }

    /// Decodes a result for display.
    pub(crate) fn result(&self, mut result: JobResult) -> Result<JobResult> {
        result.payload = self.read_json(result.payload, Label::new(ContentKind::Result, &result.kind))?;
        Ok(result)
    }
}

fn taken(payload: &mut Payload) -> Payload {
    std::mem::replace(payload, Payload::bytes(String::new(), Vec::new()))
}

/// Calls a codec and catches its panic. Otherwise the caller's job would stay claimed for as long as the process lives.
fn guarded(ask: impl FnOnce() -> Result<Payload, BoxError>) -> Result<Payload, BoxError> {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|_| Err("the codec panicked".into()))
}
