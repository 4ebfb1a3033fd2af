//! Rejected messages: listed, put back into their source queue, or removed.

use std::fmt;

use lapin::options::{BasicAckOptions, BasicGetOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};

use super::failure::{CLOSING, Failure, short, within};
use super::message::Published;
use super::mode_tracker::Side;
use super::{Broker, Names, wire};
use crate::error::{Error, ErrorKind, Result};

/// A queue in which rejected messages wait for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectedQueue {
    /// Submissions that were refused, or delivered too often.
    Submissions,
    /// Reports of external workers that were refused, or delivered too often.
    Reports,
    /// Deliveries and handed-out jobs that could not be used. Their rows are in the database, from where they run.
    Dead,
}

impl RejectedQueue {
    /// All of these queues.
    pub const ALL: &[Self] = &[Self::Submissions, Self::Reports, Self::Dead];

    /// Returns its name at the broker.
    pub fn name(self, names: &Names) -> String {
        match self {
            Self::Submissions => names.rejected(),
            Self::Reports => names.rejected_reports(),
            Self::Dead => names.dead(),
        }
    }

    /// Returns the queue that its messages came from and can be put back to. `None`: they are not needed again.
    pub fn source(self, names: &Names) -> Option<String> {
        match self {
            Self::Submissions => Some(names.submit()),
            Self::Reports => Some(names.reply()),
            Self::Dead => None,
        }
    }
}

/// A rejected message.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct RejectedMessage {
    /// The queue it is in: the name at the broker.
    pub queue: String,
    /// Its property `message_id`.
    pub id: Option<String>,
    /// Its property `type`, or header `jobKind`.
    pub kind: Option<String>,
    /// Why it is here, in a word, from jobwright or the broker.
    pub reason: Option<String>,
    /// The reason as a sentence.
    pub error: Option<String>,
    /// The queue from which the broker moved it here. `None`: jobwright rejected it.
    pub from: Option<String>,
    /// The size of its body in bytes.
    pub bytes: usize,
    /// Its body, if it is text.
    pub body: Option<String>,
    #[serde(skip)]
    properties: BasicProperties,
    #[serde(skip)]
    raw: Vec<u8>,
    #[serde(skip)]
    tag: u64,
}

/// Messages of one such queue, from the oldest on. Those that were seen, but neither put back nor removed, are in their places again once
/// this is closed or dropped.
pub struct RejectedMessages<'a> {
    broker: &'a Broker,
    queue: RejectedQueue,
    channel: Channel,
    /// The number of messages at first. Messages that come back meanwhile are left for the next time.
    left: u32,
}

impl fmt::Debug for RejectedMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedMessages").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Broker {
    /// Starts to read a queue of rejected messages. `None`: there is no such queue. The user needs the permission to read it.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses.
    #[doc(hidden)]
    pub async fn rejected(&self, queue: RejectedQueue) -> Result<Option<RejectedMessages<'_>>> {
        let Some(depth) = self.depth(&queue.name(self.names())).await? else { return Ok(None) };
        let channel = async { self.hub.session(Side::Consume)?.channel().await };
        let channel = channel.await.map_err(|failure| failure.into_error("look at rejected messages"))?;
        Ok(Some(RejectedMessages { broker: self, queue, channel, left: depth.messages }))
    }
}

impl RejectedMessages<'_> {
    /// Returns the next message.
    ///
    /// # Errors
    /// When the broker does not answer, or this user may not read the queue.
    pub async fn next(&mut self) -> Result<Option<RejectedMessage>> {
        if self.left == 0 {
            return Ok(None);
        }
        let name = self.queue.name(self.broker.names());
        let got = async {
            let get = self.channel.basic_get(short(&name)?, BasicGetOptions::default());
            within(self.broker.hub.rpc(), get).await
        };
        let got = got.await.map_err(|failure| failure.into_error(&format!("look into {name:?}")))?;
        self.left -= 1;
        Ok(got.map(|got| RejectedMessage::new(name, got.delivery)))
    }

    /// Puts messages back into the queue they came from, and removes each from this one once the broker has confirmed it. Returns the
    /// number removed. A message whose removal is lost exists twice. This does no harm: the id of a submission, and the version of a
    /// report, show that it came before.
    ///
    /// # Errors
    /// When this queue's messages can't be put back, or the broker does not answer.
    pub async fn put_back(&mut self, messages: Vec<RejectedMessage>) -> Result<usize> {
        let Some(source) = self.queue.source(self.broker.names()) else {
            return Err(Error::new(
                ErrorKind::Config,
                "the jobs of this queue's messages are in the database, and run from there",
            ));
        };
        let (tags, out): (Vec<_>, Vec<_>) = messages
            .into_iter()
            .map(|message| {
                let mut out = wire::again(source.clone(), &message.properties, message.raw);
                // In the name of the present user: the sender's kept name may be forged, and the broker lets no user send another's name.
                if let Some(user) = self.broker.hub.addresses.user().and_then(|user| short(user).ok()) {
                    out.properties = out.properties.with_user_id(user);
                }
                (message.tag, out)
            })
            .unzip();
        let outcomes = self.broker.publish(out).await;
        let confirmed = tags.into_iter().zip(outcomes).filter(|(_, outcome)| *outcome == Published::Acked);
        self.ack(confirmed.map(|(tag, _)| tag).collect()).await
    }

    /// Removes messages for good. Returns the number removed.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses.
    pub async fn remove(&mut self, messages: Vec<RejectedMessage>) -> Result<usize> {
        self.ack(messages.into_iter().map(|message| message.tag).collect()).await
    }

    async fn ack(&mut self, tags: Vec<u64>) -> Result<usize> {
        for tag in &tags {
            let ack = self.channel.basic_ack(*tag, BasicAckOptions::default());
            within(self.broker.hub.rpc(), ack)
                .await
                .map_err(|failure| failure.into_error("remove rejected messages"))?;
        }
        Ok(tags.len())
    }

    /// Gives back the messages that were only read. After this the broker has received all answers.
    ///
    /// # Errors
    /// When the broker did not confirm it.
    pub async fn close(self) -> Result<()> {
        within(CLOSING, self.channel.close(200, "OK".into()))
            .await
            .map_err(|failure: Failure| failure.into_error("end the look at rejected messages"))
    }
}

impl RejectedMessage {
    fn new(queue: String, delivery: lapin::message::Delivery) -> Self {
        let properties = delivery.properties;
        let header = |name: &str| text_of(properties.headers().as_ref(), name);
        let died = header("x-first-death-reason");
        let reason = header("jobwright-reason").or_else(|| died.clone());
        let error = header("jobwright-error").or_else(|| died.as_deref().map(explain));
        Self {
            id: properties.message_id().as_ref().map(ToString::to_string),
            kind: properties.kind().as_ref().map(ToString::to_string).or_else(|| header("jobKind")),
            reason,
            error,
            from: wire::death(&properties).and_then(|death| text_of(Some(death), "queue")),
            bytes: delivery.data.len(),
            body: std::str::from_utf8(&delivery.data).ok().map(str::to_owned),
            tag: delivery.delivery_tag,
            raw: delivery.data,
            queue,
            properties,
        }
    }
}

fn text_of(table: Option<&FieldTable>, name: &str) -> Option<String> {
    match table?.inner().get(name)? {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        _ => None,
    }
}

/// Explains the broker's word in a sentence.
fn explain(word: &str) -> String {
    match word {
        "delivery_limit" => {
            "it reached the delivery limit: each time, its consumer died or lost the connection before it had finished"
                .to_owned()
        }
        "expired" => "its time to live ended before a consumer took it".to_owned(),
        "maxlen" => "its queue was full".to_owned(),
        "rejected" => "a consumer rejected it".to_owned(),
        other => format!("the broker moved it here: {other}"),
    }
}
