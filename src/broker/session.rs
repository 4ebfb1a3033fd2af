//! One AMQP connection, on a socket that can be shut down from outside.

use std::io;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::tcp::RustlsConnector;
use lapin::uri::AMQPUri;
use lapin::{AsyncTcpStream, Channel, Connection, ConnectionProperties};
use tokio::net::TcpStream;

use super::address::Address;
use super::failure::{CLOSING, Failure, within};

/// A connection, from its start to its end: it does not recover.
pub(super) struct Session {
    /// Its number, unique over the life of the program.
    pub(super) number: u64,
    connection: Connection,
    plug: Plug,
    rpc: Duration,
}

impl Session {
    /// Connects within the address's time bound. A failed attempt leaves nothing behind.
    pub(super) async fn connect(address: &Address, name: &str, number: u64, rpc: Duration) -> Result<Self, Failure> {
        let deadline = address.bound;
        let plug = Plug::default();
        // The client's I/O thread waits for a silent peer for ever, even when the connection is no longer wanted. It ends when its socket
        // ends. So giving up pulls the plug, also when this future is dropped.
        let mut guard = Pull(Some(plug.clone()));
        let runtime = lapin::runtime::default_runtime()?;
        let tls = address.tls.clone();
        let server_name = address.server_name.clone();
        let socket = plug.clone();
        let connector = Connection::connector(
            address.uri.clone(),
            runtime,
            async move |uri: AMQPUri, runtime| {
                let wire = async {
                    let host = uri.authority.host.as_str();
                    // The first address of the name that answers.
                    let mut stream = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
                    for address in tokio::net::lookup_host((host, uri.authority.port)).await? {
                        stream = AsyncTcpStream::connect(&runtime, address).await;
                        if stream.is_ok() {
                            break;
                        }
                    }
                    let stream = stream?;
                    if let AsyncTcpStream::Plain(stream) = &stream {
                        socket.put(stream.get_ref())?;
                    }
                    let verified = server_name.as_deref().unwrap_or(host);
                    match &tls {
                        Some(tls) => {
                            stream.into_rustls(&RustlsConnector::from(tls.clone()), verified).await.map_err(|e| {
                                io::Error::new(e.kind(), format!("TLS failed: {e} (is this port one for TLS?)"))
                            })
                        }
                        None => Ok(stream),
                    }
                };
                let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {deadline:?}"));
                Ok(tokio::time::timeout(deadline, wire).await.map_err(|_| late()).flatten()?)
            },
            ConnectionProperties::default().with_connection_name(name.into()),
        );
        let connection = within(deadline, connector).await?;
        guard.0 = None;
        Ok(Self { number, connection, plug, rpc })
    }

    /// Opens a new channel.
    pub(super) async fn channel(&self) -> Result<Channel, Failure> {
        within(self.rpc, self.connection.create_channel()).await
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Closes the connection, gracefully if the peer cooperates.
    pub(super) async fn close(&self) {
        if self.connection.status().connected() {
            let _ = within(CLOSING, self.connection.close(200, "OK".into())).await;
        }
        self.plug.pull();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.plug.pull();
    }
}

/// A second handle to a connection's socket, to end it from outside.
#[derive(Clone, Default)]
struct Plug(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    socket: Option<std::net::TcpStream>,
    pulled: bool,
}

impl Plug {
    fn put(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pulled {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "given up"));
        }
        #[cfg(unix)]
        let copy = std::os::fd::AsFd::as_fd(stream).try_clone_to_owned()?;
        #[cfg(windows)]
        let copy = std::os::windows::io::AsSocket::as_socket(stream).try_clone_to_owned()?;
        state.socket = Some(copy.into());
        Ok(())
    }

    fn pull(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.pulled = true;
        if let Some(socket) = state.socket.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Pulls the plug when dropped.
struct Pull(Option<Plug>);

impl Drop for Pull {
    fn drop(&mut self) {
        if let Some(plug) = &self.0 {
            plug.pull();
        }
    }
}
