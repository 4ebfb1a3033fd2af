//! Metrics and probes of a worker and of the exporter, as a scraper and an orchestrator see them.

use std::process::Command;
use std::time::Duration;

use ureq::Agent;

use crate::common::open_transaction::OpenTransaction;
use crate::common::{Sandbox, Worker, on_both_stores, until};
use crate::private_pg::PrivatePg;

on_both_stores!(
    a_worker_counts_what_it_did,
    probes_follow_the_life_of_a_worker,
    the_exporter_knows_what_waits_and_why,
    what_is_taken_or_is_no_address_is_refused,
);

/// An HTTP answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) form: String,
    pub(crate) text: String,
}

/// Sends a request to this port. `accept`: the form that the client wants.
pub(crate) fn get(port: u16, path: &str, accept: &str) -> Answer {
    let config = Agent::config_builder().timeout_global(Some(Duration::from_secs(30))).http_status_as_error(false);
    let request = Agent::new_with_config(config.build()).get(format!("http://127.0.0.1:{port}{path}"));
    let mut response = request.header("accept", accept).call().unwrap();
    let form = response.headers().get("content-type").map(|form| form.to_str().unwrap().to_owned());
    Answer {
        status: response.status().as_u16(),
        form: form.unwrap_or_default(),
        text: response.body_mut().read_to_string().unwrap(),
    }
}

/// Waits until a program that was started with `--listen 0` says its port.
pub(crate) fn port(program: &Worker) -> u16 {
    let mut found = None;
    until("it to listen", || {
        let said = program.said();
        let line = said.lines().find_map(|line| line.split_once("listening address=127.0.0.1:"));
        found = line.and_then(|(_, port)| port.trim().parse().ok());
        found.is_some()
    });
    found.unwrap()
}

/// Returns the value of a row with these labels.
pub(crate) fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut rows = text.lines().filter(|line| {
        let Some(rest) = line.strip_prefix(name) else { return false };
        let has = |(label, value): &(&str, &str)| rest.contains(&format!("{label}=\"{value}\""));
        rest.starts_with(['{', ' ']) && labels.iter().all(has)
    });
    let row = rows.next()?;
    assert!(rows.next().is_none(), "{name} {labels:?} are several rows:\n{text}");
    row.rsplit_once(' ').unwrap().1.parse().ok()
}

pub(crate) fn metrics(port: u16) -> String {
    let answer = get(port, "/metrics", "*/*");
    assert_eq!(answer.status, 200);
    answer.text
}

fn a_worker_counts_what_it_did(sandbox: &Sandbox) {
    sandbox
        .configure("[handlers.good]\ncommand = [\"true\"]\n[handlers.bad]\ncommand = [\"sh\", \"-c\", \"exit 65\"]\n");
    for _ in 0..3 {
        sandbox.send(&["good"]);
    }
    sandbox.send(&["bad"]);
    let worker = sandbox.worker(&["--listen", "0"]);
    let port = port(&worker);
    let finished = |kind, outcome| {
        value(
            &metrics(port),
            "jobwright_jobs_finished_total",
            &[("kind", kind), ("outcome", outcome), ("queue", "default")],
        )
    };
    until("all to end", || finished("good", "done") == Some(3.0) && finished("bad", "dead") == Some(1.0));
    let text = metrics(port);
    for (name, labels, expected) in [
        ("jobwright_jobs_started_total", &[("kind", "good")][..], 3.0),
        ("jobwright_job_run_seconds_count", &[("kind", "good")], 3.0),
        ("jobwright_job_wait_seconds_bucket", &[("kind", "bad"), ("le", "+Inf")], 1.0),
        ("jobwright_slots", &[("queue", "default")], 10.0),
        ("jobwright_dead_lettered_total", &[], 1.0),
        // Others have sent these.
        ("jobwright_jobs_sent_total", &[("queue", "(other)"), ("kind", "")], 0.0),
        ("jobwright_leases_lost_total", &[], 0.0),
    ] {
        assert_eq!(value(&text, name, labels), Some(expected), "{name} {labels:?}\n{text}");
    }
    // It has no rows for a kind of which no job has run, and none of the database.
    assert!(!text.contains("jobwright_queue_jobs") && !text.contains("jobwright_broker_mode"), "{text}");
    let open = get(port, "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(open.form.starts_with("application/openmetrics-text; version=1.0.0"), "{}", open.form);
    assert!(open.text.ends_with("# EOF\n") && open.text.contains("# TYPE jobwright_job_run_seconds histogram"));
    assert!(get(port, "/metrics", "*/*").form.starts_with("text/plain; version=0.0.4"));
    assert_eq!(get(port, "/", "*/*").status, 404);
}

fn probes_follow_the_life_of_a_worker(sandbox: &Sandbox) {
    sandbox.configure(
        "[handlers.slow]\ncommand = [\"sh\", \"-c\", \"touch began; while [ ! -e go ]; do sleep 0.05; done\"]\n",
    );
    let mut worker = sandbox.worker(&["--listen", "0"]);
    let port = port(&worker);
    until("it to be ready", || get(port, "/readyz", "*/*").status == 200);
    assert_eq!(get(port, "/readyz", "*/*").text, "ok\n");
    for path in ["/livez", "/startupz"] {
        assert_eq!(get(port, path, "*/*").status, 200, "{path}");
    }
    let verbose = get(port, "/readyz?verbose", "*/*").text;
    for line in ["[+]executor ok: it runs", "[+]lease ok: node ", "[+]queue default ok: 10 slots; it "] {
        assert!(verbose.contains(line), "{verbose}");
    }
    let json: serde_json::Value = serde_json::from_str(&get(port, "/readyz", "application/json").text).unwrap();
    assert_eq!((&json["passes"], &json["checks"][0]["state"]), (&true.into(), &"ok".into()));
    let at = port.to_string();
    sandbox.run(&["health", &at]).success().prints("[+]lease ok");
    sandbox.run(&["health", "--probe", "live", &at]).success().prints("ok");

    sandbox.send(&["slow"]);
    until("the job to begin", || sandbox.file("began").exists());
    worker.signal("TERM");
    until("it to stop", || get(port, "/readyz", "*/*").status == 503);
    assert!(get(port, "/readyz", "*/*").text.contains("[-]executor failed: it is stopping"));
    assert_eq!(get(port, "/livez", "*/*").status, 200, "its job still runs");
    sandbox.run(&["health", &at]).code(1).prints("it is stopping").says("is not healthy");
    std::fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(worker.ended(), Some(0));
    sandbox.run(&["health", &at]).code(3).says("no worker answers at 127.0.0.1:");
}

pub(crate) fn exporter(sandbox: &Sandbox) -> (Worker, u16) {
    let exporter = Worker::start_in(&mut sandbox.command(&["exporter", "--listen", "0", "--every", "100ms"]));
    let port = port(&exporter);
    (exporter, port)
}

fn the_exporter_knows_what_waits_and_why(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    let (mut exporter, port) = exporter(sandbox);
    let is = |name: &str, labels: &[(&str, &str)], expected: f64| {
        until(&format!("{name} {labels:?} {expected}"), || value(&metrics(port), name, labels) == Some(expected));
    };
    is("jobwright_database_up", &[], 1.0);
    is("jobwright_nodes", &[("state", "alive")], 0.0);
    sandbox.send(&["ours"]);
    is("jobwright_held_jobs", &[("queue", "default"), ("reason", "no_node"), ("lasts", "true")], 1.0);
    is("jobwright_queue_jobs", &[("queue", "default"), ("state", "waiting")], 1.0);
    let worker = sandbox.worker(&[]);
    is("jobwright_nodes", &[("state", "alive")], 1.0);
    sandbox.send(&["theirs"]);
    is("jobwright_held_jobs", &[("queue", "default"), ("reason", "kind_not_handled")], 1.0);
    is("jobwright_queue_slots", &[("queue", "default")], 10.0);
    sandbox.run(&["queues", "pause", "default"]).success();
    is("jobwright_paused", &[("scope", "queue"), ("name", "default")], 1.0);
    // Paused twice is paused.
    sandbox.run(&["rules", "put", "kind", "theirs", "--paused", "true"]).success();
    is("jobwright_paused", &[("scope", "kind"), ("name", "theirs")], 1.0);
    is("jobwright_held_jobs", &[("queue", "default"), ("reason", "paused")], 1.0);
    is("jobwright_kind_waiting_jobs", &[("queue", "default"), ("kind", "theirs")], 1.0);
    is("jobwright_kinds_partial", &[("queue", "default")], 0.0);
    until("an age", || {
        let labels = [("queue", "default"), ("kind", "theirs")];
        value(&metrics(port), "jobwright_kind_oldest_waiting_seconds", &labels).is_some_and(|age| age > 0.0)
    });
    // SQLite has no dead rows.
    assert_eq!(metrics(port).contains("jobwright_dead_rows"), sandbox.schema().is_some());
    let at = value(&metrics(port), "jobwright_snapshot_timestamp_seconds", &[]).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - at).abs() < 60.0, "{at} is not the time of the reading, {now}");
    drop(worker);
    exporter.signal("TERM");
    assert_eq!(exporter.ended(), Some(0));
}

fn what_is_taken_or_is_no_address_is_refused(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for command in ["worker", "exporter"] {
        sandbox.run(&[command, "--listen", &port]).code(2).says(&format!("can't listen at 127.0.0.1:{port}"));
        sandbox.run(&[command, "--listen", "everywhere"]).code(2).says("0.0.0.0:9469");
    }
    sandbox.run(&["health"]).code(2).says("jobwright health 9469");
    sandbox.configure("[http]\nlisten = \"127.0.0.1\"\n");
    sandbox.run(&["health"]).code(2).says("http.listen");
    // With quotes or without.
    for written in [format!("\"{port}\""), port.clone()] {
        sandbox.configure(&format!("[http]\nlisten = {written}\n[handlers.ours]\ncommand = [\"true\"]\n"));
        sandbox.run(&["worker", "--drain"]).code(2).says(&format!("can't listen at 127.0.0.1:{port}"));
    }
    sandbox.run(&["worker", "--listen", "*:9469"]).code(2).says("give an address of this host");
}

/// A fleet that starts during an outage is not killed by its probes, and the exporter says that there is an outage.
#[test]
fn programs_answer_before_they_have_reached_their_database() {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return;
    }
    let server = PrivatePg::start();
    let sandbox = Sandbox::on_server(&server.url());
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    server.stop();
    let mut worker = sandbox.worker(&["--wait", "--listen", "0"]);
    let (_exporter, exports) = exporter(&sandbox);
    let port = port(&worker);
    assert_eq!(get(port, "/livez", "*/*").status, 200);
    for path in ["/readyz", "/startupz"] {
        let answer = get(port, path, "*/*");
        assert_eq!(answer.status, 503, "{path}");
        assert!(answer.text.contains("it has not reached its database yet"), "{}", answer.text);
    }
    assert!(!metrics(port).contains("jobwright_"));
    assert_eq!(value(&metrics(exports), "jobwright_database_up", &[]), Some(0.0));
    assert_eq!(get(exports, "/livez", "*/*").status, 200);
    server.start_again();
    until("it to be ready", || get(port, "/readyz", "*/*").status == 200);
    until("the first reading", || value(&metrics(exports), "jobwright_database_up", &[]) == Some(1.0));
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0));
}

/// An outage is no reason to restart a worker: it would only be slower back. The old numbers are no numbers of now.
#[test]
fn an_outage_of_the_database_is_seen_and_is_no_death() {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return;
    }
    let server = PrivatePg::start();
    let sandbox = Sandbox::on_server(&server.url());
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    let worker = sandbox.worker(&["--listen", "0"]);
    let (_exporter, exports) = exporter(&sandbox);
    let port = port(&worker);
    until("it to be ready", || get(port, "/readyz", "*/*").status == 200);
    until("the first reading", || value(&metrics(exports), "jobwright_database_up", &[]) == Some(1.0));
    server.stop();
    until("the outage to be seen", || get(port, "/readyz", "*/*").status == 503);
    until("the lease to be in danger", || get(port, "/readyz", "*/*").text.contains("[-]lease failed"));
    assert_eq!(get(port, "/livez", "*/*").status, 200);
    until("the numbers to go", || value(&metrics(exports), "jobwright_database_up", &[]) == Some(0.0));
    assert!(!metrics(exports).contains("jobwright_nodes"), "{}", metrics(exports));
    server.start_again();
    until("it to be ready again", || get(port, "/readyz", "*/*").status == 200);
    until("the numbers to come back", || value(&metrics(exports), "jobwright_database_up", &[]) == Some(1.0));
}

/// The reading that it began is completed, and answers the next one.
#[test]
fn a_scraper_that_gives_up_begins_no_second_reading() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let mut command = sandbox.command(&["exporter", "--listen", "0", "--every", "1h"]);
    let exporter = Worker::start_in(&mut command);
    let port = port(&exporter);
    until("the connection", || exporter.said().contains("connected"));
    let schema = sandbox.schema().unwrap();
    let lock = OpenTransaction::with(&format!("lock table \"{schema}\".job"));
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    for _ in 0..3 {
        let config = Agent::config_builder().timeout_global(Some(Duration::from_millis(300)));
        Agent::new_with_config(config.build()).get(format!("http://127.0.0.1:{port}/metrics")).call().unwrap_err();
    }
    let ours = format!("w.relation = '\"{schema}\".job'::regclass and a.query like '%status_sample%'");
    assert_eq!(lock.waiting(&ours), 1, "one reading for three scrapers");
    let released = now();
    drop(lock);
    let text = metrics(port);
    let read = value(&text, "jobwright_snapshot_timestamp_seconds", &[]);
    assert!(read.is_some_and(|read| read < released), "{read:?} is not before {released}\n{text}");
}

/// Prometheus' own tool reads the answers.
#[test]
fn the_metrics_are_as_prometheus_wants_them() {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return;
    }
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    sandbox.send(&["ours"]);
    let worker = sandbox.worker(&["--listen", "0"]);
    let (_exporter, exports) = exporter(&sandbox);
    let ours = port(&worker);
    until("the job", || value(&metrics(ours), "jobwright_done_total", &[]) == Some(1.0));
    for port in [ours, exports] {
        std::fs::write(sandbox.file("metrics"), metrics(port)).unwrap();
        let mut check = Command::new("promtool");
        check.args(["check", "metrics"]).stdin(std::fs::File::open(sandbox.file("metrics")).unwrap());
        let checked = check.output().expect("install Debian's package prometheus, or run `cargo xtask test`");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
