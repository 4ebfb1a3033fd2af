//! The broker is low on memory: it answers all queries, and accepts no message.

use crate::common::{Sandbox, until};
use crate::private_rabbit::PrivateRabbit;
use serde_json::Value;

fn alarm(sandbox: &Sandbox) -> (String, String) {
    let said = sandbox.run(&["doctor", "--output", "json"]).success().stdout;
    let all: Vec<Value> = serde_json::from_str(&said).unwrap();
    let one = all.iter().find(|one| one["check"] == "broker alarm").unwrap_or_else(|| panic!("{said}"));
    (one["state"].as_str().unwrap().to_owned(), one["found"].as_str().unwrap().to_owned())
}

#[test]
fn faults_an_alarm_is_seen_by_commands_that_only_read() {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return;
    }
    let server = PrivateRabbit::start();
    let sandbox = Sandbox::sqlite().with_broker(&server.url());
    sandbox.run(&["broker", "apply"]).success();
    assert_eq!(alarm(&sandbox), ("ok".to_owned(), "none".to_owned()));

    // No client publishes, so the broker has notified none.
    server.alarm();
    let mut status = String::new();
    // The broker checks its memory only at intervals.
    until("the alarm", || {
        status = sandbox.run(&["status"]).success().stdout;
        status.contains("takes no messages")
    });
    assert!(status.contains("DB-only: broker") && status.contains("takes no messages"), "{status}");
    assert!(status.contains(&sandbox.rabbit().name("q.default")), "its queues can be looked at: {status}");
    let (state, found) = alarm(&sandbox);
    assert!(state == "warn" && found.contains("memory"), "{state} {found}");

    server.calm();
    until("the end of it", || alarm(&sandbox).0 == "ok");
    let status = sandbox.run(&["status"]).success().stdout;
    assert!(status.contains("broker up"), "{status}");
    assert!(
        server.ctl(&["list_queues", "--no-table-headers", "messages"]).lines().all(|line| line.trim() == "0"),
        "asking left something"
    );
}

/// It accepts connections, and says nothing: a frozen process, or packets that are dropped. The job is in the table, so its sender has no reason to wait for long.
#[test]
fn faults_a_silent_broker_does_not_hold_up_a_sender() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox = Sandbox::sqlite().with_broker(&format!("amqp://{}", silent.local_addr().unwrap()));
    let done = sandbox.run(&["send", "mail"]).success();
    assert!(done.stderr.contains("is down (no answer within 1s"), "{done:?}");
    sandbox.run(&["jobs", "show", done.stdout.trim()]).success();
}
