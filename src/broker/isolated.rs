//! Messages whose answer did not come once: each is published again where it can take no other message with it.
//!
//! The broker ends the channel on which it refuses a message (one that is too large), or the connection on which it can't read one. All else
//! on that channel or connection goes unanswered, and the broker does not say because of which message. On a connection of its own, with one
//! message at a time, a missing answer is that message's own fault.

use std::sync::atomic::Ordering;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation};

use super::Broker;
use super::dedicated::DedicatedConnection;
use super::failure::{CLOSING, Failure, short, within};
use super::hub::Hub;
use super::message::{Outgoing, Published};

/// A connection for messages that are published one after the other.
pub(crate) struct Isolated<'b> {
    hub: &'b Hub,
    connection: DedicatedConnection<'b>,
    /// Whether there was no connection or no answer in time: the next message would wait as long.
    given_up: bool,
}

impl Broker {
    /// Returns a connection for messages that may end it. It connects with the first message.
    pub(crate) fn isolated(&self) -> Isolated<'_> {
        let connection = DedicatedConnection::new(&self.hub, "isolated");
        Isolated { hub: &self.hub, connection, given_up: false }
    }
}

impl Isolated<'_> {
    /// Publishes a message and waits for its outcome. After a message that had no connection or no answer in time, no other is sent.
    pub(crate) async fn publish(&mut self, message: &Outgoing) -> Published {
        let outcome = self.publish_on_channel(message).await;
        self.hub.counters.published(outcome);
        if matches!(outcome, Published::Returned | Published::Unknown) {
            // A deleted exchange or queue looks like that too.
            self.hub.doubts.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    async fn publish_on_channel(&mut self, message: &Outgoing) -> Published {
        if self.given_up || !self.hub.mode_tracker.is_up() {
            return Published::NotSent;
        }
        let Some(channel) = self.connection.channel().await else {
            self.given_up = true;
            return Published::NotSent;
        };
        let outcome = deliver(self.hub, &channel, message).await;
        if channel.status().connected() {
            let _ = within(CLOSING, channel.close(200, "OK".into())).await;
        }
        match outcome {
            Ok(outcome) => outcome,
            Err(NoAnswer { published, failure }) => {
                tracing::debug!("a message that was published alone has no answer: {}", failure.text());
                self.given_up = matches!(failure, Failure::Timeout(_));
                if published { Published::Unknown } else { Published::NotSent }
            }
        }
    }

    pub(crate) async fn close(self) {
        self.connection.close().await;
    }
}

/// The message may be with the broker if it was `published`.
struct NoAnswer {
    published: bool,
    failure: Failure,
}

async fn deliver(hub: &Hub, channel: &Channel, message: &Outgoing) -> Result<Published, NoAnswer> {
    let (Ok(exchange), Ok(routing_key)) = (short(&message.exchange), short(&message.routing_key)) else {
        // No queue can have such a name.
        return Ok(Published::Returned);
    };
    let before = |failure| NoAnswer { published: false, failure };
    let after = |failure| NoAnswer { published: true, failure };
    within(hub.rpc(), channel.confirm_select(ConfirmSelectOptions::default())).await.map_err(before)?;
    let options = BasicPublishOptions { mandatory: message.mandatory, ..BasicPublishOptions::default() };
    let answer = async {
        channel.basic_publish(exchange, routing_key, options, &message.body, message.properties.clone()).await?.await
    };
    Ok(match within(hub.config.confirm_timeout, answer).await.map_err(after)? {
        Confirmation::Nack(_) => Published::Nacked,
        // The only message of the channel, so what was returned is this one.
        Confirmation::Ack(Some(_)) => Published::Returned,
        Confirmation::Ack(None) | Confirmation::NotRequested => Published::Acked,
    })
}
