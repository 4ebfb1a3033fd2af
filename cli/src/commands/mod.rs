//! One module for each command.

pub(crate) mod drained;
pub(crate) mod jobs;
pub(crate) mod lines;
pub(crate) mod migrate;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod signals;
pub(crate) mod status;
pub(crate) mod worker;

use jobwright::{AnyStore, MessageServices};

use crate::config::Settings;
use crate::failure::Failure;

/// Connects to the configured database. The schema of an embedded one is brought up, since nobody else would.
pub(crate) async fn connect(settings: &Settings) -> Result<MessageServices<AnyStore>, Failure> {
    Ok(MessageServices::connect(&settings.core()).await?)
}
