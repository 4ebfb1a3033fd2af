//! One connection, opened by the engine or taken from the application's pool, and the facts about it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use deadpool_postgres::ClientWrapper;

/// The server address of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Endpoint {
    Unix(PathBuf, u16),
    Tcp { address: SocketAddr, name: String },
}

impl fmt::Display for Endpoint {
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
    client: OpenedBy,
    pub(super) info: Arc<ConnInfo>,
}

/// A client, and who has opened its connection.
enum OpenedBy {
    Engine(ClientWrapper),
    /// The application's pool, to which it returns when it is dropped.
    Application(deadpool_postgres::Object),
}

impl Conn {
    /// Wraps a connection of the engine's.
    pub(super) fn of_engine(client: ClientWrapper, info: Arc<ConnInfo>) -> Self {
        Self { client: OpenedBy::Engine(client), info }
    }

    /// Wraps a connection that was taken from the application's pool.
    pub(super) fn of_application(object: deadpool_postgres::Object) -> Self {
        Self { client: OpenedBy::Application(object), info: Arc::new(ConnInfo::new(None)) }
    }

    /// Closes the connection, which a pool does not get back.
    pub(super) fn close(self) {
        match self.client {
            OpenedBy::Engine(client) => drop(client),
            OpenedBy::Application(object) => drop(deadpool_postgres::Object::take(object)),
        }
    }
}

/// Facts about a connection.
pub(super) struct ConnInfo {
    /// The server. It is not known of a connection from the application's pool.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) made: Instant,
    /// Whether a connection from the application's pool leads to a server whose role has changed.
    pub(super) is_useless: AtomicBool,
    /// Whether the server reported that a commit may exist on this server only.
    pub(super) alone: AtomicBool,
    /// Whether code of others had the connection, and may have changed its session.
    lent: AtomicBool,
}

impl ConnInfo {
    /// The facts about a connection that was opened now.
    pub(super) fn new(endpoint: Option<Endpoint>) -> Self {
        let (alone, lent, is_useless) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        Self { endpoint, made: Instant::now(), is_useless, alone, lent }
    }

    /// Returns whether a commit since the last call may exist on this server only.
    pub(super) fn stands_alone(&self) -> bool {
        self.alone.swap(false, Ordering::Acquire)
    }

    /// Notes that code of others gets the connection.
    pub(super) fn lend(&self) {
        self.lent.store(true, Ordering::Relaxed);
    }

    /// Returns whether its session may differ from that of a new connection.
    pub(super) fn was_lent(&self) -> bool {
        self.lent.load(Ordering::Relaxed)
    }

    /// Notes that its session is as it was at first.
    pub(super) fn is_reset(&self) {
        self.lent.store(false, Ordering::Relaxed);
    }
}

/// Names the server, for logs.
impl fmt::Display for ConnInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Some(endpoint) => endpoint.fmt(f),
            None => f.write_str("the server of the application's pool"),
        }
    }
}

impl std::ops::Deref for Conn {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        match &self.client {
            OpenedBy::Engine(client) => client,
            OpenedBy::Application(object) => object,
        }
    }
}

impl std::ops::DerefMut for Conn {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        match &mut self.client {
            OpenedBy::Engine(client) => client,
            OpenedBy::Application(object) => object,
        }
    }
}
