//! The broker's version, which it sends in its greeting.

use std::time::Duration;

use jobwright::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use ureq::http::Uri;

use super::Finding;

const CHECK: &str = "broker version";
/// The port of AMQP without TLS.
const PORT: u16 = 5672;
const DEADLINE: Duration = Duration::from_secs(5);
/// Longer than any greeting.
const GREETING: usize = 64 * 1024;
const OLDEST: (u32, u32) = (3, 10);

pub(super) async fn check(url: &Secret) -> Finding {
    // The first of several.
    let first = url.expose().split(',').next().unwrap_or_default();
    let Some(uri) = first.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("amqp")) else {
        return Finding::ok(CHECK, "not asked over TLS; it must be RabbitMQ 3.10 or newer");
    };
    let place = (uri.host().unwrap_or("localhost").trim_matches(['[', ']']).to_owned(), uri.port_u16().unwrap_or(PORT));
    let greeting = tokio::time::timeout(DEADLINE, greet(place)).await;
    let Some(version) = greeting.ok().and_then(Result::ok).as_deref().and_then(version) else {
        return Finding::warn(CHECK, "the broker did not tell its version", "it must be RabbitMQ 3.10 or newer");
    };
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = format!("RabbitMQ {version}");
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => {
            Finding::fail(CHECK, found, "upgrade the broker to 3.10 or newer")
        }
        _ => Finding::ok(CHECK, found),
    }
}

/// Reads the first frame of a broker: `Connection.Start`.
async fn greet(place: (String, u16)) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((place.0.as_str(), place.1)).await?;
    stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
    // Type, channel and size.
    let mut head = [0; 7];
    stream.read_exact(&mut head).await?;
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    let mut frame = vec![0; size.min(GREETING)];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

/// Finds the entry `version` of the server's properties: a long string.
fn version(greeting: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\x07versionS";
    let at = greeting.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let size = u32::from_be_bytes(greeting.get(at..at + 4)?.try_into().ok()?) as usize;
    let text = greeting.get(at + 4..at + 4 + size)?;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_is_found_in_a_greeting() {
        let greeting = b"\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x20\x07productS\x00\x00\x00\x08RabbitMQ\x07versionS\x00\x00\x00\x063.10.8...";
        assert_eq!(version(greeting).unwrap(), "3.10.8");
        assert_eq!(version(b"\x07versionS\x00\x00\x00\x063.1"), None);
        assert_eq!(version(b""), None);
    }
}
