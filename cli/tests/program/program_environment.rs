//! Which information programs that run jobs get, and which they do not.

use crate::common::{Done, Sandbox};

const PASSWORD: &str = "hunter2";

/// A payload may make a program print its environment, and many people can see a job's errors.
#[test]
fn programs_get_no_password_of_their_worker() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure(
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
    sandbox.send(&["shows"]);
    sandbox.send(&["sends", "--header", program, "--max-attempts", "1"]);
    sandbox.send(&["trusted", "--header", program]);
    let mut worker = sandbox.command(&["worker", "--drain"]);
    // Nothing listens there: jobs run without the broker.
    worker.env("AMQP_URL", format!("amqp://guest:{PASSWORD}@127.0.0.1:1/%2f"));
    worker.env("JOBWRIGHT_BROKER_URL", format!("amqp://guest:{PASSWORD}@127.0.0.1:1/%2f"));
    // A variable of another handler, which no program needs.
    worker.env("JOBWRIGHT_HANDLERS_HOOK_URL", format!("https://u:{PASSWORD}@127.0.0.1:1/x?token={PASSWORD}"));
    worker.env("JOBWRIGHT_HANDLERS_HOOK_TIMEOUT", "1m");
    let stdout = Done::from(worker.output().unwrap()).success().stdout;
    assert!(stdout.contains("JOBWRIGHT_KIND=shows") && !stdout.contains(PASSWORD), "{stdout}");
    assert!(!stdout.contains("DATABASE_URL="), "{stdout}");
    assert!(stdout.lines().any(|line| line == "2"), "the trusted one has both, and no more: {stdout}");
    // The program that may not know the database does not send elsewhere.
    let dead = sandbox.list(&["--state", "dead"]);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["kind"], "sends");
    assert!(dead[0].to_string().contains("pass_urls"), "{dead:?}");
    assert_eq!(sandbox.list(&["--kind", "child"]).len(), 1);
}

/// Which of the two wins would be chance, so neither does, and no variable of the worker takes its place.
#[test]
fn headers_that_share_a_variable_are_passed_as_json_only() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.shows]\ncommand = [\"env\"]\n");
    sandbox.send(&["shows", "--header", "a-b=1", "--header", "a_b=2", "--header", "c=3"]);
    let mut worker = sandbox.command(&["worker", "--drain"]);
    worker.env("JOBWRIGHT_HEADER_A_B", "the worker's").env("JOBWRIGHT_HEADERS", "the worker's");
    let stdout = Done::from(worker.output().unwrap()).success().stdout;
    assert!(!stdout.contains("JOBWRIGHT_HEADER_A_B="), "{stdout}");
    for line in ["JOBWRIGHT_HEADER_C=3", r#"JOBWRIGHT_HEADERS={"a-b":"1","a_b":"2","c":"3"}"#] {
        assert!(stdout.lines().any(|found| found == line), "{stdout} has no {line}");
    }
}

/// Listings show text of programs and producers in terminals, which interpret control characters.
#[test]
fn listings_escape_control_characters() {
    let sandbox = Sandbox::sqlite();
    let header = "note=a\u{9b}31m\u{7f}\u{202e}b";
    let id = sandbox.send(&["e\u{202e}cho", "--header", header]);
    for args in [
        &["jobs", "show", &id][..],
        &["jobs", "show", &id, "--output", "json"],
        &["jobs", "list"],
        &["jobs", "list", "--output", "json"],
    ] {
        let shown = sandbox.run(args).success().stdout;
        assert!(!shown.contains(['\u{9b}', '\u{7f}', '\u{202e}']) && shown.contains("202e"), "{shown}");
    }
    assert_eq!(sandbox.show(&id)["headers"]["note"], header.trim_start_matches("note="));
}

#[cfg(unix)]
#[test]
fn files_with_payloads_and_passwords_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let sandbox = Sandbox::sqlite();
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    sandbox.configure(
        "[handlers.slow]\ncommand = [\"sleep\", \"1000\"]\n[broker]\nurl = \"amqp://guest:pw@127.0.0.1:1/%2f\"\nconnect_timeout = \"100ms\"\n\
         [seal]\nkey = \"a\"\n[seal_keys.a]\nfile = \"a.key\"\n",
    );
    std::fs::write(sandbox.file("a.key"), key).unwrap();
    let set = |name: &str, mode| {
        std::fs::set_permissions(sandbox.file(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set("jobwright.toml", 0o600);
    set("a.key", 0o600);
    sandbox.send(&["slow"]);
    let _worker = sandbox.worker(&[]);
    crate::common::until("the job to run", || sandbox.list(&["--state", "running"]).len() == 1);
    for file in ["jobs.db", "jobs.db-wal", "jobs.db-shm"] {
        let mode = std::fs::metadata(sandbox.file(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let open = || {
        sandbox
            .run(&["doctor"])
            .stdout
            .lines()
            .filter(|line| line.contains("everybody on this machine may read"))
            .count()
    };
    assert_eq!(open(), 0);
    set("jobwright.toml", 0o644);
    assert_eq!(open(), 1);
    set("jobs.db", 0o644);
    assert_eq!(open(), 2);
    set("a.key", 0o644);
    assert_eq!(open(), 3);
}
