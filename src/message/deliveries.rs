//! Delivery through a broker: how message services get one.

use std::sync::Arc;

use super::MessageServices;
use super::delivery_publisher::DeliveryPublisher;
use crate::broker::Broker;
use crate::config::BrokerConfig;
use crate::error::{Error, Result};
use crate::store::Store;

impl<S: Store> MessageServices<S> {
    /// Delivers through a broker from now on, whenever it is up. Without a URL in `config`, nothing changes. Waits until the broker has
    /// answered once, at most [`connect_timeout`](BrokerConfig::connect_timeout).
    ///
    /// # Errors
    /// When the configuration can't be used; or when the broker does not answer though it is [`required`](BrokerConfig::required).
    /// Otherwise a broker that does not answer is no error: jobs are claimed from the table until it does.
    pub async fn with_broker(mut self, config: &BrokerConfig) -> Result<Self> {
        if config.url.is_none() {
            if config.required {
                return Err(Error::config("broker.required is set, but there is no broker.url"));
            }
            return Ok(self);
        }
        let broker = Broker::start(config)?;
        if config.required {
            broker.up_within(config.connect_timeout).await?;
        } else {
            let mut changes = broker.changes();
            // The first status decides, good or bad; the supervisor logs it and keeps trying.
            if !changes.borrow_and_update().is_up() {
                let _ = tokio::time::timeout(config.connect_timeout, changes.changed()).await;
            }
        }
        let shared = self.setting();
        shared.limits.direct_reply = config.direct_reply;
        shared.delivery_publisher =
            Some(DeliveryPublisher::new(broker, shared.jobs.clone(), shared.wakeup.clone(), config.depth));
        shared.intake = config.intake;
        Ok(self)
    }

    /// Returns the broker, if there is one.
    pub fn broker(&self) -> Option<&Arc<Broker>> {
        self.shared.broker()
    }

    /// Checks whether jobs of this queue can go through the broker now. Without this call, the check runs while the first jobs are sent,
    /// and these are claimed from the table: a program that sends a few jobs and ends would never use the broker. Does nothing without a
    /// broker, and is never required.
    pub async fn prepare(&self, queue: &str) {
        if let Some(delivery_publisher) = &self.shared.delivery_publisher {
            delivery_publisher.prepare(queue).await;
        }
    }
}
