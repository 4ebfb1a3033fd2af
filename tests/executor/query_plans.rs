//! The cost of queries on PostgreSQL.

use std::time::Duration;

use jobwright::internal::engine::testing::postgres_statement;
use jobwright::{CommandExecutor, NewJob, Outcome};

use crate::support::environment::{PATIENCE, World, quick};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// The types of its parameters.
const COUNTED_TYPES: &str = "int8, text, int2[], int8[], int2[], int8[], text[], int8, int4, int8[], text[], text[], text[], int4[], bool, bool, bool";

/// A claim of ten from the whole queue, which counts under a limit of its kind.
const COUNTED_ALL: &str = "1, 'default', '{-32768}', '{-9223372036854775808}', '{32767}', '{9223372036854775807}', '{kind}', 10, 1, \
                           '{7}', '{k:kind}', '{kind}', '{kind}', '{0}', false, true, true";

/// The types of its parameters.
const CLAIM_TYPES: &str =
    "int8, text, int2[], int8[], int2[], text[], int8, bool, text, int8, int8, int8, int8[], int2, int4";

/// A claim of ten from the whole queue.
const CLAIM_ALL: &str = "1, 'default', '{-32768}', '{-9223372036854775808}', '{32767}', '{kind}', 10, false, \
                         null, null, null, null, '{9223372036854775807}', null, 1";

/// The same from a shared cursor on.
const CLAIM_FROM_SHARED_CURSOR: &str = "1, 'default', '{-32768,0}', '{-9223372036854775808,null}', '{-1,32767}', '{kind}', 10, false, \
                                'shared_cursor_0', 7, 0, 10, '{9223372036854775807,9223372036854775807}', 0::int2, 1";

/// The same of the rows that were passed over.
const CLAIM_UP_TO: &str = "1, 'default', '{-32768}', '{-9223372036854775808}', '{0}', '{kind}', 10, false, \
                           null, null, null, null, '{1000}', null, 1";

/// The settings that the engine uses on its connections.
pub(crate) const SESSION: &str = "set enable_seqscan = off; set enable_bitmapscan = off; set jit = off";

/// Returns the plans of all three, as one text.
async fn plan(client: &tokio_postgres::Client, claim: &str) -> String {
    client.batch_execute(&format!("prepare claim ({CLAIM_TYPES}) as {claim}")).await.unwrap();
    let mut plans = String::new();
    for values in [CLAIM_ALL, CLAIM_FROM_SHARED_CURSOR, CLAIM_UP_TO] {
        let rows = client.query(&format!("explain (costs off) execute claim ({values})"), &[]).await.unwrap();
        plans.extend(rows.iter().map(|row| format!("{}\n", row.get::<_, String>(0))));
    }
    client.batch_execute("deallocate claim").await.unwrap();
    plans
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_walks_its_index_whatever_the_statistics_say() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    let claim = postgres_statement("claim", db.schema());
    client.batch_execute(SESSION).await.unwrap();
    client.batch_execute("alter table job set (autovacuum_enabled = off)").await.unwrap();
    let check = async |when: &str| {
        for mode in ["auto", "force_generic_plan", "force_custom_plan"] {
            client.batch_execute(&format!("set plan_cache_mode = {mode}")).await.unwrap();
            let plan = plan(&client, &claim).await;
            assert!(plan.contains("Index Scan using job_acquire"), "{when}, {mode}:\n{plan}");
            // The table of nodes is tiny; the table of jobs must not be scanned.
            assert!(!plan.contains("Seq Scan on job") && !plan.contains("Sort"), "{when}, {mode}:\n{plan}");
            assert!(plan.contains("Tid Scan on job"), "{when}, {mode}:\n{plan}");
        }
    };
    check("never analysed").await;
    client.batch_execute("analyze job").await.unwrap();
    check("analysed when it was empty").await;
    client
        .batch_execute(
            "insert into job (id, kind, queue, rank, max_attempts, payload)
             select gen_random_uuid(), 'kind', 'default', -(n % 3), 10, '1' from generate_series(1, 100000) n",
        )
        .await
        .unwrap();
    check("100,000 rows, statistics of an empty table").await;
    client.batch_execute("analyze job").await.unwrap();
    check("100,000 rows").await;
    client.batch_execute("delete from job; analyze job").await.unwrap();
    check("all of them dead").await;
}

/// The claim reads the jobs it takes and a few in front. Admitted jobs have their own index, so the others are not scanned to find them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_counts_walks_its_indexes_whatever_the_statistics_say() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    let claim = postgres_statement("claim_counted", db.schema());
    client.batch_execute(SESSION).await.unwrap();
    client.batch_execute("alter table job set (autovacuum_enabled = off)").await.unwrap();
    let check = async |when: &str| {
        for mode in ["auto", "force_generic_plan", "force_custom_plan"] {
            client.batch_execute(&format!("set plan_cache_mode = {mode}")).await.unwrap();
            client.batch_execute(&format!("prepare claim ({COUNTED_TYPES}) as {claim}")).await.unwrap();
            let rows = client.query(&format!("explain (costs off) execute claim ({COUNTED_ALL})"), &[]).await.unwrap();
            client.batch_execute("deallocate claim").await.unwrap();
            let mut plan = String::new();
            plan.extend(rows.iter().map(|row| format!("{}\n", row.get::<_, String>(0))));
            assert_eq!(plan.matches("Index Scan using job_acquire on job c").count(), 2, "{when}, {mode}:\n{plan}");
            assert_eq!(plan.matches("Index Scan using job_admitted on job c").count(), 1, "{when}, {mode}:\n{plan}");
            assert!(!plan.contains("Seq Scan on job") && !plan.contains("Sort"), "{when}, {mode}:\n{plan}");
            assert!(plan.contains("Tid Scan on job"), "{when}, {mode}:\n{plan}");
        }
    };
    check("never analysed").await;
    client.batch_execute("analyze job").await.unwrap();
    check("analysed when it was empty").await;
    client
        .batch_execute(
            "insert into job (id, kind, queue, rank, max_attempts, payload, admitted)
             select gen_random_uuid(), 'kind', 'default', -(n % 3), 10, '1', n % 1000 = 0 from generate_series(1, 100000) n",
        )
        .await
        .unwrap();
    check("100,000 rows, statistics of an empty table").await;
    client.batch_execute("analyze job").await.unwrap();
    check("100,000 rows").await;
    client.batch_execute("update job set admitted = true; analyze job").await.unwrap();
    check("all of them admitted").await;
    client.batch_execute("delete from job; analyze job").await.unwrap();
    check("all of them dead").await;
}

/// Returns what a claim of ten reads: its plan with the rows of each step, and the pages.
async fn reads(client: &tokio_postgres::Client) -> (String, u64) {
    let explain = format!("explain (analyze, buffers, costs off, timing off, summary off) execute claim ({CLAIM_ALL})");
    client.batch_execute("begin").await.unwrap();
    // PostgreSQL 18 shows rows with two decimals.
    let lines: Vec<String> = client
        .query(&explain, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get::<_, String>(0).replace(".00 loops=", " loops="))
        .collect();
    client.batch_execute("rollback").await.unwrap();
    let (buffers, steps): (Vec<&String>, Vec<&String>) = lines.iter().partition(|line| line.contains("Buffers:"));
    // The totals of the statement come first.
    let pages = buffers[0].split(' ').filter_map(|word| word.strip_prefix("hit=").or(word.strip_prefix("read=")));
    let pages = pages.map(|pages| pages.parse::<u64>().unwrap()).sum();
    (steps.into_iter().filter(|line| !line.contains("Planning")).cloned().collect::<Vec<_>>().join("\n"), pages)
}

/// Returns the smallest of several measurements: other tests create tables on the same server, which sometimes makes a session read all catalogs
/// again.
async fn fewest_reads(client: &tokio_postgres::Client) -> (String, u64) {
    let mut fewest = reads(client).await;
    for _ in 0..4 {
        let (plan, pages) = reads(client).await;
        if pages < fewest.1 {
            fewest = (plan, pages);
        }
    }
    fewest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_reads_no_row_more_beside_100_000_blocked_jobs() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    client
        .batch_execute(
            "alter table job set (autovacuum_enabled = off);
             insert into node (id, name, host, pid, lease, expires_at) values (1, 'n', 'h', 1, '1 h', now() + interval '1 h');
             insert into job (id, kind, queue, rank, max_attempts, payload)
             select gen_random_uuid(), 'kind', 'default', 0, 10, '1' from generate_series(1, 1000)",
        )
        .await
        .unwrap();
    let session = format!("{SESSION}; set plan_cache_mode = force_generic_plan; vacuum analyze job");
    for command in session.split("; ") {
        client.batch_execute(command).await.unwrap();
    }
    let claim = postgres_statement("claim", db.schema());
    let prepare = format!("prepare claim ({CLAIM_TYPES}) as {claim}");
    client.batch_execute(&prepare).await.unwrap();
    let (before, pages_before) = fewest_reads(&client).await;
    assert!(before.contains("job_acquire on job c (actual rows=10 "), "{before}");
    // Better jobs would be in the way of every claim if they were in the table of waiting jobs.
    client
        .batch_execute(
            "insert into job (id, kind, queue, rank, max_attempts, payload, options)
             select gen_random_uuid(), 'kind', 'default', -1, 10, '1', '{\"group\": \"hot\"}' from generate_series(1, 100000)",
        )
        .await
        .unwrap();
    let blocked: i64 = client.query_one("select count(*) from jobs where state = 'blocked'", &[]).await.unwrap().get(0);
    assert_eq!(blocked, 100_000);
    // Claims that were rolled back leave row versions behind, and the next one reads them.
    client.batch_execute("vacuum job").await.unwrap();
    let (after, pages_after) = fewest_reads(&client).await;
    // The rows read, and through which index. The parts that never run may differ with the statistics.
    let run =
        |plan: &str| plan.lines().filter(|line| line.contains("(actual rows=")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(run(&after), run(&before));
    // Pruning may have cleaned up after the previous claim.
    assert!(pages_after <= pages_before + 20, "{pages_before} pages before, {pages_after} after");
}

const BATCHED: [(&str, &str); 6] = [
    ("complete", "int8, uuid[], int8[]"),
    ("complete_at", "int8, uuid[], int8[], tid[]"),
    ("complete_holding", "int8, uuid[], int8[], tid[]"),
    ("complete_keyed", "int8, uuid[], int8[], tid[], bool"),
    ("settle", "int8, uuid[], int8[], text[], int8[], text[], text[]"),
    ("release", "int8, uuid[], int8[], text[], text[]"),
];

/// Analysed when nothing was owned, a join with the batch would compare each owned row with all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_find_their_rows_by_id_whatever_the_statistics_say() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    client
        .batch_execute(
            "alter table job set (autovacuum_enabled = off);
             insert into job (id, kind, queue, rank, max_attempts, payload)
             select gen_random_uuid(), 'kind', 'default', 0, 10, '1' from generate_series(1, 20000);
             analyze job;
             update job set lock_owner = 1, version = 1 where seq in (select seq from job limit 2000);
             set enable_seqscan = off; set enable_bitmapscan = off; set jit = off",
        )
        .await
        .unwrap();
    let ids: Vec<uuid::Uuid> = client
        .query("select id from job where lock_owner = 1 limit 1000", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let array =
        |of: &dyn Fn(&uuid::Uuid) -> String| format!("'{{{}}}'", ids.iter().map(of).collect::<Vec<_>>().join(","));
    for (name, types) in BATCHED {
        let sql = postgres_statement(name, db.schema());
        client.batch_execute(&format!("prepare {name} ({types}) as {sql}")).await.unwrap();
        let arguments: Vec<String> = types
            .split(", ")
            .enumerate()
            .map(|(at, kind)| match (at, kind) {
                (0, _) => "1".to_owned(),
                (1, _) => array(&|id| id.to_string()),
                (2, _) => array(&|_| "1".to_owned()),
                (_, "bool") => "false".to_owned(),
                (_, "int8[]") => array(&|_| "0".to_owned()),
                (_, "tid[]") => array(&|_| "\"(7,7)\"".to_owned()),
                _ => array(&|_| "retry".to_owned()),
            })
            .collect();
        for mode in ["force_generic_plan", "force_custom_plan"] {
            client.batch_execute(&format!("set plan_cache_mode = {mode}")).await.unwrap();
            let explain = format!("explain (costs off) execute {name} ({})", arguments.join(", "));
            let rows = client.query(&explain, &[]).await.unwrap();
            let plan = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
            let found = if types.contains("tid[]") { "Tid Scan on job" } else { "Index Scan using job_id" };
            assert!(plan.contains(found), "{name}, {mode}:\n{plan}");
            // The key of each removed job is looked up, and in no other way.
            let lookups = usize::from(name == "complete_keyed");
            assert_eq!(plan.matches("Index Scan using unique_key_pkey").count(), lookups, "{name}, {mode}:\n{plan}");
            assert_eq!(plan.matches("Nested Loop").count(), lookups, "{name}, {mode}:\n{plan}");
            assert!(!plan.contains("Join"), "{name}, {mode}:\n{plan}");
        }
    }
}

/// A batch has as many deliveries as one claim takes. The table's statistics say that nothing is owned, or that the table is empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_find_their_rows_by_id_whatever_the_statistics_say() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    client
        .batch_execute(
            "alter table job set (autovacuum_enabled = off);
             analyze job;
             insert into job (id, kind, queue, rank, max_attempts, payload, visible_at)
             select gen_random_uuid(), 'kind', 'default', 0, 10, '1', clock_timestamp() + interval '5 s'
             from generate_series(1, 20000);
             set enable_seqscan = off; set enable_bitmapscan = off; set jit = off",
        )
        .await
        .unwrap();
    let claim = postgres_statement("claim_delivered", db.schema());
    client.batch_execute(&format!("prepare delivered (int8, uuid[], int8[], text[], int4) as {claim}")).await.unwrap();
    let ids: Vec<uuid::Uuid> =
        client.query("select id from job limit 500", &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let list = |texts: Vec<String>| format!("'{{{}}}'", texts.join(","));
    let ids = list(ids.iter().map(ToString::to_string).collect());
    let versions = list(vec!["0".to_owned(); 500]);
    for when in ["statistics of an empty table", "nothing is owned"] {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            client.batch_execute(&format!("set plan_cache_mode = {mode}")).await.unwrap();
            let explain = format!("explain (costs off) execute delivered (1, {ids}, {versions}, '{{kind}}', 1)");
            let rows = client.query(&explain, &[]).await.unwrap();
            let plan = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
            assert!(plan.contains("Index Scan using job_id"), "{when}, {mode}:\n{plan}");
            assert!(plan.contains("hashed SubPlan") && plan.contains("Tid Scan on job"), "{when}, {mode}:\n{plan}");
            assert!(!plan.contains("Seq Scan on job") && !plan.contains("job_acquire"), "{when}, {mode}:\n{plan}");
        }
        client.batch_execute("analyze job").await.unwrap();
    }
}

/// A claim changes no indexed column: its update stays within the page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_hot_updates() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = db.messages().await;
    let count = 5000;
    let mut cx = messages.begin();
    for n in 0..count {
        cx.send(NewJob::json("light", &n)).unwrap();
    }
    cx.commit().await.unwrap();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 100)
        .handle("light", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    // A server process reports its counters when it ends, or much later.
    drop(messages);
    let client = db.client().await;
    let mut counted = (0, 0);
    eventually(PATIENCE, async || {
        let sql = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'job' and schemaname = $1";
        let row = client.query_one(sql, &[&db.schema()]).await.unwrap();
        counted = (row.get::<_, i64>(0), row.get::<_, i64>(1));
        counted.0 >= count
    })
    .await;
    assert!(counted.1 as f64 >= 0.95 * counted.0 as f64, "{} of {} updates were HOT", counted.1, counted.0);
}
