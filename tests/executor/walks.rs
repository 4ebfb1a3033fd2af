//! No statement of the engine scans a whole table or index, whatever the planner assumed.

use std::collections::HashMap;

use jobwright::Keep;
use jobwright::internal::engine::testing::postgres_statements;

use crate::executor::query_plans::SESSION;
use crate::support::TestDb;
use crate::support::postgres::Pg;

/// All statements of the engine. A node plans its statements once, often while the tables are empty. Scanning a whole index then looks cheapest, and
/// the plan still scans it when a million jobs wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_walks_over_an_index_though_it_was_planned_on_empty_tables() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    let generic = format!("{SESSION}; set plan_cache_mode = force_generic_plan; analyze");
    for command in generic.split("; ") {
        client.batch_execute(command).await.unwrap();
    }
    let firsts = client
        .query(
            "select i.indexrelid::regclass::text, a.attname::text from pg_index i
             join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
             join pg_class t on t.oid = i.indrelid
             where t.relnamespace = to_regnamespace($1) and t.relname <> all ($2)",
            &[&db.schema(), &FEW_ROWS.as_slice()],
        )
        .await
        .unwrap();
    let firsts: HashMap<String, String> = firsts.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut walks = walks_of(&client, db.schema(), &firsts, "never used").await;
    // Some work has been done.
    client
        .batch_execute(
            "insert into job (id, kind, queue, rank, max_attempts, payload, options)
             select gen_random_uuid(), 'kind', 'default', 0, 10, '1', '{\"group\": \"hot\"}' from generate_series(1, 2000);
             insert into permit (job_id, key) select id, 'g:hot' from job;
             insert into unblock (key) select 'g:hot' from job;
             delete from permit; delete from unblock; delete from job",
        )
        .await
        .unwrap();
    client.batch_execute("vacuum analyze").await.unwrap();
    walks.extend(walks_of(&client, db.schema(), &firsts, "used").await);
    assert_eq!(walks, Vec::<String>::new());
}

/// Lists the full scans in the plans; `firsts` has the first column of each index.
async fn walks_of(
    client: &tokio_postgres::Client,
    schema: &str,
    firsts: &HashMap<String, String>,
    when: &str,
) -> Vec<String> {
    let tables = [
        "job ",
        "timer_job ",
        "suspended_job ",
        "dead_letter_job ",
        "external_job ",
        "history ",
        "permit ",
        "unique_key ",
    ];
    let mut walks = Vec::new();
    let version = "select current_setting('server_version_num')::int4";
    let version: i32 = client.query_one(version, &[]).await.unwrap().get(0);
    client.batch_execute("deallocate all").await.unwrap();
    let statements = postgres_statements(schema, Keep::All);
    assert!(statements.len() > 90 && firsts.len() > 20, "{} {}", statements.len(), firsts.len());
    for (name, sql, types) in statements {
        if [&ASKED_BY_PEOPLE[..], &BY_FILTER, &WITH_A_LIMIT].iter().any(|names| names.contains(&&*name)) {
            continue;
        }
        if version < 140_000 && BY_PAGES.contains(&&*name) {
            continue;
        }
        let nulls = vec!["null"; types.len()].join(", ");
        let (types, arguments) = match types.len() {
            0 => (String::new(), String::new()),
            _ => (format!("({})", types.join(", ")), format!("({nulls})")),
        };
        client.batch_execute(&format!("prepare {name} {types} as {sql}")).await.unwrap();
        let rows = client.query(&format!("explain (costs off) execute {name} {arguments}"), &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        walks.extend(
            plan.iter()
                .filter(|line| tables.iter().any(|table| format!("{line} ").contains(&format!("Seq Scan on {table}"))))
                .map(|line| format!("{when}: {name}: {}", line.trim())),
        );
        for (line, next) in plan.iter().zip(plan.iter().skip(1)) {
            let index = line.split(" using ").nth(1).and_then(|after| after.split(' ').next());
            let Some(first) = index.and_then(|index| firsts.get(index)) else { continue };
            // Only a condition on the first column of an index limits where the scan begins or ends.
            if !(next.contains("Index Cond") && compares(next, first)) {
                walks.push(format!("{when}: {name}: {} {}", line.trim().trim_start_matches("->  "), next.trim()));
            }
        }
    }
    walks
}

/// Whether a condition compares this column itself, and does not only mention it: the column follows a parenthesis, perhaps with its table.
fn compares(condition: &str, column: &str) -> bool {
    condition.split('(').any(|part| {
        let name = part.split([' ', ')', ',']).next().unwrap_or_default();
        name.rsplit('.').next() == Some(column)
    })
}

/// Lists of operators, which may take a while. Those that `status`, `doctor` and a monitoring ask again and again are not among them, except for
/// `waiting_classes`, which stops at a limit: they read large tables in part (`tablesample`, which is no walk), or step through indexes.
const ASKED_BY_PEOPLE: [&str; 6] =
    ["audit", "choose", "count_some", "dead_letter_groups", "history", "waiting_classes"];

/// Operations on all jobs that match a filter, which check each row. And `travel`, by which tests move a table in time.
const BY_FILTER: [&str; 12] = [
    "cancel",
    "change_idle",
    "change_waiting",
    "count",
    "delete",
    "list_ids",
    "resume",
    "retry",
    "retry_spread",
    "run_now",
    "suspend",
    "travel",
];

/// Scans that begin at an end of an index and stop at a limit. Or scans, every ten minutes or when a rule changes, of tables with few rows: nodes,
/// parts of periods, jobs that are handed out or run.
const WITH_A_LIMIT: [&str; 10] = [
    "aging_queues",
    "forget_nodes",
    "permit_running",
    "prune_rate_log",
    "put_rule",
    "repair_leases",
    "repair_lives",
    "repair_rates",
    "repair_retries",
    "repair_timer_lives",
];

/// Walks over a range of pages. PostgreSQL 13 reads the whole table for one, so there a walk is a single statement (docs/tables.md).
const BY_PAGES: [&str; 6] = ["lost", "owners", "release_lost", "release_unknown", "release_unknown_free", "unknown"];

/// Tables with few rows: rules, nodes, schedules, migrations, and what each node runs under each limit of a queue or kind.
const FEW_ROWS: [&str; 5] = ["rule", "node", "schedule", "migration", "usage"];
