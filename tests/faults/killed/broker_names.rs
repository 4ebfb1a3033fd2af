//! Names that belong to one test, at the broker that all tests share.

use std::time::Duration;

use jobwright::Store;
use jobwright::internal::Names;
use jobwright::{BrokerConfig, MessageServices};
use lapin::options::{ExchangeDeleteOptions, QueueDeleteOptions};
use lapin::{Connection, ConnectionProperties};

use crate::support::environment::PATIENCE;
use crate::support::{amqp_url, unique};

/// Deletes what was declared there when it is dropped. The worker processes must have ended by then, or they would declare it again.
pub(super) struct Corner {
    pub(super) broker: BrokerConfig,
    url: String,
    queues: Vec<String>,
    exchanges: [String; 2],
}

impl Corner {
    /// Creates names for these queues of jobs. `None`: this run does without servers.
    pub(super) fn new(queues: &[&str]) -> Option<Self> {
        let url = amqp_url()?;
        let broker = BrokerConfig::url(url.clone())
            .prefix(unique("t."))
            .heartbeat(Duration::from_secs(2))
            .connect_timeout(Duration::from_secs(5))
            .confirm_timeout(Duration::from_secs(5));
        let names = Names::new(broker.prefix.clone());
        let mut all = vec![names.submit(), names.rejected(), names.reply(), names.rejected_reports(), names.dead()];
        all.extend(queues.iter().flat_map(|queue| [names.deliveries(queue), names.external(queue)]));
        Some(Self { broker, url, queues: all, exchanges: [names.events(), names.dead()] })
    }

    /// Makes the services send through the broker, and waits until it is up.
    pub(super) async fn at_broker<S: Store>(&self, messages: MessageServices<S>) -> MessageServices<S> {
        let messages = messages.with_broker(&self.broker).await.unwrap();
        messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
        messages
    }

    async fn delete(&self) -> lapin::Result<()> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        for queue in &self.queues {
            // Deleting a missing queue is no error.
            channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
        }
        for exchange in &self.exchanges {
            channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await?;
        }
        connection.close(200, "".into()).await
    }
}

impl Drop for Corner {
    /// Cleans up on a separate thread, because the test's runtime is busy with the test.
    fn drop(&mut self) {
        let clean = || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(self.delete())
        };
        let done = std::thread::scope(|scope| scope.spawn(clean).join());
        if !matches!(done, Ok(Ok(()))) {
            eprintln!("queues of {} were left behind: {done:?}", self.broker.prefix);
        }
    }
}
