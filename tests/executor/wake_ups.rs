//! Wake-ups from other processes: no executor here would poll within an hour.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, ExecutorConfig, JobError, JobId, MessageServices, NewJob, Outcome};
use tokio_postgres::error::SqlState;

use crate::executor::successful_jobs::{note, noting, send_notes};
use crate::support::environment::{Gate, PATIENCE, World, at_once, lease, patient};
use crate::support::jobs::hand_out_number;
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

/// Starts an executor that notes its jobs and polls only when woken, and returns after its first polls.
async fn asleep<W: World>(messages: &MessageServices<W::Store>) -> CommandExecutor<W::Store> {
    with_nothing_to_do::<W>(messages, patient()).await
}

/// Starts an executor that notes its jobs, and returns after its first polls.
pub(crate) async fn with_nothing_to_do<W: World>(
    messages: &MessageServices<W::Store>,
    config: ExecutorConfig,
) -> CommandExecutor<W::Store> {
    let executor = CommandExecutor::builder(messages.clone())
        .config(config)
        .handle_with("note", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    // The job was handed over, so the executor has polled, found nothing, and waits. Its listener may not be connected yet.
    eventually(PATIENCE, async || {
        send_notes(messages, 1).await;
        executor.stats().handed_over > 0
    })
    .await;
    executor
}

async fn another_process_is_heard<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = asleep::<W>(&messages).await;
    let elsewhere = db.messages().await;
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        let begun = Instant::now();
        send_notes(&elsewhere, 1).await;
        db.drained().await;
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A sender that ends right after its commit, with its runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_after_its_commit_is_heard() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = World::messages(&db).await;
    let executor = asleep::<Pg<false>>(&messages).await;
    db.drained().await;
    // Its listener is connected: a first sender that stays is heard.
    let elsewhere = World::messages(&db).await;
    send_notes(&elsewhere, 1).await;
    db.drained().await;
    for _ in 0..5 {
        let config = World::config(&db);
        let short_lived = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let messages = MessageServices::postgres(&config).await.unwrap();
                send_notes(&messages, 1).await;
                messages.wake_ups_sent().await;
            });
        });
        tokio::task::spawn_blocking(move || short_lived.join().unwrap()).await.unwrap();
        db.drained().await;
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_is_heard_on_postgres() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    another_process_is_heard(&db).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_is_heard_on_sqlite() {
    let db = crate::support::sqlite::SqliteDb::with_ledger().await.unwrap();
    another_process_is_heard(&db).await;
}

/// Any language, any transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_alone_sends_and_wakes() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let executor = asleep::<Pg<false>>(&messages).await;
    let client = db.client().await;
    client.batch_execute("begin").await.unwrap();
    let id: String = client.query_one("select send('note', '{}')::text", &[]).await.unwrap().get(0);
    client.batch_execute("commit").await.unwrap();
    client.execute("select wake()", &[]).await.unwrap();
    db.drained().await;
    assert_eq!(db.ledger().await.get(&id), Some(&1));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// No wake-up arrives: the executor finds the job when it polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_wake_up_polling_finds_it() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let executor = noting::<Pg<false>>(&messages, 4).await;
    let client = db.client().await;
    let id: String = client.query_one("select send('note', '{}')::text", &[]).await.unwrap().get(0);
    db.drained().await;
    assert_eq!(db.ledger().await.get(&id), Some(&1));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The promoter of timers sleeps until the next timer it knows of, and here it knows of none.
/// A poll finds the first, and then the executor looks often: with polls alone, this would take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_without_wake_ups_is_looked_at_often() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let config = patient().poll_interval(Duration::from_secs(4));
    let executor = with_nothing_to_do::<Pg<false>>(&messages, config).await;
    let client = db.client().await;
    let sent_and_run = async || {
        client.execute("select send('note', '1')", &[]).await.unwrap();
        db.drained().await;
    };
    sent_and_run().await;
    let stream = async {
        for _ in 0..60 {
            sent_and_run().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), stream).await.expect("each waited for a poll");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_jobs_wake_the_timer_task() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let runs = AtomicU32::new(0);
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .kind_options("fails", at_once())
        .handle(
            "fails",
            |job| async move { if job.attempt < 4 { Err(JobError::new("again")) } else { Ok(Outcome::Done) } },
        )
        .handle("snoozes", move |_| {
            let again = runs.fetch_add(1, Ordering::SeqCst) < 3;
            async move { Ok(if again { Outcome::Snooze(Duration::ZERO) } else { Outcome::Done }) }
        })
        .start()
        .await
        .unwrap();
    for kind in ["fails", "snoozes"] {
        messages.send(NewJob::json(kind, &())).await.unwrap();
        db.drained().await;
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Waits until no executor has polled for a while. A second after each poll, another scans from the start of the queue, which would find jobs that no
/// hint announced.
async fn polls_have_paused<const POOLED: bool>(db: &Pg<POOLED>) {
    db.raw(
        "create sequence if not exists {schema}.looks;
         create or replace function {schema}.look() returns trigger language plpgsql as
             $$ begin perform nextval('{schema}.looks'); return null; end $$;
         drop trigger if exists look on {schema}.job;
         create trigger look after update on {schema}.job for each statement execute function {schema}.look()",
    )
    .await;
    let client = db.client().await;
    let (mut looks, mut since) = (0, Instant::now());
    eventually(PATIENCE, async || {
        let now: i64 = client.query_one("select last_value from looks", &[]).await.unwrap().get(0);
        if std::mem::replace(&mut looks, now) != now {
            since = Instant::now();
        }
        since.elapsed() > Duration::from_secs(3)
    })
    .await;
}

/// A node that shuts down cleanly owns nothing afterwards; other nodes are woken by its outcomes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_released_by_a_shutdown_wake_other_nodes() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let leaves = CommandExecutor::builder(messages.clone())
        .config(patient())
        // So that it takes nothing else.
        .queue("default", 1)
        .handle("note", |_| async {
            Gate::closed().pass().await;
            Ok(Outcome::Done)
        })
        .start()
        .await
        .unwrap();
    let ids = send_notes(&messages, 1).await;
    db.reaches(ids[0], JobState::Running).await;
    let stays = db.messages().await;
    let executor = asleep::<Pg<false>>(&stays).await;
    eventually(PATIENCE, async || db.jobs().all().await.len() == 1).await;
    // Its listener is connected when it receives a hint about something that its own polls would not find.
    let elsewhere = db.messages().await;
    send_notes(&elsewhere, 1).await;
    eventually(PATIENCE, async || db.jobs().all().await.len() == 1).await;
    polls_have_paused(&db).await;
    let left = leaves.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((left.released, left.in_flight), (1, 0));
    db.gone(ids[0]).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The monitor of a node that waits for hints releases them, and no other process would announce it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_dead_node_wake_waiting_nodes() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let config = lease(6).poll_interval(patient().poll_interval);
    let executor = with_nothing_to_do::<Pg<false>>(&messages, config).await;
    db.drained().await;
    let jobs = db.jobs();
    let id = jobs.send(note()).await;
    let node = jobs.node().await;
    assert_eq!(jobs.take_one(node).await.id, id);
    db.bury(node).await;
    db.gone(id).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_released_by_an_external_worker_wake_waiting_nodes() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    // Without hints, the monitor checks for late nodes every twelve leases.
    let config = lease(2).poll_interval(patient().poll_interval);
    let executor = with_nothing_to_do::<Pg<false>>(&messages, config).await;
    db.drained().await;
    let jobs = db.jobs();
    let id = jobs.send(note()).await;
    assert_eq!(jobs.hand_out("default", 1, Duration::ZERO, hand_out_number()).await.unwrap().len(), 1);
    db.gone(id).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Hints sent while it did not listen are lost, so it assumes the worst.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_sent_while_the_listener_was_down_are_found_when_it_returns() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = MessageServices::postgres(&db.config_by(proxy.address)).await.unwrap();
    let executor = asleep::<Pg<false>>(&messages).await;
    let elsewhere = db.messages().await;
    send_notes(&elsewhere, 1).await;
    db.drained().await;
    polls_have_paused(&db).await;
    proxy.down();
    let client = db.client().await;
    let listeners = format!(
        "select count(*) from pg_stat_activity where application_name = '{}' and query ilike 'listen%'",
        db.schema()
    );
    eventually(PATIENCE, async || client.query_one(&listeners, &[]).await.unwrap().get::<_, i64>(0) == 0).await;
    let ids = send_notes(&elsewhere, 1).await;
    elsewhere.wake_ups_sent().await;
    proxy.heal();
    db.gone(ids[0]).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Any client that may connect may notify on any channel. A hint carries no job, and any number that arrive together cause one poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_hints_by_a_stranger_costs_few_looks() {
    const HINTS: i64 = 20_000;
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let executor = asleep::<Pg<false>>(&messages).await;
    polls_have_paused(&db).await;
    let client = db.client().await;
    let looks = async || client.query_one("select last_value from looks", &[]).await.unwrap().get::<_, i64>(0);
    let before = looks().await;
    let (stranger, role) = (db.client().await, format!("{}_stranger", db.schema()));
    stranger.batch_execute(&format!("create role \"{role}\"; set role \"{role}\"")).await.unwrap();
    let denied = stranger.batch_execute(&format!("select from \"{}\".job", db.schema())).await.unwrap_err();
    assert_eq!(denied.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{denied}");
    for hint in ["qdefault", "rdefault", "a", "t", "s", "g", "x", "qnowhere"] {
        // Each in its own transaction: only then does the server send identical ones twice.
        let flood = format!(
            "do $$ begin for n in 1..{} loop perform pg_notify('{}_wake', '{hint}'); commit; end loop; end $$",
            HINTS / 8,
            db.schema()
        );
        stranger.batch_execute(&flood).await.unwrap();
    }
    let ids = send_notes(&db.messages().await, 1).await;
    db.gone(ids[0]).await;
    let looked = looks().await - before;
    assert!((1..HINTS / 10).contains(&looked), "{looked} looks for {HINTS} hints");
    stranger.batch_execute(&format!("reset role; drop role \"{role}\"")).await.unwrap();
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Sends a note in a transaction of a driver that these message services know nothing of, and commits it.
async fn sent_by_another_driver(client: &tokio_postgres::Client, messages: &MessageServices, job: NewJob) -> JobId {
    let sql = messages.as_sql(job).unwrap();
    client.batch_execute("begin").await.unwrap();
    let row = client.query_one(&sql.text, &[&sql.parameter]).await.unwrap();
    client.batch_execute("commit").await.unwrap();
    JobId::from(row.get::<_, uuid::Uuid>(0))
}

/// Of the same process and of another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn woken_after_a_commit_of_another_driver() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let executor = asleep::<Pg<false>>(&messages).await;
    let (client, elsewhere) = (db.client().await, db.messages().await);
    // Its listener is connected when this one is heard.
    send_notes(&elsewhere, 1).await;
    for (from, job) in [
        (&messages, note()),
        (&elsewhere, note()),
        (&elsewhere, note().exclusive("g")),
        (&elsewhere, note().delay(Duration::from_millis(300))),
    ] {
        db.drained().await;
        polls_have_paused(&db).await;
        let id = sent_by_another_driver(&client, from, job).await;
        from.wake("default").unwrap();
        db.gone(id).await;
        assert_eq!(db.ledger().await.get(&id.to_string()), Some(&1));
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Behind a transaction pooler no executor hears of other processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn woken_in_the_same_process_behind_a_pooler() {
    let Some(db) = Pg::<true>::create().await else { return };
    let messages = MessageServices::new(db.store(), &jobwright::DatabaseConfig::default());
    let (ran, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .handle("note", move |job| {
            let _ = ran.send(job.id);
            async { Ok(Outcome::Done) }
        })
        .start()
        .await
        .unwrap();
    // Handed over, so it has polled.
    let first = messages.send(note()).await.unwrap();
    assert_eq!(runs.recv().await, Some(first));
    polls_have_paused(&db).await;
    let client = db.client().await;
    let id = sent_by_another_driver(&client, &messages, note()).await;
    let elsewhere = MessageServices::new(db.reopen().await, &jobwright::DatabaseConfig::default());
    elsewhere.wake("default").unwrap();
    elsewhere.wake_ups_sent().await;
    assert_eq!(db.jobs().state(id).await, Some(JobState::Waiting), "nothing but a wake-up in this process finds it");
    messages.wake("default").unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, runs.recv()).await.unwrap(), Some(id));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn woken_after_a_commit_of_sql_on_sqlite() {
    let db = crate::support::sqlite::SqliteDb::with_ledger().await.unwrap();
    let messages = World::messages(&db).await;
    let executor = asleep::<crate::support::sqlite::SqliteDb>(&messages).await;
    db.drained().await;
    // A flush that is never reported as committed.
    let mut connection = db.connection();
    let transaction = connection.transaction().unwrap();
    let mut enlisted = messages.enlist(&transaction);
    let id = enlisted.send(note()).unwrap();
    let flushed = enlisted.flush().unwrap();
    transaction.commit().unwrap();
    drop(flushed);
    messages.wake("default").unwrap();
    db.gone(id).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A program without a runtime of its own wakes inside one that lasts for a call, or outside of any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn woken_from_threads_without_a_lasting_runtime() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = db.messages().await;
    let mut ear = db.ear().await;
    let woken = messages.clone();
    std::thread::spawn(move || {
        let brief = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        brief.block_on(async { woken.wake("brief").unwrap() });
        drop(brief);
        woken.wake("outside").unwrap();
    })
    .join()
    .unwrap();
    while ear.next().await.0 != "qoutside" {}
    messages.wake("later").unwrap();
    while ear.next().await.0 != "qlater" {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_names_of_queues_are_woken() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = db.messages().await;
    for (bad, why) in
        [("", "is empty"), (" q", "white space"), ("a\n", "control character"), (&"q".repeat(101), "101 bytes")]
    {
        let error = messages.wake(bad).unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(why), "{error}");
    }
    let mut ear = db.ear().await;
    messages.wake("a queue").unwrap();
    let heard: std::collections::BTreeSet<String> = [ear.next().await.0, ear.next().await.0, ear.next().await.0].into();
    db.client().await.execute("select wake('a queue')", &[]).await.unwrap();
    let by_sql: std::collections::BTreeSet<String> =
        [ear.next().await.0, ear.next().await.0, ear.next().await.0].into();
    assert_eq!(heard, by_sql);
}
