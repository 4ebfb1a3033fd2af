//! Where something listens.

use std::str::FromStr;

/// Where something listens: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Returns it as `host:port`.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns the address at which a client on this host reaches what listens there.
    pub(crate) fn reached(&self) -> String {
        let host = match self.host.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "[::]" => "[::1]",
            host => host,
        };
        format!("{host}:{}", self.port)
    }
}

impl FromStr for Address {
    type Err = String;

    /// Reads `9469`, which is on the loopback interface, or `HOST:9469`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            "use a port, such as 9469, for the loopback interface, or an address, such as 0.0.0.0:9469 for all interfaces"
                .to_owned()
        };
        let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
        if port.is_empty() || !port.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(wanted());
        }
        let port: u16 = port.parse().map_err(|_| wanted())?;
        let is_bare_ip6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || host == "[]" || is_bare_ip6 || host.contains(['/', ' ', '@']) {
            return Err(wanted());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_not_open_to_others() {
        let text = |text: &str| text.parse::<Address>().map(|address| address.text());
        assert_eq!(text("9469").unwrap(), "127.0.0.1:9469");
        assert_eq!(text("0.0.0.0:9469").unwrap(), "0.0.0.0:9469");
        assert_eq!(text("[::]:9469").unwrap(), "[::]:9469");
        assert_eq!(text("metrics.internal:80").unwrap(), "metrics.internal:80");
        for wrong in [
            "",
            ":9469",
            "70000",
            "-1",
            "host:",
            "host",
            "::1:9469",
            "http://host:9469",
            "a b:1",
            "u@h:1",
            "+9469",
            "[]:1",
        ] {
            assert!(text(wrong).unwrap_err().contains("0.0.0.0:9469"), "{wrong}");
        }
        let reached = |text: &str| text.parse::<Address>().unwrap().reached();
        assert_eq!([reached("0.0.0.0:1"), reached("[::]:1"), reached("h:1")], ["127.0.0.1:1", "[::1]:1", "h:1"]);
    }
}
