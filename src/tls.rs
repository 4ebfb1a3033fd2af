//! What every connection with TLS has in common: rustls with ring, and where trust comes from.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Error, Result};

/// Given explicitly everywhere: two providers in a dependency tree must not matter.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates this machine trusts; may be empty.
pub(crate) fn native_roots() -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    store
}

/// Verifies chain and name against what this machine trusts.
pub(crate) fn verifying(what: &str) -> Result<Arc<ClientConfig>> {
    let roots = native_roots();
    if roots.is_empty() {
        return Err(Error::config(format!(
            "no root certificate was found to verify {what} with: install your system's certificates (`ca-certificates`), \
             or name a file of them in SSL_CERT_FILE"
        )));
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::config(format!("TLS can't be set up: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
