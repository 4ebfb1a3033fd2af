//! A database that accepts connections and does not answer, as with a stopped process or a pulled cable.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Sandbox;

/// Returns the first line of stderr, how long it took, and the exit code.
fn first_word(args: &[&str], url: &str) -> (String, Duration, Option<i32>) {
    let sandbox = Sandbox::sqlite();
    first_word_of(sandbox.command(&[&["--database-url", url], args].concat()))
}

fn first_word_of(mut command: Command) -> (String, Duration, Option<i32>) {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let took = began.elapsed();
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
    (line, took, child.wait().unwrap().code())
}

/// The database accepts the connection, and then blocks the queries.
#[test]
fn a_database_that_stalls_after_the_connection_is_said_too() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let url = std::env::var("DATABASE_URL").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (client, connection) = runtime.block_on(tokio_postgres::connect(&url, tokio_postgres::NoTls)).unwrap();
    runtime.spawn(connection);
    let schema = sandbox.schema().unwrap();
    let locks = ["job", "rule", "node", "audit", "schedule"].map(|table| format!("{schema}.{table}")).join(", ");
    runtime.block_on(client.batch_execute(&format!("begin; lock table {locks} in access exclusive mode"))).unwrap();
    for args in [
        &["status"][..],
        &["jobs", "list"],
        &["jobs", "show", "01890a5d-ac96-774b-bcce-b302099a8057"],
        &["queues", "list"],
        &["rules", "list"],
        &["nodes", "list"],
        &["audit", "list"],
        &["schedules", "list"],
        &["doctor"],
    ] {
        let mut command = sandbox.command(args);
        command.env("JOBWRIGHT_DATABASE_CALL_TIMEOUT", "3s");
        let (line, took, _) = first_word_of(command);
        assert!(line.contains("does not answer"), "{args:?}: {line:?}");
        assert!(took < Duration::from_millis(2500), "{args:?} said nothing for {took:?}");
    }
}

#[test]
fn a_database_that_does_not_answer_is_said_while_it_is_waited_for() {
    // The kernel accepts connections in its place.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox = silent.local_addr().unwrap().to_string();
    let url = format!("postgres://user:hunter2@{sandbox}/app");
    for args in [&["status"][..], &["jobs", "list"], &["--quiet", "status", "--output", "json"]] {
        let (line, took, code) = first_word(args, &url);
        assert!(line.contains("does not answer") && line.contains(&sandbox), "{args:?}: {line}");
        assert!(!line.contains("hunter2"), "{line}");
        // The message comes within a second; the rest is for a busy machine. The deadline for connecting is 5 s.
        assert!(took < Duration::from_millis(2500), "{args:?} said nothing for {took:?}");
        assert_eq!(code, Some(3));
    }
}
