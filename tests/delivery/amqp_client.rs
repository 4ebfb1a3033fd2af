//! A plain AMQP client, which can do what any client of the broker can.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use jobwright::JobId;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use crate::support::environment::PATIENCE;

/// A separate connection to the broker.
pub(crate) struct Client {
    url: String,
    connection: Connection,
}

/// A message read from a queue.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
    /// Its tag on the channel it came on.
    tag: u64,
}

impl Message {
    /// Creates a message about a job that never existed.
    pub(crate) fn about(job: JobId, version: i64) -> Self {
        let properties = pointer("kind", job, version);
        Self { exchange: String::new(), routing_key: String::new(), properties, body: Vec::new(), tag: 0 }
    }

    /// Returns a header as text.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        match self.properties.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
            AMQPValue::LongLongInt(number) => Some(number.to_string()),
            other => Some(format!("{other:?}")),
        }
    }

    /// Returns the job that the message is about.
    pub(crate) fn job(&self) -> JobId {
        self.header("jobId").expect("it has no header jobId").parse().unwrap()
    }

    /// Returns the version of its hand-out or claim.
    pub(crate) fn version(&self) -> i64 {
        self.header("version").expect("it has no header version").parse().unwrap()
    }

    /// Returns the headers that an external worker sends back with its report on this job.
    pub(crate) fn about_it(&self) -> FieldTable {
        let came = self.properties.headers().as_ref().expect("it has no headers").inner();
        let known = came.iter().filter(|(name, _)| ["jobId", "version", "reportToken"].contains(&name.as_str()));
        known.map(|(name, value)| (name.clone(), value.clone())).collect::<BTreeMap<_, _>>().into()
    }

    /// Returns the property `type`.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.properties.kind().as_ref().map(ShortString::as_str)
    }

    pub(crate) fn correlation(&self) -> Option<&str> {
        self.properties.correlation_id().as_ref().map(ShortString::as_str)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) async fn connect(url: &str) -> Self {
        Self { url: url.to_owned(), connection: connect(url).await }
    }

    /// Opens a channel for a single operation: an error closes the channel.
    async fn channel(&self) -> Channel {
        self.connection.create_channel().await.unwrap()
    }

    /// Returns how many messages wait in a queue, and how many consumers it has; `None`: there is no such queue.
    pub(crate) async fn depth(&self, queue: &str) -> Option<(u32, u32)> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let state = self.channel().await.queue_declare(queue.into(), options, FieldTable::default()).await.ok()?;
        Some((state.message_count(), state.consumer_count()))
    }

    /// Returns how many messages wait in an existing queue.
    pub(crate) async fn waiting(&self, queue: &str) -> u32 {
        self.depth(queue).await.unwrap_or_else(|| panic!("there is no queue {queue}")).0
    }

    /// Publishes a message and returns whether the broker put it into a queue.
    pub(crate) async fn publish(&self, exchange: &str, key: &str, properties: BasicProperties, body: &[u8]) -> bool {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let confirm = channel.basic_publish(exchange.into(), key.into(), options, body, properties).await.unwrap();
        let confirm = tokio::time::timeout(PATIENCE, confirm).await.expect("no confirm came").unwrap();
        confirm.is_ack() && confirm.take_message().is_none()
    }

    /// Publishes many messages at once and waits for all confirms.
    pub(crate) async fn publish_all(&self, key: &str, messages: Vec<(BasicProperties, Vec<u8>)>) {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let mut confirms = Vec::new();
        for (properties, body) in messages {
            let options = BasicPublishOptions::default();
            confirms.push(channel.basic_publish("".into(), key.into(), options, &body, properties).await.unwrap());
        }
        for confirm in confirms {
            tokio::time::timeout(PATIENCE, confirm).await.expect("no confirm came").unwrap();
        }
    }

    /// Takes a message out of a queue; `None`: there is none.
    pub(crate) async fn get(&self, queue: &str) -> Option<Message> {
        let channel = self.channel().await;
        let got = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap()?;
        Some(message(got.delivery))
    }

    /// Waits for a message and takes it out.
    pub(crate) async fn take(&self, queue: &str) -> Message {
        let got = async {
            loop {
                if let Some(message) = self.get(queue).await {
                    return message;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, got).await.unwrap_or_else(|_| panic!("nothing came to {queue}"))
    }

    pub(crate) async fn purge(&self, queue: &str) -> u32 {
        self.channel().await.queue_purge(queue.into(), QueuePurgeOptions::default()).await.unwrap()
    }

    /// Purges a queue, if it exists.
    pub(crate) async fn try_purge(&self, queue: &str) {
        let _ = self.channel().await.queue_purge(queue.into(), QueuePurgeOptions::default()).await;
    }

    /// Declares a durable queue.
    pub(crate) async fn declare(&self, queue: &str, arguments: FieldTable) {
        let options = QueueDeclareOptions::durable();
        self.channel().await.queue_declare(queue.into(), options, arguments).await.unwrap();
    }

    pub(crate) async fn delete(&self, queue: &str) {
        let channel = self.channel().await;
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    pub(crate) async fn delete_exchange(&self, exchange: &str) {
        let channel = self.channel().await;
        channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await.unwrap();
    }

    /// Declares a queue that ends with this client, and returns its name.
    pub(crate) async fn queue(&self) -> String {
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let state = self.channel().await.queue_declare("".into(), options, FieldTable::default()).await.unwrap();
        state.name().to_string()
    }

    /// Declares such a queue, bound to an exchange.
    pub(crate) async fn listen(&self, exchange: &str, key: &str) -> String {
        let queue = self.queue().await;
        let channel = self.channel().await;
        let bind = channel.queue_bind(
            queue.as_str().into(),
            exchange.into(),
            key.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bind.await.unwrap();
        queue
    }

    /// Publishes a request and waits for the answer by direct reply-to, without a queue. `None`: this client leaves at once.
    pub(crate) async fn ask(&self, key: &str, properties: BasicProperties, body: &[u8], stay: bool) -> Option<Message> {
        let direct = "amq.rabbitmq.reply-to";
        let channel = self.channel().await;
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let mut answers =
            channel.basic_consume(direct.into(), "".into(), options, FieldTable::default()).await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let (options, properties) = (BasicPublishOptions::default(), properties.with_reply_to(direct.into()));
        channel.basic_publish("".into(), key.into(), options, body, properties).await.unwrap().await.unwrap();
        if !stay {
            channel.close(200, "".into()).await.unwrap();
            return None;
        }
        let answer = tokio::time::timeout(PATIENCE, answers.next()).await.expect("no answer came");
        Some(message(answer?.unwrap()))
    }

    /// Consumes a queue, with at most `prefetch` unacknowledged messages (0: no limit).
    ///
    /// The broker ends the connection with an internal error while the members of a new quorum queue are still starting, so each consumer
    /// has a connection of its own and tries again.
    pub(crate) async fn tap(&self, queue: &str, prefetch: u16) -> Tap {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let connection = connect(&self.url).await;
            let channel = connection.create_channel().await.unwrap();
            channel.basic_qos(prefetch, BasicQosOptions::default()).await.unwrap();
            let options = BasicConsumeOptions::default();
            match channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await {
                Ok(consumer) => return Tap { _connection: connection, channel, consumer },
                Err(error) if is_internal(&error) && tokio::time::Instant::now() < deadline => {
                    eprintln!("{queue} can't be consumed yet: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{queue} can't be consumed: {error}"),
            }
        }
    }
}

async fn connect(url: &str) -> Connection {
    let connect = Connection::connect(url, ConnectionProperties::default());
    tokio::time::timeout(PATIENCE, connect).await.expect("the broker does not answer").unwrap()
}

/// Whether the broker failed, and not the client.
fn is_internal(error: &lapin::Error) -> bool {
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error) if error.get_message().as_str() == "INTERNAL_ERROR")
}

/// A consumer of a queue.
pub(crate) struct Tap {
    _connection: Connection,
    channel: Channel,
    consumer: lapin::Consumer,
}

impl Tap {
    /// Waits for the next message, which stays unacknowledged until it is acked or the tap is closed.
    pub(crate) async fn next(&mut self) -> Message {
        self.next_within(PATIENCE).await.expect("nothing came")
    }

    pub(crate) async fn next_within(&mut self, patience: Duration) -> Option<Message> {
        let next = tokio::time::timeout(patience, self.consumer.next()).await.ok()?;
        Some(message(next?.unwrap()))
    }

    pub(crate) async fn ack(&self, message: &Message) {
        self.channel.basic_ack(message.tag, BasicAckOptions::default()).await.unwrap();
    }

    /// Ends the subscription; unacknowledged messages return to the queue.
    pub(crate) async fn close(self) {
        self.channel.close(200, "".into()).await.unwrap();
    }
}

fn message(delivery: lapin::message::Delivery) -> Message {
    Message {
        exchange: delivery.exchange.to_string(),
        routing_key: delivery.routing_key.to_string(),
        properties: delivery.properties,
        body: delivery.data,
        tag: delivery.delivery_tag,
    }
}

/// Returns an external producer's properties for a job in this queue.
pub(crate) fn submission(queue: &str) -> BasicProperties {
    BasicProperties::default()
        .with_message_id(JobId::new().to_string().as_str().into())
        .with_type("note".into())
        .with_content_type("application/json".into())
        .with_headers(headers([("queue", queue)]))
}

/// Returns headers made of strings.
pub(crate) fn headers<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    table
}

/// Returns the properties of a delivery as our producers make it: a reference to a row.
pub(crate) fn pointer(kind: &str, id: JobId, version: i64) -> BasicProperties {
    let text = id.to_string();
    let mut table = headers([("jobId", text.as_str()), ("jobKind", kind)]);
    table.insert("version".into(), AMQPValue::LongLongInt(version));
    BasicProperties::default()
        .with_delivery_mode(2)
        .with_message_id(text.as_str().into())
        .with_type(kind.into())
        .with_headers(table)
}
