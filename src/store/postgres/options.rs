//! The options of a database URL, with libpq's meaning. An unsupported option is rejected by name: ignoring it could mean less protection
//! than was asked for.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::config::{ChannelBinding, SslMode, SslNegotiation};

use super::tls::{Roots, TlsOptions, Verify};
use crate::config::DatabaseConfig;
use crate::config::url::{Host as UrlHost, ServerUrl};
use crate::error::{Error, Result};

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// The folder of its socket.
    Unix(PathBuf),
    /// A name, and its address if the name is not to be resolved.
    Tcp(String, Option<IpAddr>),
}

/// The role that a server must have: `target_session_attrs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
}

impl Wanted {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::ReadWrite => "read-write",
            Self::ReadOnly => "read-only",
            Self::Primary => "primary",
            Self::Standby => "standby",
        }
    }

    /// Returns whether a server in this state is acceptable.
    pub(super) fn accepts(self, in_recovery: bool, read_only: bool) -> bool {
        match self {
            Self::Any => true,
            Self::ReadWrite => !read_only,
            Self::ReadOnly => read_only,
            Self::Primary => !in_recovery,
            Self::Standby => in_recovery,
        }
    }
}

/// All options of a URL.
#[derive(Debug)]
pub(super) struct PgOptions {
    /// In the order in which they are tried.
    pub(super) servers: Vec<(Server, u16)>,
    /// Everything but the servers.
    pub(super) driver: tokio_postgres::Config,
    pub(super) tls: TlsOptions,
    pub(super) wanted: Wanted,
    /// Whether the servers are tried in a random order.
    pub(super) shuffled: bool,
    /// The time limit for connecting to one server.
    pub(super) bound: Duration,
}

const DEFAULT_PORT: u16 = 5432;

impl PgOptions {
    pub(super) fn read(text: &str, config: &DatabaseConfig) -> Result<Self> {
        let url = if text.contains("://") { ServerUrl::parse(text) } else { ServerUrl::parse_words(text) };
        // The reason quotes no part of the URL.
        let url = url.and_then(ServerUrl::settle_postgres).map_err(|why| {
            Error::config(format!(
                "the database URL can't be read: {why}; use `postgres://user:password@host:5432/database?sslmode=…`"
            ))
        })?;
        let mut options = Self {
            servers: servers(&url)?,
            driver: driver(&url),
            tls: TlsOptions::default(),
            wanted: Wanted::Any,
            shuffled: false,
            bound: config.connect_timeout,
        };
        let mut mode = None;
        for (key, value) in &url.params {
            options.set(&mut mode, key, value)?;
        }
        options.settle_tls(mode)?;
        if options.driver.get_application_name().is_none() {
            options.driver.application_name("jobwright");
        }
        Ok(options)
    }

    fn set(&mut self, mode: &mut Option<Mode>, key: &str, value: &str) -> Result<()> {
        let refuse = |what: &str| Err(refusal(key, what));
        match key {
            "hostaddr" | "client_encoding" if key == "hostaddr" || is_utf8(value) => {}
            "client_encoding" => return refuse("everything is UTF-8 here: remove it"),
            "application_name" => drop(self.driver.application_name(value)),
            "fallback_application_name" => {
                if self.driver.get_application_name().is_none() {
                    self.driver.application_name(value);
                }
            }
            "options" => drop(self.driver.options(value)),
            "connect_timeout" => {
                // With 0, libpq waits forever; nothing does here.
                if let Some(limit) = seconds(key, value)? {
                    self.bound = limit;
                }
            }
            "keepalives" => drop(self.driver.keepalives(value != "0")),
            "keepalives_idle" => {
                if let Some(idle) = seconds(key, value)? {
                    self.driver.keepalives_idle(idle);
                }
            }
            "keepalives_interval" => {
                if let Some(interval) = seconds(key, value)? {
                    self.driver.keepalives_interval(interval);
                }
            }
            // The second name is the driver's.
            "keepalives_count" | "keepalives_retries" => drop(self.driver.keepalives_retries(number(key, value)?)),
            "tcp_user_timeout" => {
                if let limit @ 1.. = number(key, value)? {
                    self.driver.tcp_user_timeout(Duration::from_millis(u64::from(limit)));
                }
            }
            "target_session_attrs" => {
                self.wanted = match value {
                    "any" => Wanted::Any,
                    "read-write" => Wanted::ReadWrite,
                    "read-only" => Wanted::ReadOnly,
                    "primary" => Wanted::Primary,
                    "standby" => Wanted::Standby,
                    "prefer-standby" => {
                        return refuse(
                            "`prefer-standby` would look for a server that keeps no jobs: use `read-write` or `primary`",
                        );
                    }
                    _ => return refuse("use `any`, `read-write`, `primary`, `read-only` or `standby`"),
                }
            }
            "load_balance_hosts" => match value {
                "disable" => self.shuffled = false,
                "random" => self.shuffled = true,
                _ => return refuse("use `disable` or `random`"),
            },
            "channel_binding" => drop(self.driver.channel_binding(match value {
                "disable" => ChannelBinding::Disable,
                "prefer" => ChannelBinding::Prefer,
                "require" => ChannelBinding::Require,
                _ => return refuse("use `disable`, `prefer` or `require`"),
            })),
            "sslmode" => *mode = Some(Mode::read(value)?),
            // Accepted as in libpq, for URLs written for JDBC.
            "ssl" if value == "true" => *mode = Some(Mode::Require),
            "sslnegotiation" => drop(self.driver.ssl_negotiation(match value {
                "postgres" => SslNegotiation::Postgres,
                "direct" => SslNegotiation::Direct,
                _ => return refuse("use `postgres` or `direct`"),
            })),
            "sslrootcert" => {
                self.tls.roots = Some(if value == "system" { Roots::System } else { Roots::File(value.into()) });
            }
            "sslcert" => self.tls.certificate = Some(value.into()),
            "sslkey" => self.tls.key = Some(value.into()),
            "ssl_min_protocol_version" => match value {
                "TLSv1" | "TLSv1.1" | "TLSv1.2" => {}
                "TLSv1.3" => self.tls.versions.retain(|version| *version == &rustls::version::TLS13),
                _ => return refuse("use `TLSv1.2` (older ones are never used) or `TLSv1.3`"),
            },
            "ssl_max_protocol_version" => match value {
                "" | "TLSv1.3" => {}
                "TLSv1.2" => self.tls.versions.retain(|version| *version == &rustls::version::TLS12),
                _ => return refuse("use `TLSv1.2` or `TLSv1.3`: older ones are never used"),
            },
            // These ask for the default behaviour.
            "gssencmode" if matches!(value, "disable" | "prefer") => {}
            "sslcompression" if value == "0" => {}
            "sslsni" if value == "1" => {}
            "sslcertmode" if value == "allow" => {}
            _ => return refuse(advice(key)),
        }
        Ok(())
    }

    fn settle_tls(&mut self, mode: Option<Mode>) -> Result<()> {
        let TlsOptions { roots, certificate, key, versions, .. } = &self.tls;
        if certificate.is_some() != key.is_some() {
            let (given, missing) = if key.is_none() { ("sslcert", "sslkey") } else { ("sslkey", "sslcert") };
            return Err(refusal(given, &format!("it needs `{missing}` too: both are files in PEM form")));
        }
        if versions.is_empty() {
            return Err(refusal("ssl_min_protocol_version", "it is above `ssl_max_protocol_version`"));
        }
        let asked = roots.is_some() || certificate.is_some();
        let mode = match (mode, roots) {
            (None | Some(Mode::VerifyFull), Some(Roots::System)) => Mode::VerifyFull,
            (Some(_), Some(Roots::System)) => {
                return Err(refusal("sslmode", "with `sslrootcert=system` only `verify-full` protects: use that"));
            }
            (Some(mode), _) => mode,
            // Encrypting traffic within one machine only costs time.
            (None, _) if self.is_local() && !asked => Mode::Disable,
            (None, _) => Mode::Prefer,
        };
        self.driver.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        self.tls.verify = match mode {
            // As in libpq: naming the authority implies that it is checked.
            Mode::Require if self.tls.roots.is_some() => Verify::Chain,
            Mode::Disable | Mode::Prefer | Mode::Require => Verify::Nothing,
            Mode::VerifyCa => Verify::Chain,
            Mode::VerifyFull => Verify::Full,
        };
        Ok(())
    }

    fn is_local(&self) -> bool {
        self.servers.iter().all(|(server, _)| match server {
            Server::Unix(_) => true,
            Server::Tcp(_, Some(ip)) => ip.is_loopback(),
            Server::Tcp(name, None) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    fn read(value: &str) -> Result<Self> {
        Ok(match value {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            "allow" => {
                return Err(refusal(
                    "sslmode",
                    "`allow` encrypts only if it must: use `prefer`, which encrypts if it can, or `disable`",
                ));
            }
            _ => return Err(refusal("sslmode", "use `disable`, `prefer`, `require`, `verify-ca` or `verify-full`")),
        })
    }
}

fn servers(url: &ServerUrl) -> Result<Vec<(Server, u16)>> {
    let addresses: Vec<&str> = url.param("hostaddr").map(|list| list.split(',').collect()).unwrap_or_default();
    if !addresses.is_empty() && addresses.len() != url.hosts.len() {
        return Err(refusal("hostaddr", "it must hold as many addresses as there are hosts"));
    }
    let server = |(n, UrlHost { name, port }): (usize, &UrlHost)| {
        let address = match addresses.get(n).filter(|address| !address.is_empty()) {
            Some(text) => Some(text.parse::<IpAddr>().map_err(|_| refusal("hostaddr", "it must hold IP addresses"))?),
            None => None,
        };
        let server = match (name.as_str(), address) {
            ("", None) => return Err(Error::config(format!("the database URL {url} names no host"))),
            ("", Some(ip)) => Server::Tcp(ip.to_string(), Some(ip)),
            (folder, None) if folder.starts_with('/') => Server::Unix(folder.into()),
            (name, address) => Server::Tcp(name.to_owned(), address),
        };
        Ok((server, port.unwrap_or(DEFAULT_PORT)))
    };
    let servers = url.hosts.iter().enumerate().map(server).collect::<Result<Vec<_>>>()?;
    if servers.is_empty() {
        return Err(Error::config(format!("the database URL {url} names no host")));
    }
    Ok(servers)
}

/// Sets the credentials and how a dead peer is detected: by probes while idle, and by unacknowledged data otherwise.
fn driver(url: &ServerUrl) -> tokio_postgres::Config {
    let mut driver = tokio_postgres::Config::new();
    driver
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(15))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(30));
    if let Some(user) = &url.user {
        driver.user(user);
    }
    if let Some(password) = &url.password {
        driver.password(password);
    }
    if let Some(database) = &url.path {
        driver.dbname(database);
    }
    driver
}

/// Returns what to use instead of an unsupported option.
fn advice(key: &str) -> &'static str {
    match key {
        "passfile" => {
            "put the password into the URL, and the URL into the environment or a file that only you can read"
        }
        "service" | "servicefile" => "put the settings of that service into the URL",
        "sslcrl" | "sslcrldir" => {
            "lists of revoked certificates are not read: use an authority of your own with `sslrootcert`"
        }
        "sslpassword" => "keys are read unencrypted: decrypt it (`openssl pkey`) into a file that only you can read",
        "sslcertmode" => "remove it: a certificate is sent if `sslcert` names one and the server asks",
        "gssencmode" | "krbsrvname" | "gsslib" | "gssdelegation" => {
            "GSSAPI is not supported: use TLS, with a password or `sslcert`"
        }
        "require_auth" => "use `channel_binding=require`, which only SCRAM can fulfil, and `sslmode=verify-full`",
        "requirepeer" => "use TLS with `sslmode=verify-full`",
        "replication" => "it is for replication, which nothing does here: remove it",
        "sslcompression" | "sslsni" | "ssl" => {
            "remove it: TLS is never compressed, sends the server's name, and follows `sslmode`"
        }
        _ => "it is not known here: remove it, or correct its name",
    }
}

fn refusal(key: &str, what: &str) -> Error {
    // A key may be a fragment of a password that was not encoded.
    let known =
        !key.is_empty() && key.len() < 30 && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'1');
    let key = if known { format!("`{key}`") } else { "an option".to_owned() };
    Error::config(format!("{key} in the database URL can't be used: {what}"))
}

fn is_utf8(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "auto")
}

fn number(key: &str, value: &str) -> Result<u32> {
    value.trim().parse().map_err(|_| refusal(key, "use a whole number"))
}

/// Returns `None` for 0, which means the default of the driver or system.
fn seconds(key: &str, value: &str) -> Result<Option<Duration>> {
    // libpq treats negative numbers as 0.
    if value.trim().starts_with('-') {
        return Ok(None);
    }
    Ok(Some(number(key, value)?).filter(|n| *n > 0).map(|n| Duration::from_secs(u64::from(n))))
}

#[cfg(test)]
mod tests;
