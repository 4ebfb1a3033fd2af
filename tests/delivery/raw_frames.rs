//! A client that writes AMQP frames itself, for messages that no client library would send.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);
/// Frame types.
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

pub(crate) struct Raw {
    stream: TcpStream,
}

impl Raw {
    /// Connects with the credentials and the vhost of this URL, and opens a channel with confirms.
    pub(crate) async fn connect(url: &str) -> Self {
        let (_, rest) = url.split_once("://").unwrap();
        let (authority, vhost) = rest.split_once('/').unwrap();
        let (credentials, address) = authority.rsplit_once('@').unwrap();
        let (user, password) = credentials.split_once(':').unwrap();
        let vhost = vhost.replace("%2f", "/").replace("%2F", "/");
        let mut raw = Self { stream: TcpStream::connect(address).await.unwrap() };
        raw.stream.write_all(b"AMQP\x00\x00\x09\x01").await.unwrap();
        raw.answer(10, 10).await;
        let plain = format!("\0{user}\0{password}");
        let start = [&[0; 4][..], &short("PLAIN"), &long(plain.as_bytes()), &short("en_US")].concat();
        raw.method(0, 10, 11, &start).await;
        let tune = raw.answer(10, 30).await;
        // The same limits, and no heartbeats.
        raw.method(0, 10, 31, &[&tune[..6], &[0, 0]].concat()).await;
        raw.method(0, 10, 40, &[&short(&vhost)[..], &[0, 0]].concat()).await;
        raw.answer(10, 41).await;
        raw.method(1, 20, 10, &[0]).await;
        raw.answer(20, 11).await;
        raw.method(1, 85, 10, &[0]).await;
        raw.answer(85, 11).await;
        raw
    }

    /// Publishes a JSON body with one header, whose value is given in AMQP encoding, and waits for the confirm.
    pub(crate) async fn publish(&mut self, queue: &str, id: &str, kind: &str, header: (&str, &[u8]), body: &[u8]) {
        self.method(1, 60, 40, &[&[0, 0][..], &short(""), &short(queue), &[0]].concat()).await;
        let table = [&short(header.0)[..], header.1].concat();
        let content = [
            &60_u16.to_be_bytes()[..],
            &[0, 0],
            &(body.len() as u64).to_be_bytes(),
            // Content type, headers, message id, type.
            &0b1010_0000_1010_0000_u16.to_be_bytes(),
            &short("application/json"),
            &long(&table),
            &short(id),
            &short(kind),
        ]
        .concat();
        self.frame(HEADER, 1, &content).await;
        self.frame(BODY, 1, body).await;
        self.answer(60, 80).await;
    }

    async fn method(&mut self, channel: u16, class: u16, method: u16, arguments: &[u8]) {
        let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat();
        self.frame(METHOD, channel, &payload).await;
    }

    async fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let size = u32::try_from(payload.len()).unwrap();
        let frame = [&[kind][..], &channel.to_be_bytes(), &size.to_be_bytes(), payload, &[0xce]].concat();
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Returns the arguments of the broker's next method, which has to be this one.
    async fn answer(&mut self, class: u16, method: u16) -> Vec<u8> {
        timeout(PATIENCE, async {
            loop {
                let mut head = [0; 7];
                self.stream.read_exact(&mut head).await.unwrap();
                let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
                let mut payload = vec![0; size as usize + 1];
                self.stream.read_exact(&mut payload).await.unwrap();
                if head[0] == HEARTBEAT {
                    continue;
                }
                let said = (u16::from_be_bytes([payload[0], payload[1]]), u16::from_be_bytes([payload[2], payload[3]]));
                assert_eq!(said, (class, method), "{}", String::from_utf8_lossy(&payload));
                return payload[4..payload.len() - 1].to_vec();
            }
        })
        .await
        .unwrap()
    }
}

fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// Nests arrays to this many levels: `A`, the length of the content, and the content.
pub(crate) fn nested(levels: usize) -> Vec<u8> {
    let inside = |level: usize| u32::try_from((levels - 1 - level) * 5).unwrap().to_be_bytes();
    (0..levels).flat_map(|level| [&[b'A'][..], &inside(level)].concat()).collect()
}
