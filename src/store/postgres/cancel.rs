//! Asking a server to stop a statement.
//!
//! A request to cancel goes by a connection of its own, which the server closes when it has read the request and passed it on. libpq waits
//! for that (`PQcancel`), and so does this. The driver hangs up as soon as the request is written, and `PgBouncer` before 1.19.1 does not
//! survive it: if it has forwarded the request and its client is gone when the server's answer comes, it ends itself and every
//! connection it serves (its issue 801; Debian 12 has 1.18).
//!
//! What may be committing is never cancelled: it would then stand, on this server alone if it waits for a synchronous standby.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::Place;

/// All of it: the connection, and the server's good-bye.
const DEADLINE: Duration = Duration::from_secs(5);

/// Asks the server that the connection went to. Best effort: its own `statement_timeout` ends the statement anyway.
pub(super) async fn cancel(token: CancelToken, place: Place, tls: MakeRustlsConnect) {
    let _ = timeout(DEADLINE, request(token, place, tls)).await;
}

async fn request(
    token: CancelToken,
    place: Place,
    mut tls: MakeRustlsConnect,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match place {
        Place::Unix(folder, port) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            token.cancel_query_raw(Patient(UnixStream::connect(path).await?), NoTls).await?;
        }
        Place::Tcp { address, name } => {
            let stream = TcpStream::connect(address).await?;
            let tls = MakeTlsConnect::<Patient<TcpStream>>::make_tls_connect(&mut tls, &name)?;
            token.cancel_query_raw(Patient(stream), PatientTls(tls)).await?;
        }
    }
    Ok(())
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
