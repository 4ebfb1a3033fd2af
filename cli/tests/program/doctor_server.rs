//! Findings of the doctor about a server: each fault is made on a server of its own, and the advice is played.

use std::time::Duration;

use jobwright::internal::HandOutNumber;

use crate::common::server::Server;
use crate::common::{Done, until};
use crate::doctor::{advice, doctor, found};
use crate::private_pg::PrivatePg;

fn start(start: impl FnOnce() -> PrivatePg) -> Option<Server> {
    let server = Server::start(start)?;
    server.sandbox.configure("[handlers.mail]\ncommand = [\"true\"]\n");
    Some(server)
}

/// Runs the checks as a role.
fn doctor_as(server: &Server, role: &str) -> Done {
    server.run_as(role, "postgres", &["doctor", "--output", "json"])
}

/// Returns the first command of an advice.
fn command(advice: &str) -> &str {
    advice.split('`').nth(1).unwrap()
}

/// A schema of the search path in which anybody may create functions, and sessions that a role may not look at.
#[test]
fn an_open_search_path_and_hidden_sessions() {
    let Some(server) = start(PrivatePg::start) else { return };
    server.run("create role worker login");
    server.run(&server.sandbox.run(&["grants", "executor", "worker"]).success().stdout);
    let path = || found(&doctor_as(&server, "worker"), "search path").remove(0);
    assert_eq!(path().0, "ok");
    server.run("create schema shared; grant create, usage on schema shared to public");
    server.run("alter role worker set search_path = shared, public");
    let (state, text) = path();
    assert!(state == "warn" && text.contains("public may create objects in the schema shared"), "{text}");
    server.run(command(&advice(&doctor_as(&server, "worker"), "search path")));
    assert_eq!(path().0, "ok");

    // One that has written, and whose age the role can't see.
    let other = server.session(&server.postgres.url());
    server.run_in(&other, "begin; create table written ()");
    let oldest = || found(&doctor_as(&server, "worker"), "oldest transaction").remove(0);
    let (state, text) = oldest();
    assert!(state == "warn" && text.contains("sessions of others hide theirs from this role"), "{text}");
    let grant = advice(&doctor_as(&server, "worker"), "oldest transaction");
    server.run(&command(&grant).replace("ROLE", "worker"));
    let (state, text) = oldest();
    assert!(state == "ok" && text.contains("the session "), "{text}");
}

#[test]
fn a_published_table_that_can_not_be_changed() {
    let Some(server) = start(|| PrivatePg::start_with(&["wal_level = logical"], &[])) else { return };
    server.run("create publication everything for all tables");
    let published = || found(&doctor(&server.sandbox), "publications").remove(0);
    assert_eq!(published().0, "ok");
    server.run("alter table jobwright.job replica identity nothing");
    let (state, text) = published();
    assert!(state == "fail" && text.contains("job (in everything)"), "{text}");
    let advice = advice(&doctor(&server.sandbox), "publications");
    assert!(advice.contains("`alter table … replica identity default`"), "{advice}");
    server.run("alter table jobwright.job replica identity default");
    assert_eq!(published().0, "ok");
}

#[test]
fn a_clock_that_is_ahead() {
    let Some(server) = start(PrivatePg::start_with_clock) else { return };
    let clock = || found(&doctor(&server.sandbox), "clock").remove(0);
    assert_eq!(clock().0, "ok");
    server.postgres.set_clock(3600);
    let (state, text) = clock();
    let ahead: f64 = text.split('+').nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    assert!(state == "warn" && (3_590.0..3_610.0).contains(&ahead), "{text}");
    assert!(advice(&doctor(&server.sandbox), "clock").contains("synchronise both by NTP"));
    server.postgres.set_clock(0);
    assert_eq!(clock().0, "ok");
}

/// Its worker does not report, and no executor takes the job back.
#[test]
fn a_job_that_stays_with_an_external_worker() {
    let Some(server) = start(PrivatePg::start) else { return };
    let id = server.sandbox.send(&["mail", "--queue", "partner"]);
    server.block_on(async {
        let messages = server.sandbox.messages().await;
        let handed = messages.engine().hand_out("partner", 1, Duration::from_secs(60), HandOutNumber::new(1)).await;
        assert_eq!(handed.unwrap().len(), 1);
    });
    assert_eq!(found(&doctor(&server.sandbox), "due work")[0].0, "ok");
    server.run("update jobwright.external_job set lease_until = now() - interval '5 minutes'");
    let (state, text) = found(&doctor(&server.sandbox), "due work").remove(0);
    assert!(state == "warn" && text.contains("leases of external workers have been due for"), "{text}");
    assert!(advice(&doctor(&server.sandbox), "due work").contains("start `jobwright worker`"));
    let _worker = server.sandbox.worker(&[]);
    until("the job to be taken back", || server.sandbox.show(&id)["state"] == "waiting");
    assert_eq!(found(&doctor(&server.sandbox), "due work")[0].0, "ok");
}
