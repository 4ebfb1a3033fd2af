//! Shared parts of all TLS connections: rustls with ring, the trusted roots, and the client certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::{Error, Result};
use crate::small_file;

/// Returns the crypto provider. It is given explicitly everywhere, so that two providers in a dependency tree do no harm.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the certificates that this machine trusts; may be empty.
pub(crate) fn native_roots() -> Result<RootCertStore> {
    // The loader reads whatever this variable names.
    if let Some(file) = std::env::var_os("SSL_CERT_FILE") {
        small_file::require(file.as_ref()).map_err(|e| unusable("`SSL_CERT_FILE`", file.as_ref(), &e))?;
    }
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Ok(store)
}

/// Reads the certificates of a PEM file. `option` is the option that named the file.
pub(crate) fn roots_of(option: &str, file: &Path) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(option, file)? {
        store.add(certificate).map_err(|e| unusable(option, file, &e))?;
    }
    Ok(store)
}

/// Sends this certificate to a server that asks for one.
pub(crate) fn identified(
    config: ConfigBuilder<ClientConfig, WantsClientCert>,
    (cert_option, certificate): (&str, &Path),
    (key_option, key): (&str, &Path),
) -> Result<ClientConfig> {
    let chain = certificates(cert_option, certificate)?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key_option, key)?).map_err(|e| unusable(key_option, key, &e))?;
    config.with_client_auth_cert(chain, secret).map_err(|e| unusable(key_option, key, &e))
}

fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(&read(option, file)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unusable(option, file, &e))?;
    if found.is_empty() { Err(unusable(option, file, &"it holds no certificate in PEM form")) } else { Ok(found) }
}

fn read(option: &str, file: &Path) -> Result<Vec<u8>> {
    small_file::read(file).map(|(bytes, _)| bytes).map_err(|e| unusable(option, file, &e))
}

fn unusable(option: &str, file: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::config(format!("the file {} of {option} can't be used: {why}", file.display()))
}

/// Checks at most the chain, never the name. Signatures of the handshake are always checked.
#[derive(Debug)]
pub(crate) struct Lenient {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
