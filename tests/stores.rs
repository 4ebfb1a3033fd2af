//! What every store does: the conformance suite, random histories against an oracle, and the model's paths. `tests/system.rs` has the tests of what is
//! built on the stores. Two programs and not one for each topic, because each is linked with the whole library.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[macro_use]
mod support;

mod conformance;
mod model_replay;
mod state_machine;
