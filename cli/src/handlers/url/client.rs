//! The HTTP client of a kind, and the errors of requests that were not delivered.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobwright::Secret;
use jobwright::internal::small_file;
use ureq::config::ConfigBuilder;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, Error, Timeout};

use super::delivery::{Delivery, WatchingConnector, is_given_up};

/// The longest time for the name of a host, and then for a connection to it, with TLS.
const REACHED_WITHIN: Duration = Duration::from_secs(10);
/// How long an idle connection may be and still be used.
const IDLE: Duration = Duration::from_secs(15);
/// How long the rest of an answer may take that nobody wants: it is read so that the connection can be kept.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// Refuses a URL that can't be a webhook, without showing it: it may contain a token.
pub(crate) fn check_url(url: Secret) -> Result<Secret, String> {
    let good = url.expose().parse::<Uri>().is_ok_and(|uri| {
        uri.host().is_some_and(|host| !host.is_empty()) && matches!(uri.scheme_str(), Some("http" | "https"))
    });
    if good { Ok(url) } else { Err("has a `url` that can't be used: write `http://…` or `https://…`".to_owned()) }
}

/// The client for the URLs of a kind.
pub(super) struct Client {
    /// Makes the requests, and keeps their connections.
    pub(super) agent: Agent,
    /// Opens connections to see whether that is possible, and keeps none: a connection that was kept would prove nothing.
    prober: Agent,
}

impl Client {
    /// Creates a client for `slots` requests at the same time. `timeout` is that of an attempt, which may try all URLs. `whole`: answers are wanted to
    /// their ends.
    pub(super) fn new(urls: &[Secret], timeout: Option<Duration>, slots: usize, whole: bool) -> Result<Self, String> {
        let (named, connected) = reached_within(timeout, urls.len());
        let tls = urls.iter().any(|url| url.expose().starts_with("https")).then(tls).transpose()?;
        let config = |builder: ConfigBuilder<AgentScope>| {
            let builder = builder
                .http_status_as_error(false)
                .max_redirects(0)
                .timeout_resolve(Some(named))
                .timeout_connect(Some(connected))
                .user_agent(concat!("jobwright/", env!("CARGO_PKG_VERSION")));
            let builder = match &tls {
                Some(tls) => builder.tls_config(tls.clone()),
                None => builder,
            };
            Agent::with_parts(builder.build(), WatchingConnector::default(), DefaultResolver::default())
        };
        let agent = Agent::config_builder()
            .timeout_global(timeout)
            .timeout_recv_body((!whole).then_some(REST_WITHIN))
            // A request that finds no idle connection opens one. With fewer idle ones than slots, some are closed after each request.
            .max_idle_age(IDLE)
            .max_idle_connections_per_host(slots)
            .max_idle_connections(slots.saturating_mul(urls.len()));
        let prober = Agent::config_builder().timeout_global(Some(named + connected)).max_idle_connections(0);
        Ok(Self { agent: config(agent), prober: config(prober) })
    }

    /// Opens a connection and closes it. Returns why that is not possible.
    pub(super) fn probe(&self, url: &Secret) -> Result<(), String> {
        let ended = Arc::new(Delivery::without_request()).during(|| self.prober.post(url.expose()).send_empty());
        match ended {
            Err(error) if !is_given_up(&error) => Err(unreached(&error).unwrap_or_else(|| error.to_string())),
            _ => Ok(()),
        }
    }
}

/// How long a name and then a connection may take: within the time of an attempt, each URL can be tried, and an answer can still come.
fn reached_within(timeout: Option<Duration>, urls: usize) -> (Duration, Duration) {
    let urls = u32::try_from(urls).unwrap_or(u32::MAX).max(1);
    let within = |part: u32| timeout.map_or(REACHED_WITHIN, |timeout| (timeout / urls / part).min(REACHED_WITHIN));
    (within(4), within(2))
}

/// Returns why there was no connection for a request. `None`: the error is of another kind, and the request or the client is at fault. Only errors that
/// quote no URL are shown.
pub(super) fn unreached(error: &Error) -> Option<String> {
    Some(match error {
        Error::Timeout(Timeout::Resolve) => "its name was not found in time".to_owned(),
        Error::Timeout(_) => "no connection in time".to_owned(),
        Error::Io(error) => error.to_string(),
        Error::HostNotFound => "no such host".to_owned(),
        Error::ConnectionFailed => "no connection".to_owned(),
        Error::ConnectProxyFailed(why) => format!("no connection through the proxy: {why}"),
        Error::Tls(why) => format!("TLS failed: {why}"),
        Error::Rustls(error) => format!("TLS failed: {error}"),
        _ => return None,
    })
}

/// rustls with ring, and the system's root certificates.
fn tls() -> Result<TlsConfig, String> {
    // The loader reads whatever this variable names.
    if let Some(file) = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from) {
        small_file::require(&file).map_err(|error| {
            format!("has an `https` URL, and the file {} of `SSL_CERT_FILE` can't be used: {error}", file.display())
        })?;
    }
    let roots: Vec<_> = rustls_native_certs::load_native_certs()
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    if roots.is_empty() {
        return Err(
            "has an `https` URL, but this system has no root certificates: install `ca-certificates`".to_owned()
        );
    }
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_is_taken() {
        for good in ["http://localhost:8080/x?token=1", "https://h"] {
            assert!(check_url(Secret::new(good)).is_ok(), "{good}");
        }
        for bad in ["", "ftp://h", "h/x", "http:///x", "http://a b"] {
            assert!(check_url(Secret::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn all_urls_can_be_tried_within_an_attempt() {
        assert_eq!(reached_within(None, 3), (REACHED_WITHIN, REACHED_WITHIN));
        assert_eq!(reached_within(Some(Duration::from_secs(600)), 1), (REACHED_WITHIN, REACHED_WITHIN));
        let (named, connected) = reached_within(Some(Duration::from_secs(2)), 4);
        assert!(4 * (named + connected) < Duration::from_secs(2) && !named.is_zero(), "{named:?} {connected:?}");
    }

    #[test]
    fn tls_can_be_set_up() {
        tls().unwrap();
    }
}
