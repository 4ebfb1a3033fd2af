//! Ports for servers that a test starts.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;

/// Where the ports begin that the system gives to connections, unless it says another place.
const CONNECTIONS_FROM: u16 = 32_768;
/// Below are those of well-known servers.
const FIRST: u16 = 10_000;

/// Returns a port at which nothing listens.
///
/// It is below the ports that the system gives to connections, where it has any there: one of those may be gone before the server listens, taken by a
/// connection of another test, or by one of those that ask whether the server is up.
pub(crate) fn free_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let from = range.split_whitespace().next().and_then(|from| from.parse().ok()).unwrap_or(CONNECTIONS_FROM);
    let ports = from.saturating_sub(FIRST);
    if ports < 1_000 {
        return TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    }
    loop {
        let port = FIRST + u16::try_from(RandomState::new().build_hasher().finish() % u64::from(ports)).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
