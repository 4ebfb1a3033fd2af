//! Messages that the broker's queue of rejected ones holds: listed, put back, removed.

use crate::common::{Sandbox, until};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::Value;

fn list(sandbox: &Sandbox, more: &[&str]) -> Vec<Value> {
    let args = [&["broker", "rejected", "list", "--output", "json"], more].concat();
    serde_json::from_str(&sandbox.run(&args).success().stdout).unwrap()
}

/// Publishes a submission as it looks after its rejection.
fn refused(sandbox: &Sandbox, id: &str, reason: &str, more: &[(&str, &str)]) {
    let mut headers = FieldTable::default();
    let reasons = [("jobwright-reason", reason), ("jobwright-error", "it was so"), ("queue", "shelf")];
    for (name, value) in reasons.iter().chain(more) {
        headers.insert((*name).into(), AMQPValue::LongString((*value).into()));
    }
    let properties = BasicProperties::default().with_message_id(id.into()).with_type("note".into());
    let rabbit = sandbox.rabbit();
    rabbit.publish(&rabbit.name("submit.rejected"), properties.with_headers(headers), b"{\"n\":1}");
    until("it to be there", || !list(sandbox, &["--id", id]).is_empty());
}

#[test]
fn rejected_messages_are_listed_and_stay() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    sandbox.run(&["broker", "apply"]).success();
    assert!(sandbox.run(&["broker", "rejected", "list"]).success().stdout.contains("No rejected messages"));
    for id in ["a", "b", "c"] {
        refused(&sandbox, id, if id == "b" { "bad-json" } else { "not-stored" }, &[]);
    }
    // More often than a current broker delivers a message by default.
    for _ in 0..2 {
        let all = list(&sandbox, &[]);
        let ids: Vec<_> = all.iter().map(|message| message["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["a", "b", "c"], "{all:?}");
        assert_eq!(all[1]["reason"], "bad-json");
        assert_eq!((&all[1]["error"], &all[1]["bytes"]), (&"it was so".into(), &7.into()));
    }
    assert_eq!(list(&sandbox, &["--reason", "bad-json"])[0]["id"], "b");
    assert_eq!(list(&sandbox, &["--limit", "2"]).len(), 2);
    assert!(list(&sandbox, &["--of", "reports"]).is_empty());
    let table = sandbox.run(&["broker", "rejected", "list"]).success().stdout;
    assert!(table.contains("bad-json") && table.contains("it was so"), "{table}");
}

#[test]
fn resubmitted_messages_become_jobs_and_dropped_ones_are_gone() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    sandbox.configure("[handlers.note]\ncommand = [\"true\"]\n");
    sandbox.run(&["broker", "apply"]).success();
    for id in ["a", "b", "c"] {
        refused(&sandbox, id, if id == "b" { "bad-json" } else { "not-stored" }, &[("jobwright-expiration", "600000")]);
    }
    let rejected = |args: &[&str]| sandbox.run(&[&["broker", "rejected"], args].concat());
    rejected(&["resubmit"]).code(2).says("--all");
    rejected(&["resubmit", "--all", "--limit", "1"]).code(2).says("--all");
    rejected(&["resubmit", "--of", "dead", "--all"]).code(2).says("the database");
    let dry = rejected(&["resubmit", "--reason", "not-stored", "--dry-run"]).success();
    assert!(dry.stdout.starts_with("2 of ") && dry.stdout.contains("would be resubmitted"), "{dry:?}");
    assert_eq!(list(&sandbox, &[]).len(), 3);

    let done = rejected(&["resubmit", "--reason", "not-stored", "--output", "json"]).success();
    let done: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&done["found"], &done["done"]), (&2.into(), &2.into()), "{done}");
    let left = list(&sandbox, &[]);
    assert_eq!((left.len(), &left[0]["id"]), (1, &"b".into()), "{left:?}");
    let mut worker = sandbox.worker(&[]);
    until("both to be taken in", || sandbox.list(&["--queue", "shelf"]).len() == 2);
    worker.signal("TERM");
    worker.ended();
    for job in sandbox.list(&["--queue", "shelf"]) {
        let shown = sandbox.run(&["jobs", "show", job["id"].as_str().unwrap(), "--output", "json"]).success().stdout;
        assert!(!shown.contains("jobwright-reason"), "{shown}");
        assert!(shown.contains("expires"), "the time to live is gone: {shown}");
    }

    let drop = rejected(&["drop", "--of", "submissions", "--id", "b"]).success();
    assert!(drop.stdout.starts_with("1 of ") && drop.stdout.contains("removed"), "{drop:?}");
    assert!(list(&sandbox, &[]).is_empty());
}

/// A message that can't be put back stays.
#[test]
fn messages_that_can_not_be_resubmitted_stay_and_are_reported() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    sandbox.run(&["broker", "apply"]).success();
    refused(&sandbox, "a", "not-stored", &[]);
    sandbox.rabbit().delete(&sandbox.rabbit().name("submit"));
    sandbox.run(&["broker", "rejected", "resubmit", "--all"]).code(1).says("stay in");
    assert_eq!(list(&sandbox, &[]).len(), 1);
}

#[test]
fn status_and_doctor_count_rejected_messages() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    sandbox.run(&["broker", "apply"]).success();
    let queue = sandbox.rabbit().name("submit.rejected");
    let finding = || {
        let doctor = sandbox.run(&["doctor", "--output", "json"]);
        let all: Vec<Value> = serde_json::from_str(&doctor.stdout).unwrap();
        all.into_iter().find(|finding| finding["check"] == "broker rejected").unwrap()
    };
    assert_eq!(finding()["state"], "ok");
    assert!(!sandbox.run(&["status"]).success().stdout.contains(&queue));
    refused(&sandbox, "a", "not-stored", &[]);
    let found = finding();
    assert_eq!(found["state"], "warn", "{found}");
    assert!(found["found"].as_str().unwrap().contains(&format!("1 in {queue}")), "{found}");
    assert!(found["do"].as_str().unwrap().contains("broker rejected list"), "{found}");
    let status: Value = serde_json::from_str(&sandbox.run(&["status", "--output", "json"]).success().stdout).unwrap();
    assert_eq!(status["rejected"][&queue], 1, "{status}");
    let table = sandbox.run(&["status"]).success().stdout;
    assert!(table.contains(&queue) && table.contains("broker rejected list"), "{table}");
}
