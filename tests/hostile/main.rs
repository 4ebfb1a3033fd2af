//! Input that is legal, or nearly so, and meant to harm: what it may cost is measured and bounded.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "shared with the tests of deliveries")]
#[path = "../delivery/client.rs"]
mod client;
#[path = "../delivery/raw.rs"]
mod raw;
#[allow(dead_code, reason = "as above")]
#[path = "../delivery/site.rs"]
mod site;

mod bombs;
mod corpus;
mod memory;
mod post;
mod sent;
mod siege;
mod taken_in;
