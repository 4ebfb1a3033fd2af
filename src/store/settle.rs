use std::time::Duration;

use crate::job::{Fence, JobId};

/// Longest error message kept, in bytes.
pub(crate) const ERROR_MAX: usize = 1024;
/// Longest detail kept, in bytes.
pub(crate) const DETAIL_MAX: usize = 4096;
/// How many errors a job keeps: those of its newest attempts.
pub(crate) const ERRORS_KEPT: usize = 10;

/// An outcome other than success, for one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// The fence of the claim.
    pub fence: Fence,
    /// What becomes of the job.
    pub verdict: Verdict,
    /// The error message, kept on the job's record and cut to 1 KiB.
    pub error: Option<String>,
    /// More text that helps to find the cause, cut to 4 KiB.
    pub detail: Option<String>,
}

impl Settlement {
    /// Creates an outcome without an error.
    pub fn new(fence: Fence, verdict: Verdict) -> Self {
        Self { fence, verdict, error: None, detail: None }
    }

    /// Adds an error. Both texts are cut to the lengths that are kept, and NUL characters are replaced.
    #[must_use]
    pub fn error(mut self, error: &str, detail: Option<&str>) -> Self {
        self.error = Some(clip(error, ERROR_MAX));
        self.detail = detail.map(|text| clip(text, DETAIL_MAX));
        self
    }
}

/// What becomes of a job that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Run it again after this delay, or make it a dead letter if its attempts are spent.
    Retry(Duration),
    /// Run it again after this delay, and give the attempt back.
    Snooze(Duration),
    /// Make it wait again at once, and give the attempt back. For jobs that were claimed but not finished.
    Release,
    /// Remove it.
    Cancel,
    /// Make it a dead letter, whatever attempts remain.
    Dead,
}

/// A job that another transaction has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldJob {
    /// The job.
    pub id: JobId,
    /// The transaction, for people: its process and program, or the name that it was prepared under.
    pub held_by: String,
}

/// Cuts a text to at most `max` bytes, keeping the beginning and whole characters, and replaces NUL, which PostgreSQL can't
/// store.
pub fn clip(text: &str, max: usize) -> String {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut kept = text[..end].replace('\0', "\u{fffd}");
    if end < text.len() {
        // Leaves space for the ellipsis, so that the result stays within the limit.
        while kept.len() > max.saturating_sub('…'.len_utf8()) {
            kept.pop();
        }
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_at_a_character_and_says_so() {
        assert_eq!(clip("short", 10), "short");
        assert_eq!(clip("a\0b", 10), "a\u{fffd}b");
        assert_eq!(clip("ääääääää", 9), "äää…");
        assert_eq!(clip("", 0), "");
    }
}
