//! Texts that are not shown: passwords, and URLs that contain them.

use std::fmt;

use serde::Deserialize;

use super::url;

/// A text that is never shown in full. Of a URL, only the harmless parts are shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns hosts, ports and the name of the database or vhost if the text is a readable URL, and no part of it otherwise.
    pub fn redacted(&self) -> String {
        url::redacted(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_show_no_password() {
        for (url, shown) in [
            ("postgres://u:p%40ss@host:5432/db?sslmode=require&password=x", "postgres://host:5432/db"),
            ("postgres://u:p@ss/word@host/db", "postgres://(unreadable)"),
            ("postgres://postgres:SEKRIT?x@host/db", "postgres://(unreadable)"),
            ("postgres://host/db", "postgres://host/db"),
            ("amqp://u:p@a:1/v,amqps://u:q@b/w", "amqp://a:1/v,amqps://b/w"),
            ("https://user:token@hooks.example:8443/services/T0/B0?x=y", "https://hooks.example:8443"),
            ("sqlite:a.db", "sqlite:a.db"),
            ("host=localhost port=99 dbname=d password=x", "postgres://localhost:99/d"),
            ("password=x", "***"),
        ] {
            assert_eq!(Secret::new(url).redacted(), shown);
            assert_eq!(format!("{:?}", Secret::new(url)), shown);
        }
    }
}
