//! What docs/stability.md promises of SQL and of JSON, read from that page.

use crate::common::{Sandbox, on_both_stores, until};
use jobwright::AnyTransaction;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/stability.md");

/// Returns what is in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the names in backticks between two texts of the page.
fn promised(after: &str, before: &str) -> Vec<&'static str> {
    let text = DOCUMENT.split_once(after).expect(after).1.split_once(before).expect(before).0;
    quoted(text)
}

fn fields_of_the_json(sandbox: &Sandbox) {
    sandbox.configure(
        "[handlers.good]\ncommand = [\"true\"]\n[handlers.bad]\ncommand = [\"sh\", \"-c\", \"exit 65\"]\n[history]\nkeep = \"all\"\n",
    );
    sandbox.send(&["good"]);
    let dead = sandbox.send(&["bad"]);
    let _worker = sandbox.worker(&[]);
    until("the jobs to end", || {
        sandbox.list(&[]).iter().all(|job| job["id"] == dead.as_str() && job["state"] == "dead")
    });
    sandbox.run(&["schedules", "put", "nightly", "0 3 * * *", "good"]).success();
    sandbox.run(&["rules", "put", "tenant", "acme", "--running", "2"]).success();

    let rows = DOCUMENT.split_once("| command | fields |").unwrap().1.split_once("\n\n").unwrap().0;
    let rows: Vec<_> = rows.lines().filter(|line| line.starts_with("| `")).map(quoted).collect();
    assert_eq!(rows.len(), 14, "{rows:?}");
    for row in rows {
        let (command, fields) = row.split_first().unwrap();
        let command = command.replace("ID", &dead);
        let args: Vec<&str> = command.split(' ').chain(["--output", "json"]).collect();
        let said: Value = serde_json::from_str(&sandbox.run(&args).success().stdout).unwrap();
        let elements = said.as_array().map_or_else(|| vec![&said], |list| list.iter().collect());
        assert!(!elements.is_empty(), "{command} lists nothing");
        for field in fields {
            assert!(elements.iter().all(|element| element.get(field).is_some()), "{command}: no {field} in {said}");
        }
    }
}

on_both_stores!(fields_of_the_json, columns_of_the_view);

/// Runs a query that finds one text.
fn asked(sandbox: &Sandbox, sql: String) -> String {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut context = sandbox.messages().await.begin();
        let text = match context.transaction().await.unwrap() {
            AnyTransaction::Postgres(transaction) => transaction.query_one(&sql, &[]).await.unwrap().get(0),
            AnyTransaction::Sqlite(transaction) => transaction.query_row(sql, [], |row| row.get(0)).await.unwrap(),
            _ => panic!("a database that these tests have no statements for"),
        };
        context.rollback().await.unwrap();
        text
    })
}

fn columns_of_the_view(sandbox: &Sandbox) {
    let found = match sandbox.schema() {
        Some(schema) => asked(
            sandbox,
            format!(
                "select string_agg(column_name, ',' order by ordinal_position) from information_schema.columns
                 where table_schema = '{schema}' and table_name = 'jobs'"
            ),
        ),
        None => asked(sandbox, "select group_concat(name) from pragma_table_info('jobwright_jobs')".to_owned()),
    };
    let columns = promised("has these columns, and may get more: ", ". `state` is");
    assert_eq!(columns.len(), 22);
    let found: Vec<&str> = found.split(',').collect();
    let missing: Vec<_> = columns.iter().filter(|column| !found.contains(column)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in {found:?}");
}

#[test]
fn parameters_of_the_functions() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let schema = sandbox.schema().unwrap();
    for (function, parameters) in [
        ("send", promised("a new one comes last and has a default: ", ". It returns")),
        ("wake", promised("- `jobwright.wake` takes ", ".\n")),
    ] {
        let sql = format!(
            "select string_agg(name, ',' order by number) from pg_proc, unnest(proargnames) with ordinality as named(name, number)
             where pronamespace = '{schema}'::regnamespace and proname = '{function}'"
        );
        let found = asked(&sandbox, sql);
        let found: Vec<&str> = found.split(',').collect();
        assert_eq!(parameters.len(), if function == "send" { 22 } else { 1 }, "{parameters:?}");
        assert!(found.starts_with(&parameters), "{function} has {found:?}, and not {parameters:?}");
    }
    // By position and with nothing else.
    let id = asked(&sandbox, format!("select {schema}.send('kind', '1')::text"));
    assert!(id.parse::<jobwright::JobId>().is_ok(), "{id}");
}
