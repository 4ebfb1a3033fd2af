//! The broker is low on memory: it answers all questions, and takes no message.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;
#[allow(dead_code, reason = "this test uses a part of it")]
#[path = "../../tests/support/private_rabbit.rs"]
mod private_rabbit;

use common::{Place, until};
use private_rabbit::PrivateRabbit;
use serde_json::Value;

/// For names of the server's folder.
fn unique(prefix: &str) -> String {
    format!("{prefix}{}", common::uuid())
}

fn alarm(place: &Place) -> (String, String) {
    let said = place.run(&["doctor", "--output", "json"]).success().stdout;
    let all: Vec<Value> = serde_json::from_str(&said).unwrap();
    let one = all.iter().find(|one| one["check"] == "broker alarm").unwrap_or_else(|| panic!("{said}"));
    (one["state"].as_str().unwrap().to_owned(), one["found"].as_str().unwrap().to_owned())
}

#[test]
fn faults_an_alarm_is_seen_by_who_only_looks() {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return;
    }
    let server = PrivateRabbit::start();
    let place = Place::sqlite().with_broker(&server.url());
    place.run(&["broker", "apply"]).success();
    assert_eq!(alarm(&place), ("ok".to_owned(), "none".to_owned()));

    // Nobody publishes, so the broker has told nobody.
    server.alarm();
    let mut status = String::new();
    // The broker looks at its memory now and then.
    until("the alarm", || {
        status = place.run(&["status"]).success().stdout;
        status.contains("takes no messages")
    });
    assert!(status.contains("DB-only: broker") && status.contains("takes no messages"), "{status}");
    assert!(status.contains(&place.rabbit().name("q.default")), "its queues can be looked at: {status}");
    let (state, found) = alarm(&place);
    assert!(state == "warn" && found.contains("memory"), "{state} {found}");

    server.calm();
    until("the end of it", || alarm(&place).0 == "ok");
    let status = place.run(&["status"]).success().stdout;
    assert!(status.contains("broker up"), "{status}");
    assert!(
        server.ctl(&["list_queues", "--no-table-headers", "messages"]).lines().all(|line| line.trim() == "0"),
        "asking left something"
    );
}
