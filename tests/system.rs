//! Contexts, executors, brokers and programs on real servers. `tests/stores.rs` has the tests of the stores below them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[macro_use]
mod support;

mod broker;
mod by_sql;
mod context;
mod delivery;
mod executor;
mod faults;
mod ha;
mod hostile_input;
mod interop;
mod known_problems;
#[cfg(feature = "sqlite")]
mod programs;
mod servers;
mod test_kit;
