//! What programs that run jobs are told, and what not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;

use common::{Done, Place};

const PASSWORD: &str = "hunter2";

/// A payload may make a program print its environment, and a job's errors are shown to many.
#[test]
fn programs_get_no_password_of_their_worker() {
    let place = Place::sqlite();
    place.configure(
        r#"
        [handlers.shows]
        command = ["env"]
        [handlers.sends]
        command = ["sh", "-c", "$JOBWRIGHT_HEADER_PROGRAM send child"]
        [handlers.trusted]
        command = ["sh", "-c", "env | grep -c hunter2; $JOBWRIGHT_HEADER_PROGRAM send child"]
        pass_urls = true
        "#,
    );
    let program = concat!("program=", env!("CARGO_BIN_EXE_jobwright"));
    place.send(&["shows"]);
    place.send(&["sends", "--header", program, "--max-attempts", "1"]);
    place.send(&["trusted", "--header", program]);
    let mut worker = place.command(&["worker", "--drain"]);
    // Nobody listens there: a broker that is away keeps no job from running.
    worker.env("AMQP_URL", format!("amqp://guest:{PASSWORD}@127.0.0.1:1/%2f"));
    worker.env("JOBWRIGHT_BROKER_URL", format!("amqp://guest:{PASSWORD}@127.0.0.1:1/%2f"));
    // That of another handler, which no program needs.
    worker.env("JOBWRIGHT_HANDLERS_HOOK_URL", format!("https://u:{PASSWORD}@127.0.0.1:1/x?token={PASSWORD}"));
    worker.env("JOBWRIGHT_HANDLERS_HOOK_TIMEOUT", "1m");
    let stdout = Done::from(worker.output().unwrap()).success().stdout;
    assert!(stdout.contains("JOBWRIGHT_KIND=shows") && !stdout.contains(PASSWORD), "{stdout}");
    assert!(!stdout.contains("DATABASE_URL="), "{stdout}");
    assert!(stdout.lines().any(|line| line == "2"), "the trusted one has both, and no more: {stdout}");
    // The one that may not know where the jobs are does not send elsewhere.
    let dead = place.list(&["--state", "dead"]);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["kind"], "sends");
    assert!(dead[0].to_string().contains("pass_urls"), "{dead:?}");
    assert_eq!(place.list(&["--kind", "child"]).len(), 1);
}

/// Which of them would win is chance, so neither does, and nothing of the worker's own takes the place.
#[test]
fn headers_of_the_same_variable_are_told_as_json_only() {
    let place = Place::sqlite();
    place.configure("[handlers.shows]\ncommand = [\"env\"]\n");
    place.send(&["shows", "--header", "a-b=1", "--header", "a_b=2", "--header", "c=3"]);
    let mut worker = place.command(&["worker", "--drain"]);
    worker.env("JOBWRIGHT_HEADER_A_B", "the worker's").env("JOBWRIGHT_HEADERS", "the worker's");
    let stdout = Done::from(worker.output().unwrap()).success().stdout;
    assert!(!stdout.contains("JOBWRIGHT_HEADER_A_B="), "{stdout}");
    for line in ["JOBWRIGHT_HEADER_C=3", r#"JOBWRIGHT_HEADERS={"a-b":"1","a_b":"2","c":"3"}"#] {
        assert!(stdout.lines().any(|found| found == line), "{stdout} has no {line}");
    }
}

/// What programs and producers wrote is shown in listings, by terminals that obey.
#[test]
fn listings_show_what_would_steer_a_terminal() {
    let place = Place::sqlite();
    let header = "note=a\u{9b}31m\u{7f}\u{202e}b";
    let id = place.send(&["e\u{202e}cho", "--header", header]);
    for args in [
        &["jobs", "show", &id][..],
        &["jobs", "show", &id, "--output", "json"],
        &["jobs", "list"],
        &["jobs", "list", "--output", "json"],
    ] {
        let shown = place.run(args).success().stdout;
        assert!(!shown.contains(['\u{9b}', '\u{7f}', '\u{202e}']) && shown.contains("202e"), "{shown}");
    }
    assert_eq!(place.show(&id)["headers"]["note"], header.trim_start_matches("note="));
}

#[cfg(unix)]
#[test]
fn files_with_payloads_and_passwords_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::sqlite();
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    place.configure(
        "[handlers.slow]\ncommand = [\"sleep\", \"1000\"]\n[broker]\nurl = \"amqp://guest:pw@127.0.0.1:1/%2f\"\nconnect_timeout = \"100ms\"\n\
         [seal]\nkey = \"a\"\n[seal_keys.a]\nfile = \"a.key\"\n",
    );
    std::fs::write(place.file("a.key"), key).unwrap();
    let set = |name: &str, mode| {
        std::fs::set_permissions(place.file(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set("jobwright.toml", 0o600);
    set("a.key", 0o600);
    place.send(&["slow"]);
    let _worker = place.worker(&[]);
    common::until("the job to run", || place.list(&["--state", "running"]).len() == 1);
    for file in ["jobs.db", "jobs.db-wal", "jobs.db-shm"] {
        let mode = std::fs::metadata(place.file(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let open = || {
        place.run(&["doctor"]).stdout.lines().filter(|line| line.contains("everybody on this machine may read")).count()
    };
    assert_eq!(open(), 0);
    set("jobwright.toml", 0o644);
    assert_eq!(open(), 1);
    set("jobs.db", 0o644);
    assert_eq!(open(), 2);
    set("a.key", 0o644);
    assert_eq!(open(), 3);
}
