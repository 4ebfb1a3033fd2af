//! `jobwright exporter`: the metrics of what is stored.

use super::signals::Signals;
use super::{connect_database, http};
use crate::address::Address;
use crate::args::ExporterArgs;
use crate::config::Settings;
use crate::failure::Failure;

/// Beside a worker on the same host, whose usual port is the one before.
const PORT: &str = "9470";

pub(crate) async fn run(settings: &Settings, args: &ExporterArgs) -> Result<(), Failure> {
    let address = match http::configured(settings, args.listen.as_ref()) {
        Some(address) => address,
        None => PORT.parse::<Address>().map_err(Failure::Failed)?,
    };
    let mut signals = Signals::new()?;
    let listener = http::listen(&address).await?;
    let admin = connect_database(settings).await?.admin();
    let routes = jobwright_http::exporter(admin, args.every);
    tokio::select! {
        served = jobwright_http::serve(listener, routes, std::future::pending()) => {
            served.map_err(|error| Failure::Failed(format!("the exporter can't go on: {error}")))
        }
        name = signals.next() => {
            tracing::info!(signal = name, "stopped");
            Ok(())
        }
    }
}
