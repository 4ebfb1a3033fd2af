//! Queues with a depth limit: senders are refused, or wait until there is capacity.

use std::time::{Duration, Instant};

use jobwright::Store;
use jobwright::admin::{Rule, Scope};
use jobwright::{ErrorKind, MessageServices, NewJob, WhenFull};

use crate::executor::successful_jobs::{note, noting};
use crate::support::environment::{PATIENCE, World};

/// Fills a queue whose limit is one job.
async fn full<W: World>(db: &W) -> MessageServices<W::Store> {
    db.jobs().put_rule(&Rule::new(Scope::Queue, "default").depth(1)).await.unwrap();
    let messages = db.messages().await;
    messages.send(note()).await.unwrap();
    messages
}

/// Nothing of the unit of work is kept, and the error names the queue. Other queues still accept jobs, and so does this one later.
pub(crate) async fn a_full_queue_refuses<W: World>(db: &W) {
    let messages = full(db).await;
    let error = messages.send(note()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Full && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("\"default\""), "{error}");
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "not kept").await.unwrap();
    cx.send(note().queue("other")).unwrap();
    cx.send(note()).unwrap();
    assert_eq!(cx.commit().await.unwrap_err().kind(), ErrorKind::Full);
    assert!(db.ledger().await.is_empty());
    assert_eq!(db.jobs().all().await.len(), 1);
    messages.send(note().queue("other")).await.unwrap();
    messages.send(note().delay(Duration::from_secs(3600))).await.unwrap();
}

/// The sender waits as long as configured, and no longer.
pub(crate) async fn a_sender_waits_in_vain<W: World>(db: &W) {
    let messages = full(db).await;
    let begun = Instant::now();
    let patience = Duration::from_millis(300);
    let mut cx = messages.begin();
    cx.when_full(WhenFull::Wait(patience)).send(note()).unwrap();
    assert_eq!(cx.commit().await.unwrap_err().kind(), ErrorKind::Full);
    assert!(begun.elapsed() >= patience);
    assert_eq!(db.jobs().all().await.len(), 1);
}

/// With many waiting senders and one executor, all jobs are sent and run.
pub(crate) async fn waiting_senders_go_on_when_there_is_room<W: World>(db: &W) {
    let messages = full(db).await.when_full(WhenFull::Wait(PATIENCE));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let messages = messages.clone();
        senders.spawn(async move {
            for _ in 0..5 {
                send(&messages, note()).await;
            }
        });
    }
    let executor = noting::<W>(&messages, 2).await;
    senders.join_all().await;
    db.drained().await;
    assert_eq!(db.ledger().await.len(), 21);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

async fn send<S: Store>(messages: &MessageServices<S>, job: NewJob) {
    messages.send(job).await.unwrap();
}
