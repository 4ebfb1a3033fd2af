//! Rights of broker users, and the errors when they are missing.

use std::time::Duration;

use jobwright::internal::TopologyState;
use jobwright::internal::broker_testing::{self as testing, Published};
use jobwright::{Broker, BrokerConfig};

use crate::broker::{TestSite, deliveries, messages, receive, up};
use crate::support::private_rabbit::PrivateRabbit;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_rights_are_said_clearly() {
    if crate::support::amqp_url().is_none() {
        return;
    }
    let server = PrivateRabbit::start();
    server.add_vhost("shop");
    server.add_user("worker", "geheim", "shop", Some(["", r"^t.*|^amq\.default$", "^t.*"]));
    server.add_user("stranger", "geheim", "shop", None);
    server.add_user("owner", "geheim", "shop", Some([".*", ".*", ".*"]));

    for (url, says) in [
        (server.url_as("worker", "falsch", "shop"), "check user and password"),
        (server.url_as("nobody", "falsch", "shop"), "check user and password"),
        (server.url_as("worker", "geheim", "none"), "check the vhost"),
        (server.url_as("stranger", "geheim", "shop"), "permissions in this vhost"),
    ] {
        let broker = Broker::start(&BrokerConfig::url(&url)).unwrap();
        let error = broker.up_within(Duration::from_secs(3)).await.unwrap_err().to_string();
        assert!(error.contains(says), "{url}: {error}");
        assert!(!error.contains("geheim") && !error.contains("falsch"), "{error}");
    }

    // The owner declares; the worker, without any right to configure, works.
    let owners = TestSite::at(server.url_as("owner", "geheim", "shop"));
    let config = owners.config();
    let queues = ["q".to_owned()];
    let as_worker = |declare| config.clone().with_url(server.url_as("worker", "geheim", "shop")).declare(declare);
    let eager = up(&as_worker(true)).await;
    let error = testing::ensure(&eager, &deliveries()).await.unwrap_err();
    assert_eq!(error.code(), "JW-BROKER");
    assert!(error.to_string().contains("the right to configure"), "{error}");
    let items = eager.apply(&queues, &[]).await.unwrap();
    assert!(items.iter().all(|item| matches!(item.state, TopologyState::Forbidden(_))), "{items:?}");

    let owner = up(&config).await;
    assert!(owner.apply(&queues, &[]).await.unwrap().iter().all(|item| item.state == TopologyState::Created));
    let worker = up(&as_worker(false)).await;
    testing::ensure(&worker, &deliveries()).await.unwrap();
    let queue = worker.names().deliveries("q");
    assert_eq!(testing::publish(&worker, messages(&queue, 2)).await, [Published::Acked; 2]);
    let mut subscription = testing::subscribe(&worker, &queue, 2);
    receive(&mut subscription, 2).await;
    let items = worker.check(&queues, &[]).await.unwrap();
    assert!(items.iter().all(|item| item.state == TopologyState::Present), "{items:?}");
}
