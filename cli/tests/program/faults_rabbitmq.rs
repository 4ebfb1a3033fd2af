//! The broker goes away and comes back during sending and working: the checksums of many files are the same as without the outage.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{Done, Sandbox, until};
use crate::private_rabbit::PrivateRabbit;

const FILES: usize = 400;

#[test]
fn faults_the_broker_goes_and_comes_on_sqlite() {
    the_broker_goes_and_comes(Sandbox::sqlite());
}

#[test]
fn faults_the_broker_goes_and_comes_on_postgres() {
    if let Some(sandbox) = Sandbox::postgres() {
        the_broker_goes_and_comes(sandbox);
    }
}

fn the_broker_goes_and_comes(sandbox: Sandbox) {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return;
    }
    let server = PrivateRabbit::start();
    let sandbox = sandbox.with_broker(&server.url());
    let (directory, out) = (sandbox.file("in"), sandbox.file("out"));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    for n in 0..FILES {
        std::fs::write(directory.join(format!("a file {n}")), "x".repeat(n)).unwrap();
    }
    // Each run adds a line to the file of its job, so a second run would show.
    sandbox.configure(
        r#"
        [queues.default]
        concurrency = 4
        [handlers.checksum]
        command = ["sh", "-c", "sleep 0.02; sha256sum \"$(cat)\" >> out/$JOBWRIGHT_JOB_ID"]
        "#,
    );
    // No worker dies here, and a pause of the machine must not look like a death: this test asserts that no job runs twice.
    let config = sandbox.path().join("jobwright.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.contains("lease = \"1s\""), "{text}");
    std::fs::write(&config, text.replace("lease = \"1s\"", "lease = \"30s\"")).unwrap();
    let mut worker = sandbox.worker(&[]);
    until("the worker to hear of the broker", || worker.said().contains(" is up"));

    // A single sender for the whole time: lines come as this test writes them.
    let mut sending = sandbox.command(&["send", "--lines", "checksum"]);
    let mut sender = sending.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    let finished = || std::fs::read_dir(&out).unwrap().count();
    let mut names = (0..FILES).map(|n| format!("in/a file {n}\n"));
    // A single transaction takes all lines of a sender, so other senders send some each, before, during and after the outage.
    let mut some = |count: usize| names.by_ref().take(count).collect::<String>();
    let send = |lines: String| drop(sandbox.run_with(&["send", "--lines", "checksum"], lines.as_bytes()).success());
    stdin.write_all(some(50).as_bytes()).unwrap();
    send(some(100));
    until("some of the files", || finished() >= 30);
    server.stop_app();
    send(some(100));
    until("work to go on without the broker", || finished() >= 150);
    until("the worker to notice", || worker.said().contains(" is down"));
    stdin.write_all(some(50).as_bytes()).unwrap();
    server.start_app();
    drop(stdin);
    Done::from(sender.wait_with_output().unwrap()).success();
    until("the worker to hear of it again", || worker.said().matches(" is up").count() == 2);
    send(some(100));
    until("all jobs to be over", || sandbox.list(&[]).is_empty());
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    let said = worker.said();
    assert_eq!((said.matches(" is up").count(), said.matches(" is down").count()), (2, 1), "{said}");

    let files: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), FILES, "each job has one file");
    let mut indirect = BTreeMap::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1, "{} ran more than once: {text}", path.display());
        let (sum, name) = text.trim().split_once("  ").unwrap();
        indirect.insert(name.to_owned(), sum.to_owned());
    }
    let names: Vec<String> = (0..FILES).map(|n| format!("in/a file {n}")).collect();
    let direct = Command::new("sha256sum").args(&names).current_dir(sandbox.path()).output().unwrap();
    let direct = String::from_utf8(direct.stdout).unwrap();
    let direct: BTreeMap<_, _> = direct
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect();
    assert_eq!(indirect, direct);
}
