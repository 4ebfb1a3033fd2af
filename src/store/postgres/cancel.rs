//! Asks a server to cancel a statement.
//!
//! A cancel request travels over its own connection, which the server closes once it has read and forwarded the request. libpq waits for
//! that (`PQcancel`), and so does this module. The driver hangs up as soon as the request is written, which `PgBouncer` before 1.19.1 does
//! not survive: if its client is gone when the server's answer to the forwarded request arrives, the pooler exits and drops every
//! connection it serves (its issue 801; Debian 12 ships 1.18).
//!
//! A statement that may be committing is never cancelled. Cancelling its wait for a synchronous standby would leave the commit on this
//! server alone.

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

use super::conn::Endpoint;

/// Covers everything: connecting, sending the request, and waiting for the server to close.
const DEADLINE: Duration = Duration::from_secs(5);

/// Asks the server behind `endpoint` to cancel. This is best effort: on connections of the engine the server's `statement_timeout` ends the
/// statement anyway. `None`: the connection is one of the application's pool, and the driver knows its server. The TLS is that of the engine's URL.
pub(super) async fn cancel(token: CancelToken, endpoint: Option<Endpoint>, tls: MakeRustlsConnect) {
    let _ = timeout(DEADLINE, request(token, endpoint, tls)).await;
}

async fn request(
    token: CancelToken,
    endpoint: Option<Endpoint>,
    mut tls: MakeRustlsConnect,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some(endpoint) = endpoint else { return Ok(token.cancel_query(tls).await?) };
    match endpoint {
        Endpoint::Unix(folder, port) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            token.cancel_query_raw(Patient(UnixStream::connect(path).await?), NoTls).await?;
        }
        Endpoint::Tcp { address, name } => {
            let stream = TcpStream::connect(address).await?;
            let tls = MakeTlsConnect::<Patient<TcpStream>>::make_tls_connect(&mut tls, &name)?;
            token.cancel_query_raw(Patient(stream), PatientTls(tls)).await?;
        }
    }
    Ok(())
}

/// A stream whose shutdown waits for the peer to close first.
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
            // A connection that breaks counts as closed, too.
            if ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer)).is_err() || buffer.filled().is_empty() {
                return Pin::new(&mut self.0).poll_shutdown(cx);
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Patient<S> {
    /// A cancel request authenticates no one, so there is nothing to bind.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// The same above TLS, whose own shutdown would otherwise close first.
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
