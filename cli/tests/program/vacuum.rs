//! What keeps dead rows from being cleaned up, as the doctor and the exporter see it. Each test has a server of its own: on a shared one the transactions
//! of other tests are older.

use serde_json::Value;
use tokio_postgres::Client;

use crate::common::server::Server;
use crate::common::{Worker, until};
use crate::metrics::{get, port, value};
use crate::private_pg::PrivatePg;

/// `None`: there is no PostgreSQL to be tested with.
fn start() -> Option<Server> {
    Server::start(|| PrivatePg::start_with(&["max_prepared_transactions = 2"], &[]))
}

/// Opens a session that has run these statements.
fn session(server: &Server, url: &str, sql: &str) -> Client {
    let client = server.session(url);
    server.run_in(&client, sql);
    client
}

/// Returns the oldest that the doctor found.
fn oldest(server: &Server) -> String {
    let done = server.sandbox.run(&["doctor", "--output", "json"]);
    let findings: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    let found = findings.iter().find(|finding| finding["check"] == "oldest transaction").unwrap();
    found["found"].as_str().unwrap().to_owned()
}

fn exporter(server: &Server) -> (Worker, u16) {
    let exporter = Worker::start_in(&mut server.sandbox.command(&["exporter", "--listen", "0", "--every", "100ms"]));
    let port = port(&exporter);
    (exporter, port)
}

/// Waits for a row of the exporter with a value that is right.
fn shows(port: u16, name: &str, labels: &[(&str, &str)], is_right: impl Fn(f64) -> bool) {
    until(&format!("{name} {labels:?}"), || {
        value(&get(port, "/metrics", "*/*").text, name, labels).is_some_and(&is_right)
    });
}

#[test]
fn what_holds_dead_rows_is_seen() {
    let Some(server) = start() else { return };
    assert_eq!(oldest(&server), "none");
    let (_exporter, port) = exporter(&server);
    let seconds = |holder, is_right: &dyn Fn(f64) -> bool| {
        shows(port, "jobwright_xmin_age_seconds", &[("holder", holder)], is_right);
    };
    seconds("prepared transaction", &|age| age == 0.0);
    shows(port, "jobwright_hidden_sessions", &[], |count| count == 0.0);

    // It has written, has no snapshot any more, and waits for its client.
    let url = server.postgres.url();
    let writer = session(&server, &url, "create table written (n int)");
    server.run_in(&writer, "begin; insert into written values (1)");
    seconds("session", &|age| age > 1.0);
    assert!(oldest(&server).starts_with("the session "), "{}", oldest(&server));
    server.run_in(&writer, "rollback");
    // Those of the exporter itself are short.
    seconds("session", &|age| age < 1.0);

    server.run_in(&writer, "begin; insert into written values (1); prepare transaction 'forgotten'");
    seconds("prepared transaction", &|age| age > 1.0);
    let oldest = oldest(&server);
    assert!(oldest.starts_with("the prepared transaction forgotten of postgres"), "{oldest}");
    server.run_in(&writer, "rollback prepared 'forgotten'");
    seconds("prepared transaction", &|age| age == 0.0);

    // Rows of one database are not held by transactions of another.
    server.run_in(&writer, "create database other");
    let (server_url, _) = url.rsplit_once('/').unwrap();
    let other = format!("{server_url}/other");
    let elsewhere = session(&server, &other, "begin isolation level repeatable read; select 1");
    std::thread::sleep(std::time::Duration::from_millis(1200));
    seconds("session", &|age| age < 1.0);
    drop(elsewhere);
}

#[test]
fn dead_rows_are_counted_by_table() {
    let Some(server) = start() else { return };
    let (_exporter, port) = exporter(&server);
    shows(port, "jobwright_dead_rows", &[("table", "job")], |count| count == 0.0);
    for _ in 0..3 {
        server.sandbox.send(&["kind"]);
    }
    let _session = session(&server, &server.postgres.url(), "delete from jobwright.job");
    shows(port, "jobwright_dead_rows", &[("table", "job")], |count| (2.5..3.5).contains(&count));
    shows(port, "jobwright_dead_rows", &[("table", "timer_job")], |count| count == 0.0);
}

/// Without a slot, it is the standby's session that holds the rows: it has no transaction, and so no time.
#[test]
fn a_standby_that_sends_feedback_is_seen() {
    let Some(server) = start() else { return };
    let standby = PrivatePg::standby_of(&server.postgres);
    let feedback = session(&server, &standby.url(), "alter system set hot_standby_feedback = on");
    server.run_in(&feedback, "alter system set wal_receiver_status_interval = 1");
    server.run_in(&feedback, "select pg_reload_conf()");
    until("the standby", || oldest(&server).starts_with("the standby "));
    let (_exporter, port) = exporter(&server);
    let holder = session(&server, &standby.url(), "begin isolation level repeatable read; select 1");
    let _sessions: Vec<_> =
        (0..5).map(|_| session(&server, &server.postgres.url(), "select pg_current_xact_id()")).collect();
    shows(port, "jobwright_xmin_age_transactions", &[("holder", "standby")], |age| age >= 4.0);
    drop((holder, feedback));
}
