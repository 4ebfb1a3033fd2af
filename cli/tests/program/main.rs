//! The program as its users run it: each test starts it in a sandbox with a database of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;

#[allow(dead_code, reason = "shared with the tests of the library")]
#[path = "../../../tests/support/fake_clock.rs"]
mod fake_clock;
#[path = "../../../tests/support/ports.rs"]
mod ports;
#[allow(dead_code, reason = "shared with the tests of the library")]
#[path = "../../../tests/support/private_pg.rs"]
mod private_pg;
#[allow(dead_code, reason = "shared with the tests of the library")]
#[path = "../../../tests/support/private_rabbit.rs"]
mod private_rabbit;

mod access;
mod arguments_and_messages;
mod broker;
mod checksum;
mod completions;
mod configuration;
mod demo;
mod doctor;
mod doctor_faults;
mod doctor_server;
mod documents;
mod encryption;
mod failures;
mod faults_alarm;
mod faults_rabbitmq;
mod grants;
mod grants_statements;
mod handlers;
mod hostile_input;
mod installations;
mod intent;
mod jobs_commands;
mod log_forms;
mod log_reader;
mod manual;
mod many_jobs;
mod metrics;
mod migrating_from_other_engines;
mod named_files;
mod night;
mod node_faults;
mod one_file;
mod operator_commands;
mod process_shutdown;
mod program_environment;
mod prometheus;
mod rejected;
mod schedules;
mod servers;
mod signals;
mod silent_database;
mod stability;
mod urls;
mod vacuum;
mod why;
mod worker;

/// Returns a name for a server's folder.
fn unique(prefix: &str) -> String {
    format!("{prefix}{}", common::uuid())
}
