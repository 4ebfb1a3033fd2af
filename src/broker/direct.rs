//! Direct replies, to clients that wait without their own queue.
//!
//! Their addresses come from external clients. The broker ends the connection because of a bad address, and it returns a mandatory message
//! although it delivered it. So direct replies go over a connection that nothing else uses. They are not mandatory, and each is sent once:
//! a client that has gone asks again.

use lapin::Channel;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use super::Broker;
use super::dedicated::DedicatedConnection;
use super::failure::{CLOSING, Failure, short, within};
use super::hub::Hub;
use super::message::Outgoing;

/// The result of publishing a direct reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    /// The client was present, and the broker took the message.
    Delivered,
    /// It was not published, and can be sent later.
    NotSent,
    /// It can't be delivered, for this reason.
    Lost(String),
}

/// A connection for direct replies that are published one after the other.
pub(crate) struct Directly<'b> {
    hub: &'b Hub,
    connection: DedicatedConnection<'b>,
    /// Whether there was no connection or no answer: the next reply would wait as long.
    given_up: bool,
}

impl Broker {
    /// Returns a line for direct replies. It connects with the first reply.
    pub(crate) fn directly(&self) -> Directly<'_> {
        let connection = DedicatedConnection::new(&self.hub, "direct");
        Directly { hub: &self.hub, connection, given_up: false }
    }
}

impl Directly<'_> {
    /// Publishes one message to a client's address.
    pub(crate) async fn publish(&mut self, message: &Outgoing) -> Direct {
        if self.given_up || !self.hub.mode_tracker.is_up() {
            return Direct::NotSent;
        }
        let Some(channel) = self.connection.channel().await else { return self.give_up() };
        let outcome = deliver(self.hub, &channel, message).await;
        if channel.status().connected() {
            let _ = within(CLOSING, channel.close(200, "OK".into())).await;
        }
        match outcome {
            Ok(()) => Direct::Delivered,
            Err(Undelivered::Before(Failure::Missing(_))) => Direct::Lost("its requester is gone".to_owned()),
            Err(Undelivered::Before(failure @ (Failure::Lost(_) | Failure::Timeout(_)))) => {
                tracing::debug!("a direct reply was not sent: {}", failure.text());
                self.give_up()
            }
            Err(Undelivered::Before(failure) | Undelivered::After(failure)) => {
                self.given_up = matches!(failure, Failure::Timeout(_));
                Direct::Lost(format!("the broker does not deliver it: {}", failure.text()))
            }
        }
    }

    fn give_up(&mut self) -> Direct {
        self.given_up = true;
        Direct::NotSent
    }

    pub(crate) async fn close(self) {
        self.connection.close().await;
    }
}

/// Why a message was not delivered.
enum Undelivered {
    /// It was not published.
    Before(Failure),
    /// It may have been published.
    After(Failure),
}

async fn deliver(hub: &Hub, channel: &Channel, message: &Outgoing) -> Result<(), Undelivered> {
    use Undelivered::{After, Before};
    let address = short(&message.routing_key).map_err(Before)?;
    // The only way to see whether the client is present: a message for a client that has gone is confirmed, and lost.
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let look = channel.queue_declare(address.clone(), options, FieldTable::default());
    within(hub.rpc(), look).await.map_err(Before)?;
    within(hub.rpc(), channel.confirm_select(ConfirmSelectOptions::default())).await.map_err(Before)?;
    let (options, properties) = (BasicPublishOptions::default(), message.properties.clone());
    let publish = channel.basic_publish("".into(), address, options, &message.body, properties);
    let confirm = within(hub.rpc(), publish).await.map_err(After)?;
    if within(hub.config.confirm_timeout, confirm).await.map_err(After)?.is_nack() {
        return Err(After(Failure::Refused("it was refused".to_owned())));
    }
    Ok(())
}
