//! Several servers, and servers that require more than a name: failover, silence, crashes, TLS, synchronous standbys.

mod brokers;
mod commits;
mod crashes;
mod hosts;
mod pooling;
mod refusals;
mod tls;

use std::net::SocketAddr;

use tokio::net::TcpListener;

/// Accepts connections, and never answers.
struct Silent {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Silent {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                kept.push(stream);
            }
        });
        Self { address, task }
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns an address where nothing listens.
async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}
