//! TLS with rustls and ring, with libpq's meaning of `sslmode`.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::{ClientConfig, SupportedProtocolVersion};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};
use crate::tls;

/// How much of the server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verify {
    /// Nothing: the connection is encrypted, but any server is trusted (`prefer`, and `require` without `sslrootcert`).
    Nothing,
    /// The chain, but not the name (`verify-ca`, and `require` with `sslrootcert`).
    Chain,
    /// Chain and name (`verify-full`).
    Full,
}

/// The authorities whose certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// The system's trust store.
    System,
    /// The certificates in a file.
    File(PathBuf),
}

/// The TLS settings of a URL.
#[derive(Debug)]
pub(super) struct TlsOptions {
    pub(super) verify: Verify,
    pub(super) roots: Option<Roots>,
    /// The client certificate and its key: files in PEM form.
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            verify: Verify::Nothing,
            roots: None,
            certificate: None,
            key: None,
            versions: rustls::ALL_VERSIONS.to_vec(),
        }
    }
}

pub(super) fn connector(options: &TlsOptions) -> Result<MakeRustlsConnect> {
    let provider = tls::provider();
    let verifier: Arc<dyn ServerCertVerifier> = if options.verify == Verify::Nothing {
        Arc::new(tls::Lenient { provider: provider.clone(), chain: None })
    } else {
        let roots = match &options.roots {
            Some(Roots::File(file)) => tls::roots_of("`sslrootcert`", file)?,
            Some(Roots::System) | None => tls::native_roots()?,
        };
        if roots.is_empty() {
            return Err(Error::config(
                "no root certificate was found to verify the database with: name a file with `sslrootcert=` in the URL",
            ));
        }
        let full = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|e| Error::config(format!("can't verify the database's certificate: {e}")))?;
        if options.verify == Verify::Full {
            full
        } else {
            Arc::new(tls::Lenient { provider: provider.clone(), chain: Some(full) })
        }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&options.versions)
        .map_err(|e| Error::config(format!("TLS can't be set up: {e}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&options.certificate, &options.key) {
        (Some(certificate), Some(key)) => tls::identified(config, ("`sslcert`", certificate), ("`sslkey`", key))?,
        _ => config.with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}
