//! The message services of one unit of work, in their order.

use std::sync::Arc;

use super::hooks::SendHooks;
use super::local_service::LocalService;
#[cfg(feature = "rabbitmq")]
use super::rabbitmq::RabbitMqService;
use super::table::TableService;
use super::{MessageService, Shared};
use crate::store::Store;

impl<S: Store> Shared<S> {
    /// Creates the services of one unit of work.
    pub(crate) fn open(self: &Arc<Self>) -> Box<dyn MessageService<S>> {
        let table = TableService::new(self.clone());
        let wakeup = self.wakeup.clone();
        // The local handoff has the first choice, then the broker; what both leave waits in the table.
        let ours: Box<dyn MessageService<S>> = match &self.delivery_publisher {
            #[cfg(not(feature = "rabbitmq"))]
            Some(delivery_publisher) => match **delivery_publisher {},
            #[cfg(feature = "rabbitmq")]
            Some(delivery_publisher) => {
                Box::new(LocalService::around(RabbitMqService::around(table, delivery_publisher.clone()), wakeup))
            }
            None => Box::new(LocalService::around(table, wakeup)),
        };
        let all = self.watchers.iter().chain(&self.wraps).fold(ours, |inner, wrap| wrap(inner));
        if self.hooks.is_empty() { all } else { Box::new(SendHooks::around(all, self.hooks.clone())) }
    }
}
