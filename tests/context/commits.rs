//! Commits on PostgreSQL: whether they happened, their cost, and who is notified.

use std::time::Duration;

use jobwright::{CommandExecutor, ErrorKind, JobId, NewJob, Outcome};

use crate::support::environment::{PATIENCE, World, patient};
use crate::support::jobs::{LATER, job, jobs};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Returns the number of connections of this test's contexts and engine, and how many of them are in a transaction.
async fn connections(client: &tokio_postgres::Client, db: &Pg<false>) -> (i64, i64) {
    let sql = "select count(*), count(*) filter (where state like 'idle in transaction%') \
               from pg_stat_activity where application_name = $1";
    let row = client.query_one(sql, &[&db.schema()]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn no_connection_is_used_until_it_is_asked_for() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let client = db.client().await;
    let messages = db.messages().await;
    let before = connections(&client, &db).await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    assert_eq!(connections(&client, &db).await, before);
    cx.transaction().await.unwrap();
    assert_eq!(connections(&client, &db).await, (before.0 + 1, before.1 + 1));
    cx.transaction().await.unwrap();
    assert_eq!(connections(&client, &db).await, (before.0 + 1, before.1 + 1), "the second call opened another one");
    cx.rollback().await.unwrap();
    assert_eq!(connections(&client, &db).await, (before.0 + 1, before.1));
}

/// Triggers count statements, both for a context's transaction and for a flush without one.
#[tokio::test]
async fn a_commit_flushes_with_one_statement_however_much_it_is() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    db.raw(
        "create table {schema}.flush (tab text, xid xid8, at timestamptz);
         create function {schema}.count_flush() returns trigger language plpgsql as $$ begin
             insert into {schema}.flush values (tg_table_name, pg_current_xact_id(), statement_timestamp());
             return null;
         end $$;
         create trigger flush after insert on {schema}.job execute function {schema}.count_flush();
         create trigger flush after insert on {schema}.timer_job execute function {schema}.count_flush();",
    )
    .await;
    let client = db.client().await;
    let flushes = async || {
        let sql = "select count(*) filter (where tab = 'job'), count(*) filter (where tab = 'timer_job'),
                          count(distinct xid), count(distinct at) from flush";
        let row = client.query_one(sql, &[]).await.unwrap();
        client.batch_execute("truncate flush").await.unwrap();
        [0, 1, 2, 3].map(|column| row.get::<_, i64>(column))
    };
    let messages = db.messages().await;
    for (many, own_transaction) in [(1, true), (1000, true), (1, false), (1000, false)] {
        let mut cx = messages.begin();
        for job in jobs(many) {
            cx.send(job).unwrap();
        }
        if own_transaction {
            cx.transaction().await.unwrap();
        }
        cx.commit().await.unwrap();
        assert_eq!(flushes().await, [1, 0, 1, 1], "{many} messages, transaction {own_transaction}");
    }
    // All kinds of messages mixed.
    let mut cx = messages.begin();
    for (n, job) in jobs(1000).into_iter().enumerate() {
        let job = if n % 2 == 0 { job.delay(LATER) } else { job };
        cx.send(if n % 3 == 0 { job.id(JobId::new()) } else { job }).unwrap();
    }
    cx.transaction().await.unwrap();
    cx.commit().await.unwrap();
    assert_eq!(flushes().await, [1, 1, 1, 1]);
    assert_eq!(db.jobs().all().await.len(), 3002);
}

/// The server answers `COMMIT` of an aborted transaction with `ROLLBACK`, and the driver takes that for success.
#[tokio::test]
async fn a_failed_statement_makes_the_commit_fail() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    for with_messages in [false, true] {
        let mut cx = messages.begin();
        if with_messages {
            cx.send(job()).unwrap();
        }
        Pg::<false>::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
        cx.transaction().await.unwrap().execute("select 1/0", &[]).await.unwrap_err();
        let error = cx.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        assert!(db.ledger().await.is_empty());
        assert!(db.jobs().all().await.is_empty());
    }
    // The connection stays usable.
    let mut cx = messages.begin();
    Pg::<false>::note(cx.transaction().await.unwrap(), "kept").await.unwrap();
    cx.commit().await.unwrap();
    assert_eq!(db.ledger().await.len(), 1);
}

/// A rollback to a savepoint leaves a transaction that commits.
#[tokio::test]
async fn a_failure_behind_a_savepoint_does_not_abort() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    let transaction = cx.transaction().await.unwrap();
    transaction.batch_execute("savepoint s").await.unwrap();
    transaction.batch_execute("select 1/0").await.unwrap_err();
    transaction.batch_execute("rollback to s").await.unwrap();
    Pg::<false>::note(transaction, "kept").await.unwrap();
    cx.commit().await.unwrap();
    assert_eq!((db.ledger().await.len(), db.jobs().all().await.len()), (1, 1));
}

/// The constraint is checked at COMMIT, after everything else succeeded: the probe before it saw nothing.
#[tokio::test]
async fn a_deferred_constraint_makes_the_commit_fail() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    db.raw("alter table {schema}.ledger add constraint once unique (line) deferrable initially deferred").await;
    let messages = db.messages().await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    let transaction = cx.transaction().await.unwrap();
    Pg::<false>::note(transaction, "line").await.unwrap();
    Pg::<false>::note(transaction, "line").await.unwrap();
    let error = cx.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Database, "{error}");
    assert!(error.to_string().contains("23505"), "{error}");
    assert!(db.ledger().await.is_empty() && db.jobs().all().await.is_empty());
}

/// A third-party transaction that was ended by hand is no commit.
#[tokio::test]
async fn a_transaction_that_was_ended_by_sql_is_not_reported_as_committed() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut cx = messages.begin();
    Pg::<false>::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
    cx.transaction().await.unwrap().batch_execute("rollback").await.unwrap();
    let error = cx.commit().await.expect_err("the writes are gone, and the commit says that they are kept");
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert!(error.to_string().contains("over before its commit"), "{error}");
    assert!(db.ledger().await.is_empty());
}

#[tokio::test]
async fn executors_hear_of_it_after_the_commit_and_not_from_the_transaction() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut ear = db.ear().await;
    let mut cx = messages.begin();
    cx.send(job().queue("heard")).unwrap();
    let row = cx.transaction().await.unwrap().query_one("select pg_backend_pid()", &[]).await.unwrap();
    let own: i32 = row.get(0);
    cx.commit().await.unwrap();
    let (hint, sender) = ear.next().await;
    assert_eq!(hint, "qheard");
    assert_ne!(
        sender, own,
        "the context's own connection sent it: a NOTIFY inside transactions serialises all commits"
    );
}

/// Hints leave in the order of the commits, so if this hint is first, none came before.
#[tokio::test]
async fn a_rollback_wakes_no_executor() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut ear = db.ear().await;
    let mut failed = messages.begin();
    failed.send(job().queue("failed")).unwrap();
    failed.transaction().await.unwrap().execute("select 1/0", &[]).await.unwrap_err();
    failed.commit().await.unwrap_err();
    let mut rolled_back = messages.begin();
    rolled_back.send(job().queue("rolled back")).unwrap();
    rolled_back.rollback().await.unwrap();
    let mut dropped = messages.begin();
    dropped.send(job().queue("dropped")).unwrap();
    drop(dropped);
    messages.send(job().queue("committed")).await.unwrap();
    assert_eq!(ear.next().await.0, "qcommitted");
}

/// An executor in this process reserved slots for a commit that failed: it runs nothing, and gets its slots back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_hands_nothing_over() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .queue("default", 2)
        .handle("kind", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    // Handed over: the executor has polled once, and is ready.
    eventually(PATIENCE, async || {
        messages.send(NewJob::json("kind", &1)).await.unwrap();
        executor.stats().handed_over > 0
    })
    .await;
    db.drained().await;
    let before = executor.stats();
    for _ in 0..10 {
        let mut cx = messages.begin();
        cx.send(job()).unwrap();
        cx.transaction().await.unwrap().execute("select 1/0", &[]).await.unwrap_err();
        cx.commit().await.unwrap_err();
    }
    assert_eq!(executor.stats().handed_over, before.handed_over);
    assert!(db.jobs().all().await.is_empty());
    // Both slots are available again, as soon as the executor has checked that it owns nothing unknown.
    eventually(PATIENCE, async || {
        let before = executor.stats().handed_over;
        let mut cx = messages.begin();
        cx.send(job()).unwrap();
        cx.send(job()).unwrap();
        cx.commit().await.unwrap();
        executor.stats().handed_over == before + 2
    })
    .await;
    db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().refused, 0);
}
