//! One module for each command.

pub(crate) mod adopt;
pub(crate) mod audit;
mod blocked;
pub(crate) mod broker;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod drained;
pub(crate) mod exporter;
pub(crate) mod grants;
pub(crate) mod health;
mod history;
mod http;
mod job_options;
pub(crate) mod jobs;
pub(crate) mod lines;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod mode;
pub(crate) mod nodes;
mod progress;
pub(crate) mod queues;
mod rejected;
pub(crate) mod rules;
pub(crate) mod schedules;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod signals;
mod slow_notice;
pub(crate) mod status;
pub(crate) mod why;
pub(crate) mod worker;

use std::sync::Arc;
use std::time::Duration;

use jobwright::internal::Access;
use jobwright::{AnyStore, Broker, BrokerConfig, BrokerMode, MessageServices};

use self::slow_notice::with_slow_notice;
use crate::config::Settings;
use crate::failure::Failure;

/// Message services of the configured database.
pub(crate) type Messages = MessageServices<AnyStore>;

/// Connects to the configured database, which must exist, and to the broker if there is one. Migrates the schema of an embedded database,
/// because nothing else would.
pub(crate) async fn connect(settings: &Settings) -> Result<Messages, Failure> {
    Ok(connect_database(settings).await?.with_broker(&settings.broker).await?)
}

/// Connects as [`connect`] does, but creates a missing embedded database.
pub(crate) async fn connect_or_create(settings: &Settings) -> Result<Messages, Failure> {
    Ok(open(settings, Access::Create).await?.with_broker(&settings.broker).await?)
}

/// How long a command that sends waits for a broker that does not answer. Its jobs are in the table then, and lose nothing.
const SENDER_PATIENCE: Duration = Duration::from_secs(1);

/// Connects as [`connect`] does, for a command that has done its duty once its jobs are committed: a broker that is silent, and not required, does not hold
/// it up for the whole `broker.connect_timeout`.
pub(crate) async fn connect_to_send(settings: &Settings) -> Result<Messages, Failure> {
    let mut broker = settings.broker.clone();
    if !broker.required {
        broker.connect_timeout = broker.connect_timeout.min(SENDER_PATIENCE);
    }
    Ok(connect_database(settings).await?.with_broker(&broker).await?)
}

/// Connects to the configured database alone, for commands that need no broker.
pub(crate) async fn connect_database(settings: &Settings) -> Result<Messages, Failure> {
    open(settings, Access::Existing).await
}

/// Connects to the configured broker alone.
pub(crate) async fn connect_broker(settings: &Settings) -> Result<Arc<Broker>, Failure> {
    if settings.broker.url.is_none() {
        return Err(Failure::Usage(
            "no broker is configured: give `--amqp-url`, AMQP_URL, or `url` in the section `[broker]`".to_owned(),
        ));
    }
    let broker = Broker::start(&settings.broker)?;
    broker_reached(&broker, settings).await?;
    Ok(broker)
}

/// Waits until both connections are open. A broker that accepts no messages still has queues to inspect.
pub(crate) async fn broker_reached(broker: &Broker, settings: &Settings) -> Result<(), jobwright::Error> {
    match broker.up_within(settings.broker.connect_timeout).await {
        Err(_) if matches!(broker.mode(), BrokerMode::Blocked(_)) => Ok(()),
        other => other,
    }
}

async fn open(settings: &Settings, access: Access) -> Result<Messages, Failure> {
    let database = settings.database.clone().access(access);
    let config = settings.core().database(database).broker(BrokerConfig::default());
    let messages = with_slow_notice(settings, MessageServices::connect(&config)).await?;
    Ok(match &settings.seal {
        Some(seal) => messages.with_codec(seal.clone()),
        None => messages,
    })
}
