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
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::config::{Config, Host};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::Target;

/// All of it: lookups of names, connections, and the servers' good-byes.
const DEADLINE: Duration = Duration::from_secs(5);

/// Asks wherever the connection may have gone to: the request names a process and its secret, so only that server heeds it.
/// Best effort: the server's own `statement_timeout` ends the statement anyway.
pub(super) async fn cancel(token: CancelToken, target: Target) {
    let all = async {
        let mut requests = JoinSet::new();
        for place in places(&target.config).await {
            requests.spawn(request(token.clone(), place, target.tls.clone()));
        }
        while requests.join_next().await.is_some() {}
    };
    let _ = timeout(DEADLINE, all).await;
}

async fn request(
    token: CancelToken,
    place: Place,
    mut tls: MakeRustlsConnect,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match place {
        Place::Unix(path) => token.cancel_query_raw(Patient(UnixStream::connect(path).await?), NoTls).await?,
        Place::Tcp { address, name } => {
            let stream = TcpStream::connect(address).await?;
            let tls = MakeTlsConnect::<Patient<TcpStream>>::make_tls_connect(&mut tls, &name)?;
            token.cancel_query_raw(Patient(stream), PatientTls(tls)).await?;
        }
    }
    Ok(())
}

/// Where a server may be.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Unix(PathBuf),
    Tcp { address: SocketAddr, name: String },
}

/// All addresses of all hosts.
async fn places(config: &Config) -> Vec<Place> {
    let ports = config.get_ports();
    let mut places = Vec::new();
    for (n, host) in config.get_hosts().iter().enumerate() {
        let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
        match (host, config.get_hostaddrs().get(n)) {
            (Host::Unix(folder), _) => places.push(Place::Unix(folder.join(format!(".s.PGSQL.{port}")))),
            (Host::Tcp(name), Some(ip)) => {
                places.push(Place::Tcp { address: SocketAddr::new(*ip, port), name: name.clone() });
            }
            (Host::Tcp(name), None) => {
                let found = lookup_host((name.as_str(), port)).await.into_iter().flatten();
                places.extend(found.map(|address| Place::Tcp { address, name: name.clone() }));
            }
        }
    }
    places
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_host_of_the_url_is_asked() {
        let tcp = |address: &str, name: &str| Place::Tcp { address: address.parse().unwrap(), name: name.to_owned() };
        let config: Config = "postgres://u@127.0.0.1:7001,[::1]:7002,%2Fvar%2Frun:7003/d".parse().unwrap();
        let expected = [
            tcp("127.0.0.1:7001", "127.0.0.1"),
            tcp("[::1]:7002", "::1"),
            Place::Unix(PathBuf::from("/var/run/.s.PGSQL.7003")),
        ];
        assert_eq!(places(&config).await, expected);
        // One port for all, and addresses that are given are not looked up.
        let config: Config = "host=a.example,b.example hostaddr=10.0.0.1,10.0.0.2 port=7004".parse().unwrap();
        assert_eq!(places(&config).await, [tcp("10.0.0.1:7004", "a.example"), tcp("10.0.0.2:7004", "b.example")]);
    }
}
