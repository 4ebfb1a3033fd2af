//! Asking a server to stop a statement.
//!
//! A request to cancel goes by a connection of its own, which the server closes when it has read the request and passed it on. libpq waits
//! for that (`PQcancel`), and so does this. The driver hangs up as soon as the request is written, and `PgBouncer` before 1.19.1 does not
//! survive it: if it has forwarded the request and its client is gone when the server's answer comes, it ends itself and every
//! connection it serves (its issue 801; Debian 12 has 1.18).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, NoTls};

use super::connect::Target;

/// All of it: a lookup of the name, the connection, and the server's good-bye.
const DEADLINE: Duration = Duration::from_secs(5);

/// Best effort: the server's own `statement_timeout` ends the statement anyway.
pub(super) async fn cancel(token: &CancelToken, target: &Target) {
    let _ = timeout(DEADLINE, request(token, target)).await;
}

async fn request(token: &CancelToken, target: &Target) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match only_place(&target.config).await {
        Some(Place::Unix(path)) => {
            token.cancel_query_raw(Patient(UnixStream::connect(path).await?), NoTls).await?;
        }
        Some(Place::Tcp { address, name }) => {
            let stream = TcpStream::connect(address).await?;
            let mut make = target.tls.clone();
            let tls = MakeTlsConnect::<Patient<TcpStream>>::make_tls_connect(&mut make, &name)?;
            token.cancel_query_raw(Patient(stream), PatientTls(tls)).await?;
        }
        // Only the driver knows which of them the connection went to.
        None => token.cancel_query(target.tls.clone()).await?,
    }
    Ok(())
}

/// Where a server is.
enum Place {
    Unix(PathBuf),
    Tcp { address: SocketAddr, name: String },
}

/// `None`: there are several, and a request has to go where the statement runs.
async fn only_place(config: &tokio_postgres::Config) -> Option<Place> {
    let [host] = config.get_hosts() else { return None };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let name = match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => return Some(Place::Unix(folder.join(format!(".s.PGSQL.{port}")))),
    };
    let addresses: Vec<SocketAddr> = match config.get_hostaddrs() {
        [] => lookup_host((name.as_str(), port)).await.ok()?.collect(),
        given => given.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
    };
    let [address] = addresses[..] else { return None };
    Some(Place::Tcp { address, name })
}

/// A stream whose shutting down waits for the other side to do it first.
struct Patient<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut room = [0; 64];
            let mut buffer = ReadBuf::new(&mut room);
            // Cut off is hung up, too.
            if ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer)).is_err() || buffer.filled().is_empty() {
                return Pin::new(&mut self.0).poll_shutdown(cx);
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Patient<S> {
    /// A request to cancel proves nobody's identity.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// The same above TLS, which would say good-bye in its own way first.
struct PatientTls<T>(T);

impl<S, T> TlsConnect<S> for PatientTls<T>
where
    T: TlsConnect<S>,
    T::Future: Send + 'static,
{
    type Stream = Patient<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, T::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connected = self.0.connect(stream);
        Box::pin(async { connected.await.map(Patient) })
    }
}
