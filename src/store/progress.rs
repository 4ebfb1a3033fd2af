//! Progress of running jobs.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

/// Longest note, in bytes; longer ones are cut.
pub(crate) const NOTE_MAX: usize = 1024;
/// Longest checkpoint, in bytes.
pub(crate) const CHECKPOINT_MAX: usize = 16 * 1024;

/// Progress that a handler reports. Fields that are `None` stay as they were.
#[derive(Clone, Debug, Default)]
pub struct ProgressUpdate {
    /// Percent done, 0 to 100.
    pub percent: Option<u8>,
    /// A note for people, cut to 1 KiB.
    pub note: Option<String>,
    /// The checkpoint that the next attempt goes on from: JSON of at most 16 KiB.
    pub checkpoint: Option<Box<RawValue>>,
}

/// The progress of a job.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct JobProgress {
    /// Percent done, 0 to 100.
    pub percent: Option<u8>,
    /// A note for people.
    pub note: Option<String>,
    /// The checkpoint that the next attempt goes on from.
    pub checkpoint: Option<Box<RawValue>>,
    /// When it was last written.
    pub at: Timestamp,
}
