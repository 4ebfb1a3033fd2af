//! Listens for HTTP: metrics and probes.

use std::io::ErrorKind;

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
        let advice = match error.kind() {
            ErrorKind::AddrInUse => "give another port, or stop the program that listens there",
            ErrorKind::PermissionDenied => "give a port from 1024 on",
            _ => "give an address of this host, such as 0.0.0.0:9469 for all of them",
        };
        Failure::Usage(format!("can't listen at {}: {error}; {advice}", address.text()))
    })?;
    if let Ok(local) = listener.local_addr() {
        tracing::info!(address = %local, "listening");
    }
    Ok(listener)
}
