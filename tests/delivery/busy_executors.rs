//! What executors do with deliveries they can't run at once.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{BrokerConfig, CommandExecutor, JobId, KindOptions, NewJob, Outcome};

use crate::delivery::site::{Site, brisk, keeper, note, noting, send, wait};
use crate::support::environment::{Gate, World, patient};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Each executor knows one kind, and gets half of the deliveries of the other. Neither polls, so a delivery that is not passed on at once would wait
/// forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_are_unknown_here_are_passed_on_at_once() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let mut executors = Vec::new();
    for kind in ["a", "b"] {
        let messages = site.messages().await;
        let executor = CommandExecutor::builder(messages)
            .config(patient())
            .handle_with(kind, |cx| {
                Box::pin(async move {
                    let line = cx.job().id.to_string();
                    Pg::<false>::note(cx.transaction().await?, &line).await?;
                    Ok(Outcome::Done)
                })
            })
            .start()
            .await
            .unwrap();
        executors.push(executor);
    }
    let mut ids = site.warm(&producer, || NewJob::json("a", &())).await;
    for kind in ["a", "b", "a", "b"] {
        ids.extend(send(&producer, 25, || NewJob::json(kind, &())).await);
    }
    site.settled(&ids).await;
    let mut left = 0;
    for executor in executors {
        left += executor.shutdown(Duration::ZERO).await.unwrap().left_to_table;
    }
    assert!(left > 0, "no delivery came to the wrong executor");
}

/// A kind with one slot delays neither deliveries of other kinds here, nor its own on other nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_are_full_here_are_passed_on_at_once() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let gate = Gate::closed();
    let first = site.messages().await;
    let narrow = keeper::<Pg<false>>(&first, patient(), 10, &gate)
        .kind_options("wait", KindOptions::default().concurrency(1))
        .start()
        .await
        .unwrap();
    let mut ids = site.warm(&producer, note).await;
    ids.extend(send(&producer, 10, wait).await);
    ids.extend(send(&producer, 10, note).await);
    // One job waits at the gate; the others of its kind wait in the table and are not hidden, and the other kind is done. All ten were left
    // if a claim from the table had the slot when the first delivery came.
    eventually(Duration::from_secs(30), async || {
        site.db.ledger().await.len() == ids.len() - 10 && matches!(narrow.stats().left_to_table, 9 | 10)
    })
    .await;
    assert_eq!(site.db.jobs().count(JobState::Running).await, 1);
    gate.open();
    let second = site.messages().await;
    let wide = noting::<Pg<false>>(&second, patient(), 10).await;
    site.settled(&ids).await;
    narrow.shutdown(Duration::ZERO).await.unwrap();
    wide.shutdown(Duration::ZERO).await.unwrap();
}

/// Handlers that take longer than the head start delay no delivery. A job that found no slot in time is left to the table, where another node claims
/// it while they still run. The broker then has nothing of it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_handlers_hold_no_deliveries() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let gate = Gate::closed();
    let first = site.messages().await;
    let busy = keeper::<Pg<false>>(&first, brisk(), 2, &gate).start().await.unwrap();
    let mut ids = site.warm(&producer, note).await;
    // Two run, four wait in memory.
    ids.extend(send(&producer, 6, wait).await);
    eventually(Duration::from_secs(30), async || busy.stats().left_to_table == 4).await;
    assert_eq!(site.db.jobs().count(JobState::Running).await, 2);
    let ready = Gate::closed();
    ready.open();
    let second = site.messages().await;
    let free = keeper::<Pg<false>>(&second, brisk(), 10, &ready).start().await.unwrap();
    site.db.counts(JobState::Running, 2).await;
    eventually(Duration::from_secs(30), async || site.db.ledger().await.len() == ids.len() - 2).await;
    assert_eq!(busy.stats().in_flight, 2, "they did not run all the time");
    gate.open();
    site.settled(&ids).await;
    free.shutdown(Duration::ZERO).await.unwrap();
    busy.shutdown(Duration::ZERO).await.unwrap();
    // Nothing went back into the queue when the consumers left.
    assert_eq!(client.waiting(&site.names().deliveries("default")).await, 0);
}

/// A handler that ends in time and one that fails: the next attempt comes from the table, as always.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivered_job_that_fails_is_tried_again() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let elsewhere = site.messages().await;
    let executor = keeper::<Pg<false>>(&elsewhere, brisk(), 10, &Gate::closed())
        .kind_options("flaky", crate::support::environment::at_once())
        .handle_with("flaky", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                Pg::<false>::note(cx.transaction().await?, &line).await?;
                if cx.job().attempt < 3 {
                    return Err(jobwright::JobError::new("not yet"));
                }
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let mut ids = site.warm(&producer, note).await;
    ids.extend(send(&producer, 20, || NewJob::json("flaky", &()).max_attempts(3)).await);
    site.settled(&ids).await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.failed, stats.stale), (40, 0));
}

/// Jobs that a handler sends go through the broker too, after its own commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_sent_by_a_handler_are_delivered_to_other_nodes() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let elsewhere = site.messages().await;
    let runner = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    site.uses("chain");
    let relay = site.messages().await;
    let sent = std::sync::Arc::new(std::sync::Mutex::new(Vec::<JobId>::new()));
    let record = sent.clone();
    let chain = CommandExecutor::builder(relay)
        .config(patient())
        .queue("chain", 4)
        .handle_with("chain", move |cx| {
            let record = record.clone();
            Box::pin(async move {
                let id = cx.send(note())?;
                record.lock().unwrap().push(id);
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    send(&producer, 50, || NewJob::json("chain", &()).queue("chain")).await;
    site.db.drained().await;
    ids.extend(sent.lock().unwrap().iter().copied());
    assert!(ids.len() > 50);
    site.db.each_once(&ids).await;
    chain.shutdown(Duration::ZERO).await.unwrap();
    runner.shutdown(Duration::ZERO).await.unwrap();
}

/// Both executors consume the same queue, and a producer with its own executor shares the jobs it can't run itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_share_the_work() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let (first, second) = (site.messages().await, site.messages().await);
    let executors = [noting::<Pg<false>>(&first, patient(), 5).await, noting::<Pg<false>>(&second, patient(), 5).await];
    let mut ids = site.warm(&producer, note).await;
    for _ in 0..20 {
        ids.extend(send(&producer, 20, note).await);
    }
    site.settled(&ids).await;
    for executor in executors {
        let stats = executor.shutdown(Duration::ZERO).await.unwrap();
        assert!(stats.delivered >= 10, "{stats:?}");
        assert_eq!(stats.refused, 0);
    }
}

/// Deliveries that are in the broker when all executors have left are found by the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_stops_leaves_its_deliveries_to_the_next() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let gate = Gate::closed();
    let first = site.messages().await;
    let leaving = keeper::<Pg<false>>(&first, patient(), 2, &gate).start().await.unwrap();
    let mut ids = site.warm(&producer, note).await;
    ids.extend(send(&producer, 30, wait).await);
    site.db.counts(JobState::Running, 2).await;
    leaving.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(site.db.jobs().count(JobState::Running).await, 0);
    let second = site.messages().await;
    let next = noting::<Pg<false>>(&second, brisk(), 10).await;
    site.settled(&ids).await;
    next.shutdown(Duration::ZERO).await.unwrap();
}

/// Without a broker everything works through the table, and the stats show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_broker() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await.with_broker(&BrokerConfig::default()).await.unwrap();
    assert!(messages.broker().is_none());
    let required = BrokerConfig::default().required(true);
    assert!(db.messages().await.with_broker(&required).await.is_err());
    // Nothing listens on this port.
    let nowhere = BrokerConfig::url("amqp://127.0.0.1:1/x").connect_timeout(Duration::from_secs(1));
    let error = db.messages().await.with_broker(&nowhere.clone().required(true)).await.err().unwrap();
    assert_eq!(error.kind(), jobwright::ErrorKind::Unreachable, "{error}");
    let messages = db.messages().await.with_broker(&nowhere).await.unwrap();
    assert!(!messages.broker().unwrap().mode().is_up());
    let elsewhere = db.messages().await.with_broker(&nowhere).await.unwrap();
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    let mut cx = messages.begin();
    let ids: Vec<_> = (0..50).map(|_| cx.send(note()).unwrap()).collect();
    let went = cx.commit_confirmed().await.unwrap();
    assert_eq!((went.broker, went.table), (0, 50));
    db.drained().await;
    db.each_once(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}
