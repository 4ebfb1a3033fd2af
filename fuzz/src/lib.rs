//! What comes from outside, as functions of any bytes. Each panics if something does not hold that must: not only that nothing crashes, but
//! that what was accepted is within its bounds, and that what is shown holds no secret.
//!
//! `cargo xtask fuzz` looks for inputs with libFuzzer; what it finds is kept in `found/TARGET/` and played again by every test run.

#![forbid(unsafe_code)]

mod content;
mod program;
mod text;
mod wire;

/// One of them.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name: a folder in `found`, and what `FUZZ_TARGET` says.
    pub name: &'static str,
    /// Plays one input.
    pub check: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Longest input, in bytes.
    pub longest: usize,
}

/// All of them.
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

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
