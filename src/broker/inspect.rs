//! The broker's queues, for people.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::options::{ExchangeDeleteOptions, QueueDeleteOptions};

use super::failure::{Failure, within};
use super::message::Outgoing;
use super::mode_tracker::Side;
use super::topology::{self, Declaration, Made};
use super::{Broker, BrokerMode};
use crate::error::Result;

/// A queue of the broker.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BrokerQueue {
    /// Its name at the broker.
    pub name: String,
    /// Messages ready to be delivered; `None`: there is no such queue.
    pub messages: Option<u32>,
    /// Consumers of the queue: one for each executor or external worker that subscribed.
    pub consumers: Option<u32>,
}

impl Broker {
    /// Returns the broker's mode after asking the broker. A broker with an alarm says so to a connection only when that publishes. So this
    /// publishes messages that no queue takes, and that are returned. Without an answer within `patience`, it returns the mode as far as it
    /// is known.
    #[doc(hidden)]
    pub async fn ask(&self, patience: Duration) -> BrokerMode {
        let mut changes = self.changes();
        let question = Outgoing {
            exchange: String::new(),
            routing_key: self.names().nowhere(),
            mandatory: true,
            properties: BasicProperties::default(),
            body: Vec::new(),
        };
        if self.is_up() {
            // The broker still answers the first one, while its notice of the alarm may be behind that answer. It does not read a second.
            let asked = async {
                self.publish(vec![question.clone()]).await;
                self.publish(vec![question]).await;
            };
            tokio::select! {
                () = asked => {}
                _ = changes.wait_for(|mode| !mode.is_up()) => {}
                () = tokio::time::sleep(patience) => {}
            }
        }
        self.mode()
    }

    /// Returns the number of messages and consumers of these queues of the broker, given by their full names, in their order.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses.
    #[doc(hidden)]
    pub async fn queues(&self, names: &[String]) -> Result<Vec<BrokerQueue>> {
        let mut queues = Vec::with_capacity(names.len());
        for name in names {
            let depth = self.depth(name).await?;
            queues.push(BrokerQueue {
                name: name.clone(),
                messages: depth.map(|depth| depth.messages),
                consumers: depth.map(|depth| depth.consumers),
            });
        }
        Ok(queues)
    }

    /// Deletes everything that [`apply`](Self::apply) declares for these queues, with all messages: for tests, and for installations that
    /// are given up. Deliveries are no loss, because their rows are in the database. Submissions that were not taken in yet are lost.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses.
    #[doc(hidden)]
    pub async fn remove(&self, queues: &[String], external: &[String]) -> Result<()> {
        for part in topology::all(&self.hub.config, &self.hub.names, queues, external) {
            match self.delete(&part).await {
                Ok(()) | Err(Failure::Missing(_)) => {}
                Err(failure) => return Err(failure.into_error(&format!("delete {:?}", part.name))),
            }
        }
        self.unmark().await.map_err(|failure| failure.into_error("take the mark of the queues away"))
    }

    async fn delete(&self, part: &Declaration) -> Result<(), Failure> {
        let channel = self.hub.session(Side::Consume)?.channel().await?;
        let (name, rpc) = (part.name.as_str(), self.hub.rpc());
        match part.made {
            Made::Exchange(_) => {
                within(rpc, channel.exchange_delete(name.into(), ExchangeDeleteOptions::default())).await?;
            }
            Made::Queue { .. } => {
                within(rpc, channel.queue_delete(name.into(), QueueDeleteOptions::default())).await?;
            }
        }
        within(rpc, channel.close(200, "OK".into())).await
    }
}
