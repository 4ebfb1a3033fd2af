//! What commands do to the file of an embedded database: only some create it, and read-only ones change nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Sandbox, until};
use rusqlite::Connection;

/// Creates a file of another application, in SQLite's default journal mode.
fn of_another_installation(path: &Path) -> Vec<u8> {
    Connection::open(path)
        .unwrap()
        .execute_batch("create table orders (id integer); insert into orders values (1)")
        .unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn commands_that_need_a_database_make_none() {
    let sandbox = Sandbox::without_file();
    for command in [
        &["send", "x"][..],
        &["status"],
        &["jobs", "list"],
        &["jobs", "cancel", "--kind", "x"],
        &["queues", "list"],
        &["queues", "pause", "x"],
        &["rules", "list"],
        &["nodes", "list"],
        &["audit", "list"],
        &["schedules", "list"],
        &["migrate", "--status"],
    ] {
        sandbox
            .run(command)
            .code(2)
            .says("there is no database at")
            .says("`jobwright migrate` or `jobwright worker` creates it");
        assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0, "{command:?}");
    }
    assert!(sandbox.run(&["doctor"]).stdout.contains("does not exist"));
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0);
    sandbox.run(&["migrate"]).success();
    sandbox.run(&["send", "x"]).success();
}

#[test]
fn a_worker_makes_its_database() {
    let sandbox = Sandbox::without_file();
    sandbox.configure("[handlers.x]\ncommand = [\"true\"]");
    sandbox.run(&["worker", "--drain"]).success();
    sandbox.run(&["send", "x"]).success();
}

#[test]
fn the_file_of_another_application_stays_as_it_is() {
    let sandbox = Sandbox::without_file();
    let file = sandbox.file("jobs.db");
    let before = of_another_installation(&file);
    for command in [&["migrate", "--status"][..], &["doctor"], &["status"], &["send", "x"], &["jobs", "list"]] {
        sandbox.run(command);
        assert!(std::fs::read(&file).unwrap() == before, "{command:?} changed it");
        assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 1, "{command:?} left something beside it");
    }
    sandbox.run(&["send", "x"]).code(2).says("has no tables of jobwright");
    sandbox.run(&["migrate", "--status"]).says("missing");
    // A user who shares the file with an application states that once.
    sandbox.run(&["migrate"]).success();
    sandbox.run(&["send", "x"]).success();
    let orders: i64 =
        Connection::open(&file).unwrap().query_row("select count(*) from orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);
}

#[test]
fn parts_of_a_uri_are_refused() {
    let sandbox = Sandbox::without_file();
    for (url, why) in [
        ("sqlite:jobs.db?mode=ro", "takes no options"),
        ("sqlite:file:jobs.db", "not by a `file:` URI"),
        ("sqlite:file::memory:", "not by a `file:` URI"),
        ("sqlite::memory:", "needs a file"),
    ] {
        for command in ["migrate", "doctor", "status"] {
            let done = sandbox.run(&["--database-url", url, command]);
            let said = format!("{}{}", done.stdout, done.stderr);
            assert!(said.contains(why), "{url} {command}: {said}");
        }
    }
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0);
}

#[test]
fn too_many_times_are_called_that() {
    let sandbox = Sandbox::sqlite();
    sandbox
        .run(&["schedules", "put", "s", "PT1H", "x", "--times", "18446744073709551615"])
        .code(2)
        .says("use at most 9223372036854775807");
}

/// Another process holds the file's write lock; no job runs, so there is nothing to wait for.
#[test]
fn an_idle_worker_stops_at_once_beside_a_held_write_lock() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.x]\ncommand = [\"true\"]");
    let log = sandbox.file("worker.log");
    let mut worker = sandbox
        .command(&["worker"])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    until("the worker", || std::fs::read_to_string(&log).unwrap().contains("ready"));
    let holder = Connection::open(sandbox.file("jobs.db")).unwrap();
    until("the write lock", || holder.execute_batch("begin immediate").is_ok());
    let asked = Instant::now();
    assert!(Command::new("kill").arg(worker.id().to_string()).status().unwrap().success());
    worker.wait().unwrap();
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}: {}", std::fs::read_to_string(&log).unwrap());
    holder.execute_batch("rollback").unwrap();
}
