//! The forms of a worker's log, and what its lines name.

use std::process::Stdio;

use serde_json::Value;

use crate::common::Sandbox;

fn failing() -> (Sandbox, String) {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.bad]\ncommand = [\"sh\", \"-c\", \"exit 65\"]\n");
    let id = sandbox.send(&["bad"]);
    (sandbox, id)
}

/// Whatever else the filter leaves out.
#[test]
fn lines_of_errors_name_their_job_when_only_errors_are_logged() {
    let (sandbox, id) = failing();
    let quiet = sandbox.run(&["worker", "--drain", "--quiet"]).success();
    let line = quiet.stderr.lines().find(|line| line.contains("becomes a dead letter")).expect(&quiet.stderr);
    for named in [&format!("id={id}"), "kind=bad", "queue=default", "attempt=1"] {
        assert!(line.contains(named), "{line}");
    }
}

#[test]
fn each_end_of_an_attempt_is_a_line_at_the_level_of_debug() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.good]\ncommand = [\"true\"]\n");
    let ids: Vec<String> = (0..3).map(|_| sandbox.send(&["good"])).collect();
    let done = sandbox.run(&["worker", "--drain", "--verbose"]).success();
    for id in ids {
        let ends: Vec<_> =
            done.stderr.lines().filter(|line| line.contains(&id) && line.contains("the attempt ended")).collect();
        assert_eq!(ends.len(), 1, "{}", done.stderr);
        assert!(
            ends[0].contains("DEBUG") && ends[0].contains("outcome=\"done\"") && ends[0].contains("took="),
            "{ends:?}"
        );
    }
}

#[test]
fn a_log_of_json_has_an_object_a_line() {
    let (sandbox, id) = failing();
    let done = sandbox.run(&["worker", "--drain", "--log-format", "json"]).success();
    let lines: Vec<Value> = done.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(
        lines
            .iter()
            .all(|line| line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string())
    );
    let died = lines.iter().find(|line| line["level"] == "ERROR").expect(&done.stderr);
    assert_eq!(died["span"]["id"], id.as_str());
    assert_eq!((&died["span"]["kind"], &died["span"]["attempt"]), (&"bad".into(), &1.into()));
    assert!(died["error"].as_str().unwrap().contains("65"), "{died}");
}

/// The journal reads a priority at the beginning of a line, and says by a variable that it is there.
#[test]
fn the_journal_gets_priorities() {
    use std::os::unix::fs::MetadataExt as _;
    let (sandbox, _) = failing();
    let file = std::fs::File::create(sandbox.file("log")).unwrap();
    let known = file.metadata().unwrap();
    let mut command = sandbox.command(&["worker", "--drain"]);
    command.env("JOURNAL_STREAM", format!("{}:{}", known.dev(), known.ino()));
    assert!(command.stdout(Stdio::null()).stderr(file).status().unwrap().success());
    let log = std::fs::read_to_string(sandbox.file("log")).unwrap();
    assert!(log.lines().any(|line| line.starts_with("<3>ERROR ")), "{log}");
    assert!(log.lines().any(|line| line.starts_with("<6> INFO ")), "{log}");
    assert!(log.lines().all(|line| line.starts_with('<')), "{log}");
}
