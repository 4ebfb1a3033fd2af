//! Schedules while executors run, and their cost when nothing is due.

use std::time::Duration;

use jobwright::headers::SCHEDULED_AT;
use jobwright::internal::engine::testing::postgres_statement;
use jobwright::{CommandExecutor, ExecutorConfig, MessageServices, Misfire, NewJob, NewSchedule, Outcome, Schedule};

use crate::support::TestDb;
use crate::support::environment::{PATIENCE, World, patient, quick};
use crate::support::eventually;
use crate::support::postgres::Pg;

/// Starts an executor that notes for which occurrence each job was.
async fn ticking<W: World>(messages: &MessageServices<W::Store>, config: ExecutorConfig) -> CommandExecutor<W::Store> {
    CommandExecutor::builder(messages.clone())
        .config(config)
        .handle_with("tick", |cx| {
            Box::pin(async move {
                let line = cx.job().headers[SCHEDULED_AT].clone();
                W::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap()
}

fn tick(interval: &str) -> NewSchedule {
    NewSchedule::new("tick", Schedule::new(interval).unwrap(), NewJob::json("tick", &())).misfire(Misfire::All)
}

/// Polling would take an hour.
pub(crate) async fn one_that_is_put_is_heard_of<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = ticking::<W>(&messages, patient()).await;
    for interval in ["200ms", "300ms"] {
        let before = db.ledger().await.len();
        messages.schedules().put(tick(interval)).await.unwrap();
        eventually(PATIENCE, async || db.ledger().await.len() >= before + 3).await;
    }
    messages.schedules().pause("tick").await.unwrap();
    messages.schedules().resume("tick").await.unwrap();
    let before = db.ledger().await.len();
    eventually(PATIENCE, async || db.ledger().await.len() >= before + 3).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn many_nodes_run_each_occurrence_once<W: World>(db: &W) {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let messages = db.messages().await;
        nodes.push(ticking::<W>(&messages, quick()).await);
    }
    let messages = db.messages().await;
    messages.schedules().put(tick("100ms")).await.unwrap();
    eventually(PATIENCE, async || db.ledger().await.len() >= 20).await;
    messages.schedules().pause("tick").await.unwrap();
    db.drained().await;
    let ledger = db.ledger().await;
    let schedule = messages.schedules().get("tick").await.unwrap().unwrap();
    assert_eq!(schedule.fired, ledger.len() as u64, "one job for each occurrence");
    assert!(ledger.values().all(|times| *times == 1), "{ledger:?}");
    let moments: Vec<jiff::Timestamp> = ledger.keys().map(|line| line.parse().unwrap()).collect();
    let steady = moments.windows(2).all(|pair| pair[1].duration_since(pair[0]).as_millis() == 100);
    assert!(steady, "none is left out: {moments:?}");
    for node in nodes {
        node.shutdown(Duration::ZERO).await.unwrap();
    }
}

/// Another process puts the schedule, without this process's local wake-ups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_another_process_puts_is_heard_of() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = World::messages(&db).await;
    let executor = ticking::<Pg<false>>(&messages, patient()).await;
    let elsewhere = World::messages(&db).await;
    // The listener may not be connected yet, so each change sends another hint.
    let mut interval = 300;
    eventually(PATIENCE, async || {
        interval += 1;
        elsewhere.schedules().put(tick(&format!("{interval}ms"))).await.unwrap();
        eventually_or(Duration::from_secs(2), async || !db.ledger().await.is_empty()).await
    })
    .await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Returns whether the condition holds within this time.
async fn eventually_or(deadline: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let begun = std::time::Instant::now();
    while begun.elapsed() < deadline {
        if holds().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_at_schedules_walk_the_index_whatever_the_statistics_say() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    client
        .batch_execute(
            "alter table schedule set (autovacuum_enabled = off); analyze schedule;
             insert into schedule (name, schedule, zone, misfire, overlap, anchor_at, next_at, kind, queue, priority, max_attempts, payload)
             select n::text, '1h', 'UTC', 'once', 'allow', now(), now() + n * interval '1 s', 'kind', 'default', 0, 10, '1'
             from generate_series(-10, 20000) n;
             set enable_seqscan = off; set enable_bitmapscan = off; set jit = off",
        )
        .await
        .unwrap();
    let prepared = [
        ("next", "", "schedule_next", "execute next", "schedule_due"),
        ("due", "(int8)", "schedule_due", "execute due (100)", "schedule_due"),
        (
            "lock",
            "(text[], int8[], uuid[], timestamptz[])",
            "schedule_lock",
            "execute lock ('{1,2}', '{0,0}', '{null,null}', '{now,now}')",
            "schedule_pkey",
        ),
    ];
    for (name, types, statement, ..) in prepared {
        let sql = postgres_statement(statement, db.schema());
        client.batch_execute(&format!("prepare {name} {types} as {sql}")).await.unwrap();
    }
    for when in ["statistics of an empty table", "analysed"] {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            client.batch_execute(&format!("set plan_cache_mode = {mode}")).await.unwrap();
            for (name, _, _, execute, index) in prepared {
                let rows = client.query(&format!("explain (costs off) {execute}"), &[]).await.unwrap();
                let plan = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
                assert!(plan.contains(&format!("using {index} on schedule")), "{name}, {when}, {mode}:\n{plan}");
                // The lock may sort the names it was given.
                let sorts = name != "lock" && plan.contains("Sort");
                assert!(!plan.contains("Seq Scan on schedule") && !sorts, "{name}, {when}, {mode}:\n{plan}");
            }
        }
        client.batch_execute("analyze schedule").await.unwrap();
    }
}
