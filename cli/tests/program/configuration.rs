//! Configuration, exit codes, and secrets that must never be shown.

use std::process::Stdio;

use crate::common::{Done, Sandbox, as_owner, jobwright, until};
use jobwright::internal::MIGRATIONS;

const SECRET: &str = "postgres://somebody:hunter2@127.0.0.1:1/nowhere?password=hunter2";

#[test]
fn exit_codes_distinguish_failures() {
    let sandbox = Sandbox::sqlite();
    sandbox.run(&["migrate"]).code(0);
    sandbox.run(&["--help"]).code(0);
    sandbox.run(&["jobs", "list", "--nonsense"]).code(2);
    sandbox.run(&[]).code(2);
    sandbox.run(&["jobs", "show", "01890a5d-ac96-774b-bcce-b302099a8057"]).code(1).says("finished jobs are not kept");
    sandbox.run(&["worker"]).code(2).says("[handlers.checksum]");
    sandbox.run(&["--config", "missing.toml", "status"]).code(2).says("missing.toml");
    sandbox.run(&["--database-url", "mysql://h/d", "status"]).code(2).says("mysql");
    sandbox.run(&["--database-url", "sqlite:no/such/directory/x.db", "status"]).code(2).says("does not exist");
    sandbox.run(&["--database-url", SECRET, "status"]).code(3).says("JW-UNREACHABLE");
}

#[test]
fn mistakes_come_with_suggestions() {
    let sandbox = Sandbox::sqlite();
    std::fs::write(sandbox.file("jobwright.toml"), "[executor]\nleese = \"1s\"\n").unwrap();
    sandbox
        .run(&["status"])
        .code(2)
        .says("unknown key `executor.leese` in jobwright.toml; did you mean `executor.lease`?");
    std::fs::write(sandbox.file("jobwright.toml"), "").unwrap();
    let mistyped = sandbox.command(&["status"]).env("JOBWRIGHT_EXECUTOR_LEESE", "1s").output().unwrap();
    Done::from(mistyped).code(2).says("did you mean JOBWRIGHT_EXECUTOR_LEASE?");
    std::fs::write(sandbox.file("jobwright.toml"), "[history]\nkeep = \"some\"\n").unwrap();
    sandbox.run(&["status"]).code(2).says("failed");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let sandbox = Sandbox::sqlite();
    std::fs::write(sandbox.file("jobwright.toml"), "[database]\nurl = \"sqlite:file.db\"\n").unwrap();
    let made = |name: &str| sandbox.file(name).exists();
    let mut plain = jobwright();
    plain.args(["migrate"]).current_dir(sandbox.path());
    Done::from(plain.output().unwrap()).success();
    assert!(made("file.db") && !made("env.db"));
    Done::from(plain.env("JOBWRIGHT_DATABASE_URL", "sqlite:env.db").output().unwrap()).success();
    assert!(made("env.db") && !made("flag.db"));
    Done::from(plain.args(["--database-url", "sqlite:flag.db"]).output().unwrap()).success();
    assert!(made("flag.db") && !made("jobwright.db"));
}

#[test]
fn no_database_given_is_a_file_here() {
    let sandbox = Sandbox::sqlite();
    let there =
        |arguments: &[&str]| Done::from(jobwright().args(arguments).current_dir(sandbox.path()).output().unwrap());
    there(&["migrate"]).success();
    assert!(sandbox.file("jobwright.db").exists());
    there(&["send", "x"]).success();
}

#[test]
fn no_secret_is_ever_shown() {
    let sandbox = Sandbox::sqlite();
    let check = |done: Done| assert!(!format!("{done:?}").contains("hunter2"), "{done:?}");
    let commands = [
        "migrate",
        "worker",
        "send",
        "status",
        "jobs",
        "jobs list",
        "jobs show",
        "jobs retry",
        "jobs delete",
        "demo",
        "broker",
        "broker apply",
        "doctor",
    ];
    for command in commands.iter().copied().chain([""]) {
        for help in ["--help", "-h"] {
            let words: Vec<&str> = command.split_whitespace().chain([help]).collect();
            check(
                Done::from(
                    sandbox.command(&words).env("DATABASE_URL", SECRET).env("AMQP_URL", SECRET).output().unwrap(),
                )
                .success(),
            );
        }
    }
    for args in
        [&["status"][..], &["-vv", "status"], &["migrate"], &["send", "x"], &["-vv", "jobs", "list"], &["doctor"]]
    {
        check(Done::from(sandbox.command(args).env("DATABASE_URL", SECRET).output().unwrap()).code(3));
        check(Done::from(sandbox.command(args).env("JOBWRIGHT_DATABASE_URL", SECRET).output().unwrap()).code(3));
    }
    std::fs::write(sandbox.file("jobwright.toml"), format!("[database]\nurl = \"{SECRET}\nschema = 1")).unwrap();
    check(sandbox.run(&["status"]).code(2).says("jobwright.toml, line 2"));
}

/// `jobwright jobs list | head -1`.
#[test]
fn a_closed_pipe_is_no_error() {
    let sandbox = Sandbox::sqlite();
    let lines = "x\n".repeat(5000);
    sandbox.run_with(&["send", "--lines", "kind"], lines.as_bytes()).success();
    for args in [&["jobs", "list", "--limit", "5000"][..], &["migrate"], &["migrate", "--print"], &["--help"]] {
        let mut child = sandbox.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        Done::from(child.wait_with_output().unwrap()).success();
        let mut child = sandbox.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert!(child.wait().unwrap().success(), "{args:?} with a closed stderr");
    }
}

/// A worker whose output is no longer read stops, and does not lose the job whose output could not be written.
#[test]
fn a_worker_without_a_reader_stops() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    sandbox.send(&["echo", "\"text\""]);
    let mut child = sandbox.command(&["worker"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    until("the worker to stop", || child.try_wait().unwrap().is_some());
    Done::from(child.wait_with_output().unwrap()).code(1).says("stdout was closed");
    let jobs = sandbox.list(&[]);
    assert_eq!((jobs.len(), jobs[0]["attempt"].as_u64()), (1, Some(0)), "{jobs:?}");
}

#[test]
fn the_schema_is_brought_up_on_request_only() {
    let sandbox = Sandbox::without_file();
    let print = sandbox.run(&["migrate", "--print"]).success();
    // What it prints makes a file that programs can use.
    let by_hand = rusqlite::Connection::open(sandbox.file("jobs.db")).unwrap();
    by_hand.execute_batch(&print.stdout).unwrap();
    drop(by_hand);
    sandbox.run(&["migrate", "--status"]).success();
    sandbox.send(&["x", "1"]);
    std::fs::remove_file(sandbox.file("jobs.db")).unwrap();
    std::fs::write(sandbox.file("jobs.db"), "").unwrap();
    sandbox.run(&["migrate", "--status"]).code(1).says("run `jobwright migrate`");
    sandbox.run(&["migrate"]).success().says(&format!("the schema is at version {0} ({0} change", MIGRATIONS.len()));
    sandbox.run(&["migrate", "--status"]).success();
    sandbox.run(&["migrate", "--output", "json"]).success().says("(0 changes applied now)");

    let Some(postgres) = Sandbox::postgres() else { return };
    let missing = |args: &[&str]| {
        let mut command = postgres.command(args);
        command.env("JOBWRIGHT_DATABASE_SCHEMA", "cli_schema_that_is_not_there");
        command.env("JOBWRIGHT_HANDLERS_X_COMMAND", "[\"cat\"]");
        Done::from(command.output().unwrap()).code(1).says("jobwright migrate")
    };
    missing(&["worker", "--drain"]);
    missing(&["send", "x"]);
    missing(&["status"]);
    // On a schema that exists the script ends with an error that says what to do.
    let script = |schema: &str| {
        let mut print = postgres.command(&["migrate", "--print"]);
        Done::from(print.env("JOBWRIGHT_DATABASE_SCHEMA", schema).output().unwrap()).success().stdout
    };
    let schema = postgres.schema().unwrap().replace("cli_", "printed_");
    let (first, again) = (as_owner(&script(&schema)), as_owner(&script(&schema)));
    let mut status = postgres.command(&["migrate", "--status"]);
    Done::from(status.env("JOBWRIGHT_DATABASE_SCHEMA", &schema).output().unwrap()).success();
    as_owner(&format!("drop schema {schema} cascade")).unwrap();
    first.unwrap();
    assert!(again.unwrap_err().contains("run `jobwright migrate`"));
}
