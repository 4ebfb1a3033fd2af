//! The library's settings: plain values that `serde` can read. Where they come from (file, environment, flags) is up to the caller.

mod broker;
mod history;
mod setters;
mod submit;
pub(crate) mod url;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

pub use self::broker::{BrokerConfig, QueueType};
pub use self::history::{HistoryConfig, Keep, parse_span};
pub(crate) use self::submit::allows;
pub use self::submit::{SubmitRule, SubmitRules};
use crate::error::{Error, Result};
use crate::job::parse_duration;

/// Number of errors that a job keeps; more deaths than that could not be counted.
const ERRORS_KEPT: u32 = 10;

/// All settings of the library. Unknown keys are refused.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// Where jobs are kept.
    pub database: DatabaseConfig,
    /// How jobs run.
    pub executor: ExecutorConfig,
    /// What is remembered of jobs that have ended.
    pub history: HistoryConfig,
    /// The broker that deliveries go through, if there is one.
    pub broker: BrokerConfig,
}

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
    pub max_connections: usize,
    /// Whether connections go through a pgbouncer in transaction mode: no named statements, no session settings, polling instead of LISTEN.
    pub pgbouncer: bool,
    /// Deadline for one call: getting a connection, one of the engine's statements, a commit. Default 30 s.
    #[serde(deserialize_with = "duration")]
    pub call_timeout: Duration,
    /// Deadline for connecting to one server; `connect_timeout` in the URL takes precedence. Default 5 s.
    #[serde(deserialize_with = "duration")]
    pub connect_timeout: Duration,
    /// Largest payload in bytes. Default 1 MiB.
    pub max_payload: usize,
    /// What may be done to an embedded database when it is opened. Default [`Access::Create`].
    #[serde(skip)]
    pub access: Access,
    /// What is remembered of jobs that end through these connections. In a file it has its own section ([`Config::history`]).
    #[serde(skip)]
    pub history: HistoryConfig,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            url: Secret("sqlite:jobwright.db".to_owned()),
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
        Self { url: Secret(url.into()), ..Self::default() }
    }

    /// Returns the store that the URL names.
    ///
    /// # Errors
    /// When it names none.
    pub fn backend(&self) -> Result<Backend<'_>> {
        let url = self.url.expose();
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
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

/// How jobs run.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ExecutorConfig {
    /// Name of this node for people. Default `host:pid`.
    pub name: Option<String>,
    /// How long a node's heartbeat is valid. After the death of a node, its jobs run elsewhere within about one and a half leases. 1 s or
    /// more; default 30 s.
    #[serde(deserialize_with = "duration")]
    pub lease: Duration,
    /// How long a shutdown waits for running handlers before it cancels them. Default 30 s. The library does not read it; programs pass it
    /// to [`CommandExecutor::shutdown`](crate::CommandExecutor::shutdown).
    #[serde(deserialize_with = "duration")]
    pub grace: Duration,
    /// How long a handler may go on after its job was cancelled, to clean up, before it is dropped. 0 to 1 h; default 5 s.
    #[serde(deserialize_with = "duration")]
    pub cancel_grace: Duration,
    /// Longest time between two polls of the tables when nothing wakes the executor. 10 ms or more; default 5 s.
    #[serde(deserialize_with = "duration")]
    pub poll_interval: Duration,
    /// How often a handler that lost a conflict in the database runs again at once, within its attempt. Default 3; 0 makes a conflict an
    /// ordinary failure.
    pub conflict_retries: u32,
    /// How often a job's node may die while the job runs. Then the job becomes a dead letter, whatever attempts remain, because it may be
    /// the cause. 1 to 10; default 3. 0 = never, for nodes that die for other reasons, such as preemptible machines.
    pub quarantine_after: u32,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            name: None,
            lease: Duration::from_secs(30),
            grace: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            poll_interval: Duration::from_secs(5),
            conflict_retries: 3,
            quarantine_after: 3,
        }
    }
}

impl ExecutorConfig {
    pub(crate) fn validate(&self) -> Result<()> {
        if self.lease < Duration::from_secs(1) || self.lease > Duration::from_secs(24 * 3600) {
            return Err(Error::config(format!("executor.lease is {:?}; use 1s to 24h", self.lease)));
        }
        if self.poll_interval < Duration::from_millis(10) || self.poll_interval > Duration::from_secs(3600) {
            return Err(Error::config(format!("executor.poll_interval is {:?}; use 10ms to 1h", self.poll_interval)));
        }
        if self.cancel_grace > Duration::from_secs(3600) {
            return Err(Error::config(format!("executor.cancel_grace is {:?}; use 0s to 1h", self.cancel_grace)));
        }
        if self.quarantine_after > ERRORS_KEPT {
            return Err(Error::config(format!(
                "executor.quarantine_after is {}; use 1 to {ERRORS_KEPT} (as many errors as a job keeps), or 0 for never",
                self.quarantine_after
            )));
        }
        Ok(())
    }
}

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

/// Reads a duration as text (`"30s"`, `"PT30S"`).
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
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
            assert_eq!(format!("{:?}", DatabaseConfig::url(url).url), shown);
        }
    }

    #[test]
    fn urls_name_their_store() {
        let backend = |url: &str| DatabaseConfig::url(url).backend().map(|b| matches!(b, Backend::Sqlite(_)));
        assert!(backend("sqlite:x.db").unwrap());
        assert!(!backend("postgresql://h/d").unwrap());
        assert!(backend("sqlite::memory:").unwrap_err().to_string().contains("file"));
        assert!(backend("mysql://h/d").unwrap_err().to_string().contains("mysql"));
        for (url, part) in [
            ("sqlite:file::memory:", "path"),
            ("sqlite:file:x.db?mode=ro", "path"),
            ("sqlite:x.db?mode=ro", "no options"),
            ("sqlite://x.db?mode=memory&cache=shared", "no options"),
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
