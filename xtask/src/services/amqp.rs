//! Checks whether an AMQP broker answers, without an AMQP client.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use super::url::Url;
use crate::run::Result;

const DEADLINE: Duration = Duration::from_secs(2);

/// Sends the protocol header, which a broker answers with `Connection.Start`, a method frame. Whether it accepts this user is left to the tests. Over
/// TLS only the connection is tried.
pub(super) fn answers(url: &Url) -> Result<()> {
    let tls = match url.scheme.as_str() {
        "amqp" => false,
        "amqps" => true,
        other => return Err(format!("`{other}` is not amqp or amqps")),
    };
    let port = url.port.unwrap_or(if tls { 5671 } else { 5672 });
    let mut stream = connect(&url.host, port)?;
    if tls {
        return Ok(());
    }
    let problem =
        |why: std::io::Error| format!("no AMQP broker speaks on {}:{port} within {DEADLINE:?}: {why}", url.host);
    stream.set_read_timeout(Some(DEADLINE)).map_err(problem)?;
    stream.set_write_timeout(Some(DEADLINE)).map_err(problem)?;
    stream.write_all(b"AMQP\x00\x00\x09\x01").map_err(problem)?;
    let mut first = [0];
    stream.read_exact(&mut first).map_err(problem)?;
    match first {
        [1] => Ok(()),
        [b'A'] => Err(format!("{}:{port} speaks AMQP, but not version 0-9-1", url.host)),
        _ => Err(format!("what listens on {}:{port} does not speak AMQP", url.host)),
    }
}

fn connect(host: &str, port: u16) -> Result<TcpStream> {
    let addresses = (host, port).to_socket_addrs().map_err(|why| format!("{host} has no address: {why}"))?;
    let end = Instant::now() + DEADLINE;
    let mut last = format!("{host} has no address");
    for address in addresses {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = format!("cannot connect to {address}: {why}"),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn listener() -> (TcpListener, Url) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("amqp://guest:guest@{}", listener.local_addr().unwrap());
        (listener, Url::parse(&url).unwrap())
    }

    #[test]
    fn a_server_that_says_nothing_is_no_broker() {
        let (_listener, url) = listener();
        let begin = Instant::now();
        assert!(answers(&url).is_err());
        assert!(begin.elapsed() < DEADLINE * 3);
    }

    #[test]
    fn the_first_byte_tells() {
        for (byte, expected) in [(1, true), (b'A', false), (b'H', false)] {
            let (listener, url) = listener();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut header = [0; 8];
                stream.read_exact(&mut header).unwrap();
                stream.write_all(&[byte]).unwrap();
            });
            assert_eq!(answers(&url).is_ok(), expected, "{byte}");
            server.join().unwrap();
        }
    }
}
