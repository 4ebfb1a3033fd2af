//! Repeating jobs with commands alone, and with workers that crash.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Sandbox, on_both_stores, until};
use jiff::Timestamp;
use serde_json::{Value, json};

on_both_stores!(
    a_schedule_is_put_listed_and_deleted,
    a_dry_run_shows_what_would_come,
    bad_ones_are_refused,
    paused_and_resumed,
    run_and_filled_in,
    changes_of_schedules_are_audited,
    faults_a_killed_worker_changes_no_occurrence,
);

fn schedules(sandbox: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&sandbox.run(&["schedules", "list", "--output", "json"]).success().stdout).unwrap()
}

fn a_schedule_is_put_listed_and_deleted(sandbox: &Sandbox) {
    assert_eq!(schedules(sandbox), Vec::<Value>::new());
    let put = |schedule: &str| {
        let args = ["schedules", "put", "daily report", schedule, "report", "{\"days\": 1}", "--zone", "Europe/Berlin"];
        let more = [
            "--queue",
            "reports",
            "--priority",
            "-3",
            "--header",
            "tenant=acme",
            "--misfire",
            "skip",
            "--overlap",
            "forbid",
        ];
        let done = sandbox
            .run(&[&args[..], &more[..], &["--until", "2090-01-01T00:00:00Z", "--times", "5"]].concat())
            .success();
        done.stdout
    };
    assert!(put("0 6 * * MON-FRI").starts_with("daily report was created; next at 20"));
    assert!(put("0 6 * * MON-FRI").starts_with("daily report is unchanged; next at 20"));
    assert!(put("30 6 * * MON-FRI").starts_with("daily report was changed; next at 20"));
    let listed = schedules(sandbox);
    assert_eq!(listed.len(), 1);
    let one = &listed[0];
    let expected = json!({
        "name": "daily report", "version": 1, "schedule": "30 6 * * MON-FRI", "zone": "Europe/Berlin", "misfire": "skip",
        "overlap": "forbid", "until": "2090-01-01T00:00:00Z", "times": 5, "state": "active", "next_at": one["next_at"],
        "last_at": null, "last_job": null, "fired": 0, "kind": "report", "queue": "reports", "priority": -3,
        "max_attempts": 10, "headers": { "tenant": "acme" }, "content_type": "application/json",
    });
    assert_eq!(*one, expected);
    let next: Timestamp = one["next_at"].as_str().unwrap().parse().unwrap();
    assert!(next > Timestamp::now());
    let table = sandbox.run(&["schedules", "list"]).success().stdout;
    assert!(table.lines().count() == 2 && table.contains("30 6 * * MON-FRI"), "{table}");

    let delete = |args: &[&str]| sandbox.run(&[&["schedules", "delete"], args].concat());
    assert_eq!(delete(&["daily report", "--dry-run"]).success().stdout, "1 schedule would be deleted\n");
    assert_eq!(schedules(sandbox).len(), 1);
    let done = delete(&["daily report", "none", "--output", "json"]).code(1).says("no schedule \"none\"");
    assert_eq!(serde_json::from_str::<Value>(&done.stdout).unwrap()["names"], json!(["daily report"]));
    assert_eq!(schedules(sandbox).len(), 0);
}

fn a_dry_run_shows_what_would_come(sandbox: &Sandbox) {
    let next = |args: &[&str]| {
        let args = [&["schedules", "put", "nightly"], args, &["tick", "--dry-run"]].concat();
        let lines = sandbox.run(&args).success().stdout;
        lines.lines().map(|line| line.parse::<Timestamp>().unwrap()).collect::<Vec<_>>()
    };
    let daily = next(&["30 4 * * *", "--zone", "UTC"]);
    assert_eq!(daily.len(), 5);
    assert!(daily.windows(2).all(|pair| pair[1].as_second() - pair[0].as_second() == 24 * 60 * 60), "{daily:?}");
    assert!(daily[0] > Timestamp::now() && daily[0].to_string().ends_with("T04:30:00Z"), "{daily:?}");
    assert_eq!(next(&["R3/PT10S"]).len(), 3);
    assert_eq!(next(&["1m", "--times", "2"]).len(), 2);
    let past = ["schedules", "put", "nightly", "1m", "tick", "--until", "2020-01-01T00:00:00Z", "--dry-run"];
    sandbox.run(&past).success().prints("it would send nothing");
    assert!(schedules(sandbox).is_empty(), "nothing was put");
}

fn bad_ones_are_refused(sandbox: &Sandbox) {
    let put = |args: &[&str]| sandbox.run(&[&["schedules", "put", "x"], args].concat()).code(2);
    put(&["0 0 30 2 *", "kind"]).says("30 February");
    put(&["sometimes", "kind"]).says("not a schedule");
    put(&["@daily", "kind", "--zone", "Mars/Olympus"]).says("Mars/Olympus");
    put(&["@daily", "kind", "--misfire", "maybe"]).says("skip, once, all");
    put(&["@daily", "kind", "{oops"]).says("not JSON");
    put(&["@daily", "kind", "--header", "schedule=x"]).says("which the schedule sets");
    assert!(schedules(sandbox).is_empty());
    for command in ["pause", "resume", "run"] {
        sandbox.run(&["schedules", command, "none"]).code(1).says("no schedule \"none\"");
    }
}

fn paused_and_resumed(sandbox: &Sandbox) {
    sandbox.run(&["schedules", "put", "x", "1h", "kind"]).success();
    assert_eq!(sandbox.run(&["schedules", "pause", "x"]).success().stdout, "x is paused\n");
    assert_eq!(sandbox.run(&["schedules", "pause", "x"]).success().stdout, "x was paused already\n");
    let one = &schedules(sandbox)[0];
    assert_eq!((&one["state"], &one["next_at"]), (&json!("paused"), &Value::Null));
    assert_eq!(sandbox.run(&["schedules", "resume", "x"]).success().stdout, "x goes on\n");
    assert_eq!(schedules(sandbox)[0]["state"], "active");
}

fn run_and_filled_in(sandbox: &Sandbox) {
    sandbox.run(&["schedules", "put", "x", "R/2026-01-01T00:00:00Z/P1D", "kind", "7"]).success();
    let id = sandbox.run(&["schedules", "run", "x"]).success().stdout;
    let job = sandbox.show(id.trim());
    assert_eq!((&job["payload"]["json"], &job["headers"]["schedule"]), (&json!(7), &json!("x")));
    let backfill = |more: &[&str]| {
        let args = ["schedules", "backfill", "x", "--from", "2026-02-01T00:00:00Z", "--to", "2026-02-08T00:00:00Z"];
        sandbox.run(&[&args[..], more].concat())
    };
    assert_eq!(backfill(&["--dry-run"]).success().stdout, "7 occurrences; their jobs would be sent\n");
    assert_eq!(sandbox.list(&[]).len(), 1);
    assert_eq!(backfill(&[]).success().stdout, "7 occurrences, 7 jobs sent\n");
    let again: Value = serde_json::from_str(&backfill(&["--output", "json"]).success().stdout).unwrap();
    assert_eq!(again, json!({ "dry_run": false, "occurrences": 7, "jobs": 0, "queue": "default" }));
    assert_eq!(sandbox.list(&[]).len(), 8);
    let late = ["schedules", "backfill", "x", "--from", "2026-02-01T00:00:00Z", "--to", "2999-02-08T00:00:00Z"];
    sandbox.run(&late).code(2).says("the end not in the future");
}

fn changes_of_schedules_are_audited(sandbox: &Sandbox) {
    let done = |args: &[&str]| sandbox.run(&[&["schedules"], args, &["--as", "ann"]].concat()).success();
    done(&["put", "x", "R/2026-01-01T00:00:00Z/P1D", "kind"]);
    done(&["pause", "x"]);
    done(&["resume", "x"]);
    let id = done(&["run", "x"]).stdout;
    done(&["backfill", "x", "--from", "2026-02-01T00:00:00Z", "--to", "2026-02-08T00:00:00Z"]);
    done(&["delete", "x", "--dry-run"]);
    sandbox.run(&["schedules", "delete", "x"]).success();
    let audit = sandbox.run(&["audit", "list", "--output", "json"]).success().stdout;
    let audit: Vec<Value> = serde_json::from_str(&audit).unwrap();
    let verbs = ["delete", "backfill", "run", "resume", "pause", "put"];
    let words: Vec<&str> = audit.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(words, verbs.map(|verb| format!("{verb}-schedule")));
    assert!(audit.iter().all(|entry| entry["what"]["schedule"] == "x"), "{audit:?}");
    assert!(audit[1..].iter().all(|entry| entry["who"] == "ann") && audit[0]["who"] != "ann", "{audit:?}");
    assert_eq!((&audit[1]["counts"], &audit[2]["what"]["job"]), (&json!({ "sent": 7 }), &json!(id.trim())));
}

/// One of two workers is killed during work, again and again: each occurrence has one job, and none is left out.
fn faults_a_killed_worker_changes_no_occurrence(sandbox: &Sandbox) {
    let out = sandbox.file("out");
    std::fs::create_dir_all(&out).unwrap();
    // A handler may run twice, so it writes a file named by occurrence and job.
    sandbox.configure(
        "[queues.default]\nconcurrency = 8\n[handlers.tick]\n\
         command = [\"sh\", \"-c\", \"touch out/$JOBWRIGHT_HEADER_SCHEDULEDAT.$JOBWRIGHT_JOB_ID\"]\n",
    );
    sandbox.run(&["schedules", "put", "tick", "250ms", "tick", "--misfire", "all"]).success();
    // The jobs of each occurrence.
    let ticks = || {
        let mut found: BTreeMap<Timestamp, BTreeSet<String>> = BTreeMap::new();
        for entry in std::fs::read_dir(&out).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let (at, id) = name.rsplit_once('.').unwrap();
            found.entry(at.parse().unwrap()).or_default().insert(id.to_owned());
        }
        found
    };
    let _survivor = sandbox.worker(&[]);
    for enough in [4, 8, 12, 16] {
        let victim = sandbox.worker(&[]);
        until("more occurrences", || ticks().len() >= enough);
        victim.kill_9();
    }
    let until_here = ticks().len() + 4;
    until("more occurrences", || ticks().len() >= until_here);
    sandbox.run(&["schedules", "pause", "tick"]).success();
    until("all to be done", || sandbox.list(&[]).is_empty());
    let schedule = &schedules(sandbox)[0];
    let ticks = ticks();
    assert_eq!(schedule["fired"], json!(ticks.len()), "each occurrence that was fired has run");
    assert!(ticks.values().all(|jobs| jobs.len() == 1), "an occurrence had two jobs: {ticks:?}");
    let moments: Vec<Timestamp> = ticks.keys().copied().collect();
    for pair in moments.windows(2) {
        assert_eq!(pair[1].duration_since(pair[0]).as_millis(), 250, "none is left out: {moments:?}");
    }
    assert_eq!(schedule["last_at"].as_str().unwrap().parse::<Timestamp>().unwrap(), *moments.last().unwrap());
}
