//! Broker queues that belong to one test.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use jobwright::internal::Names;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeleteOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};

use crate::support::{eventually, unique};

const PATIENCE: Duration = Duration::from_secs(90);

/// Returns a string in a header, as clients of other languages send it.
pub(crate) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Returns headers that are strings.
pub(crate) fn texts(headers: &[(&str, &str)]) -> FieldTable {
    headers.iter().map(|(name, value)| ((*name).into(), text(value))).collect::<BTreeMap<_, _>>().into()
}

/// A connection, and names that are used nowhere else.
pub(crate) struct Broker {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) names: Names,
    connection: Connection,
    channel: Channel,
    /// Names to be deleted.
    made: Mutex<Vec<String>>,
}

impl Broker {
    pub(crate) async fn connect(url: String) -> Self {
        let prefix = unique("jwf");
        let connect = Connection::connect(&url, ConnectionProperties::default());
        let connection = tokio::time::timeout(PATIENCE, connect).await.expect("no answer from the broker").unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { url, names: Names::new(&prefix), prefix, connection, channel, made: Mutex::default() }
    }

    /// Adds names: what other programs declare under them belongs to this test too.
    pub(crate) fn owns(&self, names: impl IntoIterator<Item = String>) {
        self.made.lock().unwrap().extend(names);
    }

    pub(crate) async fn declare(&self, queue: &str) {
        self.owns([queue.to_owned()]);
        let options = QueueDeclareOptions::durable();
        self.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
    }

    pub(crate) async fn publish(&self, (exchange, key, properties, body): (String, String, BasicProperties, Vec<u8>)) {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let confirm =
            self.channel.basic_publish(exchange.into(), key.into(), options, &body, properties).await.unwrap();
        let confirmed = tokio::time::timeout(PATIENCE, confirm).await.expect("no confirm").unwrap();
        assert!(confirmed.is_ack() && confirmed.take_message().is_none(), "not taken");
    }

    /// Takes this many messages out of a queue.
    pub(crate) async fn take(&self, queue: &str, count: usize) -> Vec<(BasicProperties, Vec<u8>)> {
        let mut taken = Vec::new();
        eventually(PATIENCE, async || {
            while let Some(message) =
                self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap()
            {
                taken.push((message.delivery.properties, message.delivery.data));
            }
            taken.len() >= count
        })
        .await;
        assert_eq!(taken.len(), count);
        taken
    }

    /// Consumes a queue; nothing is acked unless the test does it.
    pub(crate) async fn consume(&self, queue: &str) -> Consumer {
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        self.channel.basic_consume(queue.into(), "".into(), options, arguments).await.unwrap()
    }

    /// Returns how many messages in a queue are ready for delivery.
    pub(crate) async fn waiting(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        self.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap().message_count()
    }

    /// Deletes everything this test declared.
    pub(crate) async fn clear(&self) {
        self.delete(&self.channel).await.unwrap();
        self.connection.close(200, "done".into()).await.unwrap();
    }

    /// Deletes the names; missing ones are no error.
    async fn delete(&self, channel: &Channel) -> lapin::Result<()> {
        let made = std::mem::take(&mut *self.made.lock().unwrap());
        for name in made {
            channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await?;
            channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await?;
        }
        Ok(())
    }

    /// Does the same over another connection: a failure may have closed this one.
    async fn clear_again(&self) -> lapin::Result<()> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        self.delete(&connection.create_channel().await?).await?;
        connection.close(200, "done".into()).await
    }
}

/// Cleans up after a failed test too.
impl Drop for Broker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let clear = tokio::time::timeout(PATIENCE, self.clear_again());
            let _ = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(clear));
        }
    }
}
