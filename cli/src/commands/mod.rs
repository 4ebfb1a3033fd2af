//! One module for each command.

pub(crate) mod adopt;
pub(crate) mod audit;
mod blocked;
pub(crate) mod broker;
pub(crate) mod doctor;
pub(crate) mod drained;
pub(crate) mod grants;
mod history;
pub(crate) mod jobs;
pub(crate) mod lines;
pub(crate) mod migrate;
pub(crate) mod mode;
pub(crate) mod nodes;
pub(crate) mod queues;
mod rejected;
pub(crate) mod rules;
pub(crate) mod schedules;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod signals;
mod slow_notice;
pub(crate) mod status;
pub(crate) mod worker;

use jobwright::config::Access;
use jobwright::{AnyStore, BrokerConfig, MessageServices};

use self::slow_notice::with_slow_notice;
use crate::config::Settings;
use crate::failure::Failure;

/// Connects to the configured database, which must exist, and to the broker if there is one. Migrates the schema of an embedded database,
/// because nothing else would.
pub(crate) async fn connect(settings: &Settings) -> Result<MessageServices<AnyStore>, Failure> {
    Ok(connect_database(settings).await?.with_broker(&settings.broker).await?)
}

/// Connects as [`connect`] does, but creates a missing embedded database.
pub(crate) async fn connect_or_create(settings: &Settings) -> Result<MessageServices<AnyStore>, Failure> {
    Ok(open(settings, Access::Create).await?.with_broker(&settings.broker).await?)
}

/// Connects to the configured database alone, for commands that need no broker.
pub(crate) async fn connect_database(settings: &Settings) -> Result<MessageServices<AnyStore>, Failure> {
    open(settings, Access::Existing).await
}

async fn open(settings: &Settings, access: Access) -> Result<MessageServices<AnyStore>, Failure> {
    let database = settings.database.clone().access(access);
    let config = settings.core().database(database).broker(BrokerConfig::default());
    let messages = with_slow_notice(settings, MessageServices::connect(&config)).await?;
    Ok(match &settings.seal {
        Some(seal) => messages.with_codec(seal.clone()),
        None => messages,
    })
}
