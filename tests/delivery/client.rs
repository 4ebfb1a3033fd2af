//! A plain AMQP client: what anybody else at the broker can do.

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

use crate::support::world::PATIENCE;

/// A connection of its own.
pub(crate) struct Client {
    connection: Connection,
}

/// What was read from a queue.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
    /// Of the channel it came on.
    tag: u64,
}

impl Message {
    /// One that never came, about a job that never was.
    pub(crate) fn about(job: JobId, version: i64) -> Self {
        let properties = pointer("kind", job, version);
        Self { exchange: String::new(), routing_key: String::new(), properties, body: Vec::new(), tag: 0 }
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        match self.properties.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
            AMQPValue::LongLongInt(number) => Some(number.to_string()),
            other => Some(format!("{other:?}")),
        }
    }

    /// Which job it is about.
    pub(crate) fn job(&self) -> JobId {
        self.header("jobId").expect("it has no header jobId").parse().unwrap()
    }

    /// Of which hand-out, or of which claim.
    pub(crate) fn version(&self) -> i64 {
        self.header("version").expect("it has no header version").parse().unwrap()
    }

    /// What an external worker sends back with what it reports on this job.
    pub(crate) fn about_it(&self) -> FieldTable {
        let came = self.properties.headers().as_ref().expect("it has no headers").inner();
        let known = came.iter().filter(|(name, _)| ["jobId", "version", "reportToken"].contains(&name.as_str()));
        known.map(|(name, value)| (name.clone(), value.clone())).collect::<BTreeMap<_, _>>().into()
    }

    /// Property `type`.
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
        let connect = Connection::connect(url, ConnectionProperties::default());
        let connection = tokio::time::timeout(PATIENCE, connect).await.expect("the broker does not answer").unwrap();
        Self { connection }
    }

    /// For one thing to do: an error takes the channel with it.
    async fn channel(&self) -> Channel {
        self.connection.create_channel().await.unwrap()
    }

    /// How many messages wait in a queue, and how many consume it; `None`: there is no such queue.
    pub(crate) async fn depth(&self, queue: &str) -> Option<(u32, u32)> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let state = self.channel().await.queue_declare(queue.into(), options, FieldTable::default()).await.ok()?;
        Some((state.message_count(), state.consumer_count()))
    }

    /// How many messages wait in a queue that is there.
    pub(crate) async fn waiting(&self, queue: &str) -> u32 {
        self.depth(queue).await.unwrap_or_else(|| panic!("there is no queue {queue}")).0
    }

    /// Publishes, and says whether the broker put it into a queue.
    pub(crate) async fn publish(&self, exchange: &str, key: &str, properties: BasicProperties, body: &[u8]) -> bool {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let confirm = channel.basic_publish(exchange.into(), key.into(), options, body, properties).await.unwrap();
        let confirm = tokio::time::timeout(PATIENCE, confirm).await.expect("no confirm came").unwrap();
        confirm.is_ack() && confirm.take_message().is_none()
    }

    /// Publishes many at once, and waits for all confirms.
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

    /// The same, if it is there.
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

    /// Makes a queue that ends with this client. Returns its name.
    pub(crate) async fn queue(&self) -> String {
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let state = self.channel().await.queue_declare("".into(), options, FieldTable::default()).await.unwrap();
        state.name().to_string()
    }

    /// The same, bound to an exchange.
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

    /// Publishes a request and waits for the answer without a queue of its own, as the broker offers it. `None`: this client leaves at once.
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

    /// Consumes a queue, with at most `prefetch` messages in hand (0: all there are).
    pub(crate) async fn tap(&self, queue: &str, prefetch: u16) -> Tap {
        let channel = self.channel().await;
        channel.basic_qos(prefetch, BasicQosOptions::default()).await.unwrap();
        let consume =
            channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default());
        let consumer = consume.await.unwrap();
        Tap { channel, consumer }
    }
}

/// A consumer of a queue.
pub(crate) struct Tap {
    channel: Channel,
    consumer: lapin::Consumer,
}

impl Tap {
    /// The next message. It stays in hand until it is acked, or the tap closed.
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

    /// Consumes no more; what is in hand goes back into the queue.
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

/// What a foreign producer says of a job for this queue.
pub(crate) fn submission(queue: &str) -> BasicProperties {
    BasicProperties::default()
        .with_message_id(JobId::new().to_string().as_str().into())
        .with_type("note".into())
        .with_content_type("application/json".into())
        .with_headers(headers([("queue", queue)]))
}

/// Headers from strings.
pub(crate) fn headers<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    table
}

/// A delivery as our own producers make it: a pointer to a row.
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
