//! The broker in a build without the feature `rabbitmq`. Its handle has no value, so no function of it can be called: what uses a broker compiles in both
//! builds, and does nothing here.

mod mode;
mod stats;

use std::sync::Arc;

pub use self::mode::BrokerMode;
pub use self::stats::{BrokerStats, ModeChanges};
use crate::error::Result;

/// A broker, of which a build without its client has no value.
#[derive(Debug)]
pub(crate) enum Broker {}

impl Broker {
    pub(crate) fn mode(&self) -> BrokerMode {
        match *self {}
    }

    pub(crate) fn is_up(&self) -> bool {
        match *self {}
    }

    pub(crate) fn stats(&self) -> BrokerStats {
        match *self {}
    }

    pub(crate) fn limit(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn describe(&self) -> String {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "as the broker's own")]
    pub(crate) async fn belong_to(&self, _installation: &str) -> Result<()> {
        match *self {}
    }
}

/// Publishes deliveries to a broker, of which there is none.
#[derive(Debug)]
pub(crate) enum DeliveryPublisher {}

impl DeliveryPublisher {
    pub(crate) fn broker(&self) -> &Arc<Broker> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "as the publisher's own")]
    pub(crate) async fn settled(&self) {
        match *self {}
    }
}
