//! What was put aside: looked at, put back to where it came from, or removed.

use std::fmt;

use lapin::options::{BasicAckOptions, BasicGetOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};

use super::failure::{CLOSING, Failure, short, within};
use super::message::Published;
use super::mode::Side;
use super::{Broker, Names, wire};
use crate::error::{Error, ErrorKind, Result};

/// Where messages wait for somebody to look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectedQueue {
    /// Submissions that were refused, or delivered too often.
    Submissions,
    /// Reports of external workers that were refused, or delivered too often.
    Reports,
    /// Deliveries and handed-out jobs that nobody could use: their rows are in the database, where they run from.
    Dead,
}

impl RejectedQueue {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Submissions, Self::Reports, Self::Dead];

    /// Its name at the broker.
    pub fn name(self, names: &Names) -> String {
        match self {
            Self::Submissions => names.rejected(),
            Self::Reports => names.rejected_reports(),
            Self::Dead => names.dead(),
        }
    }

    /// Where its messages came from, and can be put back to. `None`: nobody needs them again.
    pub fn source(self, names: &Names) -> Option<String> {
        match self {
            Self::Submissions => Some(names.submit()),
            Self::Reports => Some(names.reply()),
            Self::Dead => None,
        }
    }
}

/// A message that was put aside.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct RejectedMessage {
    /// Where it is: the name at the broker.
    pub queue: String,
    /// Its property `message_id`.
    pub id: Option<String>,
    /// Its property `type`, or header `jobKind`.
    pub kind: Option<String>,
    /// Why it is here, in a word: ours, or the broker's.
    pub reason: Option<String>,
    /// The same as a sentence.
    pub error: Option<String>,
    /// The queue from which the broker moved it here; `None`: we put it aside.
    pub from: Option<String>,
    /// Bytes of its body.
    pub bytes: usize,
    /// Its body, if that is text.
    pub body: Option<String>,
    #[serde(skip)]
    properties: BasicProperties,
    #[serde(skip)]
    raw: Vec<u8>,
    #[serde(skip)]
    tag: u64,
}

/// Messages of one such queue, from the oldest on. Those that were seen and neither put back nor removed are there again, in their places,
/// once this is closed or dropped.
pub struct RejectedMessages<'a> {
    broker: &'a Broker,
    queue: RejectedQueue,
    channel: Channel,
    /// How many there were at first: those that come back meanwhile are left for the next time.
    left: u32,
}

impl fmt::Debug for RejectedMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedMessages").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Broker {
    /// Begins to look at what was put aside; `None`: there is no such queue. The user needs the right to read it.
    ///
    /// # Errors
    /// When the broker can't be asked.
    pub async fn rejected(&self, queue: RejectedQueue) -> Result<Option<RejectedMessages<'_>>> {
        let Some(depth) = self.depth(&queue.name(self.names())).await? else { return Ok(None) };
        let channel = async { self.hub.session(Side::Consume)?.channel().await };
        let channel = channel.await.map_err(|failure| failure.into_error("look at what was put aside"))?;
        Ok(Some(RejectedMessages { broker: self, queue, channel, left: depth.messages }))
    }
}

impl RejectedMessages<'_> {
    /// The next one.
    ///
    /// # Errors
    /// When the broker can't be asked, or this user may not read the queue.
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

    /// Puts messages back to where they came from, and removes each from here once the broker has confirmed that it is there. Returns how
    /// many that were. One whose removal is lost is there twice, which does no harm: the id of a submission, and the version of a report,
    /// tell that it came before.
    ///
    /// # Errors
    /// When this queue's messages can't be put back, or the broker can't be asked.
    pub async fn put_back(&mut self, messages: Vec<RejectedMessage>) -> Result<usize> {
        let Some(source) = self.queue.source(self.broker.names()) else {
            return Err(Error::new(ErrorKind::Config, "what is in this queue is in the database, and runs from there"));
        };
        let (tags, out): (Vec<_>, Vec<_>) = messages
            .into_iter()
            .map(|message| {
                let mut out = wire::again(source.clone(), &message.properties, message.raw);
                // In the name of whoever does it: what is kept of the sender's may be made up, and the broker lets nobody use another's.
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

    /// Removes messages for good. Returns how many.
    ///
    /// # Errors
    /// When the broker can't be asked.
    pub async fn remove(&mut self, messages: Vec<RejectedMessage>) -> Result<usize> {
        self.ack(messages.into_iter().map(|message| message.tag).collect()).await
    }

    async fn ack(&mut self, tags: Vec<u64>) -> Result<usize> {
        for tag in &tags {
            let ack = self.channel.basic_ack(*tag, BasicAckOptions::default());
            within(self.broker.hub.rpc(), ack)
                .await
                .map_err(|failure| failure.into_error("remove what was put aside"))?;
        }
        Ok(tags.len())
    }

    /// Gives back what was only looked at. After this the broker has taken all answers.
    ///
    /// # Errors
    /// When the broker did not say so.
    pub async fn close(self) -> Result<()> {
        within(CLOSING, self.channel.close(200, "OK".into()))
            .await
            .map_err(|failure: Failure| failure.into_error("end the look at what was put aside"))
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

/// The broker's word as a sentence.
fn explain(word: &str) -> String {
    match word {
        "delivery_limit" => "the broker delivered it as often as its limit allows, and each time what took it died, or lost its connection, before it \
                             was done with it"
            .to_owned(),
        "expired" => "its time to live was over before anybody took it".to_owned(),
        "maxlen" => "its queue was full".to_owned(),
        "rejected" => "a consumer rejected it".to_owned(),
        other => format!("the broker moved it here: {other}"),
    }
}
