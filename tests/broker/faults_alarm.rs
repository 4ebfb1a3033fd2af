//! The server is low on memory.

use std::time::{Duration, Instant};

use jobwright::BrokerMode;
use jobwright::internal::broker_testing::{self as testing, Published};

use crate::broker::{SOON, TestSite, messages, receive, up};
use crate::support::eventually;
use crate::support::logs::Logs;
use crate::support::private_rabbit::PrivateRabbit;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_a_blocked_connection() {
    if crate::support::amqp_url().is_none() {
        return;
    }
    let logs = Logs::capture();
    let server = PrivateRabbit::start();
    let place = TestSite::at(server.url());
    let queue = place.queue("a", &[]).await;
    let broker = up(&place.config().confirm_timeout(Duration::from_secs(2))).await;
    assert_eq!(testing::publish(&broker, messages(&queue, 5)).await, [Published::Acked; 5]);
    let mut subscription = testing::subscribe(&broker, &queue, 2);
    let first = receive(&mut subscription, 2).await;

    server.alarm();
    // The broker notifies publishers. Messages in flight are in doubt at their deadline.
    let started = Instant::now();
    eventually(SOON, async || testing::publish(&broker, messages(&queue, 1)).await != [Published::Acked]).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    eventually(SOON, async || matches!(broker.mode(), BrokerMode::Blocked(_))).await;
    // Nothing is sent, and the publisher does not wait.
    let started = Instant::now();
    assert_eq!(testing::publish(&broker, messages(&queue, 3)).await, [Published::NotSent; 3]);
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    // Incoming messages and acks are not blocked.
    subscription.acks().ack(first.iter().map(|message| message.tag));
    receive(&mut subscription, 2).await;

    server.calm();
    broker.up_within(SOON).await.unwrap();
    eventually(SOON, async || testing::publish(&broker, messages(&queue, 1)).await == [Published::Acked]).await;
    assert_eq!(logs.changes(), ["up", "blocked", "up"]);

    // Closing does not wait for an alarm to end.
    server.alarm();
    eventually(SOON, async || {
        testing::publish(&broker, messages(&queue, 1)).await;
        matches!(broker.mode(), BrokerMode::Blocked(_))
    })
    .await;
    let started = Instant::now();
    broker.close(Duration::from_secs(8)).await;
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    server.calm();
    eventually(SOON, async || server.connections().is_empty()).await;
}
