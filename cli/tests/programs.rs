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
    let stdout = Done::from(worker.output().unwrap()).success().stdout;
    assert!(stdout.contains("JOBWRIGHT_KIND=shows") && !stdout.contains(PASSWORD), "{stdout}");
    assert!(!stdout.contains("DATABASE_URL="), "{stdout}");
    assert!(stdout.lines().any(|line| line == "2"), "the trusted one has both: {stdout}");
    // The one that may not know where the jobs are does not send elsewhere.
    let dead = place.list(&["--state", "dead"]);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["kind"], "sends");
    assert!(dead[0].to_string().contains("pass_urls"), "{dead:?}");
    assert_eq!(place.list(&["--kind", "child"]).len(), 1);
}
