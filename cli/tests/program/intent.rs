//! What a command line means is done or refused, and never dropped in silence.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::common::open_transaction::OpenTransaction;
use crate::common::{Done, Sandbox, on_both_stores, until};

on_both_stores!(
    input_that_no_flag_asks_for_is_refused,
    a_look_at_the_input_takes_nothing_from_others,
    a_steady_writer_is_followed,
    lines_that_were_there_already_are_not_counted,
    settings_that_set_nothing_are_refused,
    a_state_that_an_action_can_not_take_is_refused,
    a_drain_says_that_jobs_died,
    lines_are_sent_before_their_writer_ends,
    an_interrupted_command_says_how_to_go_on,
);

fn input_that_no_flag_asks_for_is_refused(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    let refused = sandbox.run_with(&["send", "k"], b"{\"order\": 42}").code(2);
    refused.says("stdin has data").says("write `-`");
    assert!(sandbox.list(&[]).is_empty());
    sandbox.run_with(&["send", "k", "-"], b"{\"order\": 42}").success();
    sandbox.run_with(&["send", "k", "1"], b"not meant").success();
    sandbox.run_with(&["send", "k"], b"").success();
    assert_eq!(sandbox.list(&[]).len(), 3);
}

/// What stands on stdin may be for the next command of a script.
fn a_look_at_the_input_takes_nothing_from_others(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    let program = sandbox.command(&[]).get_program().to_owned();
    let script = format!("'{}' send k; '{}' send k - ", program.display(), program.display());
    let command = sandbox.command(&[]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(command.get_current_dir().unwrap_or(sandbox.path()));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(b"{\"order\": 42}").unwrap();
    assert!(shell.wait().unwrap().success());
    let sent = sandbox.list(&[]);
    assert_eq!(sent.len(), 1, "the first is refused");
    assert_eq!(sandbox.show(sent[0]["id"].as_str().unwrap())["payload"]["json"]["order"], 42);
}

/// A writer that never pauses for long does not keep its lines from being sent.
fn a_steady_writer_is_followed(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    let mut command = sandbox.command(&["send", "k", "--lines"]);
    let mut sends = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = sends.stdin.take().unwrap();
    let begun = std::time::Instant::now();
    // Fewer lines than a batch has.
    until("a line while others follow", || {
        for _ in 0..4 {
            lines.write_all(b"a\n").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        begun.elapsed() > std::time::Duration::from_secs(1) && !sandbox.list(&[]).is_empty()
    });
    drop(lines);
    assert!(sends.wait().unwrap().success());
}

fn lines_that_were_there_already_are_not_counted(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    let lines = sandbox.run_with(&["send", "k", "--lines", "--unique", "x"], b"a\nb\nc\n").success();
    lines.says("sent 1 job, already there: 2");
    assert_eq!(sandbox.list(&[]).len(), 1);
    sandbox.run_with(&["send", "k", "--lines"], b"a\n").success().says("sent 1 job in ");
}

fn settings_that_set_nothing_are_refused(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    sandbox.run(&["queues", "limit", "mail"]).code(2).says("no setting is given").says("--running");
    sandbox.run(&["rules", "put", "kind", "k"]).code(2).says("no setting is given");
    sandbox.run(&["rules", "delete", "kind", "k"]).code(1).says("there is no rule for kind \"k\"");
    sandbox.run(&["queues", "resume", "mail"]).success().prints("there is no rule, as before");
    sandbox.run(&["queues", "pause", "mail"]).success().prints("queue mail: paused").says("is the name right?");
    sandbox.run(&["rules", "delete", "queue", "mail"]).success().prints("no rule any more");
    sandbox.send(&["k", "--queue", "post"]);
    let known: Done = sandbox.run(&["queues", "pause", "post"]).success();
    assert_eq!(known.stderr, "");
}

fn a_state_that_an_action_can_not_take_is_refused(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    sandbox.run(&["jobs", "retry", "--state", "running"]).code(2).says("does not apply to jobs that are running");
    sandbox.run(&["jobs", "retry", "--state", "dead,running"]).success();
    sandbox.run(&["jobs", "list"]).success().says("no job matches");
}

fn a_drain_says_that_jobs_died(sandbox: &Sandbox) {
    sandbox
        .configure("[handlers.bad]\ncommand = [\"sh\", \"-c\", \"exit 65\"]\n[handlers.good]\ncommand = [\"true\"]\n");
    for kind in ["bad", "good", "good"] {
        sandbox.send(&[kind]);
    }
    sandbox.run(&["worker", "--drain", "--fail-on-dead", "-q"]).code(1).says("new dead letters: 1, jobs done: 2");
    sandbox.send(&["good"]);
    sandbox.run(&["worker", "--drain", "--fail-on-dead"]).success();
}

/// A worker without `DATABASE_URL` makes a file of its own and finds no job.
#[test]
fn a_worker_says_that_it_has_made_a_database() {
    let sandbox = Sandbox::without_file();
    sandbox.configure("[handlers.good]\ncommand = [\"true\"]\n");
    let drain = || {
        let mut command = sandbox.command(&["worker", "--drain"]);
        Done::from(command.env_remove("DATABASE_URL").output().unwrap()).success()
    };
    drain().says("this worker has made a new embedded database").says("jobwright.db");
    let again = drain();
    assert!(!again.stderr.contains("has made"), "{again:?}");
}

/// As `tail -f` would.
fn lines_are_sent_before_their_writer_ends(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    let mut command = sandbox.command(&["send", "k", "--lines"]);
    let mut sends = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = sends.stdin.take().unwrap();
    lines.write_all(b"a\nb\nbegun").unwrap();
    until("two lines", || sandbox.list(&[]).len() == 2);
    lines.write_all(b" and ended\n").unwrap();
    until("the third line", || sandbox.list(&[]).len() == 3);
    drop(lines);
    assert!(sends.wait().unwrap().success());
    let ids = sandbox.list(&[]);
    let last = sandbox.show(ids[2]["id"].as_str().unwrap());
    assert_eq!(last["payload"]["text"], "begun and ended");
}

fn an_interrupted_command_says_how_to_go_on(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    let mut command = sandbox.command(&["send", "k", "--lines"]);
    let mut sends = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = sends.stdin.take().unwrap();
    lines.write_all(b"a\nb\n").unwrap();
    until("two lines", || sandbox.list(&[]).len() == 2);
    let pid = sends.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    assert_eq!(sends.wait().unwrap().code(), Some(130));
    let said: Vec<String> = BufReader::new(sends.stderr.take().unwrap()).lines().map(Result::unwrap).collect();
    assert!(said.iter().any(|line| line.contains("lines 1 to 2 have been sent; the rest is `tail -n +3`")), "{said:?}");
    drop(lines);
}

/// Twenty thousand jobs in transactions of five thousand, of which the third has to wait for another program's lock.
#[test]
fn an_interrupted_operation_ends_between_two_transactions() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    sandbox.run_with(&["send", "k", "--lines"], "1\n".repeat(20_000).as_bytes()).success();
    let schema = sandbox.schema().unwrap().to_owned();
    let count = |state: &str| {
        let status = sandbox.run(&["status", "--output", "json"]).success().stdout;
        serde_json::from_str::<serde_json::Value>(&status).unwrap()["queues"][0][state].as_u64().unwrap()
    };
    let interrupt = |pid: u32| {
        assert!(std::process::Command::new("kill").args(["-s", "INT", &pid.to_string()]).status().unwrap().success());
    };
    let suspend = || {
        let mut command = sandbox.command(&["jobs", "suspend", "--all"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // Once it ends in good order when the lock is gone, and once at once, because it is told twice.
    for (twice, done) in [(false, 15_000), (true, 20_000)] {
        // A job of the third transaction, and then of the only one that is left.
        let back = if twice { 0 } else { 5000 };
        let lock = OpenTransaction::with(&format!(
            "select from \"{schema}\".job where seq = (select max(seq) - {back} from \"{schema}\".job) for update"
        ));
        let before = count("suspended");
        let mut operation = suspend();
        if !twice {
            until("two transactions", || count("suspended") == 10_000);
        }
        until("it to wait for the lock", || lock.waiting(&format!("a.query like '%{schema}%'")) > 0);
        let mut said = BufReader::new(operation.stderr.take().unwrap()).lines().map(Result::unwrap);
        interrupt(operation.id());
        assert!(said.any(|line| line.contains("Ctrl-C again stops at once")));
        if twice {
            interrupt(operation.id());
            assert!(said.any(|line| line.contains("may or may not have been committed")));
            assert_eq!(operation.wait().unwrap().code(), Some(130));
            assert_eq!(count("suspended"), before, "it was given up in the middle");
        }
        drop(lock);
        assert_eq!(operation.wait().unwrap().code(), Some(130));
        if twice {
            sandbox.run(&["jobs", "suspend", "--all"]).success();
        } else {
            assert!(said.any(|line| line.contains("the same command goes on with the rest")));
        }
        assert_eq!(count("suspended"), done);
    }
}
