//! Interference with our queues, and misleading deliveries.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, NewJob};

use crate::delivery::amqp_client::pointer;
use crate::delivery::load::Load;
use crate::delivery::site::{Site, brisk, keeper, note, noting, send, wait};
use crate::support::environment::{Gate, PATIENCE, World, patient};
use crate::support::eventually;
use crate::support::postgres::Pg;

/// The queue is purged again and again: each loss costs a head start, nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purged_under_load() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let elsewhere = site.messages().await;
    // Busy enough for deliveries to wait in the broker.
    let executor = noting::<Pg<false>>(&elsewhere, brisk(), 1).await;
    let mut ids = site.warm(&producer, note).await;
    let load = Load::start(&producer, 25, Duration::from_millis(20));
    let queue = site.names().deliveries("default");
    let mut purged = 0;
    eventually(PATIENCE, async || {
        purged += client.purge(&queue).await;
        purged >= 20
    })
    .await;
    ids.extend(load.end().await);
    site.settled(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The consumer is cancelled, and declares the queue again; meanwhile messages are returned as unroutable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_under_load() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, brisk(), 2).await;
    let mut ids = site.warm(&producer, note).await;
    let load = Load::start(&producer, 5, Duration::from_millis(20));
    let queue = site.names().deliveries("default");
    for _ in 0..3 {
        let before = executor.stats().delivered;
        eventually(PATIENCE, async || executor.stats().delivered >= before + 20).await;
        client.delete(&queue).await;
    }
    let before = executor.stats().delivered;
    eventually(PATIENCE, async || executor.stats().delivered >= before + 20).await;
    ids.extend(load.end().await);
    site.settled(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// No process may declare the queue. Returned jobs are claimed from the table at once, and deliveries resume when the queue exists again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returned_as_unroutable() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (owner, client) = (site.messages().await, site.client().await);
    let apply = async || {
        owner.broker().unwrap().apply(&["default".to_owned()], &[]).await.unwrap();
    };
    apply().await;
    let config = site.broker().declare(false);
    let (producer, elsewhere) = (site.messages_with(&config).await, site.messages_with(&config).await);
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    client.delete(&site.names().deliveries("default")).await;
    let mut cx = producer.begin();
    ids.extend((0..20).map(|_| cx.send(note()).unwrap()));
    let went = cx.commit_confirmed().await.unwrap();
    assert_eq!((went.broker, went.table), (0, 20));
    // The executor never polls: it was notified, because the rows were unhidden.
    site.settled(&ids).await;
    apply().await;
    ids.extend(site.warm(&producer, note).await);
    site.settled(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Each delivery comes three times, also while its handler runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_come_again_and_again() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let gate = Gate::closed();
    let (first, second) = (site.messages().await, site.messages().await);
    let executors = [
        keeper::<Pg<false>>(&first, brisk(), 200, &gate).start().await.unwrap(),
        keeper::<Pg<false>>(&second, brisk(), 200, &gate).start().await.unwrap(),
    ];
    let mut ids = site.warm(&producer, note).await;
    let running = send(&producer, 10, wait).await;
    site.db.counts(JobState::Running, 10).await;
    let quickly = send(&producer, 100, note).await;
    let again = |ids: &[jobwright::JobId], kind: &str| {
        ids.iter().flat_map(|id| [pointer(kind, *id, 0), pointer(kind, *id, 0)]).map(|p| (p, Vec::new())).collect()
    };
    let queue = site.names().deliveries("default");
    client.publish_all(&queue, again(&quickly, "note")).await;
    client.publish_all(&queue, again(&running, "wait")).await;
    ids.extend(running);
    ids.extend(quickly);
    // There are slots for all of them. Of two copies in one batch, one claims and the other is stale.
    eventually(PATIENCE, async || executors.iter().map(|executor| executor.stats().stale).sum::<u64>() >= 220).await;
    site.db.counts(JobState::Running, 10).await;
    gate.open();
    site.settled(&ids).await;
    for executor in executors {
        assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().refused, 0);
    }
}

/// The job was claimed, given back and waits again: the delivery of the earlier claim claims nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_older_than_a_new_claim() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let gate = Gate::closed();
    let first = site.messages().await;
    let leaving = keeper::<Pg<false>>(&first, patient(), 10, &gate).start().await.unwrap();
    let mut ids = site.warm(&producer, note).await;
    let held = send(&producer, 10, wait).await;
    site.db.counts(JobState::Running, 10).await;
    leaving.shutdown(Duration::ZERO).await.unwrap();
    site.db.counts(JobState::Waiting, 10).await;
    // Only deliveries could start them: no executor polls this queue of the table.
    site.uses("other");
    let second = site.messages().await;
    let other = CommandExecutor::builder(second)
        .config(patient())
        .queue("other", 10)
        .handle("wait", |_| async { panic!("it ran by an old delivery") })
        .start()
        .await
        .unwrap();
    let queue = site.names().deliveries("other");
    eventually(PATIENCE, async || client.depth(&queue).await.is_some_and(|(_, consumers)| consumers == 1)).await;
    client.publish_all(&queue, held.iter().map(|id| (pointer("wait", *id, 0), Vec::new())).collect()).await;
    eventually(PATIENCE, async || other.stats().stale == 10).await;
    other.shutdown(Duration::ZERO).await.unwrap();
    let third = site.messages().await;
    let last = noting::<Pg<false>>(&third, patient(), 10).await;
    ids.extend(held);
    site.settled(&ids).await;
    last.shutdown(Duration::ZERO).await.unwrap();
}

/// The exchange of events is deleted: events wait, and it is declared again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exchange_of_events_is_deleted() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, brisk(), 10).await;
    producer.send(NewJob::event("before", &1)).await.unwrap();
    site.db.drained().await;
    client.delete_exchange(&site.names().events()).await;
    producer.send(NewJob::event("after", &1)).await.unwrap();
    site.db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().relayed, 2);
}

/// The queue of rejected messages is deleted: rejected messages wait, and do not block others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_queues_of_rejected_messages_lose_no_job() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    client.delete(&site.names().dead()).await;
    let queue = site.names().deliveries("default");
    assert!(client.publish("", &queue, lapin::BasicProperties::default(), b"rubbish").await);
    ids.extend(send(&producer, 20, note).await);
    site.settled(&ids).await;
    producer.broker().unwrap().apply(&["default".to_owned()], &[]).await.unwrap();
    assert_eq!(client.take(&site.names().dead()).await.text(), "rubbish");
    executor.shutdown(Duration::ZERO).await.unwrap();
}
