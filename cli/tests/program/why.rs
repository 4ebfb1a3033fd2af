//! `jobwright why`, and where else the program says why jobs do not run.

use std::time::Duration;

use jobwright::admin::Serves;
use jobwright::internal::engine::NodeInfo;
use serde_json::Value;

use crate::common::{Sandbox, as_owner, on_both_stores, until};

on_both_stores!(
    the_frequent_causes_have_an_answer_and_a_remedy,
    draining_ends_when_a_rule_holds_what_is_left,
    draining_looks_behind_the_jobs_of_others,
    nodes_say_what_they_serve,
    the_doctor_warns_of_jobs_that_nothing_takes,
    what_is_not_there,
);

fn reasons(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let why: Value = serde_json::from_str(&sandbox.run(&["why", id, "--output", "json"]).success().stdout).unwrap();
    assert_eq!(why["id"], id);
    why["reasons"].as_array().unwrap().clone()
}

/// A kind that is spelled wrongly, a queue that nobody works on, a pause: each with a command that helps, which is played.
fn the_frequent_causes_have_an_answer_and_a_remedy(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    let alone = sandbox.send(&["ours"]);
    sandbox.run(&["why", &alone]).success().prints("no executor is alive");
    let worker = sandbox.worker(&[]);
    until("the first job", || sandbox.list(&[]).is_empty());
    let typo = sandbox.send(&["theirs"]);
    sandbox.run(&["why", &typo]).success().prints("has a handler for the kind \"theirs\"");
    assert_eq!(reasons(sandbox, &typo)[0]["reason"], "kind_not_handled");
    sandbox.run(&["jobs", "show", &typo]).success().prints("why         no living node");
    let status = sandbox.run(&["status"]).success();
    status.prints(&format!("→ 1 job, for instance {typo}: no living node")).prints("check the spelling of the kind");
    let lost = sandbox.send(&["ours", "--queue", "typo"]);
    sandbox.run(&["why", &lost]).success().prints("no living node works on the queue \"typo\"");
    sandbox.run(&["jobs", "change", &lost, "--to-queue", "default"]).success();
    until("the moved job", || sandbox.list(&["--kind", "ours"]).is_empty());
    sandbox.run(&["queues", "pause", "default", "--as", "ann"]).success();
    let paused = sandbox.send(&["ours"]);
    let said = sandbox.run(&["why", &paused]).success();
    said.prints("queue \"default\" is paused since ").prints(" by ann").prints("`jobwright queues resume default`");
    let all = sandbox.run(&["why"]).success();
    all.prints(&format!("1 job is waiting, {typo}")).prints(&format!("1 job is waiting, {paused}"));
    sandbox.run(&["why", "--kind", "ours"]).success().prints(&paused);
    sandbox.run(&["queues", "resume", "default"]).success();
    until("the paused job", || sandbox.list(&["--kind", "ours"]).is_empty());
    drop(worker);
}

/// Whether claims count the rule or admission passes do: what it holds is left, and the exit code says so.
fn draining_ends_when_a_rule_holds_what_is_left(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    let rules: [(&[&str], &str); 8] = [
        (&["queue", "default", "--paused", "true"], "queue \"default\""),
        (&["queue", "*", "--paused", "true"], "each queue"),
        (&["queue", "default", "--running", "0"], "queue \"default\""),
        (&["kind", "ours", "--paused", "true"], "kind \"ours\""),
        (&["kind", "*", "--paused", "true"], "kind \"ours\""),
        (&["kind", "ours", "--running", "0"], "kind \"ours\""),
        (&["tenant", "acme", "--paused", "true"], "tenant \"acme\""),
        (&["key", "printer", "--running", "0"], "key \"printer\""),
    ];
    for (rule, named) in rules {
        sandbox.run(&[&["rules", "put"], rule].concat()).success();
        sandbox.send(&["ours", "--tenant", "acme", "--limit-key", "printer"]);
        let left = sandbox.run(&["worker", "--drain"]).code(4);
        assert!(left.stderr.contains("1 left"), "{rule:?}: {left:?}");
        assert!(left.stderr.contains(named) || left.stderr.contains("each kind"), "{rule:?}: {left:?}");
        sandbox.run(&["rules", "delete", rule[0], rule[1]]).success();
        sandbox.run(&["worker", "--drain"]).success();
        assert!(sandbox.list(&[]).is_empty(), "{rule:?}");
    }
}

/// Many jobs of others, in many classes, do not hide the one that this worker is held from.
fn draining_looks_behind_the_jobs_of_others(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    for group in 0..60 {
        let group = format!("group {group}");
        sandbox.run_with(&["send", "theirs", "--lines", "--group", &group], b"1\n2\n").success();
    }
    sandbox.run(&["rules", "put", "tenant", "acme", "--paused", "true"]).success();
    sandbox.send(&["ours", "--tenant", "acme"]);
    let left = sandbox.run(&["worker", "--drain"]).code(4);
    assert!(left.stderr.contains("1 left") && left.stderr.contains("tenant \"acme\""), "{left:?}");
}

fn nodes_say_what_they_serve(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n[queues.default]\n[queues.second]\nconcurrency = 3\n");
    let worker = sandbox.worker(&[]);
    let nodes = || -> Value {
        serde_json::from_str(&sandbox.run(&["nodes", "list", "--output", "json"]).success().stdout).unwrap()
    };
    until("the node", || nodes().as_array().is_some_and(|all| all.len() == 1));
    let serves = &nodes()[0]["serves"];
    assert_eq!(serves["queues"]["second"], 3);
    assert_eq!(serves["kinds"], serde_json::json!(["ours"]));
    sandbox.run(&["nodes", "list"]).success().prints("second=3").prints("ours");
    drop(worker);
}

fn the_doctor_warns_of_jobs_that_nothing_takes(sandbox: &Sandbox) {
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    let worker = sandbox.worker(&[]);
    until("the node", || sandbox.run(&["nodes", "list"]).success().stdout.contains("default=10"));
    let check = || -> Value {
        let found = sandbox.run(&["doctor", "--output", "json"]).stdout;
        let found: Vec<Value> = serde_json::from_str(&found).unwrap();
        found.into_iter().find(|finding| finding["check"] == "waiting jobs").expect("there is such a check")
    };
    assert_eq!(check()["state"], "ok");
    let typos: Vec<String> = (0..3).map(|_| sandbox.send(&["theirs"])).collect();
    let found = check();
    assert_eq!(found["state"], "warn");
    // Without a warning it would not fail for this one.
    sandbox
        .run(&["doctor", "--strict"])
        .code(1)
        .prints("→ check the spelling of the kind \"theirs\"")
        .prints(" warned, ");
    let text = found["found"].as_str().unwrap();
    assert!(text.contains("3 jobs") && text.contains("handler for the kind \"theirs\""), "{text}");
    assert!(text.contains(&typos[0]), "{text}");
    sandbox.run(&["jobs", "cancel", "--kind", "theirs"]).success();
    assert_eq!(check()["state"], "ok");
    drop(worker);
}

fn what_is_not_there(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    sandbox.run(&["why", "01890a5d-ac96-774b-bcce-b302099a8057"]).code(1).says("no job with this id");
    sandbox.run(&["why"]).success().prints("No job waits.");
    sandbox.run(&["why", "--queue", "q", "01890a5d-ac96-774b-bcce-b302099a8057"]).code(2);
    assert_eq!(sandbox.run(&["why", "--output", "json"]).success().stdout.trim(), "[]");
}

/// A node that lives and takes nothing, as one whose dispatcher stands still.
#[test]
fn the_doctor_warns_of_a_job_that_is_next_and_stays() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    sandbox.configure("[handlers.ours]\ncommand = [\"true\"]\n");
    sandbox.run(&["migrate"]).success();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut serves = Serves::default();
        serves.queues.insert("default".to_owned(), 1);
        serves.kinds.insert("ours".to_owned());
        let node = NodeInfo::new("still", "here", 1, Duration::from_secs(300)).serves(serves);
        sandbox.messages().await.engine().register_node(&node).await.unwrap();
    });
    let id = sandbox.send(&["ours"]);
    let check = || -> Value {
        let found = sandbox.run(&["doctor", "--output", "json"]).stdout;
        let found: Vec<Value> = serde_json::from_str(&found).unwrap();
        found.into_iter().find(|finding| finding["check"] == "waiting jobs").expect("there is such a check")
    };
    assert_eq!(check()["state"], "ok", "it has just been sent");
    let schema = sandbox.schema().unwrap();
    as_owner(&format!("update {schema}.job set created_at = created_at - interval '2 minutes'")).unwrap();
    let found = check();
    assert_eq!(found["state"], "warn");
    let text = found["found"].as_str().unwrap();
    assert!(text.contains(&id) && text.contains("nothing is in its way"), "{text}");
    assert!(found["do"].as_str().unwrap().contains("log says why"), "{found}");
}
