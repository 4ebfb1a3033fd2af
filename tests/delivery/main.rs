//! Deliveries through RabbitMQ.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod external;
mod intake;
mod relay;
mod running;
mod sending;
mod site;
