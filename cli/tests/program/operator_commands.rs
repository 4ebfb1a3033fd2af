//! Suspending, changing, limiting: operators' commands, and their audit entries.

use crate::common::{Sandbox, on_both_stores, until};
use serde_json::{Value, json};

on_both_stores!(
    jobs_are_set_aside_and_brought_back,
    jobs_are_changed,
    queues_are_paused_and_limited,
    rules_are_put_and_deleted,
    the_audit_names_the_operator,
    a_node_that_is_not_there_is_said,
    the_doctor_checks_schedules_rules_and_permits,
    the_doctor_names_timestamps_ahead_of_the_clock,
    a_watched_status_says_how_fast_queues_grow,
);

fn documents(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["--output", "json"]);
    serde_json::from_str(&sandbox.run(&all).success().stdout).unwrap()
}

fn jobs_are_set_aside_and_brought_back(sandbox: &Sandbox) {
    let mail = sandbox.send(&["mail"]);
    let timer = sandbox.send(&["mail", "--delay", "1h"]);
    sandbox.send(&["other"]);
    let dry = documents(sandbox, &["jobs", "suspend", "--kind", "mail", "--dry-run"]);
    assert_eq!(dry, json!({ "dry_run": true, "total": 2, "states": { "waiting": 1, "timer": 1 } }));
    assert_eq!(sandbox.show(&mail)["state"], "waiting", "a dry run changes nothing");
    let said = sandbox.run(&["jobs", "suspend", "--kind", "mail"]).success().stdout;
    assert!(said.contains("2 jobs suspended"), "{said}");
    assert_eq!(sandbox.list(&["--state", "suspended"]).len(), 2);
    sandbox.run(&["jobs", "resume", &mail]).success();
    assert_eq!(
        (&sandbox.show(&mail)["state"], &sandbox.show(&timer)["state"]),
        (&json!("waiting"), &json!("suspended"))
    );
    sandbox.run(&["jobs", "run", &timer]).success();
    assert_eq!(sandbox.show(&timer)["state"], "waiting");
    sandbox.run(&["jobs", "resume", &timer]).code(1).says("or in a state other than suspended");
    sandbox.run(&["jobs", "suspend"]).code(2).says("--all");
}

fn jobs_are_changed(sandbox: &Sandbox) {
    let id = sandbox.send(&["mail"]);
    sandbox.run(&["jobs", "change", &id, "--priority", "-3", "--to-queue", "slow", "--max-attempts", "2"]).success();
    let job = sandbox.show(&id);
    assert_eq!((&job["priority"], &job["queue"], &job["max_attempts"]), (&json!(-3), &json!("slow"), &json!(2)));
    assert_eq!(job["state"], "waiting");
    sandbox.run(&["jobs", "change", &id, "--at", "2099-01-01T00:00:00Z"]).success();
    let job = sandbox.show(&id);
    assert_eq!((&job["state"], &job["due_at"]), (&json!("timer"), &json!("2099-01-01T00:00:00Z")));
    sandbox.run(&["jobs", "change", &id]).code(2).says("changes nothing");
    sandbox.run(&["jobs", "change", &id, "--max-attempts", "0"]).code(2).says("max_attempts is 0");
}

fn queues_are_paused_and_limited(sandbox: &Sandbox) {
    sandbox.send(&["mail", "--queue", "mail"]);
    sandbox.run(&["queues", "pause", "mail"]).success();
    let limit = ["queues", "limit", "mail", "--running", "5", "--rate", "100/1m", "--depth", "9", "--aging", "1m"];
    sandbox.run(&limit).success();
    sandbox.run(&["queues", "limit", "mail", "--share-by", "tenant", "--weight", "big=3"]).success();
    let queues = documents(sandbox, &["queues", "list"]);
    let [mail] = &queues.as_array().unwrap()[..] else { panic!("{queues}") };
    assert_eq!((&mail["queue"], &mail["waiting"]), (&json!("mail"), &json!(1)));
    let rule = &mail["rule"];
    assert_eq!((&rule["paused"], &rule["running"], &rule["depth"]), (&json!(true), &json!(5), &json!(9)));
    assert_eq!(rule["shares"], json!({ "by": "tenant", "weights": { "big": 3 } }));
    let table = sandbox.run(&["queues", "list"]).success().stdout;
    assert!(table.contains("paused, running 5, rate 100/60s"), "{table}");
    sandbox.run(&["queues", "resume", "mail"]).success();
    sandbox.run(&["queues", "limit", "mail", "--share-by", "none", "--rate", "none"]).success();
    let rule = &documents(sandbox, &["queues", "list"])[0]["rule"];
    assert_eq!((&rule["paused"], &rule["rate"], &rule["running"]), (&json!(false), &json!(null), &json!(5)));
    sandbox.run(&["queues", "limit", "mail", "--running", "many"]).code(2).says("not a number");
}

fn rules_are_put_and_deleted(sandbox: &Sandbox) {
    sandbox.run(&["rules", "put", "tenant", "*", "--running", "5"]).success();
    sandbox.run(&["rules", "put", "group", "order-1", "--paused", "true"]).success();
    sandbox.run(&["rules", "put", "group", "order-1", "--running", "2"]).code(2).says("it can only be paused");
    let rules = documents(sandbox, &["rules", "list"]);
    assert_eq!(rules.as_array().unwrap().len(), 2);
    sandbox.run(&["rules", "delete", "tenant", "*"]).success();
    sandbox.run(&["rules", "put", "group", "order-1", "--paused", "false"]).success();
    assert_eq!(documents(sandbox, &["rules", "list"]), json!([]));
    sandbox.run(&["rules", "put", "planet", "x", "--running", "1"]).code(2).says("scope");
}

fn the_audit_names_the_operator(sandbox: &Sandbox) {
    let id = sandbox.send(&["mail"]);
    sandbox.run(&["jobs", "suspend", &id, "--as", "ann"]).success();
    sandbox.run(&["queues", "pause", "mail", "--as", "bob"]).success();
    sandbox.run(&["jobs", "cancel", &id, "--dry-run", "--as", "ann"]).success();
    sandbox.run(&["jobs", "delete", &id]).success();
    let audit = documents(sandbox, &["audit", "list"]);
    let words: Vec<_> = audit.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(words, ["delete", "rule", "suspend"]);
    assert_eq!(audit[2]["who"], "ann");
    assert_eq!((&audit[1]["who"], &audit[1]["what"]["paused"]), (&json!("bob"), &json!(true)));
    assert!(audit[0]["who"].as_str().unwrap().contains('@'), "{audit}");
    // As cron does, which sets neither.
    let id = sandbox.send(&["mail"]);
    let mut command = sandbox.command(&["jobs", "delete", &id]);
    assert!(command.env_remove("USER").env_remove("LOGNAME").output().unwrap().status.success());
    let known = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
    let known = format!("{}@", String::from_utf8(known).unwrap().trim());
    let audit = documents(sandbox, &["audit", "list"]);
    assert!(audit[0]["who"].as_str().unwrap().starts_with(&known), "{audit}");
    assert_eq!(documents(sandbox, &["audit", "list", "--who", "ann"]).as_array().unwrap().len(), 1);
    let table = sandbox.run(&["audit", "list", "--action", "delete"]).success().stdout;
    assert!(table.contains(&id), "{table}");
    sandbox.run(&["jobs", "delete", "--all", "--as", ""]).code(2).says("operator's name");
}

/// Changes tables by hand; `{}` stands for the prefix of the table names.
fn by_hand(sandbox: &Sandbox, sql: &str) {
    use jobwright::AnyTransaction::{Postgres, Sqlite};
    let sql = sql.replace("{}", &sandbox.schema().map_or("jobwright_".to_owned(), |schema| format!("{schema}.")));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut context = sandbox.messages().await.begin();
        match context.transaction().await.unwrap() {
            Postgres(transaction) => {
                transaction.execute(sql.as_str(), &[]).await.unwrap();
            }
            Sqlite(transaction) => {
                transaction.execute(sql, []).await.unwrap();
            }
            _ => panic!("a database that these tests have no statements for"),
        }
        context.commit().await.unwrap();
    });
}

/// Returns all findings of the doctor. No worker runs, so it fails.
fn examined(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.run(&["doctor", "--output", "json"]).code(1).stdout).unwrap()
}

fn the_doctor_checks_schedules_rules_and_permits(sandbox: &Sandbox) {
    let doctor = |check: &str| {
        let all = examined(sandbox);
        let found = all.as_array().unwrap().iter().find(|one| one["check"] == check).unwrap_or_else(|| panic!("{all}"));
        (found["state"].as_str().unwrap().to_owned(), found["found"].as_str().unwrap().to_owned())
    };
    sandbox.send(&["mail", "--group", "g"]);
    sandbox.run(&["schedules", "put", "tick", "R/2026-01-01T00:00:00Z/PT1H", "tick"]).success();
    for check in ["permits", "admission", "schedules"] {
        assert_eq!(doctor(check).0, "ok", "{check}");
    }
    let [old, past] = match sandbox.schema() {
        Some(_) => ["now() - interval '2 hours'", "now() - interval '3 hours'"],
        None => ["(unixepoch() - 7200) * 1000000", "(unixepoch() - 10800) * 1000000"],
    };
    by_hand(sandbox, &format!("update {{}}unblock set unblock_at = {old}"));
    by_hand(sandbox, &format!("update {{}}schedule set next_at = {past}"));
    let (state, found) = doctor("admission");
    assert!(state == "warn" && found.starts_with("pending unblocks: 1, the oldest for 7"), "{found}");
    let (state, found) = doctor("schedules");
    assert!(state == "warn" && found.contains("tick has been due for 10"), "{found}");
    by_hand(sandbox, "delete from {}unblock");
    let (state, found) = doctor("permits");
    assert_eq!(
        (state.as_str(), found.as_str()),
        ("warn", "jobs wait at g:g, which no job holds and no unblock will open")
    );
}

fn the_doctor_names_timestamps_ahead_of_the_clock(sandbox: &Sandbox) {
    let doctor = || {
        let all = examined(sandbox);
        all.as_array().unwrap().iter().find(|one| one["check"] == "ahead of the clock").unwrap().clone()
    };
    sandbox.send(&["mail"]);
    sandbox.run(&["schedules", "put", "tick", "1h", "tick"]).success();
    assert_eq!(doctor()["state"], "ok");
    let [hours, year] = match sandbox.schema() {
        Some(_) => ["now() + interval '2 hours'", "now() + interval '1 year'"],
        None => ["(unixepoch() + 7200) * 1000000", "(unixepoch() + 31536000) * 1000000"],
    };
    by_hand(sandbox, &format!("update {{}}job set created_at = {hours}"));
    by_hand(sandbox, &format!("update {{}}schedule set next_at = {year}"));
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

fn a_node_that_is_not_there_is_said(sandbox: &Sandbox) {
    assert_eq!(documents(sandbox, &["nodes", "list"]), json!([]));
    sandbox.run(&["nodes", "evict", "4711"]).code(1).says("there is no node 4711");
    assert_eq!(documents(sandbox, &["audit", "list"]), json!([]), "nothing was done");
}

fn a_watched_status_says_how_fast_queues_grow(sandbox: &Sandbox) {
    sandbox.send(&["mail"]);
    let path = sandbox.file("frames");
    let file = std::fs::File::create(&path).unwrap();
    let mut watch = sandbox.command(&["status", "--watch"]).stdout(file).spawn().unwrap();
    let frames = || std::fs::read_to_string(&path).unwrap();
    until("the first report", || frames().contains("default"));
    assert!(!frames().contains("waiting: "), "there is nothing to compare with");
    sandbox.send(&["mail"]);
    until("the rate", || frames().contains("waiting: default +"));
    sandbox.run(&["jobs", "cancel", "--kind", "mail"]).success();
    until("the rate of a queue that is empty now", || frames().contains("waiting: default -"));
    assert!(frames().matches("at        ").count() > 2, "{}", frames());
    watch.kill().unwrap();
    watch.wait().unwrap();
}
