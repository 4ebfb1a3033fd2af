//! From a URL to connections: one server after the other, each within its bound. See ADR 0050.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Error as PgError, Notification, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{role_changed, stands_alone};
use super::options::{Options, Server, Wanted};
use super::server::why;
use super::tls;
use crate::config::{Backend, DatabaseConfig};
use crate::error::{Error, Result};
use crate::store::outage::Outage;

/// How long a server that was silent is tried after all others: the next connection need not wait for it again.
const SHUNNED: Duration = Duration::from_secs(10);
/// A server that goes on refusing writes need not lose its connections with each refusal.
const RETIRED_ONCE_IN: Duration = Duration::from_secs(1);

/// In recovery, and read-only for us.
const ROLE: &str = "select pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')";

/// How to reach a server. Clones share what was learnt about the servers.
#[derive(Clone)]
pub(super) struct Target(Arc<Inner>);

struct Inner {
    options: Options,
    tls: MakeRustlsConnect,
    /// Which servers did not answer, and when.
    silent: Mutex<HashMap<usize, Instant>>,
    /// Whose connections are of no use if they are older than this.
    retired: Mutex<HashMap<Place, Instant>>,
    /// Whether there are any, which is seldom.
    any_retired: AtomicBool,
    /// Who is told when connections are lost, if anybody; whoever looks after that has a clone of this in turn.
    outage: OnceLock<Weak<Outage>>,
}

/// Where a connection went to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Unix(PathBuf, u16),
    Tcp { address: SocketAddr, name: String },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(folder, port) => write!(f, "{}:{port}", folder.display()),
            Self::Tcp { address, name } if *name == address.ip().to_string() => write!(f, "{address}"),
            Self::Tcp { address, name } => write!(f, "{name} ({address})"),
        }
    }
}

/// A connection to one server.
pub(super) struct Conn {
    client: ClientWrapper,
    pub(super) line: Arc<Line>,
}

/// What is known of a connection.
pub(super) struct Line {
    pub(super) place: Place,
    made: Instant,
    /// The server said of a commit that it may stand on this server only.
    alone: AtomicBool,
}

impl Line {
    /// Whether a commit since the last question may stand on this server only.
    pub(super) fn stands_alone(&self) -> bool {
        self.alone.swap(false, Ordering::Acquire)
    }
}

impl std::ops::Deref for Conn {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

impl std::ops::DerefMut for Conn {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.client
    }
}

/// Why each of the servers that were tried did not do.
#[derive(Debug)]
pub(super) struct Failures(pub(super) Vec<(String, Failure)>);

/// Why one did not.
#[derive(Debug)]
pub(super) enum Failure {
    /// No answer within this time.
    Silent(Duration),
    /// Its name has no address.
    Unknown(std::io::Error),
    Driver(PgError),
    /// It is in another role than is asked for.
    Role(Wanted),
}

impl Target {
    pub(super) fn new(config: &DatabaseConfig) -> Result<Self> {
        let Backend::Postgres(url) = config.backend()? else {
            return Err(Error::config(format!("{} is not a PostgreSQL URL", config.url)));
        };
        let options = Options::read(url, config)?;
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

    /// What one server may take.
    pub(super) fn bound(&self) -> Duration {
        self.0.options.bound
    }

    /// From now on this one is told when connections are lost.
    pub(super) fn tell(&self, outage: &Arc<Outage>) {
        // Each target has one store.
        let _ = self.0.outage.set(Arc::downgrade(outage));
    }

    /// Connects to the first server that will do, and runs `session` there. What it notifies of goes to `heard`.
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
            for place in places {
                let shown = place.to_string();
                let attempt = timeout(self.bound(), self.attempt(place, session, heard.clone())).await;
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

    /// As in the URL, or by chance; who was silent a moment ago comes last.
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

    /// All addresses of all servers that can be looked up.
    pub(super) async fn all_places(&self) -> Vec<Place> {
        let each = (0..self.0.options.servers.len()).map(|n| self.places(n));
        futures_util::future::join_all(each).await.into_iter().filter_map(Result::ok).flatten().collect()
    }

    /// All addresses of a server.
    async fn places(&self, n: usize) -> Result<Vec<Place>, (String, Failure)> {
        let (server, port) = &self.0.options.servers[n];
        let (name, address) = match server {
            Server::Unix(folder) => return Ok(vec![Place::Unix(folder.clone(), *port)]),
            Server::Tcp(name, address) => (name, address),
        };
        let place = |address| Place::Tcp { address, name: name.clone() };
        if let Some(ip) = address {
            return Ok(vec![place(SocketAddr::new(*ip, *port))]);
        }
        let failed = |failure| (format!("{name}:{port}"), failure);
        match timeout(self.bound(), tokio::net::lookup_host((name.as_str(), *port))).await {
            Ok(Ok(found)) => Ok(found.map(place).collect()),
            Ok(Err(error)) => Err(failed(Failure::Unknown(error))),
            Err(_) => Err(failed(Failure::Silent(self.bound()))),
        }
    }

    pub(super) async fn attempt(
        &self,
        place: Place,
        session: Option<&str>,
        heard: Option<mpsc::Sender<Notification>>,
    ) -> Result<Conn, Failure> {
        let Options { driver, wanted, .. } = &self.0.options;
        let mut config = driver.clone();
        match &place {
            Place::Unix(folder, port) => config.host_path(folder).port(*port),
            Place::Tcp { address, name } => config.host(name).hostaddr(address.ip()).port(address.port()),
        };
        let (client, connection) = config.connect(self.tls()).await.map_err(Failure::Driver)?;
        let line = Arc::new(Line { place, made: Instant::now(), alone: AtomicBool::new(false) });
        let driving = tokio::spawn(drive(connection, line.clone(), self.clone(), heard));
        // Dropped, it ends the connection.
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
        Ok(Conn { client, line })
    }

    /// From now on older connections to this server are of no use: it has another role, or goes down. Returns whether that is news.
    pub(super) fn retire(&self, place: &Place) -> bool {
        let mut retired = self.0.retired.lock().unwrap_or_else(PoisonError::into_inner);
        if retired.get(place).is_some_and(|at| at.elapsed() < RETIRED_ONCE_IN) {
            return false;
        }
        retired.insert(place.clone(), Instant::now());
        self.0.any_retired.store(true, Ordering::Release);
        true
    }

    pub(super) fn is_retired(&self, line: &Line) -> bool {
        self.0.any_retired.load(Ordering::Acquire) && {
            let retired = self.0.retired.lock().unwrap_or_else(PoisonError::into_inner);
            retired.get(&line.place).is_some_and(|at| line.made <= *at)
        }
    }
}

/// Moves what a connection says and hears, until it ends. What the server says in passing comes here before the answer that it precedes
/// reaches who waits for it.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    line: Arc<Line>,
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
                    line.alone.store(true, Ordering::Release);
                }
            }
            Some(Ok(AsyncMessage::Notification(note))) => {
                // Who does not keep up has one waiting already that says the same.
                if let Some(heard) = &heard {
                    let _ = heard.try_send(note);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                if role_changed(&error) {
                    target.retire(&line.place);
                }
                let why = why(&error);
                tracing::debug!("the connection to {} ended: {why}", line.place);
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
