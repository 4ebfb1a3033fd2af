//! Where the broker is.

use std::fmt;
use std::sync::Arc;

use lapin::uri::{AMQPScheme, AMQPUri};

use crate::config::BrokerConfig;
use crate::error::{Error, Result};
use crate::tls;

/// How to reach the broker. Shown without password.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) uri: AMQPUri,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
}

impl Address {
    pub(super) fn new(config: &BrokerConfig) -> Result<Self> {
        let Some(url) = &config.url else {
            return Err(Error::config("broker.url is missing: use `amqp://user:password@host:5672/vhost`"));
        };
        let text = url.expose();
        let scheme = text.split_once("://").map_or("(none)", |(scheme, _)| scheme);
        if !matches!(scheme, "amqp" | "amqps") {
            return Err(Error::config(format!(
                "broker.url has the scheme {scheme:?}; use `amqp://…`, or `amqps://…` for TLS"
            )));
        }
        // The parser's error may quote the URL, so it is not passed on.
        let mut uri: AMQPUri = text.parse().map_err(|_| {
            Error::config(format!(
                "broker.url {url} can't be read: use `{scheme}://user:password@host:port/vhost`, with `%2F` for a `/` in \
                 the vhost and percent-encoding for special characters in the password"
            ))
        })?;
        // The parser takes an IPv6 address for no host, and would go to localhost.
        if let Some(address) = bracketed(text) {
            address.clone_into(&mut uri.authority.host);
        }
        if uri.authority.host.is_empty() {
            return Err(Error::config(format!("broker.url {url} names no host")));
        }
        // By the letter `amqp://host/` is the vhost with the empty name; nobody has one, and everybody means the default.
        if uri.vhost.is_empty() {
            "/".clone_into(&mut uri.vhost);
        }
        uri.query.heartbeat = Some(u16::try_from(config.heartbeat.as_secs()).unwrap_or(u16::MAX));
        let tls = match uri.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => Some(tls::verifying("the broker's certificate")?),
        };
        Ok(Self { uri, tls })
    }
}

/// The IPv6 address of a URL.
fn bracketed(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.strip_prefix('[')?.split_once(']').map(|(address, _)| address)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AMQPUri { scheme, authority, vhost, .. } = &self.uri;
        let host = if authority.host.contains(':') { format!("[{}]", authority.host) } else { authority.host.clone() };
        write!(f, "{scheme}://{}@{host}:{} (vhost {vhost})", authority.userinfo.username, authority.port)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Result<Address> {
        Address::new(&BrokerConfig::url(url))
    }

    #[test]
    fn urls_are_read_with_their_defaults() {
        for (url, shown) in [
            ("amqp://host", "amqp://guest@host:5672 (vhost /)"),
            ("amqp://host/", "amqp://guest@host:5672 (vhost /)"),
            ("amqp://u:p@host:99/%2f", "amqp://u@host:99 (vhost /)"),
            ("amqp://u%40x:p@10.0.0.1/a%2Fb", "amqp://u@x@10.0.0.1:5672 (vhost a/b)"),
            ("amqp://u:p@[::1]:99/v", "amqp://u@[::1]:99 (vhost v)"),
        ] {
            assert_eq!(address(url).unwrap().to_string(), shown, "{url}");
        }
        assert_eq!(address("amqp://u:p%2Fw@h/").unwrap().uri.authority.userinfo.password, "p/w");
        assert_eq!(address("amqp://h/?heartbeat=99").unwrap().uri.query.heartbeat, Some(10));
    }

    #[test]
    fn what_cant_be_used_is_refused_without_the_password() {
        assert!(Address::new(&BrokerConfig::default()).unwrap_err().to_string().contains("broker.url is missing"));
        for url in ["http://u:secret@h/", "u:secret@h", "amqp://u:secret@h:port/", "amqp://u:secret@h/?heartbeat=x"] {
            let error = address(url).unwrap_err().to_string();
            assert!(error.starts_with("JW-CONFIG") && error.contains("amqp") && !error.contains("secret"), "{error}");
        }
    }
}
