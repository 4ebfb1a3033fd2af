//! Suspending, changing, limiting: what operators do by commands, and what the audit says of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;

use common::{Place, on_both_stores};
use serde_json::{Value, json};

on_both_stores!(
    jobs_are_set_aside_and_brought_back,
    jobs_are_changed,
    queues_are_paused_and_limited,
    rules_are_put_and_deleted,
    the_audit_names_the_operator,
    a_node_that_is_not_there_is_said,
    the_doctor_looks_at_what_is_beside_the_jobs,
    the_doctor_names_what_lies_ahead_of_the_clock,
);

fn documents(place: &Place, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["--output", "json"]);
    serde_json::from_str(&place.run(&all).success().stdout).unwrap()
}

fn jobs_are_set_aside_and_brought_back(place: &Place) {
    let mail = place.send(&["mail"]);
    let timer = place.send(&["mail", "--delay", "1h"]);
    place.send(&["other"]);
    let dry = documents(place, &["jobs", "suspend", "--kind", "mail", "--dry-run"]);
    assert_eq!(dry, json!({ "dry_run": true, "total": 2, "states": { "waiting": 1, "timer": 1 } }));
    assert_eq!(place.show(&mail)["state"], "waiting", "a dry run changes nothing");
    let said = place.run(&["jobs", "suspend", "--kind", "mail"]).success().stdout;
    assert!(said.contains("2 jobs suspended"), "{said}");
    assert_eq!(place.list(&["--state", "suspended"]).len(), 2);
    place.run(&["jobs", "resume", &mail]).success();
    assert_eq!((&place.show(&mail)["state"], &place.show(&timer)["state"]), (&json!("waiting"), &json!("suspended")));
    place.run(&["jobs", "run", &timer]).success();
    assert_eq!(place.show(&timer)["state"], "waiting");
    place.run(&["jobs", "resume", &timer]).code(1).says("in no state for it (suspended)");
    place.run(&["jobs", "suspend"]).code(2).says("--all");
}

fn jobs_are_changed(place: &Place) {
    let id = place.send(&["mail"]);
    place.run(&["jobs", "change", &id, "--priority", "-3", "--to-queue", "slow", "--max-attempts", "2"]).success();
    let job = place.show(&id);
    assert_eq!((&job["priority"], &job["queue"], &job["max_attempts"]), (&json!(-3), &json!("slow"), &json!(2)));
    assert_eq!(job["state"], "waiting");
    place.run(&["jobs", "change", &id, "--at", "2099-01-01T00:00:00Z"]).success();
    let job = place.show(&id);
    assert_eq!((&job["state"], &job["due_at"]), (&json!("timer"), &json!("2099-01-01T00:00:00Z")));
    place.run(&["jobs", "change", &id]).code(2).says("changes nothing");
    place.run(&["jobs", "change", &id, "--max-attempts", "0"]).code(2).says("max_attempts is 0");
}

fn queues_are_paused_and_limited(place: &Place) {
    place.send(&["mail", "--queue", "mail"]);
    place.run(&["queues", "pause", "mail"]).success();
    let limit = ["queues", "limit", "mail", "--running", "5", "--rate", "100/1m", "--depth", "9", "--aging", "1m"];
    place.run(&limit).success();
    place.run(&["queues", "limit", "mail", "--share-by", "tenant", "--weight", "big=3"]).success();
    let queues = documents(place, &["queues", "list"]);
    let [mail] = &queues.as_array().unwrap()[..] else { panic!("{queues}") };
    assert_eq!((&mail["queue"], &mail["waiting"]), (&json!("mail"), &json!(1)));
    let rule = &mail["rule"];
    assert_eq!((&rule["paused"], &rule["running"], &rule["depth"]), (&json!(true), &json!(5), &json!(9)));
    assert_eq!(rule["shares"], json!({ "by": "tenant", "weights": { "big": 3 } }));
    let table = place.run(&["queues", "list"]).success().stdout;
    assert!(table.contains("paused, running 5, rate 100/60s"), "{table}");
    place.run(&["queues", "resume", "mail"]).success();
    place.run(&["queues", "limit", "mail", "--share-by", "none", "--rate", "none"]).success();
    let rule = &documents(place, &["queues", "list"])[0]["rule"];
    assert_eq!((&rule["paused"], &rule["rate"], &rule["running"]), (&json!(false), &json!(null), &json!(5)));
    place.run(&["queues", "limit", "mail", "--running", "many"]).code(2).says("not a number");
}

fn rules_are_put_and_deleted(place: &Place) {
    place.run(&["rules", "put", "tenant", "*", "--running", "5"]).success();
    place.run(&["rules", "put", "group", "order-1", "--paused", "true"]).success();
    place.run(&["rules", "put", "group", "order-1", "--running", "2"]).code(2).says("it can only be paused");
    let rules = documents(place, &["rules", "list"]);
    assert_eq!(rules.as_array().unwrap().len(), 2);
    place.run(&["rules", "delete", "tenant", "*"]).success();
    place.run(&["rules", "put", "group", "order-1", "--paused", "false"]).success();
    assert_eq!(documents(place, &["rules", "list"]), json!([]));
    place.run(&["rules", "put", "planet", "x", "--running", "1"]).code(2).says("scope");
}

fn the_audit_names_the_operator(place: &Place) {
    let id = place.send(&["mail"]);
    place.run(&["jobs", "suspend", &id, "--as", "ann"]).success();
    place.run(&["queues", "pause", "mail", "--as", "bob"]).success();
    place.run(&["jobs", "cancel", &id, "--dry-run", "--as", "ann"]).success();
    place.run(&["jobs", "delete", &id]).success();
    let audit = documents(place, &["audit", "list"]);
    let words: Vec<_> = audit.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(words, ["delete", "rule", "suspend"]);
    assert_eq!(audit[2]["who"], "ann");
    assert_eq!((&audit[1]["who"], &audit[1]["what"]["paused"]), (&json!("bob"), &json!(true)));
    assert!(audit[0]["who"].as_str().unwrap().contains('@'), "{audit}");
    assert_eq!(documents(place, &["audit", "list", "--who", "ann"]).as_array().unwrap().len(), 1);
    let table = place.run(&["audit", "list", "--action", "delete"]).success().stdout;
    assert!(table.contains(&id), "{table}");
    place.run(&["jobs", "delete", "--all", "--as", ""]).code(2).says("operator's name");
}

/// Changes tables by hand; `{}` stands for what the names of tables begin with.
fn by_hand(place: &Place, sql: &str) {
    use jobwright::AnyTransaction::{Postgres, Sqlite};
    let sql = sql.replace("{}", &place.schema().map_or("jobwright_".to_owned(), |schema| format!("{schema}.")));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut context = place.messages().await.begin();
        match context.transaction().await.unwrap() {
            Postgres(transaction) => {
                transaction.execute(sql.as_str(), &[]).await.unwrap();
            }
            Sqlite(transaction) => {
                transaction.execute(sql, []).await.unwrap();
            }
        }
        context.commit().await.unwrap();
    });
}

/// All that the doctor says. Nobody is there who runs jobs, which is why it fails.
fn examined(place: &Place) -> Value {
    serde_json::from_str(&place.run(&["doctor", "--output", "json"]).code(1).stdout).unwrap()
}

fn the_doctor_looks_at_what_is_beside_the_jobs(place: &Place) {
    let doctor = |check: &str| {
        let all = examined(place);
        let found = all.as_array().unwrap().iter().find(|one| one["check"] == check).unwrap_or_else(|| panic!("{all}"));
        (found["state"].as_str().unwrap().to_owned(), found["found"].as_str().unwrap().to_owned())
    };
    place.send(&["mail", "--group", "g"]);
    place.run(&["schedules", "put", "tick", "R/2026-01-01T00:00:00Z/PT1H", "tick"]).success();
    for check in ["slots", "gates", "schedules"] {
        assert_eq!(doctor(check).0, "ok", "{check}");
    }
    let [old, past] = match place.schema() {
        Some(_) => ["now() - interval '2 hours'", "now() - interval '3 hours'"],
        None => ["(unixepoch() - 7200) * 1000000", "(unixepoch() - 10800) * 1000000"],
    };
    by_hand(place, &format!("update {{}}opening set opens_at = {old}"));
    by_hand(place, &format!("update {{}}schedule set next_at = {past}"));
    let (state, found) = doctor("gates");
    assert!(state == "warn" && found.starts_with("1 opened, the first 7"), "{found}");
    let (state, found) = doctor("schedules");
    assert!(state == "warn" && found.contains("tick has been due for 10"), "{found}");
    by_hand(place, "delete from {}opening");
    let (state, found) = doctor("slots");
    assert_eq!((state.as_str(), found.as_str()), ("warn", "jobs wait at g:g, which nobody holds and nobody will open"));
}

fn the_doctor_names_what_lies_ahead_of_the_clock(place: &Place) {
    let doctor = || {
        let all = examined(place);
        all.as_array().unwrap().iter().find(|one| one["check"] == "ahead of the clock").unwrap().clone()
    };
    place.send(&["mail"]);
    place.run(&["schedules", "put", "tick", "1h", "tick"]).success();
    assert_eq!(doctor()["state"], "ok");
    let [hours, year] = match place.schema() {
        Some(_) => ["now() + interval '2 hours'", "now() + interval '1 year'"],
        None => ["(unixepoch() + 7200) * 1000000", "(unixepoch() + 31536000) * 1000000"],
    };
    by_hand(place, &format!("update {{}}job set created_at = {hours}"));
    by_hand(place, &format!("update {{}}schedule set next_at = {year}"));
    let told = doctor();
    assert_eq!(told["state"], "warn");
    let found = told["found"].as_str().unwrap();
    assert!(
        found.contains("job.created_at (1 row, up to 7199s)") || found.contains("job.created_at (1 row, up to 7198s)"),
        "{found}"
    );
    assert!(found.contains("the schedule tick (next in 315"), "{found}");
    assert!(told["do"].as_str().unwrap().contains("time synchronisation"), "{told}");
}

fn a_node_that_is_not_there_is_said(place: &Place) {
    assert_eq!(documents(place, &["nodes", "list"]), json!([]));
    place.run(&["locks", "release", "4711"]).code(1).says("there is no node 4711");
    assert_eq!(documents(place, &["audit", "list"]), json!([]), "nothing was done");
}
