//! The doctor's findings, and conditions that it must not report.

use crate::common::{Done, Sandbox, as_owner, on_both_stores, until, uuid};
use serde_json::Value;

on_both_stores!(
    jobs_wait_and_no_node_runs,
    programs_that_can_not_be_started,
    unreadable_jobs,
    replies_that_do_not_get_away,
    the_advice_about_permits_helps,
    schedules_and_rules_that_can_not_be_read,
);

/// Returns the findings of a check: state and message of each.
pub(crate) fn found(done: &Done, check: &str) -> Vec<(String, String)> {
    let all: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    let about = all.iter().filter(|finding| finding["check"] == check);
    about.map(|finding| (finding["state"].as_str().unwrap().to_owned(), finding["found"].to_string())).collect()
}

/// Returns the advice of a check.
pub(crate) fn advice(done: &Done, check: &str) -> String {
    let all: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    let about = all.iter().find(|finding| finding["check"] == check).unwrap();
    about["do"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn doctor(sandbox: &Sandbox) -> Done {
    sandbox.run(&["doctor", "--output", "json"])
}

pub(crate) fn on_the_database(sandbox: &Sandbox, sql: &str) {
    let sql = sql.replace("{}", &sandbox.schema().map_or("jobwright_".to_owned(), |schema| format!("{schema}.")));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut context = sandbox.messages().await.begin();
        match context.transaction().await.unwrap() {
            jobwright::AnyTransaction::Postgres(transaction) => {
                transaction.execute(sql.as_str(), &[]).await.unwrap();
            }
            jobwright::AnyTransaction::Sqlite(transaction) => {
                transaction.execute(sql, []).await.unwrap();
            }
            _ => panic!("a database that these tests have no statements for"),
        }
        context.commit().await.unwrap();
    });
}

fn jobs_wait_and_no_node_runs(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    assert_eq!(found(&doctor(sandbox).success(), "nodes")[0].0, "ok");
    sandbox.send(&["mail"]);
    assert_eq!(found(&doctor(sandbox).code(1), "nodes")[0].0, "fail");
}

fn programs_that_can_not_be_started(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    std::fs::write(sandbox.file("script"), "#!/bin/sh\n").unwrap();
    sandbox.configure(
        r#"
        [handlers]
        good = { command = ["sh", "-c", "true"] }
        away = { command = ["no-such-program-anywhere"] }
        denied = { command = ["./script"] }
        hook = { url = "http://127.0.0.1:1/" }
        "#,
    );
    let faults = found(&doctor(sandbox).code(1), "handlers");
    let [(_, away), (_, denied)] = &faults[..] else { panic!("{faults:?}") };
    assert!(away.contains("[handlers.away]") && away.contains("does not exist"), "{away}");
    assert!(denied.contains("[handlers.denied]") && denied.contains("may not be executed"), "{denied}");
}

fn unreadable_jobs(sandbox: &Sandbox) {
    sandbox.configure(
        "[handlers.odd]\ncommand = [\"sh\", \"-c\", \"echo the job can\\\\'t be read: it is odd >&2; exit 65\"]\n",
    );
    sandbox.run(&["migrate"]).success();
    sandbox.send(&["odd"]);
    sandbox.run(&["worker", "--drain"]).success();
    assert_eq!(sandbox.list(&["--state", "dead"]).len(), 1);
    assert_eq!(found(&doctor(sandbox).success(), "unreadable jobs")[0].0, "ok", "only its program read something");
    let id = sandbox.send(&["odd"]);
    on_the_database(sandbox, "update {}job set options = '{\"tenant\": 5}'");
    sandbox.run(&["worker", "--drain"]).success();
    let (state, said) = &found(&doctor(sandbox).success(), "unreadable jobs")[0];
    assert!(state == "warn" && said.contains("can't be read: 1, for") && said.contains(&id), "{said}");
}

fn replies_that_do_not_get_away(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    let id = sandbox.send(&["answer", "--queue", "jobwright.reply", "--delay", "1h"]);
    let check = || found(&doctor(sandbox), "replies and events")[0].clone();
    assert_eq!(check().0, "ok", "it may be under way");
    let earlier = match sandbox.schema() {
        Some(_) => "update {}timer_job set created_at = created_at - interval '1 hour'",
        None => "update {}job set created_at = created_at - 3600000000",
    };
    on_the_database(sandbox, earlier);
    let (state, said) = check();
    assert!(state == "warn" && said.contains(&id), "{said}");
}

/// Runs the checks as a role of its own, with these options, that may do everything with the tables but what `less` takes from it.
fn doctor_as_a_role(sandbox: &Sandbox, options: &str, less: &str) -> Done {
    let (schema, role) = (sandbox.schema().unwrap().to_owned(), format!("jobwright_looks_{}", uuid()));
    as_owner(
        &format!(
            "create role {role} login password 'secret' {options}; grant usage on schema {schema} to {role};
         grant select, insert, update, delete on all tables in schema {schema} to {role};
         grant usage, update on all sequences in schema {schema} to {role};
         {less}"
        )
        .replace("{role}", &role)
        .replace("{schema}", &schema),
    )
    .unwrap();
    let url = std::env::var("DATABASE_URL").unwrap();
    let host = url.rsplit_once('@').map_or_else(|| url.split_once("://").unwrap().1, |(_, host)| host);
    let mut command = sandbox.command(&["doctor", "--output", "json"]);
    let done = Done::from(command.env("DATABASE_URL", format!("postgres://{role}:secret@{host}")).output().unwrap());
    as_owner(&format!("drop owned by {role}; drop role {role};")).unwrap();
    done
}

/// A role that may have fewer connections than one executor uses.
#[test]
fn too_few_connections_are_reported() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let told = found(&doctor_as_a_role(&sandbox, "connection limit 12", ""), "connections");
    let expected = "1 executors may use 13 (13 each), and the role allows 12";
    assert!(told[0].0 == "warn" && told[0].1.contains(expected), "{told:?}");
}

/// If a role lacks a right for one check, the other checks still run, and the report names the missing right.
#[test]
fn a_missing_right_is_no_illness() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let less = "revoke all on {schema}.suspended_job, {schema}.schedule from {role};";
    let done = doctor_as_a_role(&sandbox, "", less);
    let done = done.success();
    let (state, said) = &found(&done, "nodes")[0];
    assert!(state == "warn" && said.contains("permission denied for table suspended_job"), "{said}");
    let (state, said) = &found(&done, "schedules")[0];
    assert!(state == "warn" && said.contains("permission denied for table schedule"), "{said}");
    assert_eq!(found(&done, "admission")[0].0, "ok");
}

/// It is no standby, and the advice for one would not help.
#[test]
fn a_role_whose_transactions_are_read_only() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let done = doctor_as_a_role(&sandbox, "", "alter role {role} set default_transaction_read_only = on;");
    let (state, said) = &found(&done, "database writes")[0];
    assert!(state == "fail" && said.contains("`default_transaction_read_only` is on"), "{said}");
    assert!(advice(&done, "database writes").contains("alter role"));
}

fn schedules_and_rules_that_can_not_be_read(sandbox: &Sandbox) {
    sandbox.run(&["migrate"]).success();
    for name in ["hourly", "nightly"] {
        sandbox.run(&["schedules", "put", name, "0 2 * * *", "report"]).success();
    }
    sandbox.run(&["queues", "limit", "mail", "--running", "20", "--share-by", "tenant"]).success();
    assert_eq!(found(&doctor(sandbox), "schedules and rules")[0].0, "ok");
    on_the_database(sandbox, "update {}schedule set zone = 'Nowhere/At/All' where name = 'nightly'");
    on_the_database(sandbox, "update {}rule set shares = '[5]'");
    let (state, text) = found(&doctor(sandbox), "schedules and rules").remove(0);
    assert_eq!(state, "warn");
    assert!(text.contains("the schedule nightly") && text.contains("the rule queue mail"), "{text}");
    let listed = sandbox.run(&["schedules", "list", "--output", "json"]).success().stdout;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.iter().map(|one| &one["state"]).collect::<Vec<_>>(), ["active", "unreadable"]);
    let table = sandbox.run(&["schedules", "list"]).success().stdout;
    assert!(table.lines().any(|line| line.contains("nightly") && line.contains("unreadable")), "{table}");
    // It can be removed.
    sandbox.run(&["schedules", "delete", "nightly"]).success();
    assert!(!found(&doctor(sandbox), "schedules and rules")[0].1.contains("nightly"));
}

/// Permits without a holder, as a truncated table leaves them, and a key that nothing will unblock: it advises to run a worker, and that is enough.
fn the_advice_about_permits_helps(sandbox: &Sandbox) {
    sandbox.configure("[handlers.mail]\ncommand = [\"true\"]\n");
    sandbox.run(&["migrate"]).success();
    let holder = if sandbox.schema().is_some() { "gen_random_uuid()" } else { "randomblob(16)" };
    on_the_database(sandbox, &format!("insert into {{}}permit (job_id, key) values ({holder}, 'g:held')"));
    for group in ["held", "forgotten"] {
        sandbox.send(&["mail", "--group", group]);
    }
    on_the_database(sandbox, "delete from {}unblock");
    let told = found(&doctor(sandbox).code(1), "permits");
    let [(state, faults)] = &told[..] else { panic!("{told:?}") };
    assert!(state == "warn" && faults.contains("which is gone") && faults.contains("g:forgotten"), "{faults}");
    let advice = advice(&doctor(sandbox).code(1), "permits");
    assert!(advice.contains("start `jobwright worker`"), "{advice}");

    let worker = sandbox.worker(&[]);
    until("both jobs to run", || sandbox.list(&[]).is_empty());
    until("the permits to be consistent", || found(&doctor(sandbox), "permits")[0].0 == "ok");
    assert!(worker.said().contains("took back a permit"), "{}", worker.said());
}
