//! Where jobs are kept.

use std::time::Duration;

use serde::Deserialize;

use super::duration::duration;
use super::history::HistoryConfig;
use super::secret::Secret;
use crate::error::{Error, Result};

/// Where jobs are kept.
///
/// ```
/// use jobwright::DatabaseConfig;
///
/// let config = DatabaseConfig::url("postgres://app@localhost/app").schema("jobs").max_connections(16);
/// assert_eq!(config.max_connections, 16);
/// ```
///
/// New fields may be added in any version, so it can't be built as a struct literal:
///
/// ```compile_fail,E0639
/// use jobwright::DatabaseConfig;
///
/// let config = DatabaseConfig { max_connections: 16, ..DatabaseConfig::default() };
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DatabaseConfig {
    /// `postgres://user:password@host,host/database?option=value`, or `sqlite:FILE` for the embedded store. Default `sqlite:jobwright.db`.
    /// Special characters in user and password are percent-encoded.
    pub url: Secret,
    /// PostgreSQL schema of the tables; letters, digits and `_`, at most 40 bytes. Default `jobwright`.
    pub schema: String,
    /// Connections for contexts. The engine has three more of its own. Default 8.
    #[doc(hidden)]
    pub max_connections: usize,
    /// Whether connections go through a pgbouncer in transaction mode: no named statements, no session settings, polling instead of LISTEN.
    #[doc(hidden)]
    pub pgbouncer: bool,
    /// Deadline for one call: getting a connection, one of the engine's statements, a commit. Default 30 s.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub call_timeout: Duration,
    /// Deadline for connecting to one server; `connect_timeout` in the URL takes precedence. Default 5 s.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub connect_timeout: Duration,
    /// Largest payload in bytes. Default 1 MiB.
    #[doc(hidden)]
    pub max_payload: usize,
    /// What may be done to an embedded database when it is opened. Default [`Access::Create`].
    #[serde(skip)]
    #[doc(hidden)]
    pub access: Access,
    /// What is remembered of jobs that end through these connections. In a file it has its own section
    /// ([`Config::history`](super::Config::history)).
    #[serde(skip)]
    #[doc(hidden)]
    pub history: HistoryConfig,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            url: Secret::new("sqlite:jobwright.db"),
            schema: "jobwright".to_owned(),
            max_connections: 8,
            pgbouncer: false,
            call_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            max_payload: 1024 * 1024,
            access: Access::default(),
            history: HistoryConfig::default(),
        }
    }
}

impl DatabaseConfig {
    /// Returns the defaults with this URL.
    pub fn url(url: impl Into<String>) -> Self {
        Self { url: Secret::new(url), ..Self::default() }
    }

    /// Returns the store that the URL names.
    ///
    /// # Errors
    /// When it names none.
    #[doc(hidden)]
    pub fn backend(&self) -> Result<Backend<'_>> {
        let url = self.url.expose();
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                path if path.contains(char::is_control) => Err(Error::config(
                    "the path of the embedded database contains a line break or another control character (text that is read from a file \
                     often ends with a line break): remove it",
                )),
                path if path.trim() != path => {
                    Err(Error::config("the path of the embedded database begins or ends with white space: remove it"))
                }
                "" | ":memory:" => Err(Error::config(
                    "the embedded database needs a file that other connections can open: use `sqlite:FILE`",
                )),
                // SQLite reads these as URIs where that is enabled. Here they would be files of those names.
                path if path.starts_with("file:") => Err(Error::config(
                    "the embedded database is named by its path, not by a `file:` URI: use `sqlite:FILE`",
                )),
                path if path.contains('?') => Err(Error::config(
                    "the URL of the embedded database takes no options: use `sqlite:FILE` without `?` and what follows",
                )),
                path => Ok(Backend::Sqlite(path)),
            };
        }
        let words = !url.contains("://") && url.contains("host") && url.contains('=');
        if url.starts_with("postgres://") || url.starts_with("postgresql://") || words {
            return Ok(Backend::Postgres(url));
        }
        // The error shows nothing else of the URL: text before `://` may be a misplaced password.
        let scheme = match url.split_once("://") {
            Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_lowercase()) => format!("the scheme {scheme:?}"),
            _ => "no scheme".to_owned(),
        };
        Err(Error::config(format!("the database URL has {scheme}; use `postgres://…` or `sqlite:FILE`")))
    }

    /// Checks the values that a store relies on.
    pub(crate) fn validate(&self) -> Result<()> {
        let name = &self.schema;
        let good = !name.is_empty()
            && name.len() <= 40
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.as_bytes()[0].is_ascii_digit()
            && !name.starts_with("pg_")
            && name != "information_schema";
        if !good {
            return Err(Error::config(format!(
                "the schema {name:?} can't be used: letters, digits and `_`, not starting with a digit or `pg_`, at most 40"
            )));
        }
        if self.max_connections == 0 {
            return Err(Error::config("database.max_connections is 0; at least 1 is needed"));
        }
        if self.call_timeout < Duration::from_millis(10) || self.connect_timeout < Duration::from_millis(10) {
            return Err(Error::config("database.call_timeout and connect_timeout must be at least 10ms"));
        }
        self.history.validate()
    }
}

/// What may be done to an embedded database when it is opened. It has no effect on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// A missing file is created.
    #[default]
    Create,
    /// The file and its tables must exist; the tables are migrated.
    Existing,
    /// As [`Existing`](Self::Existing), but nothing is changed: neither the tables nor the journal mode. The file may be another program's.
    ReadOnly,
}

/// The store that a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend<'a> {
    /// A PostgreSQL server, given by its connection string.
    Postgres(&'a str),
    /// An embedded database, given by its file.
    Sqlite(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_their_store() {
        let backend = |url: &str| DatabaseConfig::url(url).backend().map(|b| matches!(b, Backend::Sqlite(_)));
        assert!(backend("sqlite:x.db").unwrap());
        assert!(backend("sqlite:my files/\u{fc}.db").unwrap());
        assert!(!backend("postgresql://h/d").unwrap());
        assert!(backend("sqlite::memory:").unwrap_err().to_string().contains("file"));
        assert!(backend("mysql://h/d").unwrap_err().to_string().contains("mysql"));
        for (url, part) in [
            ("sqlite:file::memory:", "path"),
            ("sqlite:file:x.db?mode=ro", "path"),
            ("sqlite:x.db?mode=ro", "no options"),
            ("sqlite://x.db?mode=memory&cache=shared", "no options"),
            ("sqlite:x.db\n", "control character"),
            ("sqlite:x.db\r\n", "control character"),
            ("sqlite:a\tb.db", "control character"),
            ("sqlite:a\u{7f}.db", "control character"),
            ("sqlite:\n", "control character"),
            ("sqlite:x.db ", "white space"),
            ("sqlite: x.db", "white space"),
            ("sqlite: ", "white space"),
        ] {
            assert!(backend(url).unwrap_err().to_string().contains(part), "{url}");
        }
    }

    #[test]
    fn schema_names_are_checked() {
        for bad in ["", "1a", "a-b", "a\"b", "pg_x", "information_schema", &"a".repeat(41)] {
            let config = DatabaseConfig { schema: bad.to_owned(), ..DatabaseConfig::default() };
            assert!(config.validate().is_err(), "{bad}");
        }
    }
}
