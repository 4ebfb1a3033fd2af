//! What the program makes of what it is told, and says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;

use common::{Done, Place, until};

/// Ctrl-C of an idle worker ends well, however often it comes.
#[test]
fn an_impatient_stop_of_an_idle_worker_is_no_failure() {
    let place = Place::sqlite();
    place.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    let mut worker = place.worker(&[]);
    until("the worker", || worker.said().contains("ready"));
    worker.signal("INT");
    worker.signal("TERM");
    worker.signal("INT");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    assert!(!worker.said().contains("stopped before"), "{}", worker.said());
}

#[test]
fn an_empty_rust_log_is_none() {
    let place = Place::sqlite();
    place.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    let done = place.command(&["worker", "--drain"]).env("RUST_LOG", "").output().unwrap();
    Done::from(done).success().says("worker stopped");
}

#[test]
fn a_moment_that_can_not_be_read_is_told_with_an_example() {
    let place = Place::sqlite();
    let id = place.send(&["echo"]);
    for args in [
        &["send", "echo", "--at", "tomorrow"][..],
        &["jobs", "change", &id, "--at", "2030-01-01"],
        &["schedules", "backfill", "x", "--from", "yesterday", "--to", "2030-01-01T00:00:00Z"],
    ] {
        place.run(args).code(2).says("2026-03-29T14:00:00+02:00");
    }
}

#[test]
fn locks_can_be_looked_at_before_they_are_released() {
    let place = Place::sqlite();
    place.configure("[handlers.slow]\ncommand = [\"sleep\", \"1000\"]\n");
    let id = place.send(&["slow"]);
    let _worker = place.worker(&[]);
    until("the job to run", || place.show(&id)["state"] == "running");
    let nodes: serde_json::Value =
        serde_json::from_str(&place.run(&["nodes", "list", "--output", "json"]).success().stdout).unwrap();
    let node = nodes[0]["id"].to_string();
    let dry = place.run(&["locks", "release", &node, "--dry-run"]).success().stdout;
    assert!(dry.contains("the 1 jobs it has would be released"), "{dry}");
    assert_eq!(place.show(&id)["state"], "running");
    place.run(&["locks", "release", "1234567", "--dry-run"]).code(1).says("there is no node 1234567");
}

#[test]
fn a_queue_without_a_rule_is_said_to_have_none() {
    let place = Place::sqlite();
    place.run(&["queues", "pause", "mail"]).success();
    let said = place.run(&["queues", "resume", "mail"]).success().stdout;
    assert_eq!(said, "queue mail: no rule any more\n");
}
