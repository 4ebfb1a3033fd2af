//! The target: an executor in a separate process.

use std::path::PathBuf;
use std::time::Duration;

use jobwright::{BrokerConfig, CommandExecutor, DatabaseConfig, ExternalQueue, MessageServices, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::delivery::site::{Site, brisk};
use crate::support::environment::World as _;
use crate::support::postgres::Pg;
use crate::support::process::{Sign, Worker, role};

#[derive(Serialize, Deserialize)]
struct Orders {
    database: String,
    schema: String,
    broker: String,
    prefix: String,
    /// The file to which it reports its counters.
    tells: PathBuf,
}

/// The counters that the account uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Did {
    pub(super) submitted: u64,
    pub(super) reported: u64,
    pub(super) reports_refused: u64,
    pub(super) messages_refused: u64,
    pub(super) leases_lost: u64,
}

pub(super) struct Keeper {
    pub(super) process: Worker,
    tells: Sign,
}

impl Keeper {
    pub(super) fn start(site: &Site) -> Self {
        let (database, broker, tells) = (site.db.config(), site.broker(), Sign::new());
        let orders = Orders {
            database: database.url.expose().to_owned(),
            schema: database.schema.clone(),
            broker: broker.url.unwrap().expose().to_owned(),
            prefix: broker.prefix,
            tells: tells.path().to_owned(),
        };
        Self { process: Worker::start(concat!(module_path!(), "::process"), &json!(orders)), tells }
    }

    pub(super) fn did(&self) -> Option<Did> {
        self.tells.text().and_then(|text| serde_json::from_str(&text).ok())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of another test"]
async fn process() {
    let Some(role) = role() else { return };
    let orders: Orders = serde_json::from_value(role).unwrap();
    let database = DatabaseConfig::url(orders.database).schema(orders.schema).max_connections(8);
    let broker = BrokerConfig::url(orders.broker).prefix(orders.prefix);
    let messages = MessageServices::postgres(&database).await.unwrap().with_broker(&broker).await.unwrap();
    let mut builder = CommandExecutor::builder(messages)
        .config(brisk())
        .queue("default", 16)
        .external_queue(ExternalQueue::new("paint").lease(Duration::from_secs(60)));
    for kind in ["good", "note"] {
        builder = builder.handle_with(kind, |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                Pg::<false>::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        });
    }
    let executor = builder.start().await.unwrap();
    loop {
        let stats = executor.stats();
        let did = Did {
            submitted: stats.submitted,
            reported: stats.reported,
            reports_refused: stats.reports_refused,
            messages_refused: stats.messages_refused,
            leases_lost: stats.leases_lost,
        };
        Sign::at(&orders.tells).give(&json!(did).to_string());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
