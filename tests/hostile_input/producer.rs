//! A broker client that sends anything, and goes on when it is disconnected.

use std::time::Duration;

use jobwright::JobId;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Connection, ConnectionProperties};

use crate::delivery::amqp_client::Message;
use crate::delivery::raw_frames::{Raw, nested};
use crate::hostile_input::corpus::{Nasty, Say};

/// Longer than a busy broker takes for a confirm.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result, as far as the producer learns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Taken,
    Refused(String),
    /// This way in has no field for it.
    Unsaid,
}

pub(crate) struct Post {
    url: String,
    connection: Option<Connection>,
}

/// Returns a string that fits a property.
fn short(value: &[u8]) -> Option<ShortString> {
    (value.len() <= 255).then(|| std::str::from_utf8(value).ok().map(Into::into)).flatten()
}

fn long(value: &[u8]) -> AMQPValue {
    AMQPValue::LongString(value.to_vec().into())
}

/// Encodes a table entry by hand: its name, `S`, its length and its value.
fn entry(name: &str, value: &str) -> Vec<u8> {
    let length = u32::try_from(value.len()).unwrap().to_be_bytes();
    [&[u8::try_from(name.len()).unwrap()][..], name.as_bytes(), b"S", &length, value.as_bytes()].concat()
}

impl Post {
    pub(crate) fn at(url: &str) -> Self {
        Self { url: url.to_owned(), connection: None }
    }

    /// Publishes to a queue, with a confirm, on a separate channel: the broker closes it on an error.
    async fn publish(&mut self, queue: &str, properties: BasicProperties, body: &[u8]) -> Told {
        let said = tokio::time::timeout(PATIENCE, self.try_publish(queue, properties, body)).await;
        match said.expect("the broker says nothing") {
            Ok(()) => Told::Taken,
            Err(error) => {
                // It may have closed more than the channel.
                self.connection = None;
                Told::Refused(error)
            }
        }
    }

    async fn try_publish(&mut self, queue: &str, properties: BasicProperties, body: &[u8]) -> Result<(), String> {
        let said = |error: lapin::Error| error.to_string();
        if self.connection.is_none() {
            self.connection = Some(Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap());
        }
        let channel = self.connection.as_ref().unwrap().create_channel().await.map_err(said)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(said)?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let confirm = channel.basic_publish("".into(), queue.into(), options, body, properties).await.map_err(said)?;
        let confirm = confirm.await.map_err(said)?;
        let taken = confirm.is_ack() && confirm.take_message().is_none();
        let _ = channel.close(200, "".into()).await;
        if taken { Ok(()) } else { Err("nacked or returned".to_owned()) }
    }

    /// Publishes it as a submission with this id, and with a mark by which a rejected message is recognised.
    pub(crate) async fn submit(&mut self, queue: &str, nasty: &Nasty, mark: &str, id: JobId) -> Told {
        if nasty.levels > 0 {
            let mut raw = Raw::connect(&self.url).await;
            raw.publish(queue, &id.to_string(), "note", ("own", &nested(nasty.levels)), &nasty.body).await;
            return Told::Taken;
        }
        let Some(mut properties) = typed(nasty) else { return Told::Unsaid };
        let mut table = FieldTable::default();
        properties = properties.with_app_id(mark.into());
        table.insert("jobKind".into(), long(nasty.kind()));
        if nasty.said(&Say::Id).is_none() {
            properties = properties.with_message_id(id.to_string().into());
        }
        for (say, value) in &nasty.says {
            let header = match say {
                Say::Kind | Say::ContentType | Say::Encoding => continue,
                Say::Ttl | Say::User => {
                    let Some(value) = short(value) else { return Told::Unsaid };
                    let ttl = *say == Say::Ttl;
                    properties = if ttl { properties.with_expiration(value) } else { properties.with_user_id(value) };
                    continue;
                }
                Say::ReplyTo if short(value).is_some() => {
                    properties = properties.with_reply_to(short(value).unwrap());
                    continue;
                }
                Say::Id => "submissionId",
                Say::ReplyTo => "replyTo",
                Say::Queue => "queue",
                Say::Priority => "jobPriority",
                Say::Due => "dueAt",
                Say::Delay => "delay",
                Say::Attempts => "maxAttempts",
                Say::Group => "groupId",
                Say::Unique => "uniqueKey",
                Say::Tenant => "tenant",
                Say::LimitKey => "limitKey",
                Say::Correlation => "correlationId",
                Say::Header(name) => name,
            };
            table.insert(header.into(), long(value));
        }
        self.publish(queue, properties.with_headers(table), &nasty.body).await
    }

    /// Publishes it as a report on a handed-out job: its body is the result, its numeric fields are durations, and its names are the error.
    pub(crate) async fn report(&mut self, queue: &str, nasty: &Nasty, handed: &Message) -> Told {
        let (job, version) = (handed.job().to_string(), handed.version().to_string());
        let token = handed.header("reportToken").unwrap_or_default();
        if nasty.levels > 0 {
            let about = [("jobId", job.as_str()), ("version", &version), ("reportToken", &token), ("status", "failed")];
            let about: Vec<u8> = about.iter().flat_map(|(name, value)| entry(name, value)).collect();
            let more = [nested(nasty.levels), about].concat();
            Raw::connect(&self.url).await.publish(queue, &job, "done", ("error", &more), &nasty.body).await;
            return Told::Taken;
        }
        let Some(properties) = typed(nasty) else { return Told::Unsaid };
        let (mut status, mut table) = ("done", FieldTable::default());
        table.insert("jobId".into(), long(job.as_bytes()));
        table.insert("version".into(), long(version.as_bytes()));
        table.insert("reportToken".into(), long(token.as_bytes()));
        for (say, value) in &nasty.says {
            let (header, says) = match say {
                Say::ContentType | Say::Encoding => continue,
                Say::Kind => ("status", "failed"),
                Say::Id => ("jobId", "done"),
                Say::Attempts => ("version", "done"),
                Say::Priority | Say::Queue => ("retry", "failed"),
                Say::Due | Say::Delay => ("retryAfter", "failed"),
                Say::Ttl => ("lease", "extend"),
                Say::Group | Say::Unique | Say::User => ("error", "failed"),
                Say::Tenant | Say::LimitKey | Say::ReplyTo | Say::Correlation => ("detail", "failed"),
                Say::Header(name) => (name.as_str(), status),
            };
            status = says;
            table.insert(header.into(), long(value));
        }
        if nasty.said(&Say::Kind).is_none() {
            table.insert("status".into(), long(status.as_bytes()));
        }
        self.publish(queue, properties.with_headers(table), &nasty.body).await
    }
}

/// Returns type and encoding of the body. `None`: AMQP can't express them.
fn typed(nasty: &Nasty) -> Option<BasicProperties> {
    let content_type = short(nasty.said(&Say::ContentType).unwrap_or(b"application/json"))?;
    let properties = BasicProperties::default().with_content_type(content_type);
    match nasty.said(&Say::Encoding) {
        Some(encoding) => Some(properties.with_content_encoding(short(encoding)?)),
        None => Some(properties),
    }
}
