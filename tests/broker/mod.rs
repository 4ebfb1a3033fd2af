//! The broker's connections against real servers: publishing, receiving and declaring, and what happens when the server, the network or a queue
//! fails.

mod faults_alarm;
mod faults_network;
mod faults_server;
mod ownership;
mod publishing;
mod receiving;
mod rights;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use jobwright::internal::broker_testing::{self as testing, Incoming, Outgoing, Published, QueueRole, Subscription};
use jobwright::{Broker, BrokerConfig};
use lapin::options::{ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties};

/// For things that have to happen soon, on a machine that may be busy.
const SOON: Duration = Duration::from_secs(20);

/// A prefix on a broker that belongs to one test: everything declared under it is deleted when this value is dropped.
struct TestSite {
    url: String,
    prefix: String,
    extra: std::sync::Mutex<Vec<String>>,
}

impl TestSite {
    /// Creates a site on the shared broker.
    fn shared() -> Option<Self> {
        Some(Self::at(crate::support::amqp_url()?))
    }

    fn at(url: String) -> Self {
        Self { url, prefix: crate::support::unique("t"), extra: std::sync::Mutex::default() }
    }

    fn config(&self) -> BrokerConfig {
        BrokerConfig::url(&self.url)
            .prefix(self.prefix.clone())
            .queue_type(jobwright::QueueType::Classic)
            .heartbeat(Duration::from_secs(5))
    }

    /// Returns the address of the broker alone.
    fn upstream(&self) -> String {
        self.url.split_once('@').unwrap().1.split('/').next().unwrap().to_owned()
    }

    /// Returns the configuration for a proxy's address.
    fn config_via(&self, address: impl std::fmt::Display) -> BrokerConfig {
        let url = self.url.replace(&self.upstream(), &address.to_string());
        self.config().with_url(url)
    }

    async fn broker(&self) -> Arc<Broker> {
        up(&self.config()).await
    }

    async fn client(&self) -> Connection {
        Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap()
    }

    /// Declares a queue outside of the topology, with arguments.
    async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) -> String {
        let name = format!("{}.{name}", self.prefix);
        self.extra.lock().unwrap().push(name.clone());
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            table.insert((*key).into(), value.clone());
        }
        let client = self.client().await;
        let channel = client.create_channel().await.unwrap();
        channel.queue_declare(name.as_str().into(), QueueDeclareOptions::durable(), table).await.unwrap();
        client.close(200, "OK".into()).await.unwrap();
        name
    }

    async fn delete(&self, queue: &str) {
        let client = self.client().await;
        let channel = client.create_channel().await.unwrap();
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        client.close(200, "OK".into()).await.unwrap();
    }

    async fn clear(url: &str, names: &[String]) {
        let Ok(client) = Connection::connect(url, ConnectionProperties::default()).await else { return };
        for name in names {
            let Ok(channel) = client.create_channel().await else { return };
            let _ = channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await;
            let _ = channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await;
        }
        let _ = client.close(200, "OK".into()).await;
    }
}

impl Drop for TestSite {
    fn drop(&mut self) {
        let lanes = ["q".to_owned()];
        let mut names: Vec<_> =
            Broker::plan(&self.config(), &lanes, &lanes).into_iter().map(|item| item.name).collect();
        names.append(&mut self.extra.lock().unwrap());
        let url = self.url.clone();
        // The test's runtime may have a single thread, which is this one.
        let _ = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { tokio::time::timeout(SOON, Self::clear(&url, &names)).await })
        })
        .join();
    }
}

async fn up(config: &BrokerConfig) -> Arc<Broker> {
    let broker = Broker::start(config).unwrap();
    broker.up_within(SOON).await.unwrap();
    broker
}

/// Returns a mandatory message straight to a queue.
fn message(queue: &str, id: &str) -> Outgoing {
    Outgoing {
        exchange: String::new(),
        routing_key: queue.to_owned(),
        mandatory: true,
        properties: BasicProperties::default().with_message_id(id.into()),
        body: id.as_bytes().to_vec(),
    }
}

fn messages(queue: &str, count: usize) -> Vec<Outgoing> {
    (0..count).map(|n| message(queue, &format!("m{n}"))).collect()
}

fn outcomes(all: &[Published], which: Published) -> usize {
    all.iter().filter(|outcome| **outcome == which).count()
}

/// Waits for this many messages.
async fn receive(subscription: &mut Subscription, count: usize) -> Vec<Incoming> {
    let mut got = Vec::new();
    let all = async {
        while got.len() < count {
            assert_ne!(subscription.recv_many(&mut got, count).await, 0, "the subscription ended");
        }
    };
    let came = tokio::time::timeout(SOON, all).await;
    assert!(came.is_ok(), "{} of {count} messages came", got.len());
    got
}

async fn waiting(broker: &Broker, queue: &str) -> Option<u32> {
    testing::depth(broker, queue).await.unwrap().map(|depth| depth.messages)
}

fn deliveries() -> QueueRole {
    QueueRole::Deliveries("q".to_owned())
}
