//! Workers: their start, draining and stopping.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::common::{Sandbox, on_both_stores, until};

on_both_stores!(
    draining_leaves_jobs_of_other_queues_and_kinds,
    draining_runs_jobs_that_wait_for_their_group,
    draining_names_the_jobs_it_could_not_run,
    draining_does_not_wait_for_paused_suspects,
    draining_waits_for_due_jobs,
    draining_waits_for_jobs_of_another_worker,
    a_signal_lets_running_jobs_finish,
    a_second_signal_gives_them_back,
    a_program_ends_with_its_worker,
);

/// Forwards connections on this port to the database, for as long as the test runs.
fn forward(port: u16, to: String) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = std::net::TcpStream::connect(&to) else { continue };
            for (mut from, mut into) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut into);
                    let _ = into.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
}

/// The database is not up when the worker starts. Without `--wait` the worker ends; with it, it starts as soon as possible.
#[test]
fn a_worker_that_is_to_wait_waits_for_its_database() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    sandbox.send(&["echo", "1"]);
    let url = std::env::var("DATABASE_URL").unwrap();
    let (credentials, rest) = url.split_once("://").unwrap().1.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let away = format!("postgres://{credentials}@127.0.0.1:{port}/{database}");
    sandbox.run(&["--database-url", &away, "worker", "--drain"]).code(3);
    let mut worker = sandbox.worker(&["--drain", "--wait", "--database-url", &away]);
    until("the worker to say that it waits", || worker.said().contains("trying again"));
    forward(port, server.to_owned());
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    // Errors that are not temporary are reported at once, and a signal ends the waiting.
    sandbox.run(&["--database-url", "postgres://u@h:port/d", "worker", "--wait"]).code(2);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut worker = sandbox.worker(&["--wait", "--database-url", &format!("postgres://u@{closed}/d")]);
    until("the worker to say that it waits", || worker.said().contains("trying again"));
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
}

fn draining_leaves_jobs_of_other_queues_and_kinds(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"cat\"]\n[queues.default]\n[queues.second]\nconcurrency = 2\n");
    let ours: Vec<String> =
        ["default", "second"].iter().map(|queue| sandbox.send(&["ours", "--queue", queue])).collect();
    let foreign = sandbox.send(&["foreign"]);
    let third = sandbox.send(&["ours", "--queue", "third"]);
    let later = sandbox.send(&["ours", "--delay", "1h"]);
    let due = sandbox.send(&["ours", "--delay", "300ms"]);
    let drained = sandbox.run(&["worker", "--drain"]).success();
    assert!(drained.stderr.contains("no handler is configured here"), "{drained:?}");
    for id in &ours {
        sandbox.gone(id);
    }
    assert_eq!(sandbox.show(&foreign)["state"], "waiting");
    assert_eq!(sandbox.show(&third)["state"], "waiting");
    assert_eq!(sandbox.show(&later)["state"], "timer");
    sandbox.run(&["worker", "--drain", "--queue", "third=3"]).success();
    sandbox.gone(&third);
    until("the short timer", || {
        sandbox.run(&["worker", "--drain"]).success();
        sandbox.run(&["jobs", "show", &due]).code == Some(1)
    });
    sandbox.run(&["worker", "--queue", "x=0"]).code(2);
}

fn draining_runs_jobs_that_wait_for_their_group(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    for group in ["a", "a", "a", "b"] {
        sandbox.send(&["ours", "--group", group, "--ordered"]);
    }
    sandbox.run(&["worker", "--drain"]).success();
    assert!(sandbox.list(&[]).is_empty());
}

/// The remaining jobs can't run: the group is paused, so this worker can do nothing about them.
fn draining_names_the_jobs_it_could_not_run(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    sandbox.run(&["rules", "put", "group", "frozen", "--paused", "true"]).success();
    let frozen = sandbox.send(&["ours", "--group", "frozen"]);
    sandbox.send(&["ours", "--group", "frozen"]);
    sandbox.send(&["ours", "--group", "free"]);
    let done = sandbox.run(&["worker", "--drain"]).code(4);
    done.says("2 left, blocked by group \"frozen\" (paused)");
    assert_eq!(sandbox.list(&[]).len(), 2);
    assert_eq!(sandbox.show(&frozen)["state"], "blocked");
    // Jobs that only a rate delays start later without help.
    sandbox.run(&["rules", "put", "group", "frozen", "--paused", "false"]).success();
    sandbox.run(&["rules", "put", "kind", "ours", "--rate", "1/500ms"]).success();
    sandbox.run(&["worker", "--drain"]).success();
    assert!(sandbox.list(&[]).is_empty());
}

/// Jobs whose process died run alone when it is their turn, unless a rule holds them.
fn draining_does_not_wait_for_paused_suspects(sandbox: &Sandbox) {
    sandbox.configure(
        r#"
        [handlers.slow]
        command = ["sh", "-c", "touch started; until test -e go; do sleep 0.01; done"]
        "#,
    );
    let slow = sandbox.send(&["slow"]);
    let dies = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("started").exists());
    dies.kill_9();
    std::fs::write(sandbox.file("go"), "").unwrap();
    let rule = |rule: &[&str]| drop(sandbox.run(&[&["rules", "put"], rule].concat()).success());
    let pauses = [
        (["queue", "default", "--paused", "true"], ["queue", "default", "--paused", "false"], "queue \"default\""),
        (["kind", "*", "--running", "0"], ["kind", "*", "--running", "1"], "kind \"slow\""),
    ];
    for (pause, resume, held) in pauses {
        rule(&pause);
        let mut drain = sandbox.worker(&["--drain"]);
        assert_eq!(drain.ended(), Some(4), "{}", drain.said());
        let left = format!("1 left, blocked by the death of their process (each runs alone; {held} is paused)");
        assert!(drain.said().contains(&left), "{}", drain.said());
        assert_eq!(sandbox.show(&slow)["state"], "blocked");
        rule(&resume);
    }
    sandbox.run(&["worker", "--drain"]).success();
    sandbox.gone(&slow);
}

/// A timer that is due counts as work, even before it was promoted.
fn draining_waits_for_due_jobs(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    let due = sandbox.send(&["ours", "--delay", "100ms"]);
    until("the timer to be due", || {
        let status = sandbox.run(&["status", "--output", "json"]).success().stdout;
        serde_json::from_str::<serde_json::Value>(&status).unwrap()["queues"][0]["overdue"] == 1
    });
    sandbox.run(&["worker", "--drain"]).success();
    sandbox.gone(&due);
}

/// A job that runs elsewhere may fail and come back, so the work is not over yet.
fn draining_waits_for_jobs_of_another_worker(sandbox: &Sandbox) {
    sandbox.configure(
        r#"
        [handlers.slow]
        command = ["sh", "-c", "touch started; until test -e go; do sleep 0.01; done"]
        "#,
    );
    let slow = sandbox.send(&["slow"]);
    let mut other = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("started").exists());
    let mut drain = sandbox.worker(&["--drain"]);
    until("the second worker", || drain.said().contains("ready"));
    // Several polls of the database.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(drain.child.try_wait().unwrap().is_none(), "it ended while a job ran: {}", drain.said());
    std::fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(drain.ended(), Some(0));
    sandbox.gone(&slow);
    other.signal("TERM");
    assert_eq!(other.ended(), Some(0));
}

fn a_signal_lets_running_jobs_finish(sandbox: &Sandbox) {
    sandbox.configure(
        r#"
        [handlers.slow]
        command = ["sh", "-c", "touch started; until test -e go; do sleep 0.01; done; touch finished"]
        "#,
    );
    let slow = sandbox.send(&["slow"]);
    let mut worker = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("started").exists());
    worker.signal("TERM");
    until("the worker to notice", || worker.said().contains("stopping"));
    let next = sandbox.send(&["slow"]);
    std::fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(worker.ended(), Some(0));
    assert!(sandbox.file("finished").exists());
    sandbox.gone(&slow);
    assert_eq!(sandbox.show(&next)["state"], "waiting", "no more jobs are taken");
    assert!(worker.said().contains("worker stopped taken=1 done=1"), "{}", worker.said());
}

fn a_second_signal_gives_them_back(sandbox: &Sandbox) {
    sandbox.configure("[handlers.slow]\ncommand = [\"sh\", \"-c\", \"touch started; sleep 300\"]\n");
    let slow = sandbox.send(&["slow"]);
    let mut worker = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("started").exists());
    worker.signal("INT");
    until("the worker to notice", || worker.said().contains("stopping"));
    // The same Ctrl-C, passed on by another process.
    worker.signal("INT");
    until("a second one that counts", || {
        worker.signal("INT");
        worker.said().contains("stopping at once")
    });
    assert_eq!(worker.ended(), Some(1), "{}", worker.said());
    let moment = |word: &str| -> jiff::Timestamp {
        let said = worker.said();
        let line = said.lines().find(|line| line.contains(word)).unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    };
    let between = moment("stopping at once").duration_since(moment("no more jobs are taken"));
    assert!(between.as_millis() >= 900, "one that came with the first is the same: {between}");
    // Its last lines may be read only after its end was noticed.
    until("its reason", || worker.said().contains("stopped before all handlers had finished"));
    let job = sandbox.show(&slow);
    assert_eq!(job["attempt"], 0, "being stopped costs no attempt: {job}");
    assert!(job["owner"].is_null(), "{job}");
}

/// Nothing could record what the program does after that, and its job is about to run elsewhere.
fn a_program_ends_with_its_worker(sandbox: &Sandbox) {
    sandbox.configure(
        "[handlers.slow]\ncommand = [\"sh\", \"-c\", \"echo $$ > pid.new; mv pid.new pid; exec sleep 300\"]\n",
    );
    sandbox.send(&["slow"]);
    let worker = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("pid").exists());
    let pid = std::fs::read_to_string(sandbox.file("pid")).unwrap();
    worker.kill_9();
    let began = Instant::now();
    until("the end of the program", || {
        // A zombie counts as dead: the process that reaps orphans here may take its time.
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).map_or(true, |stat| stat.contains(") Z"))
    });
    assert!(began.elapsed() < Duration::from_secs(5), "it went on for {:?}", began.elapsed());
}

/// Starts a worker with a running job, on an embedded database whose file is about to be removed.
fn at_work(sandbox: &Sandbox) -> crate::common::Worker {
    sandbox.configure("[handlers.long]\ncommand = [\"sleep\", \"1000\"]");
    let id = sandbox.send(&["long"]);
    let worker = sandbox.worker(&[]);
    until("the job to run", || sandbox.show(&id)["state"] == "running");
    worker
}

#[cfg(unix)]
#[test]
fn a_worker_ends_when_its_file_is_removed() {
    let sandbox = Sandbox::sqlite();
    let mut worker = at_work(&sandbox);
    std::fs::remove_file(sandbox.file("jobs.db")).unwrap();
    assert_eq!(worker.ended(), Some(1), "{}", worker.said());
    let said = worker.said();
    assert!(
        said.contains("JW-REPLACED: the file was moved or replaced") && said.contains("no file of that name"),
        "{said}"
    );
    assert!(!said.contains("declared dead"), "{said}");
    assert!(!sandbox.file("jobs.db").exists(), "nobody asked for a new one");
}

#[cfg(unix)]
#[test]
fn a_worker_ends_when_its_file_is_replaced_by_a_copy() {
    let sandbox = Sandbox::sqlite();
    let mut worker = at_work(&sandbox);
    std::fs::copy(sandbox.file("jobs.db"), sandbox.file("copy")).unwrap();
    std::fs::rename(sandbox.file("copy"), sandbox.file("jobs.db")).unwrap();
    assert_eq!(worker.ended(), Some(1), "{}", worker.said());
    let said = worker.said();
    assert!(
        said.contains("JW-REPLACED: the file was moved or replaced") && said.contains("another file has its name"),
        "{said}"
    );
}
