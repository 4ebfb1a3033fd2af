//! A private server that crashes, or accepts no writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobwright::{ErrorKind, JobId, MessageServices};

use crate::faults::ledger_worker::{Does, job, send, start};
use crate::support::environment::{PATIENCE, World, lease};
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::{eventually, postgres_url};

async fn hasty(db: &Pg<false>) -> MessageServices {
    let config = Pg::config(db).call_timeout(Duration::from_secs(3)).connect_timeout(Duration::from_secs(1));
    MessageServices::postgres(&config).await.unwrap()
}

/// It crashes twice under load. Sends answered with `Ok` are there afterwards, once; failed ones are not, except those in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_under_load_loses_nothing() {
    if postgres_url().is_none() {
        return;
    }
    let server = PrivatePg::start();
    let db = Pg::<false>::create_on(&server.url()).await;
    db.create_ledger().await;
    let messages = hasty(&db).await;
    let executor = start::<Pg<false>>(&messages, lease(2), 6, None).await;
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, sender) = (stop.clone(), hasty(&db).await);
    let producing = tokio::spawn(async move {
        let (mut sent, mut unknown) = (Vec::new(), Vec::new());
        while !stopped.load(Ordering::SeqCst) {
            let id = JobId::new();
            let mut cx = sender.begin();
            cx.send(job(Does::Note).max_attempts(1000).id(id)).unwrap();
            let committed = match cx.transaction().await.map(drop) {
                Ok(()) => cx.commit().await,
                Err(error) => Err(error),
            };
            match committed {
                Ok(()) => sent.push(id),
                Err(error) if error.kind() == ErrorKind::CommitUnknown => unknown.push(id),
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        (sent, unknown)
    });
    for _ in 0..2 {
        let done = executor.stats().done;
        eventually(PATIENCE, async || executor.stats().done > done + 100).await;
        server.crash_and_restart();
    }
    let done = executor.stats().done;
    eventually(PATIENCE, async || executor.stats().done > done + 100).await;
    stop.store(true, Ordering::SeqCst);
    let (mut ids, unknown) = producing.await.unwrap();
    db.drained().await;
    // Jobs in doubt may be there or not, but not twice either.
    let ledger = db.ledger().await;
    ids.extend(unknown.into_iter().filter(|id| ledger.contains_key(&id.to_string())));
    db.each_once(&ids).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A standby after a failover that went wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes_is_said_and_waited_for() {
    if postgres_url().is_none() {
        return;
    }
    let server = PrivatePg::start();
    let db = Pg::<false>::create_on(&server.url()).await;
    db.create_ledger().await;
    let messages = hasty(&db).await;
    let executor = start::<Pg<false>>(&messages, lease(2), 6, None).await;
    let mut ids = send::<Pg<false>>(&messages, Does::Note, 20).await;
    db.drained().await;

    let client = db.client().await;
    let writes = async |on: bool| {
        // The switch itself needs a session that may write.
        client.batch_execute("set default_transaction_read_only = off").await.unwrap();
        let value = if on { "off" } else { "on" };
        client.batch_execute(&format!("alter system set default_transaction_read_only = {value}")).await.unwrap();
        client.batch_execute("select pg_reload_conf()").await.unwrap();
    };
    writes(false).await;
    // The signal reaches the other sessions a little later.
    eventually(PATIENCE, async || {
        let error = match messages.send(job(Does::Note)).await {
            Ok(id) => {
                ids.push(id);
                return false;
            }
            Err(error) => error,
        };
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert!(error.to_string().contains("primary"), "{error}");
        true
    })
    .await;
    // In a context's own transaction too.
    let mut cx = messages.begin();
    cx.send(job(Does::Note)).unwrap();
    cx.transaction().await.unwrap();
    assert_eq!(cx.commit().await.unwrap_err().kind(), ErrorKind::ReadOnly);
    eventually(PATIENCE, async || executor.stats().leases_lost > 0).await;
    writes(true).await;
    eventually(PATIENCE, async || messages.send(job(Does::Note)).await.map(|id| ids.push(id)).is_ok()).await;
    db.drained().await;
    db.each_once(&ids).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}
