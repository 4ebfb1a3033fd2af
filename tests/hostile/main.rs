//! Input that is legal, or nearly so, and meant to harm: what it may cost is measured and bounded.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod bombs;
mod memory;
