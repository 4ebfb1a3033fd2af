//! What is said of queues with more jobs than are counted: an estimate, or a lower bound, and never a number that looks exact. A queue with few jobs beside
//! them has exact numbers.

use serde_json::{Value, json};

use crate::common::{Sandbox, as_owner, until};
use crate::metrics::{exporter, metrics, value};

/// More than are counted of a queue, in rows so wide that the table is not read as a whole.
const ON_POSTGRES: u64 = 13_000;
/// More than are counted of a queue.
const ON_SQLITE: u64 = 100_050;

#[test]
fn many_jobs_are_estimated_and_few_are_counted_on_postgres() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let schema = sandbox.schema().unwrap();
    let jobs = format!(
        "insert into \"{schema}\".job (id, kind, queue, rank, max_attempts, payload) select gen_random_uuid(), 'kind'"
    );
    as_owner(&format!(
        "{jobs}, 'many', 0, 20, to_jsonb(repeat('x', 1600)) from generate_series(1, {ON_POSTGRES});
         {jobs}, 'few', -g, 20, '1' from generate_series(1, 7) g;
         analyze \"{schema}\".job"
    ))
    .unwrap();
    let [many, few] = queues(&sandbox);
    assert_eq!(many["inexact"], json!({ "waiting": "about", "running": "at_least" }));
    let waiting = many["waiting"].as_u64().unwrap();
    assert!(waiting > 10_000 && waiting.abs_diff(ON_POSTGRES) < ON_POSTGRES / 4, "{waiting}");
    assert_eq!((&few["waiting"], &few["inexact"]), (&json!(7), &json!({})));
    says(&sandbox, "about 1");
}

#[test]
fn many_jobs_are_counted_up_to_a_limit_and_few_are_counted_on_sqlite() {
    let sandbox = Sandbox::sqlite();
    let database = rusqlite::Connection::open(sandbox.file("jobs.db")).unwrap();
    let jobs = "insert into jobwright_job (id, created_at, kind, queue, rank, max_attempts, payload)
                select randomblob(16), cast(unixepoch('subsec') * 1000000 as integer), 'kind'";
    let numbers = "with recursive numbers(g) as (select 1 union all select g + 1 from numbers where g <";
    database
        .execute_batch(&format!(
            "{numbers} {ON_SQLITE}) {jobs}, 'many', 0, 20, '1' from numbers;
             {numbers} 7) {jobs}, 'few', -g, 20, '1' from numbers;"
        ))
        .unwrap();
    let [many, few] = queues(&sandbox);
    assert_eq!((&many["waiting"], &many["inexact"]), (&json!(100_000), &json!({ "waiting": "at_least" })));
    assert_eq!((&few["waiting"], &few["inexact"]), (&json!(7), &json!({})));
    says(&sandbox, "at least 100000");
}

/// Returns the queue with many jobs and the one with few, of which all commands say the same.
fn queues(sandbox: &Sandbox) -> [Value; 2] {
    let read = |arguments: &[&str]| -> Value {
        let done = sandbox.run(&[arguments, &["--output", "json"]].concat()).success();
        serde_json::from_str(&done.stdout).unwrap()
    };
    let listed = read(&["queues", "list"]);
    let status = read(&["status"]);
    let of = |all: &Value, name: &str| {
        let queue = all.as_array().unwrap().iter().find(|queue| queue["queue"] == name).unwrap().clone();
        (queue["waiting"].clone(), queue["inexact"].clone(), queue)
    };
    ["many", "few"].map(|name| {
        let (listed, shown) = (of(&listed, name), of(&status["queues"], name));
        assert_eq!((&listed.0, &listed.1), (&shown.0, &shown.1), "an estimate does not jump");
        assert!(shown.2["oldest_waiting_seconds"].as_f64().is_some_and(|age| (0.0..300.0).contains(&age)));
        shown.2
    })
}

/// Tables, the doctor and the exporter say what the number is worth.
fn says(sandbox: &Sandbox, count: &str) {
    for command in [&["status"][..], &["queues", "list"]] {
        let said = sandbox.run(command).success().stdout;
        let line = |queue: &str| said.lines().find(|line| line.starts_with(queue)).unwrap().to_owned();
        assert!(line("many").contains(count), "{said}");
        assert_eq!(line("few").split_whitespace().nth(1), Some("7"), "{said}");
    }
    let said = sandbox.run(&["doctor"]).code(1).stdout;
    let line = said.lines().find(|line| line.contains("jobs wait or are due")).unwrap();
    // With the few.
    assert!(line.contains(count.trim_end_matches('0')), "{said}");
    assert!(said.contains("for one that is free (only a part of large tables was checked)"), "{said}");
    assert!(said.contains("by a clock that was ahead (only a part of large tables was checked)"), "{said}");
    let (_exporter, port) = exporter(sandbox);
    until("the exporter to read", || value(&metrics(port), "jobwright_database_up", &[]) == Some(1.0));
    let text = metrics(port);
    let of = |name: &str, queue: &str| value(&text, name, &[("queue", queue), ("state", "waiting")]);
    assert!(of("jobwright_queue_jobs", "many").is_some_and(|jobs| jobs >= 10_000.0), "{text}");
    assert_eq!(of("jobwright_queue_jobs_inexact", "many"), Some(1.0));
    assert_eq!(of("jobwright_queue_jobs", "few"), Some(7.0));
    assert_eq!(of("jobwright_queue_jobs_inexact", "few"), Some(0.0));
}
