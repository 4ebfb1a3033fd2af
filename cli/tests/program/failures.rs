//! Finding which jobs failed and why, and running them again.

use crate::common::{Sandbox, on_both_stores};
use serde_json::{Value, json};

on_both_stores!(
    errors_are_grouped,
    dead_letters_are_selected_by_their_error,
    dead_letters_run_again_some_at_a_time,
    a_queue_says_when_to_try_again,
    the_past_is_listed,
    nothing_is_remembered_unless_asked,
);

/// Programs that end as dead letters, with a reason that differs from job to job.
const FAILING: &str = r#"
    [handlers]
    order = { command = ["sh", "-c", "echo order $(cat) not found >&2; exit 65"] }
    mail = { command = ["sh", "-c", "echo connection refused >&2; exit 65"] }
"#;

/// Sends three orders and a mail, and waits until they are dead letters.
fn died(sandbox: &Sandbox) -> Vec<String> {
    let mut ids: Vec<String> = (17..20).map(|order: u32| sandbox.send(&["order", &order.to_string()])).collect();
    ids.push(sandbox.send(&["mail"]));
    sandbox.run(&["worker", "--drain"]).success();
    assert_eq!(sandbox.list(&["--state", "dead"]).len(), 4);
    ids
}

fn json_of(sandbox: &Sandbox, args: &[&str]) -> Value {
    serde_json::from_str(&sandbox.run(&[args, &["--output", "json"]].concat()).success().stdout).unwrap()
}

fn errors_are_grouped(sandbox: &Sandbox) {
    sandbox.configure(FAILING);
    let ids = died(sandbox);
    let found = json_of(sandbox, &["jobs", "errors"]);
    assert_eq!((&found["scanned"], &found["more"]), (&json!(4), &json!(false)));
    let orders = &found["groups"][0];
    assert_eq!((&orders["count"], &orders["kind"]), (&json!(3), &json!("order")));
    assert!(orders["error"].as_str().unwrap().contains("order # not found"), "{orders}");
    assert!(ids[..3].contains(&orders["example"].as_str().unwrap().to_owned()));
    let table = sandbox.run(&["jobs", "errors", "--kind", "mail", "--since", "1h"]).success().stdout;
    assert!(table.lines().count() == 2 && table.contains("connection refused"), "{table}");
    assert_eq!(json_of(sandbox, &["jobs", "errors", "--until", "2020-01-01T00:00:00Z"])["scanned"], 0);
}

fn dead_letters_are_selected_by_their_error(sandbox: &Sandbox) {
    sandbox.configure(FAILING);
    let ids = died(sandbox);
    sandbox.send(&["waits"]);
    let listed = |args: &[&str]| sandbox.list(args).len();
    assert_eq!(listed(&["--error", "not found"]), 3);
    assert_eq!(listed(&["--error", "order 18"]), 1);
    assert_eq!((listed(&["--since", "1h"]), listed(&["--until", "1h"])), (4, 0));
    assert_eq!((listed(&["--sent-since", "1h"]), listed(&["--sent-until", "1h"])), (5, 0));
    sandbox.run(&["jobs", "list", "--since", "yesterday"]).code(2).says("nor a duration");
    let done = sandbox.run(&["jobs", "retry", "--error", "refused", "--since", "1h"]).success().stdout;
    assert_eq!(done.trim(), "1 job retried (1 dead before)");
    assert_eq!(sandbox.show(&ids[3])["state"], "waiting");
}

fn dead_letters_run_again_some_at_a_time(sandbox: &Sandbox) {
    sandbox.configure(FAILING);
    let ids = died(sandbox);
    let says = |args: &[&str], text: &str| {
        let done = sandbox.run(&[&["jobs", "retry"], args].concat()).success();
        assert_eq!(done.stdout.trim(), text);
    };
    says(&["--kind", "order", "--limit", "2", "--dry-run"], "2 jobs would be retried (2 dead)");
    says(&["--kind", "order", "--limit", "2"], "2 jobs retried (2 dead before)");
    assert_eq!(sandbox.show(&ids[0])["state"], "waiting");
    assert_eq!(sandbox.show(&ids[2])["state"], "dead");
    says(&["--state", "dead", "--spread", "10h"], "2 jobs retried (2 dead before)");
    let due = |id: &str| sandbox.show(id)["due_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let apart = due(&ids[3]).duration_since(due(&ids[2])).as_secs();
    assert!((5 * 3600 - 1..=5 * 3600).contains(&apart), "{apart}");
}

fn a_queue_says_when_to_try_again(sandbox: &Sandbox) {
    sandbox.configure(
        "quarantine_after = 0\nconflict_retries = 5\n[queues.slow]\nretry = \"fixed(1h)\"\n\
         [handlers.fails]\ncommand = [\"false\"]\n",
    );
    let id = sandbox.send(&["fails", "--queue", "slow"]);
    let mut worker = sandbox.worker(&[]);
    crate::common::until("the next attempt", || sandbox.show(&id)["state"] == "timer");
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0));
    let due: jiff::Timestamp = sandbox.show(&id)["due_at"].as_str().unwrap().parse().unwrap();
    assert!(due.duration_since(jiff::Timestamp::now()).as_secs() > 3000, "{due}");
    sandbox.configure("quarantine_after = 11\n[handlers.fails]\ncommand = [\"false\"]\n");
    sandbox.run(&["worker", "--drain"]).says("executor.quarantine_after is 11");
}

fn the_past_is_listed(sandbox: &Sandbox) {
    sandbox.configure(&format!(
        "[history]\nkeep = \"all\"\nretention = \"1d\"\n{FAILING}\nok = {{ command = [\"true\"] }}\n"
    ));
    let ok = sandbox.send(&["ok"]);
    sandbox.run(&["worker", "--drain"]).success();
    let ids = died(sandbox);
    sandbox.run(&["jobs", "delete", &ids[3]]).success();
    let all = json_of(sandbox, &["jobs", "history"]);
    let outcomes: Vec<&str> = all.as_array().unwrap().iter().map(|entry| entry["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes.len(), 6);
    assert_eq!((outcomes[0], outcomes[5]), ("deleted", "done"), "the newest first");
    let of_one = json_of(sandbox, &["jobs", "history", &ok]);
    assert_eq!((&of_one[0]["id"], &of_one[0]["outcome"]), (&json!(ok), &json!("done")));
    assert_eq!(
        json_of(sandbox, &["jobs", "history", "--outcome", "dead", "--error", "not found"]).as_array().unwrap().len(),
        3
    );
    let table = sandbox.run(&["jobs", "history", "--outcome", "done,deleted", "--limit", "1"]).success().stdout;
    assert!(table.lines().count() == 2 && table.contains("deleted"), "{table}");
    sandbox.run(&["jobs", "history", "--outcome", "gone"]).code(2).says("done, failed, lost");
}

fn nothing_is_remembered_unless_asked(sandbox: &Sandbox) {
    sandbox.configure(FAILING);
    died(sandbox);
    sandbox.run(&["jobs", "history"]).success().says("keep = \"failed\"");
}
