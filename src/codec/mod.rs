//! How the content of jobs is kept: as it is, compressed, encrypted, or in a way of your own.
//!
//! A [`Codec`] stands between jobs as programs see them and jobs as they are stored and sent. It encodes a payload when it is sent,
//! after the job was checked, and decodes it before a handler sees it; it does the same with results, checkpoints and the texts of
//! errors. So neither the database, its backups and replicas, nor the broker hold anything but what the codec made.
//!
//! ```text
//!  NewJob ─▶ checked ─▶ encode ─▶ table or broker ─▶ claimed ─▶ decode ─▶ handler ─▶ result, error ─▶ encode ─▶ table
//! ```
//!
//! Two come with the feature `codecs`: [`Seal`] encrypts (JWE, RFC 7516, which Java and Python read with a library), [`Gzip`]
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
//! What a codec does not see: kind, queue, headers, tenant, group and names of schedules (the engine goes by them), the digest by
//! which a unique job is known, and notes of progress. SQL that sends a job by itself stores it as it is, and it runs like that.

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

/// Which content of a job it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// What the job carries.
    Payload,
    /// What its handler returned.
    Result,
    /// What its next attempt goes on from.
    Checkpoint,
    /// What went wrong in an attempt, or the detail of it.
    Error,
}

impl Part {
    /// As a word: `payload`, `result`, `checkpoint`, `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Result => "result",
            Self::Checkpoint => "checkpoint",
            Self::Error => "error",
        }
    }
}

/// Whose content it is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Label<'a> {
    /// Which part of the job.
    pub part: Part,
    /// The job's kind: the one thing that never changes about it, so a codec may bind the content to it.
    pub kind: &'a str,
    /// The job's queue; it is known when something is encoded, and not always when it is decoded.
    pub queue: Option<&'a str>,
    /// Longest content of a job, in bytes ([`DatabaseConfig::max_payload`](crate::DatabaseConfig::max_payload)): what becomes longer when it is decoded was not
    /// sent by anybody who was checked.
    pub largest: usize,
}

impl<'a> Label<'a> {
    /// A part of a job of this kind.
    pub fn new(part: Part, kind: &'a str) -> Self {
        Self { part, kind, queue: None, largest: Limits::default().payload }
    }

    /// No longer than this, in bytes; without a call 1 MiB.
    #[must_use]
    pub fn largest(mut self, largest: usize) -> Self {
        self.largest = largest;
        self
    }

    /// In this queue.
    #[must_use]
    pub fn queue(mut self, queue: &'a str) -> Self {
        self.queue = Some(queue);
        self
    }
}

/// How content is kept.
///
/// `decode` gets everything that is read, also what was there before the codec, and what SQL or another program wrote: it tells what
/// is its own by the content type, and returns the rest as it is. An error in `encode` refuses what was to be kept; one in `decode`
/// is a failed attempt of the job, tried again like any other, so a key that is missing for a while costs no job.
///
/// Both run on the task of whoever sends, or of the handler: they should take well under a millisecond, and must not block.
pub trait Codec: Send + Sync + fmt::Debug + 'static {
    /// What is to be kept instead of `content`.
    ///
    /// # Errors
    /// When it can't be kept.
    fn encode(&self, content: Payload, label: Label<'_>) -> Result<Payload, BoxError>;

    /// What [`encode`](Self::encode) was given; what is not its own, as it is.
    ///
    /// # Errors
    /// When it is its own, and can't be read: the key is not there, somebody changed it.
    fn decode(&self, content: Payload, label: Label<'_>) -> Result<Payload, BoxError>;

    /// Whether `encode` would still make it like this. Of a schedule that is put again unchanged, what is stored stays if it is.
    fn is_current(&self, content: &Payload) -> bool {
        let _ = content;
        true
    }
}

/// Codecs in the order in which they encode. Without any, everything costs nothing.
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

    /// Makes a message that was checked what is to be stored.
    pub(crate) fn message(&self, message: &mut JobMessage) -> Result<()> {
        if self.0.is_some() {
            let label = Label::new(Part::Payload, &message.kind).queue(&message.queue);
            // Taken out and not copied: after a failure nothing is stored.
            message.payload = self.encode(taken(&mut message.payload), label)?;
        }
        Ok(())
    }

    /// A schedule as it is to be stored. `stored`: as it stands now; if that says the same, its content stays, because to encode it
    /// anew would look like a change.
    pub(crate) fn schedule(&self, mut spec: ScheduleSpec, stored: Option<&ScheduleSpec>) -> Result<ScheduleSpec> {
        if self.0.is_none() {
            return Ok(spec);
        }
        if let Some(stored) = stored {
            let payload = &stored.message.payload;
            let current = self.each().iter().all(|codec| codec.is_current(payload));
            let same =
                self.decode(payload.clone(), Label::new(Part::Payload, &stored.message.kind)).is_ok_and(|plain| {
                    stored.message.kind == spec.message.kind && plain.says_the_same(&spec.message.payload)
                });
            if current && same {
                spec.message.payload = payload.clone();
                return Ok(spec);
            }
        }
        self.message(&mut spec.message)?;
        Ok(spec)
    }

    /// A schedule that was looked at, in plain; what can't be decoded stays as it is.
    pub(crate) fn plain_schedule(&self, mut schedule: ScheduleInfo) -> ScheduleInfo {
        if self.0.is_some() {
            let message = &mut schedule.spec.message;
            if let Ok(plain) = self.decode(message.payload.clone(), Label::new(Part::Payload, &message.kind)) {
                message.payload = plain;
            }
        }
        schedule
    }

    /// Makes a claimed job what its handler is to see; or says why not. In place: many are in hand at the same time.
    pub(crate) fn open(&self, job: &mut Job) -> Result<(), JobError> {
        if self.0.is_some() {
            let label = Label::new(Part::Payload, &job.kind).queue(&job.queue);
            job.payload = self.decode(job.payload.clone(), label).map_err(|error| JobError::new(error.to_string()))?;
        }
        Ok(())
    }

    /// JSON of a handler, as it is to be stored.
    pub(crate) fn keep_json(&self, json: Box<RawValue>, label: Label<'_>) -> Result<Box<RawValue>> {
        if self.0.is_none() {
            return Ok(json);
        }
        carriers::to_json(self.encode(Payload::Json(json), label)?)
    }

    /// JSON that was stored, as the handler gave it.
    pub(crate) fn read_json(&self, json: Payload, label: Label<'_>) -> Result<Payload> {
        if self.0.is_none() {
            return Ok(json);
        }
        self.decode(carriers::from_json(json), label)
    }

    /// What went wrong, as it is to be stored. What can't be encoded is not kept at all: it might be just what must not be readable.
    pub(crate) fn settlement(&self, mut settlement: Settlement, kind: &str, queue: &str) -> Settlement {
        if self.0.is_some() {
            let label = Label::new(Part::Error, kind).queue(queue);
            let keep = |text: String| {
                self.encode(Payload::text(&text), label)
                    .map_or_else(|error| error.to_string(), |kept| carriers::to_text(text, &kept))
            };
            settlement.error = settlement.error.map(keep);
            settlement.detail = settlement.detail.map(keep);
        }
        settlement
    }

    /// What went wrong, as it was before it was kept.
    pub(crate) fn plain_settlement(&self, mut settlement: Settlement, kind: &str) -> Settlement {
        self.read_error(&mut settlement.error, kind);
        self.read_error(&mut settlement.detail, kind);
        settlement
    }

    /// A text that was stored, as it was. One that can't be decoded says so.
    pub(crate) fn read_text(&self, text: String, kind: &str) -> String {
        if self.0.is_none() {
            return text;
        }
        let Some(kept) = carriers::from_text(&text) else { return text };
        match self.decode(kept, Label::new(Part::Error, kind)) {
            Ok(plain) => plain.as_str().map_or(text, str::to_owned),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) fn read_error(&self, error: &mut Option<String>, kind: &str) {
        *error = error.take().map(|text| self.read_text(text, kind));
    }

    pub(crate) fn read_checkpoint(&self, checkpoint: &mut Box<RawValue>, kind: &str) {
        let label = Label::new(Part::Checkpoint, kind);
        if let Ok(Payload::Json(plain)) = self.read_json(Payload::Json(checkpoint.clone()), label) {
            *checkpoint = plain;
        }
    }

    /// A job that was looked at, in plain; what can't be decoded stays as it is.
    pub(crate) fn detail(&self, mut detail: JobDetail) -> JobDetail {
        if self.0.is_none() {
            return detail;
        }
        let kind = detail.summary.kind.clone();
        if let Ok(plain) = self.decode(detail.payload.clone(), Label::new(Part::Payload, &kind)) {
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

    /// A result that was looked at, in plain.
    pub(crate) fn result(&self, mut result: JobResult) -> Result<JobResult> {
        result.payload = self.read_json(result.payload, Label::new(Part::Result, &result.kind))?;
        Ok(result)
    }
}

fn taken(payload: &mut Payload) -> Payload {
    std::mem::replace(payload, Payload::bytes(String::new(), Vec::new()))
}

/// A codec that panics must not take along whoever asks it: its job would be owned for as long as the process lives.
fn guarded(ask: impl FnOnce() -> Result<Payload, BoxError>) -> Result<Payload, BoxError> {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|_| Err("the codec panicked".into()))
}
