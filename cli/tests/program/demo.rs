//! The guided tour runs to its end and leaves nothing behind.

use jobwright::{DatabaseConfig, Postgres};
use std::process::Stdio;

use crate::common::{Done, Sandbox, until};

fn check(done: &Done) {
    for text in [
        "b is synchronous: one transaction",
        "b is asynchronous: two transactions",
        "job \"execute-node\": one row",
        "20 dead letters",
        "taken over from the killed worker",
        "every effect happened exactly once",
    ] {
        assert!(done.stdout.contains(text), "{done:?} does not say {text:?}");
    }
}

#[test]
fn embedded() {
    let sandbox = Sandbox::without_file();
    // Its database is a temporary file; the configured one is not touched.
    let mut command = sandbox.command(&["demo", "--jobs", "1000"]);
    let done = Done::from(command.env("TMPDIR", sandbox.path()).output().unwrap()).success();
    check(&done);
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn on_a_server() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let url = std::env::var("DATABASE_URL").unwrap();
    let done = sandbox.run(&["--database-url", &url, "demo", "--jobs", "1000"]).success();
    check(&done);
    let schema = done.stdout.split("(schema ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    let migrations = Postgres::migrations(&DatabaseConfig::url(url.as_str()).schema(schema))
        .unwrap()
        .matches("-- migration ")
        .count();
    let mut status = sandbox.command(&["migrate", "--status"]);
    Done::from(status.env("JOBWRIGHT_DATABASE_SCHEMA", schema).output().unwrap())
        .code(1)
        .says(&format!("{migrations} missing"));
}

#[test]
fn stopped_early() {
    let sandbox = Sandbox::without_file();
    let mut command = sandbox.command(&["demo"]);
    let mut child =
        command.env("TMPDIR", sandbox.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the database", || std::fs::read_dir(sandbox.path()).unwrap().count() > 0);
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    until("the end", || child.try_wait().unwrap().is_some());
    Done::from(child.wait_with_output().unwrap()).code(1).says("stopped by SIGTERM");
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0, "something was left behind");
}
