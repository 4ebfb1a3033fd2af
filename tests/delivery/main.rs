//! Deliveries through RabbitMQ.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod external;
mod faults_broker;
mod faults_network;
mod faults_process;
mod faults_queues;
mod frames;
mod intake;
mod keeper;
mod load;
mod relay;
mod running;
mod sending;
mod site;
mod soak;
