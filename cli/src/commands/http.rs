//! Listens for HTTP: metrics and probes.

use tokio::net::TcpListener;

use crate::address::Address;
use crate::config::Settings;
use crate::failure::Failure;

/// Returns the address of the command line, or else that of the configuration.
pub(super) fn configured(settings: &Settings, given: Option<&Address>) -> Option<Address> {
    given.cloned().or_else(|| settings.listen.clone())
}

/// Listens at an address.
pub(super) async fn listen(address: &Address) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address.text()).await.map_err(|error| {
        Failure::Usage(format!(
            "can't listen at {}: {error}; give another port, or stop what listens there",
            address.text()
        ))
    })?;
    if let Ok(local) = listener.local_addr() {
        tracing::info!(address = %local, "listening");
    }
    Ok(listener)
}
