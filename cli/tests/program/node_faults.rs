//! Faults of the worker's machine, and of the people who run it, which are not charged to jobs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::common::{Done, Sandbox, Worker, on_both_stores, until};
use serde_json::json;

on_both_stores!(
    a_worker_without_the_program_leaves_its_jobs_to_others,
    a_program_that_is_missing_for_a_moment_costs_no_attempt,
);

/// Writes a program that is there at once.
fn install(sandbox: &Sandbox, text: &str, mode: u32) -> PathBuf {
    let (new, path) = (sandbox.file("program.new"), sandbox.file("program"));
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(&new, &path).unwrap();
    path
}

/// Sends this many jobs that a single failed attempt makes dead letters.
fn send(sandbox: &Sandbox, count: usize) {
    let lines: String = (0..count).map(|n| n.to_string() + "\n").collect();
    sandbox.run_with(&["send", "t", "--lines", "--max-attempts", "1"], lines.as_bytes()).success();
}

/// Returns the lines of a worker's log that say this.
fn lines(worker: &Worker, text: &str) -> usize {
    worker.said().lines().filter(|line| line.contains(text)).count()
}

fn stop(mut worker: Worker) {
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
}

const CANNOT: &str = "this node can't run jobs of this kind";

fn a_worker_without_the_program_leaves_its_jobs_to_others(sandbox: &Sandbox) {
    let missing = sandbox.file("program");
    let broken = sandbox.file("broken.toml");
    let command = format!("[handlers.t]\ncommand = [{:?}]\n", missing.display().to_string());
    fs::write(&broken, format!("[executor]\nlease = \"1s\"\npoll_interval = \"100ms\"\n{command}")).unwrap();
    let broken = Worker::start_in(&mut sandbox.command(&["worker", "--config", broken.to_str().unwrap()]));
    until("the worker to say it", || lines(&broken, CANNOT) > 0 && lines(&broken, "ready") > 0);
    assert!(broken.said().contains("kind=\"t\"") || broken.said().contains("kind=t"), "{}", broken.said());
    assert!(broken.said().contains(missing.to_str().unwrap()), "{}", broken.said());

    sandbox.configure("[handlers.t]\ncommand = [\"sh\", \"-c\", \"sleep 0.05\"]\n");
    send(sandbox, 40);
    let whole = sandbox.worker(&[]);
    until("all jobs to be done", || sandbox.list(&["--state", "waiting,running,timer,dead"]).is_empty());
    stop(whole);

    // The program comes, and this worker runs jobs as well.
    install(sandbox, "#!/bin/sh\ntouch ran\n", 0o755);
    send(sandbox, 1);
    until("the program to run", || sandbox.file("ran").exists());
    until("the worker to say it", || lines(&broken, "can run jobs of this kind again") > 0);
    assert_eq!(lines(&broken, CANNOT), 1, "once is enough: {}", broken.said());
    assert_eq!(lines(&broken, "failed"), lines(&broken, "failed_attempts=0"), "{}", broken.said());
    stop(broken);
}

fn a_program_that_is_missing_for_a_moment_costs_no_attempt(sandbox: &Sandbox) {
    let text = "#!/bin/sh\nexit 0\n";
    let program = install(sandbox, text, 0o755);
    sandbox.configure(&format!("[handlers.t]\ncommand = [{:?}]\n", program.display().to_string()));
    let worker = sandbox.worker(&[]);
    until("the worker to be ready", || lines(&worker, "ready") > 0);
    for round in 0..3 {
        match round {
            0 => fs::remove_file(&program).unwrap(),
            // A deployment that forgot the right, and one without the interpreter.
            1 => drop(install(sandbox, text, 0o644)),
            _ => drop(install(sandbox, "#!/no/such/interpreter\n", 0o755)),
        }
        send(sandbox, 60);
        until("the worker to say it", || lines(&worker, CANNOT) > round);
        install(sandbox, text, 0o755);
        until("all jobs to be over", || sandbox.list(&["--state", "waiting,running,timer"]).is_empty());
        assert_eq!(sandbox.list(&["--state", "dead"]), Vec::<serde_json::Value>::new());
        until("the worker to say it", || lines(&worker, "can run jobs of this kind again") > round);
    }
    assert_eq!(lines(&worker, CANNOT), 3, "{}", worker.said());
    stop(worker);
}

/// What the system refuses is not in the program's file: here there are no files left for the pipes of a program.
#[test]
fn a_system_that_starts_no_process_costs_no_attempt() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.t]\ncommand = [\"sleep\", \"0.3\"]\n");
    send(&sandbox, 20);
    let worker = sandbox.command(&["worker", "--queue", "default=100"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 50; exec \"$0\" \"$@\""]).arg(worker.get_program()).args(worker.get_args());
    for (name, value) in worker.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let worker = Worker::start_in(limited.current_dir(sandbox.path()));
    until("all jobs to be over", || sandbox.list(&["--state", "waiting,running,timer"]).is_empty());
    assert_eq!(sandbox.list(&["--state", "dead"]), Vec::<serde_json::Value>::new(), "{}", worker.said());
    assert!(lines(&worker, CANNOT) > 0, "it had files for all of them: {}", worker.said());
    stop(worker);
}

/// It would wait for ever. A job that ran and failed would be a dead letter instead.
#[test]
fn draining_ends_where_a_program_is_missing() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers]\nt = { command = [\"/no/such/program\"] }\nok = { command = [\"true\"] }\n");
    let left = sandbox.send(&["t"]);
    let done = sandbox.send(&["ok"]);
    sandbox.run(&["worker", "--drain"]).code(4).says("/no/such/program");
    sandbox.gone(&done);
    let job = sandbox.show(&left);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("waiting"), &json!(0)), "{job}");
}

/// A job that was sent in SQL may have any headers: one that no system takes as a variable, and many that are too much together.
#[test]
fn headers_of_any_size_do_not_keep_a_program_from_starting() {
    let sandbox = Sandbox::sqlite();
    let show = "env | grep -c ^JOBWRIGHT_HEADER_; env | grep ^JOBWRIGHT_ | grep -e LEFT_OUT -e SMALL -e CONTENT -e _TRACE | sort";
    sandbox.configure(&format!("[handlers.t]\ncommand = [\"sh\", \"-c\", {show:?}]\n"));
    let database = rusqlite::Connection::open(sandbox.file("jobs.db")).unwrap();
    let run = |headers: &[(String, String)]| {
        sandbox.send(&["t", "1", "--max-attempts", "1"]);
        let headers = headers.iter().cloned().collect::<serde_json::Value>().to_string();
        assert_eq!(database.execute("update jobwright_job set headers = ?1", [headers]).unwrap(), 1);
        let Done { code, stdout, stderr } = sandbox.run(&["worker", "--drain"]);
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(sandbox.list(&["--state", "dead"]), Vec::<serde_json::Value>::new());
        stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let plain = "JOBWRIGHT_CONTENT_TYPE=application/json";
    let small = "JOBWRIGHT_HEADER_SMALL=1";
    let big = "x".repeat(900_000);
    assert_eq!(run(&[header("small", "1")]), ["1", plain, small]);
    assert_eq!(run(&[header("small", "1"), header("big", &big)]), ["1", plain, "JOBWRIGHT_HEADERS_LEFT_OUT=1", small]);
    // The JSON has it, and a variable can't.
    assert_eq!(run(&[header("small", "1"), header("nul", "a\0b")]), ["1", plain, small]);
    let parent = header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let traced = run(&[parent, header("tracestate", &big)]);
    assert!(traced.iter().any(|line| line.starts_with("JOBWRIGHT_TRACEPARENT=")), "{traced:?}");
    assert!(!traced.iter().any(|line| line.contains("xxx")), "{traced:?}");
    // 8 MB together: more than Linux takes with any limit of the stack.
    let many: Vec<_> = (0..100).map(|n| header(&format!("h{n}"), &big[..80_000])).collect();
    let many = run(&many);
    let kept: usize = many[0].parse().unwrap();
    assert!((1..100).contains(&kept), "{kept}");
    assert_eq!(many[1..], [plain.to_owned(), format!("JOBWRIGHT_HEADERS_LEFT_OUT={}", 100 - kept)]);
}
