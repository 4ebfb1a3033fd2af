//! The server goes away and comes back.

use jobwright::internal::broker_testing::{self as testing, Published};
use jobwright::{Broker, BrokerMode};

use crate::broker::{SOON, TestSite, deliveries, messages, receive};
use crate::support::eventually;
use crate::support::logs::Logs;
use crate::support::private_rabbit::PrivateRabbit;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_a_broker_that_comes_and_goes() {
    if crate::support::amqp_url().is_none() {
        return;
    }
    let logs = Logs::capture();
    let mut server = PrivateRabbit::new();
    let place = TestSite::at(server.url());

    // Absent at the start: down, logged once.
    let broker = Broker::start(&place.config()).unwrap();
    eventually(SOON, async || logs.changes() == ["down"]).await;
    server.run();
    broker.up_within(SOON).await.unwrap();
    assert_eq!(logs.changes(), ["down", "up"]);
    assert_eq!(server.connections().len(), 2, "publish and consume");

    let queue = broker.names().deliveries("q");
    testing::ensure(&broker, &deliveries()).await.unwrap();
    let mut subscription = testing::subscribe(&broker, &queue, 10);
    let acks = subscription.acks();
    let mut works = async |first: &str| {
        eventually(SOON, async || {
            testing::publish(&broker, vec![crate::broker::message(&queue, first)]).await == [Published::Acked]
        })
        .await;
        // An earlier message may be delivered again.
        loop {
            let got = receive(&mut subscription, 1).await;
            acks.ack([got[0].tag]);
            if got[0].body == first.as_bytes() {
                break;
            }
        }
    };
    works("started").await;

    // A clean stop.
    server.stop_app();
    eventually(SOON, async || matches!(broker.mode(), BrokerMode::Down { .. })).await;
    assert_eq!(testing::publish(&broker, messages(&queue, 1)).await, [Published::NotSent]);
    server.start_app();
    broker.up_within(SOON).await.unwrap();
    works("started again").await;

    // A kill.
    server.kill();
    eventually(SOON, async || matches!(broker.mode(), BrokerMode::Down { .. })).await;
    server.run();
    broker.up_within(SOON).await.unwrap();
    works("risen").await;

    // Everything is gone: queues are declared again.
    server.wipe();
    broker.up_within(SOON).await.unwrap();
    works("wiped").await;

    assert_eq!(logs.changes(), ["down", "up", "down", "up", "down", "up", "down", "up"]);
    assert_eq!(broker.mode(), BrokerMode::Up(4));
    assert!(!logs.contains("guest:guest"));

    drop((subscription, broker));
    eventually(SOON, async || server.connections().is_empty()).await;
}
