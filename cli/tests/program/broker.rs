//! The command line with a broker: sending, working, listing, setting up.

use crate::common::rabbit::Rabbit;
use crate::common::{Done, Sandbox, until};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::Value;

const SECRET: &str = "amqp://somebody:hunter2@127.0.0.1:1/nowhere";

fn status(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.run(&["status", "--output", "json"]).success().stdout).unwrap()
}

fn findings(done: &Done) -> Vec<Value> {
    serde_json::from_str(&done.stdout).unwrap()
}

/// Returns the worst state of a check's findings.
fn state<'a>(findings: &'a [Value], check: &str) -> &'a str {
    let states =
        findings.iter().filter(|finding| finding["check"] == check).map(|finding| finding["state"].as_str().unwrap());
    states.max_by_key(|state| ["ok", "warn", "fail"].iter().position(|known| known == state)).unwrap_or("(not there)")
}

#[test]
fn sending_and_working_over_the_broker() {
    for sandbox in [Some(Sandbox::sqlite()), Sandbox::postgres()].into_iter().flatten() {
        let Some(sandbox) = sandbox.with_rabbit() else { return };
        sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
        let mut worker = sandbox.worker(&[]);
        until("the subscription", || status(&sandbox)["broker_queues"]["default"]["consumers"] == 1);
        let before = status(&sandbox);
        assert_eq!(before["mode"], "up", "{before}");
        assert!(before["nodes"][0]["broker"] == "up", "{before}");
        let lines = "x\n".repeat(2000);
        sandbox.run_with(&["send", "--lines", "echo"], lines.as_bytes()).success();
        until("all jobs to be over", || status(&sandbox)["queues"].as_array().unwrap().is_empty());
        worker.signal("TERM");
        assert_eq!(worker.ended(), Some(0), "{}", worker.said());
        let said = worker.said();
        let number = |name: &str| -> u64 {
            let rest = said.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{said}"));
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        assert_eq!(number("done"), 2000, "{said}");
        assert!(number("delivered") > 0, "nothing came through the broker: {said}");
        let table = sandbox.run(&["status"]).success().stdout;
        assert!(table.contains("broker up (amqp://") && table.contains(&sandbox.rabbit().name("q.default")), "{table}");
    }
}

#[test]
fn draining_over_the_broker_ends() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    sandbox.run_with(&["send", "--lines", "echo"], b"a\nb\nc\n").success();
    let done = sandbox.run(&["worker", "--drain"]).success();
    assert_eq!(done.stdout.len(), 3, "{done:?}");
    assert!(sandbox.list(&[]).is_empty());
}

#[test]
fn an_event_reaches_its_listeners() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    sandbox.run(&["broker", "apply"]).success();
    let rabbit = sandbox.rabbit();
    let (queue, key) = (rabbit.name("listener"), rabbit.name("event.order-shipped"));
    rabbit.declare(&queue, Some((&rabbit.name("event"), &key)));
    let id = sandbox.send(&["--event", "order-shipped", "{\"order\":42}"]);
    sandbox.run(&["worker", "--drain"]).success();
    let event = rabbit.receive(&queue);
    assert_eq!(event.routing_key, key);
    assert_eq!(event.properties.message_id().as_ref().unwrap().as_str(), id);
    assert_eq!(serde_json::from_slice::<Value>(&event.body).unwrap(), serde_json::json!({ "order": 42 }));
    assert!(sandbox.list(&[]).is_empty());
    rabbit.delete(&queue);
    sandbox.run(&["send", "--event", "x", "--queue", "q"]).code(2);
}

#[test]
fn a_reply_reaches_its_queue() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    sandbox.configure("[handlers.upper]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\nreply = true\n");
    let rabbit = sandbox.rabbit();
    let queue = rabbit.name("answers");
    rabbit.declare(&queue, None);
    sandbox.send(&["upper", "text", "--content-type", "text/plain", "--reply-to", &queue, "--correlation-id", "c-1"]);
    sandbox.send(&["upper", "plain", "--content-type", "text/plain"]);
    let done = sandbox.run(&["worker", "--drain"]).success();
    assert_eq!(done.stdout, "PLAIN", "only who did not ask for a result is written out");
    let reply = rabbit.receive(&queue);
    assert_eq!(reply.body, b"TEXT");
    assert_eq!(reply.properties.correlation_id().as_ref().unwrap().as_str(), "c-1");
    assert_eq!(reply.properties.content_type().as_ref().unwrap().as_str(), "text/plain; charset=utf-8");
    rabbit.delete(&queue);
    sandbox.run(&["send", "x", "--correlation-id", "c"]).code(2);
}

#[test]
fn an_external_worker_gets_the_job_and_says_how_it_ended() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    sandbox.configure("[queues.mail]\nexternal = true\nlease = \"1m\"\n");
    sandbox.send(&["letter", "{\"to\":\"ada\"}", "--queue", "mail"]);
    let mut worker = sandbox.worker(&["--drain"]);
    let rabbit = sandbox.rabbit();
    until("the queue", || status(&sandbox)["broker_queues"]["mail"]["messages"].is_number());
    let job = rabbit.receive(&rabbit.name("x.mail"));
    assert_eq!(serde_json::from_slice::<Value>(&job.body).unwrap(), serde_json::json!({ "to": "ada" }));
    let now = status(&sandbox);
    assert_eq!(now["queues"][0]["external"], 1, "{now}");
    let headers = job.properties.headers().clone().unwrap();
    let mut back = FieldTable::default();
    for name in ["jobId", "version", "reportToken"] {
        back.insert(name.into(), headers.inner()[name].clone());
    }
    back.insert("status".into(), AMQPValue::LongString("done".into()));
    rabbit.publish(&rabbit.name("reply"), BasicProperties::default().with_headers(back).with_type("done".into()), b"");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
    assert!(sandbox.list(&[]).is_empty());
}

#[test]
fn the_queues_are_set_up_and_checked() {
    let Some(sandbox) = Sandbox::sqlite().with_rabbit() else { return };
    let rabbit = sandbox.rabbit();
    let show = sandbox.run(&["broker", "show", "--output", "json"]).success();
    let planned: Vec<Value> = serde_json::from_str(&show.stdout).unwrap();
    assert!(planned.iter().all(|item| item["state"] == "planned"), "{show:?}");
    sandbox.run(&["broker", "check"]).code(1).says("broker apply");
    let apply = sandbox.run(&["broker", "apply", "--queue", "mail"]).success().says(" created, ");
    assert!(apply.stdout.contains(&rabbit.name("q.mail")), "{apply:?}");
    sandbox.run(&["broker", "apply", "--queue", "mail"]).success().says(": 0 created, ");
    sandbox.run(&["broker", "check", "--queue", "mail"]).success();

    let different = |args: &[&str]| {
        let mut command = sandbox.command(args);
        command.env("JOBWRIGHT_BROKER_DEPTH", "7");
        Done::from(command.output().unwrap())
    };
    let check = different(&["broker", "check", "--output", "json"]).code(1);
    let items: Vec<Value> = serde_json::from_str(&check.stdout).unwrap();
    let differs = items.iter().find(|item| item["state"] == "differs").unwrap_or_else(|| panic!("{check:?}"));
    assert!(differs["why"].as_str().unwrap().contains("x-max-length"), "{differs}");
    let doctor = different(&["doctor", "--output", "json"]).code(1);
    assert_eq!(state(&findings(&doctor), "broker queues"), "fail", "{doctor:?}");
}

#[test]
fn the_doctor_finds_missing_and_different_queues() {
    let Some(sandbox) = Sandbox::postgres().and_then(Sandbox::with_rabbit) else { return };
    sandbox.run(&["broker", "apply"]).success();
    let well = sandbox.run(&["doctor", "--output", "json"]).success();
    let found = findings(&well);
    for check in [
        "configuration",
        "database",
        "database version",
        "database schema",
        "database rights",
        "clock",
        "broker",
        "broker version",
        "broker alarm",
        "broker queues",
    ] {
        let worst = if check == "configuration" { "warn" } else { "ok" };
        assert_eq!(state(&found, check), worst, "{check}: {well:?}");
    }
    assert_ne!(state(&found, "oldest transaction"), "(not there)");

    sandbox.rabbit().delete(&sandbox.rabbit().name("q.default"));
    let missing = sandbox.run(&["doctor"]).success();
    assert!(missing.stdout.contains("jobwright broker apply"), "{missing:?}");
    let strict = sandbox.command(&["doctor"]).env("JOBWRIGHT_BROKER_DECLARE", "false").output().unwrap();
    Done::from(strict).code(1);

    let with = |url: &str| Done::from(sandbox.command(&["doctor"]).env("AMQP_URL", url).output().unwrap());
    let url = &sandbox.rabbit().url;
    let (_, host) = url.rsplit_once('@').unwrap();
    let refused = with(&format!("amqp://guest:hunter2@{host}")).code(3);
    assert!(refused.stdout.contains("password") && !format!("{refused:?}").contains("hunter2"), "{refused:?}");
    let unreachable = with(SECRET).code(3);
    assert!(
        unreachable.stdout.contains("fail  broker") && !format!("{unreachable:?}").contains("hunter2"),
        "{unreachable:?}"
    );
    sandbox.run(&["--database-url", "postgres://nobody:hunter2@127.0.0.1:1/x", "doctor"]).code(3);
}

/// A broker that does not answer blocks neither sending nor working nor listing.
#[test]
fn without_the_broker_all_jobs_are_claimed_from_the_table() {
    let sandbox = Sandbox::sqlite().with_broker(SECRET);
    sandbox.configure("[handlers.echo]\ncommand = [\"cat\"]\n");
    sandbox.send(&["echo", "1"]);
    let now = status(&sandbox);
    assert_eq!(now["mode"], "down", "{now}");
    let table = sandbox.run(&["status"]).success();
    assert!(table.stdout.contains("has been down for") && !format!("{table:?}").contains("hunter2"), "{table:?}");
    let worker = sandbox.run(&["worker", "--drain"]).success();
    assert_eq!(worker.stdout, "1");
    assert!(!worker.stderr.contains("hunter2") && worker.stderr.matches("is down").count() == 1, "{worker:?}");
    sandbox.run(&["broker", "apply"]).code(3);
    let required = sandbox.command(&["send", "echo"]).env("JOBWRIGHT_BROKER_REQUIRED", "true").output().unwrap();
    Done::from(required).code(3);
}

#[test]
fn the_tour_over_the_broker() {
    let Some(rabbit) = Rabbit::shared() else { return };
    let sandbox = Sandbox::sqlite();
    let done = sandbox.run(&["--amqp-url", &rabbit.url, "demo", "--jobs", "1000"]).success();
    for text in ["every effect happened exactly once", "broker up (amqp://", "confirmed", "its queues"] {
        assert!(done.stdout.contains(text), "{done:?} does not say {text:?}");
    }
}

#[test]
fn configuration_mistakes_are_explained() {
    let sandbox = Sandbox::sqlite();
    let refused = |text: &str, meant: &str| {
        std::fs::write(sandbox.file("jobwright.toml"), text).unwrap();
        sandbox.run(&["worker"]).code(2).says(meant);
    };
    refused("[queues.q]\nexternal = true\nconcurrency = 3\n", "both `concurrency` and `external = true`");
    // The sandbox is an embedded database, and only PostgreSQL has workers by SQL.
    refused("[queues.q]\nexternal = true\n", "Set `broker.url`");
    refused("[queues.q]\nlease = \"1m\"\n", "`external = true` only");
    refused("[broker]\nqueue_type = \"mirrored\"\n", "\"quorum\" or \"classic\"");
    refused("[broker]\nprefx = \"x\"\n", "did you mean `broker.prefix`?");
    std::fs::write(sandbox.file("jobwright.toml"), "").unwrap();
    sandbox.run(&["broker", "check"]).code(2).says("no broker is configured");
    let bad = sandbox.run(&["--amqp-url", "http://u:hunter2@h", "broker", "check"]).code(2);
    assert!(!format!("{bad:?}").contains("hunter2"), "{bad:?}");
}
