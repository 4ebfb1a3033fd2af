//! Direct replies, to clients that wait without a queue of their own.
//!
//! Their addresses come from strangers. The broker answers a bad one by ending the connection, and returns a mandatory message although it
//! delivered it. So each goes by a connection that nobody else uses, not mandatory, and once: a client that has gone asks again.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use super::Broker;
use super::failure::{Failure, short, within};
use super::hub::Hub;
use super::message::Outgoing;
use super::session::Session;

/// What became of a direct reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    /// The client was there, and the broker took it.
    Delivered,
    /// There was no connection: again, later.
    NotSent,
    /// It can't be delivered, for this reason.
    Lost(String),
}

impl Broker {
    /// Publishes one message to a client's own address.
    pub(crate) async fn publish_directly(&self, message: &Outgoing) -> Direct {
        let Some(session) = connect(&self.hub).await else { return Direct::NotSent };
        let outcome = deliver(&self.hub, &session, message).await;
        session.close().await;
        match outcome {
            Ok(()) => Direct::Delivered,
            Err(Failure::Missing(_)) => Direct::Lost("who waited for it is gone".to_owned()),
            Err(failure) => Direct::Lost(format!("the broker does not deliver it: {}", failure.text())),
        }
    }
}

/// To the first of the addresses that answers.
async fn connect(hub: &Hub) -> Option<Session> {
    let name = format!("jobwright direct {}", std::process::id());
    for at in 0..hub.addresses.len() {
        match Session::connect(hub.addresses.at(at), &name, hub.number(), hub.rpc()).await {
            Ok(session) => return Some(session),
            Err(failure) => tracing::debug!("no connection for a direct reply: {}", failure.text()),
        }
    }
    None
}

async fn deliver(hub: &Hub, session: &Session, message: &Outgoing) -> Result<(), Failure> {
    let channel = session.channel().await?;
    let address = short(&message.routing_key)?;
    // The only way to see whether the client is there: a message for one that has gone is confirmed, and lost.
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    within(hub.rpc(), channel.queue_declare(address.clone(), options, FieldTable::default())).await?;
    within(hub.rpc(), channel.confirm_select(ConfirmSelectOptions::default())).await?;
    let (options, properties) = (BasicPublishOptions::default(), message.properties.clone());
    let publish = channel.basic_publish("".into(), address, options, &message.body, properties);
    let confirm = within(hub.rpc(), publish).await?;
    if within(hub.config.confirm_timeout, confirm).await?.is_nack() {
        return Err(Failure::Refused("it was refused".to_owned()));
    }
    Ok(())
}
