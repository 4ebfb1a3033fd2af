//! PostgreSQL: a page of a listing reads about a page, whatever the number of jobs.

use jobwright::internal::engine::testing::postgres_statement;

use crate::support::TestDb;
use crate::support::postgres::Pg;

/// Sums the rows read by all nodes of a plan.
fn rows_read(plan: &serde_json::Value) -> f64 {
    let number = |key: &str| plan[key].as_f64().unwrap_or(0.0);
    let own = (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops");
    let below = plan["Plans"].as_array().map_or(0.0, |plans| plans.iter().map(rows_read).sum());
    own + below
}

async fn explained(client: &tokio_postgres::Client, explain: &str) -> serde_json::Value {
    let answer = client.simple_query(explain).await.unwrap();
    let text: String = answer
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_reads_about_a_page_whatever_the_statistics_say() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    // Five queues with three priorities each, and as many timers and dead letters, all interleaved.
    client
        .batch_execute(
            "alter table job set (autovacuum_enabled = off);
             alter table timer_job set (autovacuum_enabled = off);
             insert into job (id, kind, queue, rank, max_attempts, payload)
             select gen_random_uuid(), 'kind', 'q' || n % 5, n % 3, 10, '1' from generate_series(1, 60000) n;
             insert into timer_job (id, kind, queue, rank, max_attempts, payload, due_at)
             select gen_random_uuid(), 'kind', 'q' || n % 5, 0, 10, '1', now() + interval '1 day' from generate_series(1, 20000) n;
             insert into dead_letter_job (seq, version, id, attempt, created_at, kind, queue, rank, max_attempts, payload, reason)
             select n, 1, gen_random_uuid(), 1, now(), 'kind', 'q' || n % 5, 0, 10, '1', '' from generate_series(1, 20000) n",
        )
        .await
        .unwrap();
    // The same settings as on the engine's connections.
    client.batch_execute("set enable_seqscan = off; set enable_bitmapscan = off; set jit = off").await.unwrap();
    let list = postgres_statement("list", db.schema());
    let types =
        "uuid[], text[], text, text, text, timestamptz, timestamptz, timestamptz, timestamptz, jsonb, int8, int8";
    client.batch_execute(&format!("prepare list ({types}) as {list}")).await.unwrap();
    let check = async |when: &str| {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            client.batch_execute(&format!("set plan_cache_mode = {mode}")).await.unwrap();
            for (states, queue) in
                [("null", "null"), ("null", "'q3'"), ("'{waiting}'", "null"), ("'{timer,dead}'", "null")]
            {
                for after in ["-9223372036854775808", "30000"] {
                    let explain = format!(
                        "explain (analyze, format json) execute list
                         (null, {states}, {queue}, null, null, null, null, null, null, null, {after}, 100)"
                    );
                    let plan = explained(&client, &explain).await;
                    let read = rows_read(&plan[0]["Plan"]);
                    assert!(read < 15_000.0, "{when}, {mode}, {states}, {queue}, {after}: {read} rows\n{plan:#}");
                }
            }
        }
    };
    check("never analysed").await;
    client.batch_execute("analyze").await.unwrap();
    check("analysed").await;
}
