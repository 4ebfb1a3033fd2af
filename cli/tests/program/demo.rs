//! The guided tour runs to its end and leaves nothing behind.

use jobwright::{DatabaseConfig, Postgres};
use std::process::Stdio;

use crate::common::{Done, Sandbox, until};

/// The demo asks its database for these texts and numbers.
fn check(done: &Done) {
    for text in [
        "insert order 1; send its job; commit      1 order, 1 job, 0 invoices\n",
        "insert order 2; send its job; rollback    1 order, 1 job, 0 invoices\n",
        "a worker runs the job                            1 order, 0 jobs, 1 invoice\n",
        "each invoice is a",
        "killed worker process",
        "taken over from the killed worker",
        "every effect happened exactly once",
        "301 orders, each with one invoice, and no dead letter is left",
    ] {
        assert!(done.stdout.contains(text), "{done:?} does not say {text:?}");
    }
    // Sent, done, dead letters, unaccounted, (attempts), effects twice.
    for (part, accounted) in [
        ("orders", ["1", "1", "0", "0", "0"]),
        ("flood", ["300", "280", "20", "0", "0"]),
        ("takeover", ["300", "300", "0", "0", "0"]),
    ] {
        let row = done.stdout.lines().find(|line| line.starts_with(&format!("{part} "))).unwrap_or_default();
        let mut numbers: Vec<_> = row.split_whitespace().skip(1).collect();
        numbers.remove(4);
        assert_eq!(numbers, accounted, "{part}");
    }
    the_dead_letter_is_cured(&done.stdout, &done.stderr);
}

/// The commands of the operator were run: each is followed by what it prints.
fn the_dead_letter_is_cured(stdout: &str, stderr: &str) {
    let printed = |command: &str| {
        let (_, after) = stdout.split_once(&format!("$ jobwright {command}")).unwrap_or_else(|| panic!("{command}"));
        after.split_once('\n').unwrap().1.to_owned()
    };
    let groups = printed("jobs errors");
    let group: Vec<_> = groups.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(group[..3], ["20", "send-invoice", "flood"]);
    assert!(groups.contains("the customer has no address"));
    let sheet = printed("jobs show ");
    let id = sheet.lines().next().unwrap().split_whitespace().nth(1).unwrap();
    assert!(sheet.contains("the customer has no address") && sheet.contains("\"order\": "), "{sheet}");
    assert!(stdout.contains("set address = '3 Main Street' where address = '';\n20 rows\n"));
    assert!(printed(&format!("jobs retry {id}")).starts_with("1 job retried (1 dead before)\n"));
    let others = printed("jobs retry --state dead --error 'the customer has no address'");
    assert!(others.starts_with("19 jobs retried (19 dead before)\n"), "{others}");
    // The last command lists no dead letter.
    printed("jobs list --state dead");
    assert_eq!(stderr, "no job matches\n");
}

#[test]
fn embedded() {
    let sandbox = Sandbox::without_file();
    // Its database is a temporary file; the configured one is not touched.
    let mut command = sandbox.command(&["demo"]);
    let done = Done::from(command.env("TMPDIR", sandbox.path()).output().unwrap()).success();
    check(&done);
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn on_a_server() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let url = std::env::var("DATABASE_URL").unwrap();
    let done = sandbox.run(&["--database-url", &url, "demo"]).success();
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
