//! The counterpart of programs in other languages: one of our nodes on a database and a broker.

use std::time::Duration;

use jobwright::{
    Broker, BrokerConfig, CommandExecutor, ExecutorBuilder, ExecutorConfig, ExternalQueue, MessageServices, Outcome,
    Postgres,
};

use crate::interop::broker::Broker as Client;
use crate::support::environment::{PATIENCE, World as _};
use crate::support::postgres::Pg;

/// The queue that our executor runs.
pub(crate) const HERE: &str = "billing";
/// The queue of the external workers.
pub(crate) const THERE: &str = "printing";

/// A database with a ledger, and message services that deliver through the test's queues at the broker.
pub(crate) struct Site<'b> {
    pub(crate) db: Pg<false>,
    pub(crate) messages: MessageServices,
    pub(crate) client: &'b Client,
}

impl<'b> Site<'b> {
    /// Creates it with all queues declared, so that nothing has to wait for the node to do that.
    pub(crate) async fn set(client: &'b Client) -> Self {
        let config = BrokerConfig::url(&client.url)
            .prefix(client.prefix.clone())
            .heartbeat(Duration::from_secs(5))
            .required(true)
            .connect_timeout(PATIENCE);
        let (here, there) = ([HERE.to_owned()], [THERE.to_owned()]);
        client.owns(Broker::plan(&config, &here, &there).into_iter().map(|item| item.name));
        let db = Pg::<false>::with_ledger().await.expect("there is a broker, and no database");
        let messages = db.messages().await.with_broker(&config).await.unwrap();
        messages.broker().unwrap().apply(&here, &there).await.unwrap();
        Self { db, messages, client }
    }

    /// Configures a node without handlers.
    pub(crate) fn node(&self) -> ExecutorBuilder<Postgres> {
        // A third of its own lease is the interval at which it checks leases of external workers.
        let config = ExecutorConfig::default().lease(Duration::from_secs(3)).poll_interval(Duration::from_millis(200));
        CommandExecutor::builder(self.messages.clone()).config(config)
    }

    /// Starts a node that runs jobs of this kind. For each it notes the sender, its identity and the size of the payload.
    pub(crate) async fn runs(&self, kind: &str) -> CommandExecutor {
        let node = self.node().queue(HERE, 8).handle_with(kind, |cx| {
            Box::pin(async move {
                let job = cx.job();
                let header = |name| job.headers.get(name).map_or("", String::as_str);
                let line = format!(
                    "{} {} {}",
                    header("sender"),
                    header("messageId"),
                    String::from_utf8_lossy(job.payload.as_bytes())
                );
                Pg::<false>::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        });
        node.start().await.unwrap()
    }

    /// Starts a node that hands the jobs of [`THERE`] out to external workers.
    pub(crate) async fn hands_out(&self, lease: Duration) -> CommandExecutor {
        self.node().external_queue(ExternalQueue::new(THERE).lease(lease)).start().await.unwrap()
    }
}

impl Drop for Site<'_> {
    /// Runs before the queues are deleted: a remaining consumer would declare its queue again.
    fn drop(&mut self) {
        let close = self.messages.broker().unwrap().close(Duration::from_secs(1));
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(close));
    }
}
