//! An HTTP server that keeps its connections, counts them, and can be stopped and started.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What it does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Answers with this status and a short text, and keeps the connection.
    Answer(u16),
    /// Reads the whole request, and closes the connection without an answer.
    Hang,
    /// Closes the connection without reading from it.
    Close,
}

/// An address of this machine that no other test uses, for a server that is down.
pub(crate) fn free_address() -> SocketAddr {
    let random = jobwright::JobId::new().as_uuid().into_bytes();
    let ip = [127, random[13] | 1, random[14], random[15] | 1];
    TcpListener::bind(SocketAddr::from((ip, 0))).unwrap().local_addr().unwrap()
}

pub(crate) struct HttpServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    /// The headers of all requests, with names in lower case.
    requests: Mutex<Vec<HashMap<String, String>>>,
    /// The connections, and whether the server stops.
    connections: Mutex<(Vec<TcpStream>, bool)>,
}

impl HttpServer {
    pub(crate) fn start(manner: Manner) -> Self {
        Self::start_at(free_address(), manner)
    }

    pub(crate) fn start_at(address: SocketAddr, manner: Manner) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let seen = Arc::<Seen>::default();
        let heard = seen.clone();
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut connections = heard.connections.lock().unwrap();
                if connections.1 {
                    return;
                }
                connections.0.push(stream.try_clone().unwrap());
                drop(connections);
                let heard = heard.clone();
                std::thread::spawn(move || serve(&stream, &heard, manner));
            }
        });
        Self { address, seen, accepting: Some(accepting) }
    }

    /// Returns how many connections it has accepted.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.lock().unwrap().0.len()
    }

    /// Returns a header of each request.
    pub(crate) fn header(&self, name: &str) -> Vec<String> {
        self.seen.requests.lock().unwrap().iter().map(|headers| headers[name].clone()).collect()
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.requests.lock().unwrap().len()
    }

    /// Closes all connections, as a server does with idle ones.
    pub(crate) fn close_connections(&self) {
        for stream in &self.seen.connections.lock().unwrap().0 {
            // Some are closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Stops it. Its address is free then.
impl Drop for HttpServer {
    fn drop(&mut self) {
        self.close_connections();
        self.seen.connections.lock().unwrap().1 = true;
        // So that it sees that.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let ended = accepting.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// Answers requests until the connection ends.
fn serve(stream: &TcpStream, seen: &Seen, manner: Manner) {
    let mut reader = BufReader::new(stream);
    loop {
        if manner == Manner::Close {
            break;
        }
        let mut line = String::new();
        if !matches!(reader.read_line(&mut line), Ok(1..)) {
            return;
        }
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).is_err() {
                return;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        if reader.read_exact(&mut vec![0; length]).is_err() {
            return;
        }
        seen.requests.lock().unwrap().push(headers);
        let Manner::Answer(status) = manner else { break };
        let mut stream = stream;
        if write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 4\r\n\r\nokay").is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}
