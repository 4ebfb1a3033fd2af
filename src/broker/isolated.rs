//! Messages whose answer did not come once: each is published again where it can take no other message with it.
//!
//! The broker ends the channel on which it refuses a message (one that is too large), or the connection on which it can't read one. All else
//! on that channel or connection goes unanswered, and the broker does not say because of which message. On a connection that nothing else
//! uses, with one message at a time, it can only be that one.
//!
//! A broker that stops, is out of memory, or waits for the leader of a queue gives no answer either. No message is to blame for that.

use std::sync::atomic::Ordering;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation};

use super::Broker;
use super::dedicated::DedicatedConnection;
use super::failure::{Failure, short, within};
use super::hub::Hub;
use super::message::{Outgoing, Published};
use super::mode_tracker::Side;

/// The result of publishing a message alone.
#[derive(Debug)]
pub(crate) enum Alone {
    /// As for any other message. [`Published::Unknown`]: no answer came in time, or the broker went away.
    Answered(Published),
    /// The broker ended the channel or the connection because of it, for this reason.
    Refused(String),
}

/// A connection for messages that are published one after the other.
pub(crate) struct Isolated<'b> {
    hub: &'b Hub,
    connection: DedicatedConnection<'b>,
    /// A channel with confirms on which no message is unanswered.
    channel: Option<Channel>,
    /// Whether there was no connection or no answer in time: the next message would wait as long.
    given_up: bool,
}

impl Broker {
    /// Returns a connection for messages that may end it. It connects with the first message.
    pub(crate) fn isolated(&self) -> Isolated<'_> {
        let connection = DedicatedConnection::new(&self.hub, "isolated");
        Isolated { hub: &self.hub, connection, channel: None, given_up: false }
    }
}

impl Isolated<'_> {
    /// Publishes a message and waits for its outcome. After one that had no connection or no answer, no other is sent.
    pub(crate) async fn publish(&mut self, message: &Outgoing) -> Alone {
        let outcome = self.answer(message).await;
        let published = match &outcome {
            Alone::Answered(published) => *published,
            Alone::Refused(_) => Published::Unknown,
        };
        self.hub.counters.published(published);
        if matches!(published, Published::Returned | Published::Unknown) {
            // A deleted exchange or queue looks like that too.
            self.hub.doubts.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    async fn answer(&mut self, message: &Outgoing) -> Alone {
        if self.given_up || !self.hub.mode_tracker.is_up() {
            return Alone::Answered(Published::NotSent);
        }
        let (Ok(exchange), Ok(routing_key)) = (short(&message.exchange), short(&message.routing_key)) else {
            // No queue can have such a name.
            return Alone::Answered(Published::Returned);
        };
        let Some(channel) = self.channel().await else {
            self.given_up = true;
            return Alone::Answered(Published::NotSent);
        };
        let options = BasicPublishOptions { mandatory: message.mandatory, ..BasicPublishOptions::default() };
        let confirmation = async {
            channel
                .basic_publish(exchange, routing_key, options, &message.body, message.properties.clone())
                .await?
                .await
        };
        match within(self.hub.config.confirm_timeout, confirmation).await {
            Ok(confirmation) => {
                self.channel = Some(channel);
                Alone::Answered(match confirmation {
                    Confirmation::Nack(_) => Published::Nacked,
                    // The only unanswered message of the channel, so what was returned is this one.
                    Confirmation::Ack(Some(_)) => Published::Returned,
                    Confirmation::Ack(None) => Published::Acked,
                    Confirmation::NotRequested => Published::Unknown,
                })
            }
            Err(failure) => {
                tracing::debug!("a message that was published alone got no confirm: {}", failure.text());
                if self.is_refusal(&failure).await {
                    Alone::Refused(failure.text())
                } else {
                    self.given_up = true;
                    Alone::Answered(Published::Unknown)
                }
            }
        }
    }

    /// Returns a channel with confirms.
    async fn channel(&mut self) -> Option<Channel> {
        if let Some(channel) = self.channel.take().filter(|channel| channel.status().connected()) {
            return Some(channel);
        }
        let channel = self.connection.channel().await?;
        within(self.hub.rpc(), channel.confirm_select(ConfirmSelectOptions::default())).await.ok()?;
        Some(channel)
    }

    /// Whether the broker ended channel or connection because of the message.
    async fn is_refusal(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Missing(_)
            | Failure::Differs(_)
            | Failure::Forbidden(_)
            | Failure::Foreign(_)
            | Failure::Refused(_) => true,
            // It was cut off without a word. The message is to blame if the broker still answers on the other connection.
            Failure::Lost(_) => match self.hub.session(Side::Publish) {
                Ok(session) => match session.channel().await {
                    Ok(channel) => within(self.hub.rpc(), channel.close(200, "OK".into())).await.is_ok(),
                    Err(_) => false,
                },
                Err(_) => false,
            },
            Failure::Timeout(_) => false,
        }
    }

    pub(crate) async fn close(self) {
        self.connection.close().await;
    }
}
