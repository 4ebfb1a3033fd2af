//! Faults of the network between client and server.

use std::time::{Duration, Instant};

use jobwright::internal::broker_testing::{self as testing, Published};
use jobwright::{Broker, BrokerConfig, BrokerMode};

use crate::broker::{SOON, TestSite, message, messages, receive, up};
use crate::support::eventually;
use crate::support::proxy::Proxy;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_confirms_that_get_lost_are_unknown_in_time() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let proxy = Proxy::start(place.upstream()).await;
    let config = place.config_via(proxy.address).confirm_timeout(Duration::from_secs(1));
    let broker = up(&config).await;
    proxy.swallow_answer_to("SWALLOWED");
    let mut batch = messages(&queue, 10);
    batch[5].body = b"SWALLOWED".to_vec();
    let started = Instant::now();
    assert_eq!(testing::publish(&broker, batch).await, [Published::Unknown; 10]);
    let took = started.elapsed();
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(3), "{took:?}");
    // The broker has them. Publishing goes on when the dead connection is detected, or a new one made.
    eventually(SOON, async || testing::publish(&broker, messages(&queue, 1)).await == [Published::Acked]).await;
    assert_eq!(broker.stats().unconfirmed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_a_stalled_network_delays_no_caller_beyond_the_deadline() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let proxy = Proxy::start(place.upstream()).await;
    let config = place.config_via(proxy.address).confirm_timeout(Duration::from_secs(1));
    let broker = up(&config).await;
    proxy.stall();
    let started = Instant::now();
    let all = futures_util::future::join_all((0..20).map(|_| testing::publish(&broker, messages(&queue, 500)))).await;
    let took = started.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert!(all.iter().flatten().all(|outcome| matches!(outcome, Published::Unknown | Published::NotSent)));
    proxy.heal();
    eventually(SOON, async || testing::publish(&broker, messages(&queue, 1)).await == [Published::Acked]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_a_cut_connection_redelivers_unacked_messages() {
    let Some(place) = TestSite::shared() else { return };
    let queue = place.queue("a", &[]).await;
    let proxy = Proxy::start(place.upstream()).await;
    let broker = up(&place.config_via(proxy.address)).await;
    testing::publish(&broker, messages(&queue, 20)).await;
    let mut subscription = testing::subscribe(&broker, &queue, 20);
    let first = receive(&mut subscription, 5).await;
    // The rest is buffered, and must not come out of the buffer once it is useless.
    eventually(SOON, async || broker.stats().received == 20).await;
    let mut changes = broker.changes();
    changes.mark_unchanged();
    proxy.cut();
    tokio::time::timeout(SOON, changes.changed()).await.unwrap().unwrap();
    broker.up_within(SOON).await.unwrap();
    eventually(SOON, async || broker.stats().redelivered == 20).await;
    // Acks of the old deliveries mean nothing.
    subscription.acks().ack(first.iter().map(|message| message.tag));
    let again = receive(&mut subscription, 20).await;
    assert!(again.iter().all(|message| message.redelivered && message.tag.generation != first[0].tag.generation));
    let mut bodies: Vec<_> = again.iter().map(|message| message.body.clone()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 20);
    subscription.acks().ack(again.iter().map(|message| message.tag));
    assert_eq!(testing::publish(&broker, vec![message(&queue, "last")]).await, [Published::Acked]);
    assert_eq!(receive(&mut subscription, 1).await[0].body, b"last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_a_half_open_connection_is_noticed_by_its_heartbeats() {
    let Some(place) = TestSite::shared() else { return };
    let proxy = Proxy::start(place.upstream()).await;
    let config = place.config_via(proxy.address).heartbeat(Duration::from_secs(2));
    let broker = up(&config).await;
    let mut changes = broker.changes();
    proxy.stall();
    let started = Instant::now();
    let down = changes.wait_for(|mode| matches!(mode, BrokerMode::Down { .. }));
    tokio::time::timeout(Duration::from_secs(12), down).await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    proxy.heal();
    broker.up_within(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_a_mute_peer_leaks_no_threads() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp://u:secret@{}/", listener.local_addr().unwrap());
    // Accepted connections are kept open, and get no data.
    let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mute = tokio::spawn({
        let kept = kept.clone();
        async move {
            while let Ok((socket, _)) = listener.accept().await {
                kept.lock().unwrap().push(socket);
            }
        }
    });
    let config = BrokerConfig::url(url).connect_timeout(Duration::from_millis(100));
    let broker = Broker::start(&config).unwrap();
    eventually(SOON * 2, async || kept.lock().unwrap().len() >= 10).await;
    eventually(SOON, async || io_threads() <= 2).await;
    assert!(matches!(broker.mode(), BrokerMode::Down { why, .. } if why.contains("within")), "{:?}", broker.mode());
    drop(broker);
    eventually(SOON, async || io_threads() == 0).await;
    mute.abort();
}

/// Counts the threads of the client library.
fn io_threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    names
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("lapin-io"))
        .count()
}
