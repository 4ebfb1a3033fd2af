//! What the doctor says of, and what it does not mistake for an illness.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;

use common::{Done, Place, on_both_stores, uuid};
use serde_json::Value;

on_both_stores!(
    nobody_runs_what_waits,
    programs_that_can_not_be_started,
    jobs_that_nobody_could_read,
    replies_that_do_not_get_away,
    schedules_and_rules_that_can_not_be_read,
);

/// What it found of this: how it ended, and what it said.
fn found(done: &Done, check: &str) -> Vec<(String, String)> {
    let all: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    let about = all.iter().filter(|finding| finding["check"] == check);
    about.map(|finding| (finding["state"].as_str().unwrap().to_owned(), finding["found"].to_string())).collect()
}

fn doctor(place: &Place) -> Done {
    place.run(&["doctor", "--output", "json"])
}

fn on_the_database(place: &Place, sql: &str) {
    let sql = sql.replace("{}", &place.schema().map_or("jobwright_".to_owned(), |schema| format!("{schema}.")));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut context = place.messages().await.begin();
        match context.transaction().await.unwrap() {
            jobwright::AnyTransaction::Postgres(transaction) => {
                transaction.execute(sql.as_str(), &[]).await.unwrap();
            }
            jobwright::AnyTransaction::Sqlite(transaction) => {
                transaction.execute(sql, []).await.unwrap();
            }
        }
        context.commit().await.unwrap();
    });
}

fn nobody_runs_what_waits(place: &Place) {
    place.run(&["migrate"]).success();
    assert_eq!(found(&doctor(place).success(), "nodes")[0].0, "ok");
    place.send(&["mail"]);
    assert_eq!(found(&doctor(place).code(1), "nodes")[0].0, "fail");
}

fn programs_that_can_not_be_started(place: &Place) {
    place.run(&["migrate"]).success();
    std::fs::write(place.file("script"), "#!/bin/sh\n").unwrap();
    place.configure(
        r#"
        [handlers]
        good = { command = ["sh", "-c", "true"] }
        away = { command = ["no-such-program-anywhere"] }
        denied = { command = ["./script"] }
        hook = { url = "http://127.0.0.1:1/" }
        "#,
    );
    let faults = found(&doctor(place).code(1), "handlers");
    let [(_, away), (_, denied)] = &faults[..] else { panic!("{faults:?}") };
    assert!(away.contains("[handlers.away]") && away.contains("does not exist"), "{away}");
    assert!(denied.contains("[handlers.denied]") && denied.contains("may not be executed"), "{denied}");
}

fn jobs_that_nobody_could_read(place: &Place) {
    place.configure(
        "[handlers.odd]\ncommand = [\"sh\", \"-c\", \"echo the job can\\\\'t be read: it is odd >&2; exit 65\"]\n",
    );
    place.run(&["migrate"]).success();
    place.send(&["odd"]);
    place.run(&["worker", "--drain"]).success();
    assert_eq!(place.list(&["--state", "dead"]).len(), 1);
    assert_eq!(found(&doctor(place).success(), "unreadable jobs")[0].0, "ok", "only its program read something");
    let id = place.send(&["odd"]);
    on_the_database(place, "update {}job set headers = '[]', terms = '{\"tenant\": 5}'");
    place.run(&["worker", "--drain"]).success();
    let (state, said) = &found(&doctor(place).success(), "unreadable jobs")[0];
    assert!(state == "warn" && said.contains("1 dead letters") && said.contains(&id), "{said}");
}

fn replies_that_do_not_get_away(place: &Place) {
    place.run(&["migrate"]).success();
    let id = place.send(&["answer", "--queue", "jobwright.reply", "--delay", "1h"]);
    let check = || found(&doctor(place), "replies and events")[0].clone();
    assert_eq!(check().0, "ok", "it may be under way");
    let earlier = if place.schema().is_some() { "created_at - interval '1 hour'" } else { "created_at - 3600000000" };
    on_the_database(place, &format!("update {{}}timer_job set created_at = {earlier}"));
    let (state, said) = check();
    assert!(state == "warn" && said.contains(&id), "{said}");
}

/// A role that may not look at something has the rest looked at, and is told which right it lacks.
#[test]
fn a_missing_right_is_no_illness() {
    let Some(place) = Place::postgres() else { return };
    let (schema, role) = (place.schema().unwrap().to_owned(), format!("jobwright_looks_{}", uuid()));
    let owner = |sql: String| {
        let url = std::env::var("DATABASE_URL").unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(async move {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(&sql).await.unwrap();
        });
    };
    owner(format!(
        "create role {role} login password 'secret'; grant usage on schema {schema} to {role};
         grant select, insert, update, delete on all tables in schema {schema} to {role};
         grant usage, update on all sequences in schema {schema} to {role};
         revoke all on {schema}.suspended_job, {schema}.schedule from {role};"
    ));
    let url = std::env::var("DATABASE_URL").unwrap();
    let host = url.rsplit_once('@').map_or_else(|| url.split_once("://").unwrap().1, |(_, host)| host);
    let mut command = place.command(&["doctor", "--output", "json"]);
    let done = Done::from(command.env("DATABASE_URL", format!("postgres://{role}:secret@{host}")).output().unwrap());
    owner(format!("drop owned by {role}; drop role {role};"));
    let done = done.success();
    let (state, said) = &found(&done, "nodes")[0];
    assert!(state == "warn" && said.contains("permission denied for table suspended_job"), "{said}");
    let (state, said) = &found(&done, "schedules")[0];
    assert!(state == "warn" && said.contains("permission denied for table schedule"), "{said}");
    assert_eq!(found(&done, "gates")[0].0, "ok");
}

fn schedules_and_rules_that_can_not_be_read(place: &Place) {
    place.run(&["migrate"]).success();
    for name in ["hourly", "nightly"] {
        place.run(&["schedules", "put", name, "0 2 * * *", "report"]).success();
    }
    place.run(&["queues", "limit", "mail", "--running", "20", "--share-by", "tenant"]).success();
    assert_eq!(found(&doctor(place), "schedules and rules")[0].0, "ok");
    on_the_database(place, "update {}schedule set zone = 'Nowhere/At/All' where name = 'nightly'");
    on_the_database(place, "update {}rule set shares = '[5]'");
    let (state, text) = found(&doctor(place), "schedules and rules").remove(0);
    assert_eq!(state, "warn");
    assert!(text.contains("the schedule nightly") && text.contains("the rule queue mail"), "{text}");
    let listed = place.run(&["schedules", "list", "--output", "json"]).success().stdout;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.iter().map(|one| &one["state"]).collect::<Vec<_>>(), ["active", "unreadable"]);
    let table = place.run(&["schedules", "list"]).success().stdout;
    assert!(table.lines().any(|line| line.contains("nightly") && line.contains("unreadable")), "{table}");
    // It can be removed.
    place.run(&["schedules", "delete", "nightly"]).success();
    assert!(!found(&doctor(place), "schedules and rules")[0].1.contains("nightly"));
}
