//! From a URL to pools of connections.

use std::time::Duration;

use deadpool_postgres::{Hook, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls::{self, Verify};
use crate::config::{Backend, DatabaseConfig};
use crate::error::{Error, Result};

/// Connections the engine has for itself, so that handlers which use up the pool never stop a heartbeat or a release.
pub(super) const ENGINE_CONNECTIONS: usize = 3;

/// How to reach a server.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Target {
    pub(super) fn new(config: &DatabaseConfig) -> Result<Self> {
        let Backend::Postgres(url) = config.backend()? else {
            return Err(Error::config(format!("{} is not a PostgreSQL URL", config.url)));
        };
        let (url, verify, root_file) = take_tls_options(url);
        // The parser's error may quote parts of the URL, so it is not passed on.
        let mut target: tokio_postgres::Config = url.parse().map_err(|_| {
            Error::config(format!(
                "the database URL {} can't be read: use `postgres://user:password@host:5432/database?sslmode=…`",
                config.url
            ))
        })?;
        if target.get_hosts().is_empty() {
            return Err(Error::config(format!("the database URL {} names no host", config.url)));
        }
        if verify != Verify::Nothing {
            target.ssl_mode(SslMode::Require);
        } else if !url.contains("sslmode") && is_local(&target) {
            // Encrypting a conversation of a machine with itself only costs time.
            target.ssl_mode(SslMode::Disable);
        }
        if target.get_application_name().is_none() {
            target.application_name("jobwright");
        }
        target
            .connect_timeout(config.connect_timeout)
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
        Ok(Self { config: target, tls: tls::connector(verify, root_file.as_deref())? })
    }

    pub(super) fn pool(&self, config: &DatabaseConfig, size: usize, session: Option<String>) -> Result<Pool> {
        let manager = Manager::from_config(
            self.config.clone(),
            self.tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let mut pool = Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1).timeouts(Timeouts {
            wait: Some(config.call_timeout),
            create: Some(config.connect_timeout),
            recycle: Some(config.connect_timeout),
        });
        if let Some(session) = session {
            pool = pool.post_create(Hook::async_fn(move |client, _| {
                let session = session.clone();
                Box::pin(
                    async move { client.batch_execute(&session).await.map_err(deadpool_postgres::HookError::Backend) },
                )
            }));
        }
        pool.build().map_err(|e| Error::config(format!("the connection pool can't be built: {e}")))
    }
}

/// What the engine's connections are set to. Its statements must use their indexes whatever the statistics say: on a queue
/// that was empty when last analysed, a sequential scan looks cheap and walks everything that died since.
pub(super) fn engine_session(config: &DatabaseConfig) -> Option<String> {
    // A pooler hands sessions around; what was set there would leak to others.
    (!config.pgbouncer).then(|| {
        format!(
            "set statement_timeout = {}; set enable_seqscan = off; set enable_bitmapscan = off; set jit = off; \
             set plan_cache_mode = force_generic_plan; set default_transaction_isolation = 'read committed'",
            config.call_timeout.as_millis()
        )
    })
}

fn is_local(config: &tokio_postgres::Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
    })
}

/// The driver knows neither `verify-ca` nor `verify-full` nor `sslrootcert`, and refuses a URL that has them.
fn take_tls_options(url: &str) -> (String, Verify, Option<String>) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), Verify::Nothing, None);
    };
    let mut verify = Verify::Nothing;
    let mut root_file = None;
    let kept: Vec<_> = query
        .split('&')
        .filter(|pair| match pair.split_once('=') {
            Some(("sslmode", "verify-ca")) => {
                verify = Verify::Chain;
                false
            }
            Some(("sslmode", "verify-full")) => {
                verify = Verify::Full;
                false
            }
            Some(("sslrootcert", file)) => {
                root_file = Some(file.replace("%2F", "/").replace("%2f", "/"));
                false
            }
            _ => true,
        })
        .collect();
    let url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    (url, verify, root_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_decides_about_tls() {
        let target = |url: &str| Target::new(&DatabaseConfig::url(url)).map(|t| t.config.get_ssl_mode());
        assert_eq!(target("postgres://u@127.0.0.1/d").unwrap(), SslMode::Disable);
        assert_eq!(target("postgres://u@db.example/d").unwrap(), SslMode::Prefer);
        assert_eq!(target("postgres://u@127.0.0.1/d?sslmode=require").unwrap(), SslMode::Require);
        assert!(
            target("postgres://u@h/d?sslmode=verify-full&sslrootcert=/nowhere.pem")
                .unwrap_err()
                .to_string()
                .contains("/nowhere.pem")
        );
        let (url, verify, file) = take_tls_options("postgres://h/d?sslmode=verify-ca&x=1&sslrootcert=%2Fa.pem");
        assert_eq!((url.as_str(), verify, file.as_deref()), ("postgres://h/d?x=1", Verify::Chain, Some("/a.pem")));
    }

    #[test]
    fn a_bad_url_is_refused_without_its_password() {
        let error = Target::new(&DatabaseConfig::url("postgres://u:secret@h:port/d")).err().unwrap().to_string();
        assert!(!error.contains("secret") && error.contains("postgres://u@h:port/d"), "{error}");
    }
}
