//! The bare broker: the lowest cost of a publish with confirms, and of a delivery with acks.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::{join_all, try_join};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

use crate::Result;
use crate::load::payload;

/// Messages published before their confirms are waited for.
const WINDOW: usize = 500;

pub(super) async fn connect(url: &str) -> Result<Connection> {
    let connecting = Connection::connect(url, ConnectionProperties::default());
    Ok(tokio::time::timeout(Duration::from_secs(5), connecting)
        .await?
        .map_err(|e| format!("no connection to AMQP_URL: {e}"))?)
}

fn name(text: &str) -> ShortString {
    ShortString::from(text)
}

/// Declares a quorum queue, like ours, without a limit.
pub(super) async fn declare(channel: &Channel, queue: &str) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert(name("x-queue-type"), AMQPValue::LongString(LongString::from("quorum")));
    channel.queue_declare(name(queue), QueueDeclareOptions::durable(), arguments).await?;
    Ok(())
}

/// Publishes with confirms, in windows, and waits for all of them.
pub(super) async fn publish(channel: &Channel, queue: &str, count: usize, body: &[u8]) -> Result<()> {
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let properties = BasicProperties::default().with_delivery_mode(2);
    let mut left = count;
    while left > 0 {
        let batch = left.min(WINDOW);
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sent = join_all(
            (0..batch).map(|_| channel.basic_publish(name(""), name(queue), options, body, properties.clone())),
        )
        .await;
        for confirm in sent {
            if !matches!(confirm?.await?, Confirmation::Ack(None)) {
                return Err("the broker refused a message of the bare loop".into());
            }
        }
        left -= batch;
    }
    Ok(())
}

/// Consumes with a prefetch, acking many at once.
pub(super) async fn consume(channel: &Channel, queue: &str, count: usize) -> Result<()> {
    channel.basic_qos(1000, BasicQosOptions::default()).await?;
    let mut consumer =
        channel.basic_consume(name(queue), name("bare"), BasicConsumeOptions::default(), FieldTable::default()).await?;
    for n in 1..=count {
        let delivery = consumer.next().await.ok_or("the consumer was cancelled")??;
        if n % 200 == 0 || n == count {
            channel.basic_ack(delivery.delivery_tag, BasicAckOptions { multiple: true }).await?;
        }
    }
    Ok(())
}

/// Consumes and acks one by one, until it is stopped.
pub(super) async fn consume_each(channel: &Channel, queue: &str) -> Result<()> {
    channel.basic_qos(100, BasicQosOptions::default()).await?;
    let mut consumer =
        channel.basic_consume(name(queue), name("bare"), BasicConsumeOptions::default(), FieldTable::default()).await?;
    while let Some(delivery) = consumer.next().await {
        channel.basic_ack(delivery?.delivery_tag, BasicAckOptions::default()).await?;
    }
    Ok(())
}

/// Measures the rate of publishing alone.
pub(super) async fn publish_rate(url: &str, queue: &str, count: usize) -> Result<f64> {
    let connection = connect(url).await?;
    let channel = connection.create_channel().await?;
    declare(&channel, queue).await?;
    let body = payload();
    let start = Instant::now();
    publish(&channel, queue, count, body.as_bytes()).await?;
    let rate = count as f64 / start.elapsed().as_secs_f64();
    channel.queue_delete(name(queue), QueueDeleteOptions::default()).await?;
    Ok(rate)
}

/// Measures the rate of messages through a queue: published and consumed at the same time, over two connections.
pub(super) async fn loop_rate(url: &str, queue: &str, count: usize) -> Result<f64> {
    let (to, from) = (connect(url).await?, connect(url).await?);
    let (publishing, consuming) = (to.create_channel().await?, from.create_channel().await?);
    declare(&publishing, queue).await?;
    let start = Instant::now();
    let body = payload();
    try_join(publish(&publishing, queue, count, body.as_bytes()), consume(&consuming, queue, count)).await?;
    let rate = count as f64 / start.elapsed().as_secs_f64();
    publishing.queue_delete(name(queue), QueueDeleteOptions::default()).await?;
    Ok(rate)
}

/// Removes one queue.
pub(super) async fn delete(url: &str, queue: &str) -> Result<()> {
    let connection = connect(url).await?;
    connection.create_channel().await?.queue_delete(name(queue), QueueDeleteOptions::default()).await?;
    Ok(())
}
