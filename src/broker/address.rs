//! The addresses of the broker: one, or several that are tried one after the other.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;

use crate::config::BrokerConfig;
use crate::config::url::{ServerUrl, split_list};
use crate::error::{Error, Result};
use crate::tls;

/// The user when a URL names none, as in RabbitMQ's own clients.
const GUEST: &str = "guest";

/// How to reach a broker. It is displayed without user and password.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) uri: AMQPUri,
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// The name that the certificate must have, if not the host's.
    pub(super) server_name: Option<String>,
    /// How long connecting and logging in may take.
    pub(super) bound: Duration,
}

/// All addresses of a broker: nodes of a cluster, in the order in which they are tried. Never empty.
#[derive(Clone)]
pub(super) struct Addresses(Vec<Address>);

impl Addresses {
    /// Returns the user that connections log in as, if it is the same for all and does not come from a certificate.
    pub(super) fn user(&self) -> Option<&str> {
        let by_name = |address: &Address| address.uri.query.auth_mechanism != Some(SASLMechanism::External);
        let user = self.0.first()?.uri.authority.userinfo.username.as_str();
        let same = |address: &Address| by_name(address) && address.uri.authority.userinfo.username == user;
        self.0.iter().all(same).then_some(user)
    }

    pub(super) fn new(config: &BrokerConfig) -> Result<Self> {
        let Some(url) = &config.url else {
            return Err(Error::config("broker.url is missing: use `amqp://user:password@host:5672/vhost`"));
        };
        let mut addresses = Vec::new();
        for text in split_list(url.expose()) {
            let scheme = text.split_once("://").map(|(scheme, _)| scheme);
            let scheme = match scheme {
                Some("amqp") => AMQPScheme::AMQP,
                Some("amqps") => AMQPScheme::AMQPS,
                Some(scheme) if scheme.bytes().all(|b| b.is_ascii_lowercase()) => {
                    return Err(Error::config(format!(
                        "broker.url has the scheme {scheme:?}; use `amqp://…`, or `amqps://…` for TLS"
                    )));
                }
                _ => return Err(Error::config("broker.url has no scheme; use `amqp://…`, or `amqps://…` for TLS")),
            };
            // The reason quotes no part of the URL.
            let url = ServerUrl::parse(text).map_err(|why| {
                Error::config(format!(
                    "broker.url can't be read: {why}; use `{scheme}://user:password@host:port/vhost`, with `%2F` for a `/` in \
                     the vhost; several as `{scheme}://user:password@a,b/vhost`, or as URLs with commas between them"
                ))
            })?;
            addresses.extend(Self::of(&url, scheme, config)?);
        }
        Ok(Self(addresses))
    }

    /// Returns the addresses of one URL.
    fn of(url: &ServerUrl, scheme: AMQPScheme, config: &BrokerConfig) -> Result<Vec<Address>> {
        if url.hosts.is_empty() || url.hosts.iter().any(|host| host.name.is_empty()) {
            return Err(Error::config(format!("broker.url {url} names no host")));
        }
        let options = Options::read(url, config)?;
        let tls = match scheme {
            AMQPScheme::AMQP => options.refuse_tls()?,
            AMQPScheme::AMQPS => Some(options.tls()?),
        };
        let mut uri = AMQPUri { scheme, ..AMQPUri::default() };
        uri.authority.userinfo = AMQPUserInfo {
            username: url.user.clone().unwrap_or_else(|| GUEST.to_owned()),
            password: url.password.clone().unwrap_or_else(|| GUEST.to_owned()),
        };
        // Strictly, `amqp://host/` is the vhost with the empty name. No broker has one, and everyone means the default.
        uri.vhost = url.path.clone().filter(|vhost| !vhost.is_empty()).unwrap_or_else(|| "/".to_owned());
        uri.query.heartbeat = Some(u16::try_from(config.heartbeat.as_secs()).unwrap_or(u16::MAX));
        uri.query.auth_mechanism = Some(options.mechanism);
        uri.query.channel_max = options.channel_max;
        uri.query.frame_max = options.frame_max;
        let default = match uri.scheme {
            AMQPScheme::AMQP => 5672,
            AMQPScheme::AMQPS => 5671,
        };
        Ok(url
            .hosts
            .iter()
            .map(|host| {
                let mut uri = uri.clone();
                uri.authority.host.clone_from(&host.name);
                uri.authority.port = host.port.unwrap_or(default);
                let (tls, server_name) = (tls.clone(), options.server_name.map(str::to_owned));
                Address { uri, tls, server_name, bound: options.bound }
            })
            .collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns an address by a number that wraps around.
    pub(super) fn at(&self, n: usize) -> &Address {
        &self.0[n % self.0.len()]
    }
}

/// The parameters of a URL, as RabbitMQ names them.
struct Options<'a> {
    mechanism: SASLMechanism,
    authorities: Option<&'a Path>,
    certificate: Option<&'a Path>,
    key: Option<&'a Path>,
    verified: bool,
    server_name: Option<&'a str>,
    channel_max: Option<u16>,
    frame_max: Option<u32>,
    bound: Duration,
    /// The first parameter that is for TLS only.
    for_tls: Option<&'a str>,
}

impl<'a> Options<'a> {
    fn read(url: &'a ServerUrl, config: &BrokerConfig) -> Result<Self> {
        let mut options = Self {
            mechanism: SASLMechanism::Plain,
            authorities: None,
            certificate: None,
            key: None,
            verified: true,
            server_name: None,
            channel_max: None,
            frame_max: None,
            bound: config.connect_timeout,
            for_tls: None,
        };
        for (key, value) in &url.params {
            let refuse = |what: &str| Err(refusal(key, what));
            let number = || value.parse::<u32>().map_err(|_| refusal(key, "use a whole number"));
            match key.as_str() {
                "auth_mechanism" => {
                    options.mechanism = match value.to_ascii_lowercase().as_str() {
                        "plain" => SASLMechanism::Plain,
                        "amqplain" => SASLMechanism::AMQPlain,
                        "external" => SASLMechanism::External,
                        _ => return refuse("use `plain`, `amqplain`, or `external` for a certificate"),
                    }
                }
                "cacertfile" => options.authorities = Some(Path::new(value)),
                "certfile" => options.certificate = Some(Path::new(value)),
                "keyfile" => options.key = Some(Path::new(value)),
                "verify" => match value.as_str() {
                    "verify_peer" => options.verified = true,
                    "verify_none" => options.verified = false,
                    _ => return refuse("use `verify_peer`, or `verify_none` to trust any server"),
                },
                "server_name_indication" => options.server_name = Some(value),
                "channel_max" => options.channel_max = Some(u16::try_from(number()?).unwrap_or(u16::MAX)),
                "frame_max" => options.frame_max = Some(number()?),
                "connection_timeout" => {
                    if let limit @ 1.. = number()? {
                        options.bound = Duration::from_millis(u64::from(limit));
                    }
                }
                // `broker.heartbeat` sets it.
                "heartbeat" => drop(number()?),
                "password" => {
                    return refuse(
                        "keys are read unencrypted: decrypt it (`openssl pkey`) into a file that only you can read",
                    );
                }
                "depth" | "fail_if_no_peer_cert" => {
                    return refuse("it is for servers, or for other ways to verify: remove it");
                }
                _ => return refuse("it is not known here: remove it, or correct its name"),
            }
            if matches!(key.as_str(), "cacertfile" | "certfile" | "keyfile" | "verify" | "server_name_indication") {
                options.for_tls = options.for_tls.or(Some(key));
            }
        }
        if options.certificate.is_some() != options.key.is_some() {
            let (given, missing) =
                if options.key.is_none() { ("certfile", "keyfile") } else { ("keyfile", "certfile") };
            return Err(refusal(given, &format!("it needs `{missing}` too: both are files in PEM form")));
        }
        if options.mechanism == SASLMechanism::External && options.certificate.is_none() {
            return Err(refusal("auth_mechanism", "`external` needs `amqps://` with `certfile` and `keyfile`"));
        }
        Ok(options)
    }

    fn refuse_tls(&self) -> Result<Option<Arc<ClientConfig>>> {
        self.for_tls.map_or(Ok(None), |key| Err(refusal(key, "it is for TLS: use `amqps://…`")))
    }

    /// Verifies chain and name against the given file, or against the machine's trusted roots.
    fn tls(&self) -> Result<Arc<ClientConfig>> {
        let verifier: Arc<dyn ServerCertVerifier> = if self.verified {
            let roots = match self.authorities {
                Some(file) => tls::roots_of("`cacertfile`", file)?,
                None => tls::native_roots()?,
            };
            if roots.is_empty() {
                return Err(Error::config(
                    "no root certificate was found to verify the broker's certificate with: install your system's certificates \
                     (`ca-certificates`), or name a file of them with `cacertfile=` in the URL",
                ));
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider())
                .build()
                .map_err(|e| Error::config(format!("can't verify the broker's certificate: {e}")))?
        } else {
            Arc::new(tls::Lenient { provider: tls::provider(), chain: None })
        };
        let config = ClientConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::config(format!("TLS can't be set up: {e}")))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        Ok(Arc::new(match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => tls::identified(config, ("`certfile`", certificate), ("`keyfile`", key))?,
            _ => config.with_no_client_auth(),
        }))
    }
}

fn refusal(key: &str, what: &str) -> Error {
    // A key may be part of a password that was not encoded.
    let known = !key.is_empty() && key.len() < 30 && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let key = if known { format!("`{key}`") } else { "a parameter".to_owned() };
    Error::config(format!("{key} in broker.url can't be used: {what}"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AMQPUri { scheme, authority, vhost, .. } = &self.uri;
        let host = if authority.host.contains(':') { format!("[{}]", authority.host) } else { authority.host.clone() };
        write!(f, "{scheme}://{host}:{} (vhost {vhost})", authority.port)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, address) in self.0.iter().enumerate() {
            write!(f, "{}{address}", if n > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> Result<Addresses> {
        Addresses::new(&BrokerConfig::url(url))
    }

    #[test]
    fn urls_are_read_with_their_defaults() {
        for (url, shown) in [
            ("amqp://host", "amqp://host:5672 (vhost /)"),
            ("amqp://host/", "amqp://host:5672 (vhost /)"),
            ("amqps://host/?verify=verify_none", "amqps://host:5671 (vhost /)"),
            ("amqp://u:p@host:99/%2f", "amqp://host:99 (vhost /)"),
            ("amqp://u%40x:p@10.0.0.1/a%2Fb", "amqp://10.0.0.1:5672 (vhost a/b)"),
            ("amqp://u:p@[::1]:99/v", "amqp://[::1]:99 (vhost v)"),
            ("amqp://u:p@a:99,b/v", "amqp://a:99 (vhost v), amqp://b:5672 (vhost v)"),
            ("amqp://u:p@a/v,amqp://w:q@b:99", "amqp://a:5672 (vhost v), amqp://b:99 (vhost /)"),
        ] {
            assert_eq!(addresses(url).unwrap().to_string(), shown, "{url}");
        }
        let of = |url: &str, n: usize| addresses(url).unwrap().at(n).clone();
        assert_eq!(of("amqp://u:p%2Fw@h/", 0).uri.authority.userinfo.password, "p/w");
        assert_eq!(of("amqp://u:p@a,amqp://v:q@b", 1).uri.authority.userinfo.password, "q");
        assert_eq!(of("amqp://h/?heartbeat=99", 0).uri.query.heartbeat, Some(10));
        assert_eq!(of("amqp://h,i/?connection_timeout=250", 1).bound, Duration::from_millis(250));
        assert_eq!(of("amqp://h", 0).uri.authority.userinfo.username, "guest");
    }

    #[test]
    fn unusable_addresses_are_refused_without_the_password() {
        assert!(Addresses::new(&BrokerConfig::default()).unwrap_err().to_string().contains("broker.url is missing"));
        for url in [
            "http://u:secret@h/",
            "u:secret@h",
            "secret://u@h",
            "amqp://u:secret@h:port/",
            "amqp://u:secret@h/?heartbeat=x",
            "amqp://u:p@secret:w/rd@h/",
            "amqp://u:secret?x@h",
            "amqp://u:p@a,amqp://u:se@cret@b",
            "amqp://u:p@a,amqp://u:p#secret@b",
            "amqp://u:p@h/?sec@ret",
        ] {
            let error = addresses(url).unwrap_err().to_string();
            assert!(error.starts_with("JW-CONFIG") && error.contains("broker.url"), "{error}");
            assert!(url.starts_with("secret:") || !error.contains("sec") && !error.contains("ret"), "{error}");
        }
    }

    #[test]
    fn parameters_that_cant_be_used_are_named() {
        for (url, named) in [
            ("amqp://h/?cacertfile=/c", "`cacertfile`"),
            ("amqps://h/?certfile=/c", "`keyfile`"),
            ("amqps://h/?cacertfile=/nowhere.pem", "/nowhere.pem"),
            ("amqps://h/?auth_mechanism=external", "`certfile`"),
            ("amqps://h/?auth_mechanism=gssapi", "`auth_mechanism`"),
            ("amqps://h/?verify=maybe", "verify_peer"),
            ("amqps://h/?password=x", "`password`"),
            ("amqp://h/?no_such=x", "`no_such`"),
        ] {
            let error = addresses(url).unwrap_err().to_string();
            assert!(error.contains(named), "{url}: {error}");
        }
    }
}
