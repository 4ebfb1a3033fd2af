//! A real Prometheus with the configuration, the alert rules and the board of examples/prometheus/.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jobwright::internal::engine::NodeInfo;
use serde_json::Value;

use crate::common::{Sandbox, Worker, until};
use crate::metrics::{get, port};
use crate::ports::free_port;

/// A server that is killed at the end.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// Starts it in a folder with its configuration, and waits until it answers.
    fn start(folder: &Path) -> Self {
        let port = free_port();
        let mut command = Command::new("prometheus");
        command.current_dir(folder).args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let log = std::fs::File::create(folder.join("prometheus.log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        let child = child.expect("install Debian's package prometheus, or run `cargo xtask test`");
        let server = Self { child, port };
        until("Prometheus to answer", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        until("Prometheus to be ready", || get(port, "/-/ready", "*/*").status == 200);
        server
    }

    fn api(&self, path: &str) -> Value {
        let answer = get(self.port, &format!("/api/v1/{path}"), "*/*");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        serde_json::from_str::<Value>(&answer.text).unwrap()["data"].take()
    }

    /// Returns the rows of a query.
    fn query(&self, query: &str) -> Vec<Value> {
        self.api(&format!("query?query={}", encoded(query)))["result"].as_array().unwrap().clone()
    }

    /// Returns the number that a query has, if it has one row.
    fn number(&self, query: &str) -> Option<f64> {
        match &self.query(query)[..] {
            [one] => one["value"][1].as_str().unwrap().parse().ok(),
            _ => None,
        }
    }

    fn firing(&self) -> BTreeSet<String> {
        let alerts = self.api("alerts")["alerts"].as_array().unwrap().clone();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/prometheus").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(example(name)).unwrap()
}

/// Copies an example with other ports, and without the patience that an operator wants and a test has not.
fn adapt(sandbox: &Sandbox, name: &str, replacements: &[(&str, &str)]) {
    let text = replacements.iter().fold(read(name), |text, (from, to)| {
        assert!(text.contains(from), "{name} does not contain {from:?}");
        text.replace(from, to)
    });
    std::fs::write(sandbox.file(name), text).unwrap();
}

/// A flooded worker is scraped; it is killed, and the alert fires; each query of the board is one that Prometheus has rows for.
#[test]
fn it_scrapes_a_flooded_worker_and_fires_when_that_is_killed() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    sandbox.configure("[queues.default]\nconcurrency = 4\n[handlers.good]\ncommand = [\"true\"]\n[handlers.bad]\ncommand = [\"sh\", \"-c\", \"exit 65\"]\n");
    let worker = sandbox.worker(&["--listen", "0"]);
    let exporter = Worker::start_in(&mut sandbox.command(&["exporter", "--listen", "0", "--every", "200ms"]));
    let (ours, exports) = (format!("127.0.0.1:{}", port(&worker)), format!("127.0.0.1:{}", port(&exporter)));
    let quick = [("interval: 15s", "interval: 1s"), ("127.0.0.1:9469", &ours), ("127.0.0.1:9470", &exports)];
    adapt(&sandbox, "prometheus.yml", &quick);
    adapt(&sandbox, "alerts.yml", &[("for: 1m\n", "for: 1s\n")]);
    let prometheus = Prometheus::start(sandbox.path());

    let jobs = "1\n".repeat(100);
    sandbox.run_with(&["send", "--lines", "good"], jobs.as_bytes()).success();
    sandbox.send(&["bad"]);
    let done = "sum(jobwright_jobs_finished_total{kind=\"good\",outcome=\"done\"})";
    until("Prometheus to see all jobs", || prometheus.number(done) == Some(100.0));
    until("a dead letter", || prometheus.number("sum(jobwright_queue_jobs{state=\"dead\"})") == Some(1.0));
    assert_eq!(prometheus.number("sum(jobwright_job_run_seconds_count{kind=\"good\"})"), Some(100.0));
    // Before the first scrape there was no worker to see.
    until("no alert", || !prometheus.firing().contains("JobwrightWorkerDown"));
    sandbox.send(&["nobody-handles-this"]);
    board_has_rows(&prometheus);

    worker.kill_9();
    until("the alert", || prometheus.firing().contains("JobwrightWorkerDown"));
    until("that of the exporter too", || prometheus.firing().contains("JobwrightNoWorkers"));
    drop(exporter);
    until("that of the database", || prometheus.firing().contains("JobwrightDatabaseDown"));
}

/// Runs each query of the board. A query without rows has a name that nothing exports.
fn board_has_rows(prometheus: &Prometheus) {
    let board: Value = serde_json::from_str(&read("board.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let queries: Vec<(&Value, &str)> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap().iter().map(move |target| (panel, target)))
        .map(|(panel, target)| (panel, target["expr"].as_str().unwrap()))
        .collect();
    assert!(queries.len() > 15, "{}", queries.len());
    for (panel, query) in queries {
        // There is no broker here.
        if panel["title"] == "Over the broker" {
            continue;
        }
        let query = query.replace("$__rate_interval", "1m");
        until(&format!("rows of {query}"), || !prometheus.query(&query).is_empty());
    }
}

/// They fire when they should and not when they should not, and each has its section for the one who is called.
#[test]
fn each_alert_is_tried_and_has_a_section_to_read() {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return;
    }
    for (what, file) in [("check", "alerts.yml"), ("test", "alerts_test.yml")] {
        let mut promtool = Command::new("promtool");
        let done = promtool.args([what, "rules"]).arg(example(file)).output();
        let done = done.expect("install Debian's package prometheus, or run `cargo xtask test`");
        let said = [done.stdout, done.stderr].concat();
        assert!(done.status.success(), "{file}: {}", String::from_utf8_lossy(&said));
    }
    let rules = read("alerts.yml");
    let runbook = std::fs::read_to_string(example("../../docs/operations.md")).unwrap();
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for alert in alerts {
        assert!(runbook.contains(&format!("### {alert}\n")), "docs/operations.md has no section {alert}");
        let link = format!("runbook: docs/operations.md#{}\n", alert.to_ascii_lowercase());
        assert!(rules.contains(&link), "{alert} does not name its section");
    }
}

/// Returns the names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).filter(|word| word.starts_with("jobwright_")).map(str::to_owned).collect()
}

/// The rules, the board and the documents name metrics that a worker and an exporter have, and the documents name all of them.
#[test]
fn no_rule_or_document_names_a_metric_that_is_not_there() {
    let Some(sandbox) = Sandbox::postgres().and_then(Sandbox::with_rabbit) else { return };
    sandbox.configure("[handlers.good]\ncommand = [\"true\"]\n");
    sandbox.send(&["good"]);
    let worker = sandbox.worker(&["--listen", "0"]);
    let exporter = Worker::start_in(&mut sandbox.command(&["exporter", "--listen", "0", "--every", "100ms"]));
    // A row of each metric.
    sandbox.send(&["nobody-handles-this"]);
    sandbox.run(&["queues", "pause", "other"]).success();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let messages = sandbox.messages().await;
        let node = NodeInfo::new("fails", "here", 1, Duration::from_secs(300));
        let node = messages.engine().register_node(&node).await.unwrap();
        let failing =
            r#"[{"task": "timers", "failed": "it failed", "error": "a lock", "since": "2026-01-01T00:00:00Z"}]"#;
        messages.engine().report_failing(node, Some(failing)).await.unwrap();
    });
    let read = |port: u16| get(port, "/metrics", "*/*").text;
    let mut exported = BTreeSet::new();
    until("a row of each metric", || {
        exported = [port(&worker), port(&exporter)].iter().flat_map(|port| metrics_of(&read(*port))).collect();
        [
            "jobwright_job_end_to_end_seconds",
            "jobwright_broker_mode",
            "jobwright_held_jobs",
            "jobwright_paused",
            "jobwright_failing_tasks",
        ]
        .iter()
        .all(|name| exported.contains(*name))
    });
    assert!(exported.len() > 40, "{exported:?}");
    let operations = std::fs::read_to_string(example("../../docs/operations.md")).unwrap();
    let begin = operations.find("### Metrics of a worker").unwrap();
    let operations = operations[begin..operations.find("## At night").unwrap()].to_owned();
    for (place, text) in [
        ("alerts.yml", self::read("alerts.yml")),
        ("alerts_test.yml", self::read("alerts_test.yml")),
        ("board.json", self::read("board.json")),
        ("keda.yaml", self::read("keda.yaml")),
        ("docs/operations.md", operations.clone()),
    ] {
        for name in names(&text) {
            // A query names the parts of a histogram.
            let whole = ["_bucket", "_count", "_sum"].iter().find_map(|part| name.strip_suffix(part));
            let known = exported.contains(&name) || whole.is_some_and(|whole| exported.contains(whole));
            assert!(known, "{place} names {name}, which nothing exports");
        }
    }
    for name in exported {
        assert!(operations.contains(&format!("`{name}`")), "docs/operations.md does not explain {name}");
    }
}

/// Returns the names of the metrics in an answer.
fn metrics_of(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}
