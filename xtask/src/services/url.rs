//! As much of URLs as is needed to check whether a server answers, and to hide its password.

use crate::run::Result;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Url {
    text: String,
    pub(super) scheme: String,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// With its leading slash.
    path: String,
    query: String,
}

impl Url {
    /// Parses a URL. An error never quotes the text, because it may hold a password.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) =
            text.split_once("://").ok_or("this is not of the form scheme://user:password@host:port/name")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (who, place) = match authority.rsplit_once('@') {
            Some((who, place)) => (Some(who), place),
            None => (None, authority),
        };
        let (user, password) =
            match who.map(|who| who.split_once(':').map_or((who, None), |(user, password)| (user, Some(password)))) {
                Some((user, password)) => (Some(decoded(user)), password.map(decoded)),
                None => (None, None),
            };
        // The colons of an IPv6 address are inside brackets.
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port
                    .parse()
                    .map_err(|_| format!("`{port}` is not a port (a list of hosts is not supported here)"))?;
                (host, Some(port))
            }
            _ => (place, None),
        };
        Ok(Self {
            text: text.to_owned(),
            scheme: scheme.to_owned(),
            user,
            password,
            host: decoded(host.trim_start_matches('[').trim_end_matches(']')),
            port,
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns it for people, without the password.
    pub(super) fn redacted(&self) -> String {
        self.with_secret(if self.password.is_some() { ":***" } else { "" })
    }

    /// Returns it for a command line, which every user of the machine can read; the password is passed in another way.
    pub(super) fn without_password(&self) -> String {
        self.with_secret("")
    }

    fn with_secret(&self, secret: &str) -> String {
        let Some((scheme, rest)) = self.text.split_once("://") else {
            return String::new();
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, mut tail) = rest.split_at(end);
        // libpq takes passwords as parameters too.
        if self.query.contains("password") {
            tail = tail.split_once('?').map_or(tail, |(path, _)| path);
        }
        match authority.rsplit_once('@') {
            Some((who, place)) => {
                let user = who.split_once(':').map_or(who, |(user, _)| user);
                format!("{scheme}://{user}{secret}@{place}{tail}")
            }
            None => format!("{scheme}://{authority}{tail}"),
        }
    }

    /// Returns a parameter after the question mark.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| decoded(value))
    }

    /// Returns the same user and database at another place, where no password is required.
    pub(super) fn at(&self, host: &str, port: u16) -> Result<Self> {
        let user = self.user.as_deref().map(|user| format!("{}@", encoded(user)));
        Self::parse(&format!("{}://{}{host}:{port}{}", self.scheme, user.unwrap_or_default(), self.path))
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                bytes.push(hex(*high).unwrap_or_default() * 16 + hex(*low).unwrap_or_default());
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_found() {
        let url = Url::parse("postgres://jo%40n:p%3Aw@[::1]:5433/shop?sslmode=require").unwrap();
        assert_eq!(url.user.as_deref(), Some("jo@n"));
        assert_eq!(url.password.as_deref(), Some("p:w"));
        assert_eq!((url.host.as_str(), url.port), ("::1", Some(5433)));
        assert_eq!(url.parameter("sslmode").as_deref(), Some("require"));
        assert_eq!(url.at("127.0.0.1", 6432).unwrap().as_str(), "postgres://jo%40n@127.0.0.1:6432/shop");
    }

    #[test]
    fn little_is_enough() {
        let url = Url::parse("amqp://localhost").unwrap();
        assert_eq!((url.user.as_deref(), url.port, url.host.as_str()), (None, None, "localhost"));
        assert_eq!(url.redacted(), "amqp://localhost");
    }

    #[test]
    fn passwords_do_not_show() {
        for text in [
            "postgres://a:s3cret@h:1/d?x=y",
            "postgres://a:s3@cret@h/d",
            "postgres://h/d?password=s3cret",
            "amqp://a:s3cret@h",
        ] {
            let url = Url::parse(text).unwrap();
            for shown in [url.redacted(), url.without_password()] {
                assert!(!shown.contains("s3") && !shown.contains("cret"), "{shown}");
            }
        }
        assert_eq!(Url::parse("postgres://a:b@h:1/d").unwrap().redacted(), "postgres://a:***@h:1/d");
        assert!(Url::parse("postgres://a:s3cret@h:port/d").is_err_and(|why| !why.contains("s3")));
    }
}
