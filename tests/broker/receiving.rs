use std::time::Duration;

use jobwright::internal::broker_testing::{self as testing, Published, Tag};

use crate::broker::{SOON, TestSite, deliveries, message, messages, receive, waiting};
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefetch_bounds_unacked_deliveries() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    testing::publish(&broker, messages(&queue, 100)).await;
    let mut subscription = testing::subscribe(&broker, &queue, 10);
    let first = receive(&mut subscription, 10).await;
    assert_eq!(first[0].body, b"m0");
    assert_eq!(waiting(&broker, &queue).await, Some(90));
    subscription.acks().ack(first.iter().map(|message| message.tag));
    let second = receive(&mut subscription, 10).await;
    assert_eq!(second[9].body, b"m19");
    assert_eq!(waiting(&broker, &queue).await, Some(80));
    assert_eq!(broker.stats().received, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_in_any_order_answer_exactly_the_named_deliveries() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    testing::publish(&broker, messages(&queue, 500)).await;
    let mut subscription = testing::subscribe(&broker, &queue, 500);
    let all = receive(&mut subscription, 500).await;
    let acks = subscription.acks();
    // In reverse, leaving out every tenth; then one of these is given back.
    for message in all.iter().rev().filter(|message| message.tag.tag % 10 != 0) {
        acks.ack([message.tag]);
    }
    acks.requeue(all[9].tag);
    let again = receive(&mut subscription, 1).await;
    assert!(again[0].redelivered && again[0].body == all[9].body);
    // Acks still go out after the subscription ends; messages without one go back.
    drop(subscription);
    acks.ack([again[0].tag, all[19].tag]);
    eventually(SOON, async || waiting(&broker, &queue).await == Some(48)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_for_another_channel_do_nothing() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    testing::publish(&broker, messages(&queue, 3)).await;
    let mut subscription = testing::subscribe(&broker, &queue, 10);
    let all = receive(&mut subscription, 3).await;
    let acks = subscription.acks();
    let stale = all.iter().map(|message| Tag { generation: message.tag.generation - 1, ..message.tag });
    acks.ack(stale);
    acks.ack([Tag { tag: 99, ..all[0].tag }]);
    acks.ack([all[0].tag, all[0].tag]);
    acks.ack([all[0].tag]);
    // The channel still delivers, and unacked messages come back after it is closed.
    testing::publish(&broker, vec![message(&queue, "last")]).await;
    assert_eq!(receive(&mut subscription, 1).await[0].body, b"last");
    drop((subscription, acks));
    eventually(SOON, async || waiting(&broker, &queue).await == Some(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_queue_is_declared_and_consumed_again() {
    let Some(place) = TestSite::shared() else { return };
    let broker = place.broker().await;
    let queue = broker.names().deliveries("q");
    // The queue does not exist yet.
    let mut subscription = testing::subscribe(&broker, &queue, 10);
    for round in 0..2 {
        eventually(SOON, async || testing::publish(&broker, messages(&queue, 1)).await == [Published::Acked]).await;
        let got = receive(&mut subscription, 1).await;
        subscription.acks().ack([got[0].tag]);
        if round == 0 {
            place.delete(&queue).await;
        }
    }
    assert!(broker.mode().is_up());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_declare_a_subscription_waits_for_its_queue() {
    let Some(place) = TestSite::shared() else { return };
    let config = place.config().declare(false);
    let broker = crate::broker::up(&config).await;
    let queue = broker.names().deliveries("q");
    let mut subscription = testing::subscribe(&broker, &queue, 10);
    let mut nothing = Vec::new();
    assert!(tokio::time::timeout(Duration::from_millis(500), subscription.recv_many(&mut nothing, 1)).await.is_err());
    assert_eq!(waiting(&broker, &queue).await, None);
    testing::ensure(&*place.broker().await, &deliveries()).await.unwrap();
    testing::publish(&broker, messages(&queue, 1)).await;
    receive(&mut subscription, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_handle_closes_the_connections() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    let mut subscription = testing::subscribe(&broker, &queue, 10);
    let mut changes = broker.changes();
    drop(broker);
    assert_eq!(subscription.recv_many(&mut Vec::new(), 1).await, 0);
    let down = changes.wait_for(|mode| !mode.is_up());
    tokio::time::timeout(SOON, down).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_waits_for_confirms() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let broker = place.broker().await;
    let publishing = {
        let (broker, batch) = (broker.clone(), messages(&queue, 3000));
        tokio::spawn(async move { testing::publish(&broker, batch).await })
    };
    eventually(SOON, async || broker.stats().unconfirmed > 0 || publishing.is_finished()).await;
    broker.close(Duration::from_secs(10)).await;
    assert_eq!(crate::broker::outcomes(&publishing.await.unwrap(), Published::Acked), 3000);
    assert!(!broker.mode().is_up());
    assert_eq!(testing::publish(&broker, messages(&queue, 1)).await, [Published::NotSent]);
}
