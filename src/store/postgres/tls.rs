//! TLS with rustls and ring, with the meaning that libpq gives to `sslmode`.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// How much of the server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verify {
    /// Encrypted, but whoever answers is believed (`prefer`, `require`).
    Nothing,
    /// The chain, but not the name (`verify-ca`).
    Chain,
    /// Chain and name (`verify-full`).
    Full,
}

pub(super) fn connector(verify: Verify, root_file: Option<&str>) -> Result<MakeRustlsConnect> {
    let provider = crate::tls::provider();
    let verifier: Arc<dyn ServerCertVerifier> = if verify == Verify::Nothing {
        Arc::new(Lenient { provider: provider.clone(), chain: None })
    } else {
        let full = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(root_file)?), provider.clone())
            .build()
            .map_err(|e| Error::config(format!("can't verify the database's certificate: {e}")))?;
        if verify == Verify::Full { full } else { Arc::new(Lenient { provider: provider.clone(), chain: Some(full) }) }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::config(format!("TLS can't be set up: {e}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn roots(file: Option<&str>) -> Result<RootCertStore> {
    let store = if let Some(file) = file {
        let mut store = RootCertStore::empty();
        let refuse = |e: &dyn std::fmt::Display| Error::config(format!("sslrootcert {file:?} can't be used: {e}"));
        for certificate in CertificateDer::pem_file_iter(file).map_err(|e| refuse(&e))? {
            store.add(certificate.map_err(|e| refuse(&e))?).map_err(|e| refuse(&e))?;
        }
        store
    } else {
        crate::tls::native_roots()
    };
    if store.is_empty() {
        return Err(Error::config(
            "no root certificate was found to verify the database with: name a file with `sslrootcert=` in the URL",
        ));
    }
    Ok(store)
}

/// Checks the chain at most; never the name. Signatures of the handshake are always checked.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<WebPkiServerVerifier>>,
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
