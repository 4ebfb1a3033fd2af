//! How programs that run jobs are ended, and what they leave behind.

use std::time::{Duration, Instant};

use crate::common::{Sandbox, until};
use serde_json::json;

/// Notes SIGTERM and ends then; its children do not.
const POLITE: &str = r#"
command = ["sh", "-c", "trap 'echo tidied > tidied; exit 0' TERM; touch started; while :; do sleep 0.05; done"]
"#;

/// Finishes its work when it receives SIGTERM.
const FINISHES: &str = r#"
command = ["sh", "-c", "trap 'echo done; exit 0' TERM; echo run >> started; while :; do sleep 0.05; done"]
"#;

/// A zombie counts as dead: the process that reaps orphans here may take its time.
fn is_gone(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).map_or(true, |stat| stat.contains(") Z"))
}

#[test]
fn a_program_may_tidy_up_at_its_timeout_and_has_still_failed() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure(&format!("[handlers.slow]\ntimeout = \"300ms\"\nstop_grace = \"30s\"{POLITE}"));
    let id = sandbox.send(&["slow", "--max-attempts", "1"]);
    let mut worker = sandbox.worker(&[]);
    until("the end of the job", || sandbox.show(&id)["state"] == "dead");
    assert_eq!(std::fs::read_to_string(sandbox.file("tidied")).unwrap(), "tidied\n");
    let error = sandbox.show(&id)["last_error"].as_str().unwrap().to_owned();
    assert!(error.contains("did not finish within 300ms"), "{error}");
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0));
}

#[test]
fn a_program_that_does_not_end_when_it_is_asked_to_is_killed() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure(
        r#"
        [handlers.deaf]
        command = ["sh", "-c", "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.05; done"]
        timeout = "300ms"
        stop_grace = "700ms"
        "#,
    );
    let began = Instant::now();
    let id = sandbox.send(&["deaf", "--max-attempts", "1"]);
    let _worker = sandbox.worker(&[]);
    until("the end of the job", || sandbox.show(&id)["state"] == "dead");
    assert!(began.elapsed() >= Duration::from_secs(1), "it had no grace: {:?}", began.elapsed());
    assert!(
        is_gone(&std::fs::read_to_string(sandbox.file("pid")).unwrap()),
        "its failure is recorded when it has ended"
    );
    let error = sandbox.show(&id)["last_error"].as_str().unwrap().to_owned();
    assert!(error.contains("did not finish within 300ms"), "{error}");
}

#[test]
fn a_program_may_tidy_up_when_its_job_is_cancelled() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure(&format!("[handlers.slow]{POLITE}"));
    let id = sandbox.send(&["slow"]);
    let mut worker = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("started").exists());
    sandbox.run(&["jobs", "cancel", &id]).success();
    until("it to tidy up", || sandbox.file("tidied").exists());
    sandbox.run(&["jobs", "show", &id]).code(1);
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0));
}

/// When the grace of the worker is over, the job is given back at no attempt.
#[test]
fn a_program_may_tidy_up_when_its_worker_stops() {
    let sandbox = Sandbox::sqlite();
    let interrupted = POLITE.replace("exit 0", "exit 143");
    sandbox.configure(&format!("grace = \"200ms\"\n[handlers.slow]\nstop_grace = \"20s\"{interrupted}"));
    let id = sandbox.send(&["slow"]);
    let mut worker = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("started").exists());
    let began = Instant::now();
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    assert!(began.elapsed() < Duration::from_secs(15), "it was waited for no longer than needed");
    assert!(sandbox.file("tidied").exists());
    let job = sandbox.show(&id);
    assert_eq!((&job["attempt"], &job["owner"], &job["errors"]), (&json!(0), &json!(null), &json!([])), "{job}");
}

/// Like a handler in Rust that returns while its worker stops. Otherwise long jobs would run once more at each deployment.
#[test]
fn a_program_that_finishes_while_its_worker_stops_has_run_once() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure(&format!("grace = \"200ms\"\n[handlers.slow]\nstop_grace = \"20s\"{FINISHES}"));
    let id = sandbox.send(&["slow"]);
    let mut worker = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("started").exists());
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    sandbox.run(&["jobs", "show", &id]).code(1);
    sandbox.run(&["worker", "--drain"]).success();
    assert_eq!(std::fs::read_to_string(sandbox.file("started")).unwrap(), "run\n");
}

/// The signal goes to the program's process group. A process that should live on creates its own session (`setsid`).
#[test]
fn processes_left_by_a_program_end_with_it() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure(
        r#"
        [handlers.leaves]
        command = ["sh", "-c", "sleep 300 >/dev/null 2>&1 </dev/null & echo $! > pid"]
        "#,
    );
    sandbox.send(&["leaves"]);
    sandbox.run(&["worker", "--drain"]).success();
    let pid = std::fs::read_to_string(sandbox.file("pid")).unwrap();
    until("the end of what it left", || is_gone(&pid));
}

/// `EX_TEMPFAIL`: not a failure, so it costs no attempt and no error is kept.
#[test]
fn a_program_that_says_later_runs_again_later() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.waits]\ncommand = [\"sh\", \"-c\", \"echo busy >&2; exit 75\"]\n");
    let id = sandbox.send(&["waits", "--max-attempts", "1"]);
    let done = sandbox.run(&["worker", "--drain"]).success().says("busy");
    assert!(!done.stderr.contains("failed and becomes") && !done.stderr.contains("WARN"), "{done:?}");
    let job = sandbox.show(&id);
    assert_eq!((&job["state"], &job["attempt"], &job["errors"]), (&json!("timer"), &json!(0), &json!([])), "{job}");
    let due: jiff::Timestamp = job["due_at"].as_str().unwrap().parse().unwrap();
    let wait = due.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((40..=60).contains(&wait), "a minute is the default: {wait} s");
}
