use std::time::Duration;

use crate::job::Fence;

/// Longest error message kept, in bytes.
pub(crate) const ERROR_MAX: usize = 1024;
/// Longest detail kept, in bytes.
pub(crate) const DETAIL_MAX: usize = 4096;
/// How many attempts' errors a job keeps: the newest.
pub(crate) const ERRORS_KEPT: usize = 10;

/// An outcome other than success, for one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// Which claim.
    pub fence: Fence,
    /// What is to become of the job.
    pub verdict: Verdict,
    /// What went wrong: kept on the job's record, cut to 1 KiB.
    pub error: Option<String>,
    /// Text that helps to find the cause, cut to 4 KiB.
    pub detail: Option<String>,
}

impl Settlement {
    /// Without an error.
    pub fn new(fence: Fence, verdict: Verdict) -> Self {
        Self { fence, verdict, error: None, detail: None }
    }

    /// Adds what went wrong. Both texts are cut to what is kept, and NUL characters replaced.
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
    /// Run it again after this long, or make it a dead letter if its attempts are spent.
    Retry(Duration),
    /// Run it again after this long; the attempt is given back.
    Snooze(Duration),
    /// Back to waiting at once; the attempt is given back. For what was claimed but not finished.
    Release,
    /// Remove it.
    Cancel,
    /// Make it a dead letter, whatever attempts remain.
    Dead,
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
        // Room for the mark, so that the result stays within the limit.
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
