//! Wake-ups from other processes: nobody here would look at the table for an hour.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, ExecutorConfig, MessageServices, Outcome};

use crate::running::{noting, send_notes};
use crate::support::eventually;
use crate::support::postgres::Pg;
use crate::support::world::{PATIENCE, World, patient};

/// An executor that notes, and looks only when told to, after its first looks.
async fn asleep<W: World>(messages: &MessageServices<W::Store>) -> CommandExecutor<W::Store> {
    with_nothing_to_do::<W>(messages, patient()).await
}

/// An executor that notes, and that is done with its first looks.
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
    // Handed over: it has looked, found nothing, and waits. Its listener may still be on its way.
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
    // Its listener is there: a first sender that stays is heard.
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

/// Nobody wakes anybody: the job is found when the executor looks.
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
