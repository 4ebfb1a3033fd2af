//! What happens when a whole server is lost and another takes over: clusters of PostgreSQL and of RabbitMQ, broken under
//! load, with exact accounting afterwards. `cargo xtask ha` runs them one by one and prints a table; the ordinary suite
//! passes them over.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod account;
mod cluster;
mod gates;
mod load;
mod patroni;
mod postgres;
mod rabbit;
mod rig;
mod stage;
mod tail;
