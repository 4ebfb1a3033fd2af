//! A producer at the broker that says whatever it likes, and goes on when it is thrown out.

use std::time::Duration;

use jobwright::JobId;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Connection, ConnectionProperties};

use crate::client::Message;
use crate::corpus::{Nasty, Say};
use crate::raw::{Raw, nested};

/// More than a busy broker takes for a confirm.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of it, as far as its producer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Taken,
    Refused(String),
    /// There are no words for it there.
    Unsaid,
}

pub(crate) struct Post {
    url: String,
    connection: Option<Connection>,
}

/// A string that a property can hold.
fn short(value: &[u8]) -> Option<ShortString> {
    (value.len() <= 255).then(|| std::str::from_utf8(value).ok().map(Into::into)).flatten()
}

fn long(value: &[u8]) -> AMQPValue {
    AMQPValue::LongString(value.to_vec().into())
}

/// `S`, its length and itself, behind its name: more of a table that is written by hand.
fn entry(name: &str, value: &str) -> Vec<u8> {
    let length = u32::try_from(value.len()).unwrap().to_be_bytes();
    [&[u8::try_from(name.len()).unwrap()][..], name.as_bytes(), b"S", &length, value.as_bytes()].concat()
}

impl Post {
    pub(crate) fn at(url: &str) -> Self {
        Self { url: url.to_owned(), connection: None }
    }

    /// To a queue, with a confirm, on a channel of its own: the broker ends it when it does not like what it hears.
    async fn publish(&mut self, queue: &str, properties: BasicProperties, body: &[u8]) -> Told {
        let said = tokio::time::timeout(PATIENCE, self.try_publish(queue, properties, body)).await;
        match said.expect("the broker says nothing") {
            Ok(()) => Told::Taken,
            Err(error) => {
                // It may have been more than the channel.
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

    /// As a submission with this id, and a mark that is left on it when it is refused.
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

    /// As a report on a job that was handed out: its body is the result, what is said in numbers says how long, and its names are the error.
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

/// The type and the encoding of the body. `None`: they are more than AMQP can say.
fn typed(nasty: &Nasty) -> Option<BasicProperties> {
    let content_type = short(nasty.said(&Say::ContentType).unwrap_or(b"application/json"))?;
    let properties = BasicProperties::default().with_content_type(content_type);
    match nasty.said(&Say::Encoding) {
        Some(encoding) => Some(properties.with_content_encoding(short(encoding)?)),
        None => Some(properties),
    }
}
