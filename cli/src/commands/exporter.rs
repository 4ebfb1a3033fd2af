//! `jobwright exporter`: the metrics of what is stored.

use jobwright::Admin;
use jobwright_http::Later;

use super::signals::Signals;
use super::{connect_database, http};
use crate::address::Address;
use crate::args::ExporterArgs;
use crate::backoff::Delays;
use crate::config::Settings;
use crate::failure::Failure;

/// Beside a worker on the same host, whose usual port is the one before.
const PORT: &str = "9470";

pub(crate) async fn run(settings: &Settings, args: &ExporterArgs) -> Result<(), Failure> {
    let address = match &args.listen {
        Some(address) => address.clone(),
        None => PORT.parse::<Address>().map_err(Failure::Failed)?,
    };
    let mut signals = Signals::new()?;
    let listener = http::listen(&address).await?;
    let admin = Later::default();
    let routes = jobwright_http::exporter(admin.clone(), args.every);
    let connecting = async {
        reach(settings, &admin).await?;
        std::future::pending().await
    };
    tokio::select! {
        served = jobwright_http::serve(listener, routes, std::future::pending()) => {
            served.map_err(|error| Failure::Failed(format!("the exporter can't go on: {error}")))
        }
        failed = connecting => failed,
        name = signals.next() => {
            tracing::info!(signal = name, "stopped");
            Ok(())
        }
    }
}

/// Connects. Until the database answers, the metrics say that it does not, which is what they are for.
async fn reach(settings: &Settings, admin: &Later<Admin>) -> Result<(), Failure> {
    let mut delays = Delays::default();
    loop {
        match connect_database(settings).await {
            Ok(messages) => {
                admin.set(messages.admin());
                tracing::info!(database = %messages.admin().describe(), "connected");
                return Ok(());
            }
            Err(Failure::Library(error)) if error.is_retryable() => delays.wait(&error).await,
            Err(failure) => return Err(failure),
        }
    }
}
