//! Parsers of external input, as functions of any bytes. Each panics if a condition is violated: not only must nothing crash, but accepted values
//! must be within their bounds, and messages must contain no secret.
//!
//! `cargo xtask fuzz` searches for inputs with libFuzzer; its findings are kept in `found/TARGET/` and replayed by every test run.

#![forbid(unsafe_code)]

mod content;
mod program;
mod text;
mod wire;

/// A target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name: a folder in `found`, and the value of `FUZZ_TARGET`.
    pub name: &'static str,
    /// Checks one input.
    pub check: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The longest input, in bytes.
    pub longest: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "frames", check: wire::frames, seeds: wire::frame_seeds, longest: 4096 },
    Target { name: "submission", check: wire::submission, seeds: wire::submission_seeds, longest: 4096 },
    Target { name: "report", check: wire::report, seeds: wire::report_seeds, longest: 2048 },
    Target { name: "delivery", check: wire::delivery, seeds: wire::delivery_seeds, longest: 16_384 },
    Target { name: "envelope", check: wire::envelope, seeds: wire::submission_seeds, longest: 4096 },
    Target { name: "payload", check: content::payload, seeds: content::payload_seeds, longest: 2048 },
    Target { name: "sealed", check: content::sealed, seeds: content::sealed_seeds, longest: 1024 },
    Target { name: "schedule", check: text::schedule, seeds: text::schedule_seeds, longest: 128 },
    Target { name: "duration", check: text::duration, seeds: text::duration_seeds, longest: 64 },
    Target { name: "config", check: program::config, seeds: program::config_seeds, longest: 512 },
    Target { name: "filters", check: program::filters, seeds: program::filter_seeds, longest: 256 },
    Target { name: "url", check: text::url, seeds: text::url_seeds, longest: 256 },
];

/// Returns the target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
