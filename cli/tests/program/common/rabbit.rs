//! A separate prefix at a broker, and an external client there.

use std::time::Duration;

use futures_util::StreamExt as _;
use jobwright::{Broker, BrokerConfig};
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

/// Deletes everything with this prefix when it is dropped.
pub(crate) struct Rabbit {
    pub(crate) url: String,
    pub(crate) prefix: String,
    /// Queues of a test, in addition to `default`.
    pub(crate) queues: Vec<String>,
    keep: bool,
}

/// A message that an external client received.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) routing_key: String,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
}

impl Rabbit {
    /// Uses the broker that all tests share; `None`: this run is without servers.
    pub(crate) fn shared() -> Option<Self> {
        if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
            return None;
        }
        let url = std::env::var("AMQP_URL")
            .expect("set AMQP_URL, or run `cargo xtask test`, or JOBWRIGHT_TEST_EMBEDDED_ONLY=1");
        let mut rabbit = Self::at(&url);
        rabbit.keep = false;
        Some(rabbit)
    }

    /// Uses a broker that ends with the test, so nothing has to be deleted there.
    pub(crate) fn at(url: &str) -> Self {
        // So short that the broker has room for the ids of two installations in one error.
        let prefix = format!("c-{}", &super::uuid()[20..]);
        Self { url: url.to_owned(), prefix, queues: vec!["mail".to_owned()], keep: true }
    }

    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}.{rest}", self.prefix)
    }

    fn with_channel<T>(&self, work: impl AsyncFnOnce(Channel) -> T) -> T {
        runtime().block_on(async {
            let all = async {
                let connection = Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap();
                let done = work(connection.create_channel().await.unwrap()).await;
                let _ = connection.close(200, "OK".into()).await;
                done
            };
            tokio::time::timeout(Duration::from_secs(60), all).await.expect("the broker does not answer")
        })
    }

    /// Declares a queue, bound to an exchange if one is given.
    pub(crate) fn declare(&self, queue: &str, bound: Option<(&str, &str)>) {
        self.with_channel(async |channel| {
            let (options, none) = (QueueDeclareOptions::durable(), FieldTable::default());
            channel.queue_declare(queue.into(), options, none.clone()).await.unwrap();
            if let Some((exchange, key)) = bound {
                channel
                    .queue_bind(queue.into(), exchange.into(), key.into(), QueueBindOptions::default(), none)
                    .await
                    .unwrap();
            }
        });
    }

    pub(crate) fn delete(&self, queue: &str) {
        self.with_channel(async |channel| {
            channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        });
    }

    /// Waits for a message, and takes it.
    pub(crate) fn receive(&self, queue: &str) -> Message {
        self.with_channel(async |channel| {
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            let mut consumer =
                channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await.unwrap();
            let delivery = consumer.next().await.unwrap().unwrap();
            Message {
                routing_key: delivery.routing_key.to_string(),
                properties: delivery.properties,
                body: delivery.data,
            }
        })
    }

    /// Submits messages as every producer should: each again until the broker has it.
    pub(crate) fn submit(&self, messages: impl IntoIterator<Item = (BasicProperties, Vec<u8>)>) {
        let queue = self.name("submit");
        self.with_channel(async |channel| {
            channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
            for (properties, body) in messages {
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                loop {
                    let key = queue.as_str().into();
                    let sent = channel.basic_publish("".into(), key, options, &body, properties.clone()).await.unwrap();
                    let confirmed = sent.await.unwrap();
                    if confirmed.is_ack() && confirmed.take_message().is_none() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        });
    }

    /// Does something while a program of another hand consumes this queue.
    pub(crate) fn beside_a_consumer<T>(&self, queue: &str, work: impl FnOnce() -> T) -> T {
        self.with_channel(async |channel| {
            let options = BasicConsumeOptions::default();
            let _consumer =
                channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await.unwrap();
            work()
        })
    }

    /// Deletes everything with another prefix.
    pub(crate) fn forget(&self, prefix: &str) {
        drop(Self { url: self.url.clone(), prefix: prefix.to_owned(), queues: Vec::new(), keep: self.keep });
    }

    pub(crate) fn publish(&self, queue: &str, properties: BasicProperties, body: &[u8]) {
        self.with_channel(async |channel| {
            let options = BasicPublishOptions::default();
            channel.basic_publish("".into(), queue.into(), options, body, properties).await.unwrap().await.unwrap();
        });
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let mut queues = vec!["default".to_owned()];
        queues.append(&mut self.queues);
        let config = BrokerConfig::url(&self.url).prefix(self.prefix.clone());
        runtime().block_on(async {
            let broker = Broker::start(&config).unwrap();
            let removed = match broker.up_within(Duration::from_secs(10)).await {
                Ok(()) => broker.remove(&queues, &queues).await,
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                eprintln!("queues {}.* are left behind: {error}", self.prefix);
            }
            broker.close(Duration::from_secs(5)).await;
        });
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}
