//! Opens connections from a URL: tries one server after the other, each within its time limit. See ADR 0050.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Error as PgError, Notification, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::conn::{Conn, ConnInfo, Endpoint};
use super::driver_error::{classify, role_changed, stands_alone, why};
use super::options::{PgOptions, Server, Wanted};
use super::tls;
use crate::config::{Backend, DatabaseConfig};
use crate::error::{Error, Result};
use crate::store::outage::Outage;

/// How long a server that did not answer is tried after all others, so that the next connection need not wait for it again.
const SHUNNED: Duration = Duration::from_secs(10);
/// The shortest interval between retirements of a server's connections: a server that keeps refusing writes need not lose them with each
/// refusal.
const RETIRED_ONCE_IN: Duration = Duration::from_secs(1);

/// Asks whether the server is in recovery, and whether it is read-only for this role.
const ROLE: &str = "select pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')";

/// How to reach a server. Clones share what was learnt about the servers.
#[derive(Clone)]
pub(super) struct Target(Arc<Inner>);

struct Inner {
    options: PgOptions,
    tls: MakeRustlsConnect,
    /// The servers that did not answer, and when.
    silent: Mutex<HashMap<usize, Instant>>,
    /// Connections to these endpoints are useless if they are older than this.
    retired: Mutex<HashMap<Endpoint, Instant>>,
    /// Whether `retired` has entries, which is rare.
    any_retired: AtomicBool,
    /// Gets notified of lost connections. A weak reference, because the outage's probe holds a clone of this target.
    outage: OnceLock<Weak<Outage>>,
}

/// The reason why each of the servers tried was unusable.
#[derive(Debug)]
pub(super) struct Failures(pub(super) Vec<(String, Failure)>);

/// For logs.
impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (label, failure)) in self.0.iter().enumerate() {
            let comma = if n > 0 { "; " } else { "" };
            match failure {
                Failure::Driver(error) => write!(f, "{comma}{label}: {}", classify(error).1)?,
                Failure::Silent(bound) => write!(f, "{comma}{label}: no answer within {bound:?}")?,
                Failure::Unknown(error) => write!(f, "{comma}{label}: {error}")?,
                Failure::Role(wanted) => write!(f, "{comma}{label}: not {}", wanted.as_str())?,
            }
        }
        Ok(())
    }
}

/// Why one server was unusable.
#[derive(Debug)]
pub(super) enum Failure {
    /// No answer within this time.
    Silent(Duration),
    /// Its name has no address.
    Unknown(std::io::Error),
    Driver(PgError),
    /// It has another role than the one required.
    Role(Wanted),
}

impl Target {
    pub(super) fn new(config: &DatabaseConfig) -> Result<Self> {
        let Backend::Postgres(url) = config.backend()? else {
            return Err(Error::config(format!("{} is not a PostgreSQL URL", config.url)));
        };
        let options = PgOptions::read(url, config)?;
        let tls = tls::connector(&options.tls)?;
        Ok(Self(Arc::new(Inner {
            options,
            tls,
            silent: Mutex::default(),
            retired: Mutex::default(),
            any_retired: AtomicBool::new(false),
            outage: OnceLock::new(),
        })))
    }

    pub(super) fn tls(&self) -> MakeRustlsConnect {
        self.0.tls.clone()
    }

    /// Returns the time limit for one server.
    pub(super) fn bound(&self) -> Duration {
        self.0.options.bound
    }

    /// Sets the outage that is notified of lost connections from now on.
    pub(super) fn tell(&self, outage: &Arc<Outage>) {
        // Each target has one store.
        let _ = self.0.outage.set(Arc::downgrade(outage));
    }

    /// Connects to the first usable server and runs `session` there. Notifications go to `heard`.
    pub(super) async fn connect(
        &self,
        session: Option<&str>,
        heard: Option<mpsc::Sender<Notification>>,
    ) -> Result<Conn, Failures> {
        let mut failures = Vec::new();
        for n in self.order() {
            let places = match self.places(n).await {
                Ok(places) => places,
                Err(failure) => {
                    failures.push(failure);
                    continue;
                }
            };
            for endpoint in places {
                let shown = endpoint.to_string();
                let attempt = timeout(self.bound(), self.attempt(endpoint, session, heard.clone())).await;
                self.remember(n, attempt.is_err());
                match attempt {
                    Ok(Ok(conn)) => {
                        if !failures.is_empty() {
                            tracing::debug!("connected to {shown}; before: {}", Failures(failures));
                        }
                        return Ok(conn);
                    }
                    Ok(Err(failure)) => failures.push((shown, failure)),
                    Err(_) => failures.push((shown, Failure::Silent(self.bound()))),
                }
            }
        }
        Err(Failures(failures))
    }

    /// Returns the servers in the order of the URL, or shuffled. Those that recently did not answer come last.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.0.options.servers.len()).collect();
        if self.0.options.shuffled {
            order.sort_by_cached_key(|_| uuid::Uuid::new_v4());
        }
        let silent = self.0.silent.lock().unwrap_or_else(PoisonError::into_inner);
        order.sort_by_key(|n| silent.get(n).is_some_and(|at| at.elapsed() < SHUNNED));
        order
    }

    fn remember(&self, n: usize, silent: bool) {
        let mut known = self.0.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if silent {
            known.insert(n, Instant::now());
        } else {
            known.remove(&n);
        }
    }

    /// Returns all addresses of all servers whose names can be resolved.
    pub(super) async fn all_places(&self) -> Vec<Endpoint> {
        let each = (0..self.0.options.servers.len()).map(|n| self.places(n));
        futures_util::future::join_all(each).await.into_iter().filter_map(Result::ok).flatten().collect()
    }

    /// Returns all addresses of one server.
    async fn places(&self, n: usize) -> Result<Vec<Endpoint>, (String, Failure)> {
        let (server, port) = &self.0.options.servers[n];
        let (name, address) = match server {
            Server::Unix(folder) => return Ok(vec![Endpoint::Unix(folder.clone(), *port)]),
            Server::Tcp(name, address) => (name, address),
        };
        let endpoint = |address| Endpoint::Tcp { address, name: name.clone() };
        if let Some(ip) = address {
            return Ok(vec![endpoint(SocketAddr::new(*ip, *port))]);
        }
        let failed = |failure| (format!("{name}:{port}"), failure);
        match timeout(self.bound(), tokio::net::lookup_host((name.as_str(), *port))).await {
            Ok(Ok(found)) => Ok(found.map(endpoint).collect()),
            Ok(Err(error)) => Err(failed(Failure::Unknown(error))),
            Err(_) => Err(failed(Failure::Silent(self.bound()))),
        }
    }

    pub(super) async fn attempt(
        &self,
        endpoint: Endpoint,
        session: Option<&str>,
        heard: Option<mpsc::Sender<Notification>>,
    ) -> Result<Conn, Failure> {
        let PgOptions { driver, wanted, .. } = &self.0.options;
        let mut config = driver.clone();
        match &endpoint {
            Endpoint::Unix(folder, port) => config.host_path(folder).port(*port),
            Endpoint::Tcp { address, name } => config.host(name).hostaddr(address.ip()).port(address.port()),
        };
        let (client, connection) = config.connect(self.tls()).await.map_err(Failure::Driver)?;
        let info = Arc::new(ConnInfo::new(Some(endpoint)));
        let driving = tokio::spawn(drive(connection, info.clone(), self.clone(), heard));
        // Dropping this ends the connection.
        let client = ClientWrapper::new(client, driving);
        let asked = (*wanted != Wanted::Any).then_some(ROLE);
        let first: Vec<&str> = asked.into_iter().chain(session).collect();
        if !first.is_empty() {
            let answer = client.simple_query(&first.join("; ")).await.map_err(Failure::Driver)?;
            let role = answer.iter().find_map(|part| match part {
                SimpleQueryMessage::Row(row) if asked.is_some() => {
                    Some((row.get(0) == Some("t"), row.get(1) == Some("on")))
                }
                _ => None,
            });
            if role.is_some_and(|(in_recovery, read_only)| !wanted.accepts(in_recovery, read_only)) {
                return Err(Failure::Role(*wanted));
            }
        }
        Ok(Conn::of_engine(client, info))
    }

    /// Marks older connections to the server of this one as useless: its role has changed, or it is shutting down. Returns whether that is news.
    pub(super) fn retire(&self, info: &ConnInfo) -> bool {
        let Some(endpoint) = &info.endpoint else { return !info.is_useless.swap(true, Ordering::AcqRel) };
        let mut retired = self.0.retired.lock().unwrap_or_else(PoisonError::into_inner);
        if retired.get(endpoint).is_some_and(|at| at.elapsed() < RETIRED_ONCE_IN) {
            return false;
        }
        retired.insert(endpoint.clone(), Instant::now());
        self.0.any_retired.store(true, Ordering::Release);
        true
    }

    pub(super) fn is_retired(&self, info: &ConnInfo) -> bool {
        let Some(endpoint) = &info.endpoint else { return info.is_useless.load(Ordering::Acquire) };
        self.0.any_retired.load(Ordering::Acquire) && {
            let retired = self.0.retired.lock().unwrap_or_else(PoisonError::into_inner);
            retired.get(endpoint).is_some_and(|at| info.made <= *at)
        }
    }
}

/// Drives a connection until it ends. A notice from the server is handled here before the answer that follows it reaches the caller.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    info: Arc<ConnInfo>,
    target: Target,
    heard: Option<mpsc::Sender<Notification>>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                if stands_alone(&notice) {
                    info.alone.store(true, Ordering::Release);
                }
            }
            Some(Ok(AsyncMessage::Notification(note))) => {
                // If the receiver's queue is full, it already has a notification that says the same.
                if let Some(heard) = &heard {
                    let _ = heard.try_send(note);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                if role_changed(&error) {
                    target.retire(&info);
                }
                let why = why(&error);
                tracing::debug!("the connection to {info} ended: {why}");
                if let Some(outage) = target.0.outage.get().and_then(Weak::upgrade) {
                    outage.lost(&why);
                }
                return;
            }
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_silent_is_tried_last() {
        let target = Target::new(&DatabaseConfig::url("postgres://u@a,b,c/d")).unwrap();
        assert_eq!(target.order(), [0, 1, 2]);
        target.remember(0, true);
        assert_eq!(target.order(), [1, 2, 0]);
        target.remember(0, false);
        assert_eq!(target.order(), [0, 1, 2]);
        let target = Target::new(&DatabaseConfig::url("postgres://u@a,b,c/d?load_balance_hosts=random")).unwrap();
        let firsts: std::collections::BTreeSet<_> = (0..200).map(|_| target.order()[0]).collect();
        assert_eq!(firsts.len(), 3);
    }

    #[test]
    fn files_that_cant_be_read_are_named() {
        for (url, named) in [
            ("postgres://u@h/d?sslmode=verify-full&sslrootcert=/nowhere.pem", "`sslrootcert`"),
            ("host=h sslmode=require sslcert=/nowhere.pem sslkey=/nowhere.key", "`sslcert`"),
        ] {
            let error = Target::new(&DatabaseConfig::url(url)).err().unwrap().to_string();
            assert!(error.contains("/nowhere.pem") && error.contains(named), "{error}");
        }
    }
}
