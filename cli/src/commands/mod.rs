//! One module for each command.

pub(crate) mod audit;
mod blocked;
pub(crate) mod broker;
pub(crate) mod doctor;
pub(crate) mod drained;
mod history;
pub(crate) mod jobs;
pub(crate) mod lines;
pub(crate) mod migrate;
pub(crate) mod mode;
pub(crate) mod nodes;
mod patience;
pub(crate) mod queues;
mod rejected;
pub(crate) mod rules;
pub(crate) mod schedules;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod signals;
pub(crate) mod status;
pub(crate) mod worker;

use jobwright::config::Access;
use jobwright::{AnyStore, BrokerConfig, MessageServices};

use self::patience::patiently;
use crate::config::Settings;
use crate::failure::Failure;

/// Connects to the configured database, which has to be there, and to the broker if there is one. The schema of an embedded one is brought up, since nobody
/// else would.
pub(crate) async fn connect(settings: &Settings) -> Result<MessageServices<AnyStore>, Failure> {
    Ok(connect_database(settings).await?.with_broker(&settings.broker).await?)
}

/// As [`connect`], but an embedded database that is not there is made.
pub(crate) async fn connect_or_create(settings: &Settings) -> Result<MessageServices<AnyStore>, Failure> {
    Ok(open(settings, Access::Create).await?.with_broker(&settings.broker).await?)
}

/// Connects to the configured database alone, for what needs no broker.
pub(crate) async fn connect_database(settings: &Settings) -> Result<MessageServices<AnyStore>, Failure> {
    open(settings, Access::Use).await
}

async fn open(settings: &Settings, access: Access) -> Result<MessageServices<AnyStore>, Failure> {
    let database = settings.database.clone().access(access);
    let config = settings.core().database(database).broker(BrokerConfig::default());
    let messages = patiently(settings, MessageServices::connect(&config)).await?;
    Ok(match &settings.seal {
        Some(seal) => messages.with_codec(seal.clone()),
        None => messages,
    })
}
