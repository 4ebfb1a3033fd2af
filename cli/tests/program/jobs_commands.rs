//! Commands that send jobs, list them and operate on them.

use crate::common::{Sandbox, on_both_stores};
use serde_json::{Value, json};

on_both_stores!(
    a_job_can_be_sent_and_seen,
    options_of_a_job_are_shown,
    progress_and_result_of_a_job_are_shown,
    a_unique_job_is_sent_once,
    payloads_come_back_as_they_were,
    an_id_is_taken_once,
    lines_become_jobs,
    a_bad_line_is_named,
    jobs_can_be_filtered,
    operations_can_be_applied_to_jobs,
    the_status_counts,
);

fn a_job_can_be_sent_and_seen(sandbox: &Sandbox) {
    let id = sandbox.send(&[
        "send-invoice",
        "{\"order\": 42}",
        "--queue",
        "billing",
        "--priority",
        "-5",
        "--max-attempts",
        "3",
        "--header",
        "tenant=acme=x",
        "--delay",
        "1h",
    ]);
    let job = sandbox.show(&id);
    assert_eq!(job["id"], json!(id));
    assert_eq!(job["state"], "timer");
    assert_eq!((&job["kind"], &job["queue"]), (&json!("send-invoice"), &json!("billing")));
    assert_eq!((&job["priority"], &job["max_attempts"], &job["attempt"]), (&json!(-5), &json!(3), &json!(0)));
    assert_eq!(job["headers"], json!({ "tenant": "acme=x" }));
    assert_eq!(job["payload"], json!({ "content_type": "application/json", "json": { "order": 42 } }));

    let sheet = sandbox.run(&["jobs", "show", &id]).success().stdout;
    for text in ["billing", "tenant=acme=x", "\"order\": 42", "0 of 3"] {
        assert!(sheet.contains(text), "{sheet}");
    }
    let table = sandbox.run(&["jobs", "list"]).success().stdout;
    assert!(table.lines().count() == 2 && table.contains(&id), "{table}");
    sandbox.run(&["jobs", "delete", &id]).success();
    sandbox.run(&["jobs", "show", &id]).code(1).says("no job with this id");

    let at = sandbox.send(&["later", "--at", "2099-01-01T00:00:00Z"]);
    assert_eq!(sandbox.show(&at)["due_at"], "2099-01-01T00:00:00Z");
}

fn options_of_a_job_are_shown(sandbox: &Sandbox) {
    let asked = ["--group", "g", "--ordered", "--tenant", "acme", "--limit-key", "printer", "--ttl", "1h"];
    let id = sandbox.send(&[&["x"][..], &asked].concat());
    let job = sandbox.show(&id);
    assert_eq!(job["state"], "blocked");
    let options = &job["options"];
    assert_eq!((&options["group"], &options["ordered"]), (&json!("g"), &json!(true)));
    assert_eq!((&options["tenant"], &options["limit"]), (&json!("acme"), &json!("printer")));
    assert_eq!(options["ttl"], json!(3_600_000_000_u64));
    assert!(options["expires"].as_i64().unwrap() > 0, "{job}");
    let sheet = sandbox.run(&["jobs", "show", &id]).success().stdout;
    for text in ["group", "acme", "printer", "1h", "g (ordered)"] {
        assert!(sheet.contains(text), "{text}: {sheet}");
    }
    sandbox.run(&["send", "x", "--ordered"]).code(2).says("--group");
    sandbox.run(&["send", "x", "--ttl", "1s", "--delay", "2s"]).code(2).says("time to live");
}

fn progress_and_result_of_a_job_are_shown(sandbox: &Sandbox) {
    let id = sandbox.send(&["import"]);
    let job = sandbox.show(&id);
    assert_eq!((&job["progress"], &job["result"]), (&Value::Null, &Value::Null));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (go_on, told) = tokio::sync::oneshot::channel::<()>();
    let told = std::sync::Arc::new(tokio::sync::Mutex::new(Some(told)));
    let executor = runtime.block_on(async {
        let builder = jobwright::CommandExecutor::builder(sandbox.messages().await);
        let handler = builder.handle_with("import", move |cx| {
            let told = told.clone();
            Box::pin(async move {
                cx.save_checkpoint(&json!({ "row": 7 })).await?;
                cx.progress(40, "row 7 of 17").await?;
                let told = told.lock().await.take().expect("one attempt");
                told.await.ok();
                cx.result(&json!({ "rows": 17 }))?;
                Ok(jobwright::Outcome::Done)
            })
        });
        handler.start().await.unwrap()
    });
    crate::common::until("progress", || sandbox.show(&id)["progress"]["percent"] == 40);
    let progress = &sandbox.show(&id)["progress"];
    assert_eq!((&progress["note"], &progress["checkpoint"]), (&json!("row 7 of 17"), &json!({ "row": 7 })));
    let sheet = sandbox.run(&["jobs", "show", &id]).success().stdout;
    for text in ["40 %", "row 7 of 17", "checkpoint, from", "\"row\": 7"] {
        assert!(sheet.contains(text), "{text}: {sheet}");
    }
    go_on.send(()).unwrap();
    crate::common::until("the end", || sandbox.show(&id)["state"] == "done");
    let job = sandbox.show(&id);
    assert_eq!((&job["kind"], &job["result"]["payload"]["json"]), (&json!("import"), &json!({ "rows": 17 })));
    let sheet = sandbox.run(&["jobs", "show", &id]).success().stdout;
    for text in [&id, "done", "kept until", "\"rows\": 17"] {
        assert!(sheet.contains(text), "{text}: {sheet}");
    }
    runtime.block_on(executor.shutdown(std::time::Duration::from_secs(5))).unwrap();
}

fn a_unique_job_is_sent_once(sandbox: &Sandbox) {
    let first = sandbox.send(&["x", "1", "--unique", "order-7"]);
    assert_eq!(sandbox.send(&["x", "2", "--unique", "order-7"]), first);
    assert_ne!(sandbox.send(&["x", "3", "--unique", "order-8"]), first);
    assert_eq!(sandbox.list(&[]).len(), 2);
    sandbox.run(&["jobs", "delete", &first]).success();
    assert_ne!(sandbox.send(&["x", "4", "--unique", "order-7"]), first);
}

fn payloads_come_back_as_they_were(sandbox: &Sandbox) {
    sandbox.run(&["send", "x", "{oops"]).code(2).says("not JSON");
    sandbox.run(&["send", "x", "--header", "oops"]).code(2).says("name=value");
    sandbox.run(&["send", "", "1"]).code(2).says("kind is empty");
    assert!(sandbox.list(&[]).is_empty());

    let stdin = sandbox.run_with(&["send", "x", "-"], b" [1, 2] \n").success().stdout;
    assert_eq!(sandbox.show(stdin.trim())["payload"]["json"], json!([1, 2]));
    let text = sandbox.send(&["x", "plain words", "--content-type", "text/plain"]);
    assert_eq!(sandbox.show(&text)["payload"], json!({ "content_type": "text/plain", "text": "plain words" }));
    let bytes = sandbox.run_with(&["send", "x", "-", "--content-type", "image/png"], b"\xff\xd8\0").success().stdout;
    assert_eq!(sandbox.show(bytes.trim())["payload"], json!({ "content_type": "image/png", "size": 3 }));
    assert_eq!(sandbox.show(&sandbox.send(&["x"]))["payload"]["json"], Value::Null);
}

fn an_id_is_taken_once(sandbox: &Sandbox) {
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    assert_eq!(sandbox.send(&["x", "1", "--id", id]), id);
    let again = sandbox.run(&["send", "x", "2", "--id", id]).success();
    assert_eq!((again.stdout.trim(), again.stderr.contains("already sent")), (id, true), "{again:?}");
    for other in [&["send", "y", "3", "--id", id][..], &["send", "x", "3", "--queue", "other", "--id", id]] {
        let refused = sandbox.run(other).code(1);
        assert!(refused.stderr.contains("JW-CONFLICT") && refused.stderr.contains(id), "{refused:?}");
        assert_eq!(refused.stdout, "");
    }
    assert_eq!(sandbox.list(&[]).len(), 1);
    assert_eq!(sandbox.show(id)["payload"]["json"], json!(1));
}

fn lines_become_jobs(sandbox: &Sandbox) {
    let done = sandbox.run_with(&["send", "--lines", "line", "--queue", "q"], b"first\n\n\xff\xfe\r\nlast").success();
    assert_eq!(done.stdout, "");
    assert!(done.stderr.starts_with("sent 4 jobs in "), "{done:?}");
    let jobs = sandbox.list(&["--queue", "q"]);
    let payloads: Vec<Value> =
        jobs.iter().map(|job| sandbox.show(job["id"].as_str().unwrap())["payload"].clone()).collect();
    let plain = "text/plain; charset=utf-8";
    assert_eq!(
        payloads,
        [
            json!({ "content_type": plain, "text": "first" }),
            json!({ "content_type": plain, "text": "" }),
            json!({ "content_type": "application/octet-stream", "size": 2 }),
            json!({ "content_type": plain, "text": "last" }),
        ]
    );
    let quiet = sandbox.run_with(&["-q", "send", "--jsonl", "json"], b"{\"a\": 1}\n\n2\n").success();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    assert_eq!(sandbox.list(&["--kind", "json"]).len(), 2);
    let many = numbers(2500);
    sandbox.run_with(&["send", "--jsonl", "many"], many.as_bytes()).success().says("sent 2500 jobs");
    assert_eq!(sandbox.list(&["--kind", "many"]).len(), 2500);
}

fn a_bad_line_is_named(sandbox: &Sandbox) {
    let mut lines = numbers(1500);
    lines.push_str("{oops\n1501\n");
    let done = sandbox.run_with(&["send", "--jsonl", "x"], lines.as_bytes()).code(1);
    let done = done.says("line 1501 can't be sent").says("all lines before it have been sent: sent 1500 jobs");
    assert!(done.stderr.contains("not JSON"), "{done:?}");
    assert_eq!(sandbox.list(&[]).len(), 1500);
}

fn jobs_can_be_filtered(sandbox: &Sandbox) {
    let ids: Vec<String> = ["a", "b", "c"].iter().map(|kind| sandbox.send(&[kind, "--queue", "one"])).collect();
    sandbox.send(&["a", "--queue", "two", "--delay", "1h"]);
    let count = |args: &[&str]| sandbox.list(args).len();
    assert_eq!(count(&["--kind", "a"]), 2);
    assert_eq!(count(&["--kind", "a", "--queue", "one"]), 1);
    assert_eq!(count(&["--state", "timer"]), 1);
    assert_eq!(count(&["--state", "timer,waiting"]), 4);
    assert_eq!(count(&["--state", "dead"]), 0);
    assert_eq!(count(&["--id", &ids[0], "--id", &ids[2]]), 2);
    let first = sandbox.list(&["--limit", "2"]);
    assert_eq!(first.len(), 2);
    let rest = sandbox.list(&["--after", &first[1]["seq"].to_string()]);
    assert_eq!(rest.len(), 2);
    assert_eq!(rest[0]["id"], json!(ids[2]));
    sandbox.run(&["jobs", "list", "--state", "nonsense"]).code(2).says("waiting, blocked, running, external, timer");
}

fn operations_can_be_applied_to_jobs(sandbox: &Sandbox) {
    sandbox.configure("[handlers.fails]\ncommand = [\"false\"]\n");
    let dead: Vec<String> = (0..3).map(|_| sandbox.send(&["fails", "--max-attempts", "1"])).collect();
    let other = sandbox.send(&["other"]);
    let later = sandbox.send(&["later", "--delay", "1h"]);
    sandbox.run(&["worker", "--drain"]).success();
    assert_eq!(sandbox.list(&["--state", "dead"]).len(), 3);

    for verb in ["retry", "cancel", "delete"] {
        sandbox.run(&["jobs", verb]).code(2).says("--all");
        sandbox.run(&["jobs", verb, "--all", "--kind", "x"]).code(2);
    }
    let says = |args: &[&str], text: &str| {
        let done = sandbox.run(&[&["jobs"], args].concat()).success();
        assert_eq!(done.stdout.trim(), text);
    };
    says(&["retry", "--state", "dead", "--dry-run"], "3 jobs would be retried (3 dead)");
    says(&["retry", &dead[0], "--id", &later], "2 jobs retried (1 timer, 1 dead before)");
    assert_eq!(sandbox.show(&dead[0])["state"], "waiting");
    assert_eq!(sandbox.show(&dead[0])["attempt"], 0);
    assert_eq!(sandbox.show(&later)["state"], "waiting");
    sandbox.run(&["jobs", "retry", &other]).code(1).says("1 job of 1 could not be retried");
    says(&["cancel", "--kind", "other"], "1 job cancelled (1 waiting before)");
    sandbox.run(&["jobs", "show", &other]).code(1);
    says(&["cancel", "--kind", "other"], "0 jobs cancelled");
    let json = sandbox.run(&["jobs", "delete", "--all", "--dry-run", "--output", "json"]).success().stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, json!({ "dry_run": true, "total": 4, "states": { "waiting": 2, "dead": 2 } }));
    says(&["delete", "--all"], "4 jobs deleted (2 waiting, 2 dead before)");
    assert!(sandbox.list(&[]).is_empty());
}

fn the_status_counts(sandbox: &Sandbox) {
    sandbox.send(&["x", "--queue", "one"]);
    sandbox.send(&["x", "--queue", "two", "--delay", "1h"]);
    let table = sandbox.run(&["status"]).success().stdout;
    assert!(table.contains("DB-only (no broker configured)") && table.contains("No nodes"), "{table}");
    let status: Value = serde_json::from_str(&sandbox.run(&["status", "--output", "json"]).success().stdout).unwrap();
    let queues = status["queues"].as_array().unwrap();
    assert_eq!(queues.len(), 2);
    assert_eq!((&queues[0]["queue"], &queues[0]["waiting"]), (&json!("one"), &json!(1)));
    assert_eq!((&queues[1]["queue"], &queues[1]["timer"]), (&json!("two"), &json!(1)));

    sandbox.configure("[handlers.none]\ncommand = [\"true\"]\n");
    let mut worker = sandbox.worker(&[]);
    crate::common::until("the node", || sandbox.run(&["status"]).success().stdout.contains("left"));
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0));
}

/// Returns this many lines, each with its number.
fn numbers(most: u32) -> String {
    (1..=most).fold(String::new(), |lines, n| lines + &n.to_string() + "\n")
}
