//! Whoever reads a worker's log may stand still.

use std::io::Read as _;
use std::process::Stdio;

use crate::common::http_server::{HttpServer, Manner};
use crate::common::{Sandbox, until};

/// More jobs than a pipe holds lines of.
const JOBS: usize = 900;

/// Starts a worker whose log nobody reads, and lets it fail all jobs, with a line for each.
fn unread() -> (Sandbox, std::process::Child) {
    let sandbox = Sandbox::sqlite();
    let server = HttpServer::start(Manner::Answer(404));
    sandbox.configure(&format!("[handlers.t]\nurl = \"http://{}/\"\n", server.address));
    let lines: String = (0..JOBS).map(|n| n.to_string() + "\n").collect();
    sandbox.run_with(&["send", "t", "--lines", "--max-attempts", "1"], lines.as_bytes()).success();
    let mut command = sandbox.command(&["worker"]);
    let worker = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("all jobs to be over", || sandbox.list(&["--state", "dead"]).len() == JOBS);
    (sandbox, worker)
}

fn stop(worker: &mut std::process::Child) {
    let pid = worker.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
}

#[test]
fn an_unread_log_delays_no_job() {
    let (_sandbox, mut worker) = unread();
    // The reader is back, and nothing is missing.
    let mut stderr = worker.stderr.take().unwrap();
    stop(&mut worker);
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(0), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("becomes a dead letter")).count(), JOBS);
    assert!(text.contains("worker stopped") && !text.contains("are missing"), "{text}");
}

#[test]
fn an_unread_log_does_not_prevent_the_end_of_a_worker() {
    let (_sandbox, mut worker) = unread();
    stop(&mut worker);
    let mut code = None;
    until("the worker to end", || {
        code = worker.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(0));
}
