//! Faults that keep jobs from running: each is made, the doctor and `why` name it, and their advice ends it.

use serde_json::Value;

use crate::common::open_transaction::OpenTransaction;
use crate::common::{Sandbox, as_owner, on_both_stores, until};
use crate::doctor::{advice, doctor, found, on_the_database};

on_both_stores!(timers_that_nobody_moves, claims_that_are_refused);

const HANDLER: &str = "[handlers.mail]\ncommand = [\"true\"]\n";

fn timers_that_nobody_moves(sandbox: &Sandbox) {
    sandbox.configure(HANDLER);
    sandbox.run(&["migrate"]).success();
    sandbox.send(&["mail", "--delay", "1h"]);
    sandbox.send(&["mail", "--ttl", "1h"]);
    assert_eq!(found(&doctor(sandbox), "due work")[0].0, "ok");
    if sandbox.schema().is_some() {
        on_the_database(sandbox, "update {}timer_job set due_at = now() - interval '2 minutes'");
        on_the_database(sandbox, "update {}job set options = jsonb_set(options, '{expires}', '1000000')");
    } else {
        on_the_database(sandbox, "update {}job set due_at = 1000000 where state = 'timer'");
        on_the_database(
            sandbox,
            "update {}job set options = json_set(options, '$.expires', 1000000) where state = 'waiting'",
        );
    }
    let (state, text) = found(&doctor(sandbox), "due work").remove(0);
    assert_eq!(state, "warn");
    assert!(text.contains("timers have been due for ") && text.contains("times to live have been due for "), "{text}");
    assert!(advice(&doctor(sandbox), "due work").contains("start `jobwright worker`"));

    let _worker = sandbox.worker(&[]);
    until("the timer to run", || sandbox.list(&["--state", "waiting,timer,running"]).is_empty());
    assert_eq!(found(&doctor(sandbox), "due work")[0].0, "ok");
}

/// A trigger of the application stands for whatever refuses: a missing right, a full disk, a damaged index.
fn claims_that_are_refused(sandbox: &Sandbox) {
    sandbox.configure(HANDLER);
    sandbox.run(&["migrate"]).success();
    let (refuse, allow) = if let Some(schema) = sandbox.schema() {
        let function = "returns trigger language plpgsql as $$ begin raise exception 'the audit table is gone'; end $$";
        as_owner(&format!("create function {schema}.refuse() {function}")).unwrap();
        (
            "create trigger refuse before update on {}job for each row execute function {}refuse()",
            "drop trigger refuse on {}job",
        )
    } else {
        (
            "create trigger refuse before update on {}job begin select raise(abort, 'the audit table is gone'); end",
            "drop trigger refuse",
        )
    };
    on_the_database(sandbox, refuse);
    let worker = sandbox.worker(&[]);
    let id = sandbox.send(&["mail"]);
    until("the doctor to name the task", || found(&doctor(sandbox), "tasks of nodes")[0].0 == "warn");
    let text = found(&doctor(sandbox), "tasks of nodes").remove(0).1;
    assert!(text.contains("jobs could not be claimed") && text.contains("the audit table is gone"), "{text}");
    let why = sandbox.run(&["why", &id]).success().stdout;
    assert!(why.contains("jobs could not be claimed") && why.contains("fix the cause that the error names"), "{why}");
    let listed = sandbox.run(&["nodes", "list"]).success().stdout;
    assert!(listed.contains("→ node ") && listed.contains("the audit table is gone"), "{listed}");
    on_the_database(sandbox, allow);
    until("the job to run", || sandbox.list(&[]).is_empty());
    until("the doctor to be content", || found(&doctor(sandbox), "tasks of nodes")[0].0 == "ok");
    drop(worker);
}

/// As a maintenance window of another program that someone forgot.
#[test]
fn a_session_that_others_wait_for() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    sandbox.configure(HANDLER);
    sandbox.run(&["migrate"]).success();
    let schema = sandbox.schema().unwrap().to_owned();
    assert_eq!(found(&doctor(&sandbox), "locks")[0].0, "ok");
    let _worker = sandbox.worker(&[]);
    sandbox.send(&["mail"]);
    until("the first job to run", || sandbox.list(&[]).is_empty());
    sandbox.send(&["mail", "--delay", "1s"]);
    let lock = OpenTransaction::with(&format!("lock table \"{schema}\".job in share mode"));
    until("the doctor to name the session", || found(&doctor(&sandbox), "locks")[0].0 == "warn");
    let done = doctor(&sandbox);
    let (text, advice) = (found(&done, "locks").remove(0).1, advice(&done, "locks"));
    assert!(text.contains("for session ") && text.contains("idle in transaction"), "{text}");
    let end = advice.split('`').nth(1).unwrap().to_owned();
    assert!(end.starts_with("select pg_terminate_backend("), "{advice}");
    as_owner(&end).unwrap();
    until("the job to run", || sandbox.list(&[]).is_empty());
    drop(lock);
    until("nobody to wait", || found(&doctor(&sandbox), "locks")[0].0 == "ok");
}

#[test]
fn external_workers_that_are_missing() {
    let Some(sandbox) = Sandbox::postgres().and_then(Sandbox::with_rabbit) else { return };
    sandbox.configure("[queues.mail]\nexternal = true\nlease = \"1m\"\n");
    sandbox.run(&["migrate"]).success();
    let _worker = sandbox.worker(&[]);
    let id = sandbox.send(&["mail", "--queue", "mail"]);
    let why = || sandbox.run(&["why", &id, "--output", "json"]).stdout;
    let told = |text: &str| serde_json::from_str::<Value>(text).unwrap()["reasons"][0]["task"] == "consumers";
    until("the reason to be told", || told(&why()));
    let text = sandbox.run(&["why", &id]).success().stdout;
    assert!(text.contains("has no consumer") && text.contains("start a worker that consumes that queue"), "{text}");
    let text = found(&doctor(&sandbox), "tasks of nodes").remove(0);
    assert_eq!(text.0, "ok", "missing workers are told of the jobs that wait for them: {}", text.1);
    let (state, text) = found(&doctor(&sandbox), "waiting jobs").remove(0);
    assert!(state == "warn" && text.contains("has no consumer"), "{text}");
}

/// Nobody has declared it dead, because no other node runs.
#[test]
fn a_dead_node_that_keeps_its_jobs() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    sandbox.configure("[handlers.mail]\ncommand = [\"sleep\", \"600\"]\n");
    sandbox.run(&["migrate"]).success();
    let id = sandbox.send(&["mail"]);
    let worker = sandbox.worker(&[]);
    until("the job to run", || sandbox.show(&id)["state"] == "running");
    sandbox.run(&["why", &id]).success().prints("it runs on node ");
    let node = sandbox.show(&id)["owner"].to_string();
    worker.kill_9();
    on_the_database(&sandbox, "update {}node set expires_at = now() - interval '10 minutes'");
    sandbox.run(&["why", &id]).success().prints("has been silent for longer than its lease");
    let done = doctor(&sandbox);
    let (state, text) = found(&done, "nodes").remove(0);
    assert!(state == "warn" && text.contains("and it still has jobs (1)"), "{text}");
    assert!(advice(&done, "nodes").contains("`jobwright nodes evict ID`"));
    sandbox.run(&["nodes", "evict", &node]).success();
    assert_ne!(sandbox.show(&id)["state"], "running");
    assert!(!found(&doctor(&sandbox), "nodes")[0].1.contains("still has jobs"));
}
