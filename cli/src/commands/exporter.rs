//! `jobwright exporter`: the metrics of the database.

use jobwright_http::Later;

use super::signals::Signals;
use super::{connect_database, http};
use crate::address::Address;
use crate::args::ExporterArgs;
use crate::backoff::retried;
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
    // Until the database answers, the metrics say that it does not.
    let connecting = async {
        let messages = retried(async || connect_database(settings).await).await?;
        tracing::info!(database = %messages.admin().describe(), "connected");
        admin.set(messages.admin());
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
