//! A TCP proxy that breaks on demand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::seeded_random::Chance;

/// The present state of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Fine,
    /// Every byte is delayed this long.
    Slow(Duration),
    /// Connections stay open, and no byte passes, as with a pulled cable.
    Stalled,
    /// Connections are cut, and new ones are refused.
    Down,
}

/// What gets lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Request,
    Answer,
}

/// Stands between a client and a server.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// The servers, to which connections go in turn.
    upstreams: std::sync::Mutex<Vec<String>>,
    accepted: AtomicUsize,
    /// Connections that were refused.
    refused: AtomicUsize,
    weather: watch::Sender<Weather>,
    /// Incremented to cut all open connections.
    cuts: watch::Sender<u64>,
    /// The text that triggers the loss when a client sends it, and what gets lost.
    swallow: std::sync::Mutex<Option<(Vec<u8>, Lost)>>,
    swallowed: AtomicUsize,
    /// One answer in so many gets lost with its connection.
    losing: std::sync::Mutex<Option<(Chance, usize)>>,
    lost: AtomicUsize,
    /// Connections that the server closed first.
    ended_by_server: AtomicUsize,
}

impl Proxy {
    pub(crate) async fn start(upstream: impl Into<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            upstreams: std::sync::Mutex::new(vec![upstream.into()]),
            accepted: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            weather: watch::Sender::new(Weather::Fine),
            cuts: watch::Sender::new(0),
            swallow: std::sync::Mutex::default(),
            swallowed: AtomicUsize::new(0),
            losing: std::sync::Mutex::default(),
            lost: AtomicUsize::new(0),
            ended_by_server: AtomicUsize::new(0),
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Self { address, shared, task }
    }

    /// Sends new connections to these servers, in turn; open connections stay where they are.
    pub(crate) fn point_at(&self, upstreams: &[String]) {
        *self.shared.upstreams.lock().unwrap() = upstreams.to_vec();
    }

    /// Cuts every connection and refuses new ones.
    pub(crate) fn down(&self) {
        self.shared.weather.send_replace(Weather::Down);
        self.cut();
    }

    /// Lets no byte pass in either direction, and keeps connections open.
    pub(crate) fn stall(&self) {
        self.shared.weather.send_replace(Weather::Stalled);
    }

    /// Delays all bytes.
    pub(crate) fn slow(&self, delay: Duration) {
        self.shared.weather.send_replace(Weather::Slow(delay));
    }

    /// Restores the network; delayed and blocked bytes pass.
    pub(crate) fn heal(&self) {
        self.shared.weather.send_replace(Weather::Fine);
    }

    /// Cuts every connection that is open now.
    pub(crate) fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Loses the answer to the next thing a client sends that contains `text`: that reaches the server, but nothing the server then sends to that
    /// client passes. The connection stays open. Works once.
    pub(crate) fn swallow_answer_to(&self, text: &str) {
        *self.shared.swallow.lock().unwrap() = Some((text.as_bytes().to_vec(), Lost::Answer));
    }

    /// Loses the next thing a client sends that contains `text`: it does not reach the server, and the connection is cut. Works once.
    pub(crate) fn swallow(&self, text: &str) {
        *self.shared.swallow.lock().unwrap() = Some((text.as_bytes().to_vec(), Lost::Request));
    }

    /// Loses one answer in `one_in`, chosen at random, and cuts the connection that it was to come over.
    pub(crate) fn lose_answers(&self, one_in: usize, seed: u64) {
        *self.shared.losing.lock().unwrap() = Some((Chance::new(seed), one_in));
    }

    /// Loses no more answers at random. Returns how many were lost.
    pub(crate) fn lose_no_more(&self) -> usize {
        *self.shared.losing.lock().unwrap() = None;
        self.shared.lost.load(Ordering::SeqCst)
    }

    /// Returns how many connections lost their answers.
    pub(crate) fn swallowed(&self) -> usize {
        self.shared.swallowed.load(Ordering::SeqCst)
    }

    /// Returns how many connections were refused while the network was down.
    pub(crate) fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::SeqCst)
    }

    /// Returns how many connections the server closed first.
    pub(crate) fn ended_by_server(&self) -> usize {
        self.shared.ended_by_server.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        // A port that was closed may not be available again, so refusing means accepting and hanging up.
        if *shared.weather.borrow() == Weather::Down {
            shared.refused.fetch_add(1, Ordering::SeqCst);
        } else {
            tokio::spawn(connection(client, shared.clone()));
        }
    }
}

async fn connection(client: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    cuts.mark_unchanged();
    let upstream = {
        let upstreams = shared.upstreams.lock().unwrap();
        upstreams[shared.accepted.fetch_add(1, Ordering::SeqCst) % upstreams.len()].clone()
    };
    let Ok(server) = TcpStream::connect(&upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mute = Arc::new(AtomicBool::new(false));
    tokio::select! {
        () = copy(from_client, to_server, &shared, &mute, true) => {}
        () = copy(from_server, to_client, &shared, &mute, false) => {
            shared.ended_by_server.fetch_add(1, Ordering::SeqCst);
        }
        _ = cuts.changed() => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, mute: &AtomicBool, upwards: bool) {
    let mut weather = shared.weather.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        if upwards {
            let mut swallow = shared.swallow.lock().unwrap();
            if let Some((text, lost)) = swallow.as_ref()
                && buffer[..read].windows(text.len()).any(|part| part == text)
            {
                let dropped = *lost == Lost::Request;
                *swallow = None;
                mute.store(true, Ordering::SeqCst);
                shared.swallowed.fetch_add(1, Ordering::SeqCst);
                if dropped {
                    return;
                }
            }
        } else if mute.load(Ordering::SeqCst) {
            continue;
        } else if let Some((chance, one_in)) = shared.losing.lock().unwrap().as_mut()
            && chance.below(*one_in) == 0
        {
            shared.lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let passing = weather.wait_for(|weather| *weather != Weather::Stalled).await.map(|weather| *weather);
        match passing {
            Ok(Weather::Slow(delay)) => tokio::time::sleep(delay).await,
            Ok(Weather::Fine | Weather::Stalled) => {}
            // Nothing passes on one connection after another one was cut.
            Ok(Weather::Down) | Err(_) => return,
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
