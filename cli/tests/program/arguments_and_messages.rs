//! The program's arguments and messages.

use crate::common::{Done, Sandbox, until};

/// Ctrl-C of an idle worker ends it with success, however often it comes.
#[test]
fn an_impatient_stop_of_an_idle_worker_is_no_failure() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    let mut worker = sandbox.worker(&[]);
    until("the worker", || worker.said().contains("ready"));
    worker.signal("INT");
    worker.signal("TERM");
    worker.signal("INT");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    assert!(!worker.said().contains("stopped before"), "{}", worker.said());
}

#[test]
fn an_empty_rust_log_is_none() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    let done = sandbox.command(&["worker", "--drain"]).env("RUST_LOG", "").output().unwrap();
    Done::from(done).success().says("worker stopped");
}

#[test]
fn an_unreadable_time_is_refused_with_an_example() {
    let sandbox = Sandbox::sqlite();
    let id = sandbox.send(&["echo"]);
    for args in [
        &["send", "echo", "--at", "tomorrow"][..],
        &["jobs", "change", &id, "--at", "2030-01-01"],
        &["schedules", "backfill", "x", "--from", "yesterday", "--to", "2030-01-01T00:00:00Z"],
    ] {
        sandbox.run(args).code(2).says("2026-03-29T14:00:00+02:00");
    }
}

#[test]
fn an_eviction_can_be_tried_first() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.slow]\ncommand = [\"sleep\", \"1000\"]\n");
    let id = sandbox.send(&["slow"]);
    let _worker = sandbox.worker(&[]);
    until("the job to run", || sandbox.show(&id)["state"] == "running");
    let nodes: serde_json::Value =
        serde_json::from_str(&sandbox.run(&["nodes", "list", "--output", "json"]).success().stdout).unwrap();
    let node = nodes[0]["id"].to_string();
    let dry = sandbox.run(&["nodes", "evict", &node, "--dry-run"]).success().stdout;
    assert!(dry.contains("its jobs (1) would be released"), "{dry}");
    assert_eq!(sandbox.show(&id)["state"], "running");
    sandbox.run(&["nodes", "evict", "1234567", "--dry-run"]).code(1).says("there is no node 1234567");
}

#[test]
fn a_queue_without_a_rule_is_said_to_have_none() {
    let sandbox = Sandbox::sqlite();
    sandbox.run(&["queues", "pause", "mail"]).success();
    let said = sandbox.run(&["queues", "resume", "mail"]).success().stdout;
    assert_eq!(said, "queue mail: no rule any more\n");
}

#[test]
fn numbers_that_mean_nothing_are_refused_with_their_range() {
    let sandbox = Sandbox::sqlite();
    for priority in ["-32768", "32768", "high"] {
        sandbox.run(&["send", "echo", "--priority", priority]).code(2).says("write -32767 to 32767");
    }
    for args in [&["jobs", "list"][..], &["jobs", "errors"], &["jobs", "history"], &["audit", "list"]] {
        sandbox.run(&[args, &["--limit", "0"]].concat()).code(2).says("write 1 or more");
    }
    sandbox.run(&["jobs", "retry", "--all", "--limit", "0"]).code(2);
    assert!(sandbox.list(&[]).is_empty());
}

/// Many programs call it so.
#[test]
fn json_is_another_name_of_output_json() {
    let sandbox = Sandbox::sqlite();
    let id = sandbox.send(&["echo"]);
    let asked = sandbox.run(&["jobs", "show", &id, "--json"]).success().stdout;
    assert_eq!(asked, sandbox.run(&["jobs", "show", &id, "--output", "json"]).success().stdout);
    sandbox.run(&["jobs", "show", &id, "--json", "--output", "table"]).code(2);
}

/// On a terminal, unless the user wants none.
#[test]
fn the_doctor_has_colors_on_a_terminal() {
    let sandbox = Sandbox::sqlite();
    let seen = |no_color: &str| {
        let program = env!("CARGO_BIN_EXE_jobwright");
        let mut terminal = std::process::Command::new("script");
        terminal.args(["--quiet", "--command", &format!("{program} doctor"), "/dev/null"]).current_dir(sandbox.path());
        let mut terminal = crate::common::without_settings(terminal);
        terminal.env("DATABASE_URL", "sqlite:jobs.db").env("TERM", "xterm").env("NO_COLOR", no_color);
        String::from_utf8(terminal.output().unwrap().stdout).unwrap()
    };
    assert!(seen("").contains("\u{1b}[32mok   \u{1b}[0m "), "{}", seen(""));
    assert!(seen("1").contains("ok    ") && !seen("1").contains('\u{1b}'), "{}", seen("1"));
    assert!(!sandbox.run(&["doctor"]).stdout.contains('\u{1b}'));
}
