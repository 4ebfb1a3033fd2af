//! The program's arguments and messages.

use crate::common::{Done, Sandbox, until};

/// Ctrl-C of an idle worker ends it with success, however often it comes.
#[test]
fn an_impatient_stop_of_an_idle_worker_is_no_failure() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    let mut worker = sandbox.worker(&[]);
    until("the worker", || worker.said().contains("ready"));
    worker.signal("INT");
    worker.signal("TERM");
    worker.signal("INT");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    assert!(!worker.said().contains("stopped before"), "{}", worker.said());
}

#[test]
fn an_empty_rust_log_is_none() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    let done = sandbox.command(&["worker", "--drain"]).env("RUST_LOG", "").output().unwrap();
    Done::from(done).success().says("worker stopped");
}

#[test]
fn an_unreadable_time_is_refused_with_an_example() {
    let sandbox = Sandbox::sqlite();
    let id = sandbox.send(&["echo"]);
    for args in [
        &["send", "echo", "--at", "tomorrow"][..],
        &["jobs", "change", &id, "--at", "2030-01-01"],
        &["schedules", "backfill", "x", "--from", "yesterday", "--to", "2030-01-01T00:00:00Z"],
    ] {
        sandbox.run(args).code(2).says("2026-03-29T14:00:00+02:00");
    }
}

#[test]
fn an_eviction_can_be_tried_first() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.slow]\ncommand = [\"sleep\", \"1000\"]\n");
    let id = sandbox.send(&["slow"]);
    let _worker = sandbox.worker(&[]);
    until("the job to run", || sandbox.show(&id)["state"] == "running");
    let nodes: serde_json::Value =
        serde_json::from_str(&sandbox.run(&["nodes", "list", "--output", "json"]).success().stdout).unwrap();
    let node = nodes[0]["id"].to_string();
    let dry = sandbox.run(&["nodes", "evict", &node, "--dry-run"]).success().stdout;
    assert!(dry.contains("the 1 jobs it has would be released"), "{dry}");
    assert_eq!(sandbox.show(&id)["state"], "running");
    sandbox.run(&["nodes", "evict", "1234567", "--dry-run"]).code(1).says("there is no node 1234567");
}

#[test]
fn a_queue_without_a_rule_is_said_to_have_none() {
    let sandbox = Sandbox::sqlite();
    sandbox.run(&["queues", "pause", "mail"]).success();
    let said = sandbox.run(&["queues", "resume", "mail"]).success().stdout;
    assert_eq!(said, "queue mail: no rule any more\n");
}
