//! What commands do to the file of an embedded database: only some make one, and those that look change nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Place, until};
use rusqlite::Connection;

/// A file of another application, in the journal mode that SQLite has by itself.
fn of_somebody_else(path: &Path) -> Vec<u8> {
    Connection::open(path)
        .unwrap()
        .execute_batch("create table orders (id integer); insert into orders values (1)")
        .unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn commands_that_need_a_database_make_none() {
    let place = Place::without_file();
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
        place
            .run(command)
            .code(2)
            .says("there is no database at")
            .says("`jobwright migrate` or `jobwright worker` creates it");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "{command:?}");
    }
    assert!(place.run(&["doctor"]).stdout.contains("does not exist"));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    place.run(&["migrate"]).success();
    place.run(&["send", "x"]).success();
}

#[test]
fn a_worker_makes_its_database() {
    let place = Place::without_file();
    place.configure("[handlers.x]\ncommand = [\"true\"]");
    place.run(&["worker", "--drain"]).success();
    place.run(&["send", "x"]).success();
}

#[test]
fn the_file_of_another_application_stays_as_it_is() {
    let place = Place::without_file();
    let file = place.file("jobs.db");
    let before = of_somebody_else(&file);
    for command in [&["migrate", "--status"][..], &["doctor"], &["status"], &["send", "x"], &["jobs", "list"]] {
        place.run(command);
        assert!(std::fs::read(&file).unwrap() == before, "{command:?} changed it");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "{command:?} left something beside it");
    }
    place.run(&["send", "x"]).code(2).says("has no tables of jobwright");
    place.run(&["migrate", "--status"]).says("missing");
    // Who shares a file with the application says so, once.
    place.run(&["migrate"]).success();
    place.run(&["send", "x"]).success();
    let orders: i64 =
        Connection::open(&file).unwrap().query_row("select count(*) from orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);
}

#[test]
fn parts_of_a_uri_are_refused() {
    let place = Place::without_file();
    for (url, why) in [
        ("sqlite:jobs.db?mode=ro", "takes no options"),
        ("sqlite:file:jobs.db", "not by a `file:` URI"),
        ("sqlite:file::memory:", "not by a `file:` URI"),
        ("sqlite::memory:", "needs a file"),
    ] {
        for command in ["migrate", "doctor", "status"] {
            let done = place.run(&["--database-url", url, command]);
            let said = format!("{}{}", done.stdout, done.stderr);
            assert!(said.contains(why), "{url} {command}: {said}");
        }
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn too_many_times_are_called_that() {
    let place = Place::sqlite();
    place
        .run(&["schedules", "put", "s", "PT1H", "x", "--times", "18446744073709551615"])
        .code(2)
        .says("use at most 9223372036854775807");
}

/// Somebody else holds the file's write lock; nothing runs, so there is nothing to wait for.
#[test]
fn an_idle_worker_stops_at_once_beside_a_held_write_lock() {
    let place = Place::sqlite();
    place.configure("[handlers.x]\ncommand = [\"true\"]");
    let log = place.file("worker.log");
    let mut worker =
        place.command(&["worker"]).stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    until("the worker", || std::fs::read_to_string(&log).unwrap().contains("ready"));
    let holder = Connection::open(place.file("jobs.db")).unwrap();
    until("the write lock", || holder.execute_batch("begin immediate").is_ok());
    let asked = Instant::now();
    assert!(Command::new("kill").arg(worker.id().to_string()).status().unwrap().success());
    worker.wait().unwrap();
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}: {}", std::fs::read_to_string(&log).unwrap());
    holder.execute_batch("rollback").unwrap();
}
