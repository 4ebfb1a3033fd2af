//! How programs that run jobs are ended, and what is left of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;

use std::time::{Duration, Instant};

use common::{Place, until};
use serde_json::json;

/// Tells of SIGTERM, and ends when it is told to; what it starts does not.
const POLITE: &str = r#"
command = ["sh", "-c", "trap 'echo tidied > tidied; exit 0' TERM; touch started; while :; do sleep 0.05; done"]
"#;

/// Does its work to the end when it is asked to end.
const FINISHES: &str = r#"
command = ["sh", "-c", "trap 'echo done; exit 0' TERM; echo run >> started; while :; do sleep 0.05; done"]
"#;

/// Whoever reaps orphans here may take its time: a zombie is dead.
fn is_gone(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).map_or(true, |stat| stat.contains(") Z"))
}

#[test]
fn a_program_may_tidy_up_at_its_timeout_and_has_still_failed() {
    let place = Place::sqlite();
    place.configure(&format!("[handlers.slow]\ntimeout = \"300ms\"\nstop_grace = \"30s\"{POLITE}"));
    let id = place.send(&["slow", "--max-attempts", "1"]);
    let mut worker = place.worker(&[]);
    until("the end of the job", || place.show(&id)["state"] == "dead");
    assert_eq!(std::fs::read_to_string(place.file("tidied")).unwrap(), "tidied\n");
    let error = place.show(&id)["last_error"].as_str().unwrap().to_owned();
    assert!(error.contains("did not finish within 300ms"), "{error}");
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0));
}

#[test]
fn a_program_that_does_not_end_when_it_is_asked_to_is_killed() {
    let place = Place::sqlite();
    place.configure(
        r#"
        [handlers.deaf]
        command = ["sh", "-c", "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.05; done"]
        timeout = "300ms"
        stop_grace = "700ms"
        "#,
    );
    let began = Instant::now();
    let id = place.send(&["deaf", "--max-attempts", "1"]);
    let _worker = place.worker(&[]);
    until("the end of the job", || place.show(&id)["state"] == "dead");
    assert!(began.elapsed() >= Duration::from_secs(1), "it had no grace: {:?}", began.elapsed());
    assert!(is_gone(&std::fs::read_to_string(place.file("pid")).unwrap()), "its failure is recorded when it has ended");
    let error = place.show(&id)["last_error"].as_str().unwrap().to_owned();
    assert!(error.contains("did not finish within 300ms"), "{error}");
}

#[test]
fn a_program_may_tidy_up_when_its_job_is_cancelled() {
    let place = Place::sqlite();
    place.configure(&format!("[handlers.slow]{POLITE}"));
    let id = place.send(&["slow"]);
    let mut worker = place.worker(&[]);
    until("the job to start", || place.file("started").exists());
    place.run(&["jobs", "cancel", &id]).success();
    until("it to tidy up", || place.file("tidied").exists());
    place.run(&["jobs", "show", &id]).code(1);
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0));
}

/// When the grace of the worker is over; its job is given back at no attempt.
#[test]
fn a_program_may_tidy_up_when_its_worker_stops() {
    let place = Place::sqlite();
    let interrupted = POLITE.replace("exit 0", "exit 143");
    place.configure(&format!("grace = \"200ms\"\n[handlers.slow]\nstop_grace = \"20s\"{interrupted}"));
    let id = place.send(&["slow"]);
    let mut worker = place.worker(&[]);
    until("the job to start", || place.file("started").exists());
    let began = Instant::now();
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    assert!(began.elapsed() < Duration::from_secs(15), "it was waited for no longer than needed");
    assert!(place.file("tidied").exists());
    let job = place.show(&id);
    assert_eq!((&job["attempt"], &job["owner"], &job["errors"]), (&json!(0), &json!(null), &json!([])), "{job}");
}

/// As a handler in Rust that returns while its worker stops. Else long jobs would run once more at each deployment.
#[test]
fn a_program_that_finishes_while_its_worker_stops_has_run_once() {
    let place = Place::sqlite();
    place.configure(&format!("grace = \"200ms\"\n[handlers.slow]\nstop_grace = \"20s\"{FINISHES}"));
    let id = place.send(&["slow"]);
    let mut worker = place.worker(&[]);
    until("the job to start", || place.file("started").exists());
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    place.run(&["jobs", "show", &id]).code(1);
    place.run(&["worker", "--drain"]).success();
    assert_eq!(std::fs::read_to_string(place.file("started")).unwrap(), "run\n");
}

/// In its process group. What wants to live on makes a session of its own (`setsid`).
#[test]
fn what_a_program_leaves_running_ends_with_it() {
    let place = Place::sqlite();
    place.configure(
        r#"
        [handlers.leaves]
        command = ["sh", "-c", "sleep 300 >/dev/null 2>&1 </dev/null & echo $! > pid"]
        "#,
    );
    place.send(&["leaves"]);
    place.run(&["worker", "--drain"]).success();
    let pid = std::fs::read_to_string(place.file("pid")).unwrap();
    until("the end of what it left", || is_gone(&pid));
}

/// `EX_TEMPFAIL`: not a failure, so it costs no attempt and no error is kept.
#[test]
fn a_program_that_says_later_runs_again_later() {
    let place = Place::sqlite();
    place.configure("[handlers.waits]\ncommand = [\"sh\", \"-c\", \"echo busy >&2; exit 75\"]\n");
    let id = place.send(&["waits", "--max-attempts", "1"]);
    let done = place.run(&["worker", "--drain"]).success().says("busy");
    assert!(!done.stderr.contains("failed and becomes") && !done.stderr.contains("WARN"), "{done:?}");
    let job = place.show(&id);
    assert_eq!((&job["state"], &job["attempt"], &job["errors"]), (&json!("timer"), &json!(0), &json!([])), "{job}");
    let due: jiff::Timestamp = job["due_at"].as_str().unwrap().parse().unwrap();
    let wait = due.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((40..=60).contains(&wait), "a minute is the default: {wait} s");
}
