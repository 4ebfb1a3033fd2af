//! The configuration: defaults < file < environment < flags.
//!
//! Whatever is not known is refused with the nearest thing that is: a setting that is silently ignored costs more time than
//! an error. A value is only shown where it must be a duration or a policy: elsewhere a secret may stand in the wrong place.

mod keys;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jobwright::{Config, DatabaseConfig, ExecutorConfig, KindOptions, RetryPolicy, Secret};

use self::keys::Value;
use self::sources::{apply_environment, apply_file, shout};
use crate::failure::Failure;

/// Read if it exists and no other is named.
const DEFAULT_FILE: &str = "jobwright.toml";

/// Everything that is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) database: DatabaseConfig,
    pub(crate) executor: ExecutorConfig,
    /// Concurrency by name; `None` = mentioned without one.
    pub(crate) queues: BTreeMap<String, Option<usize>>,
    drafts: BTreeMap<String, Draft>,
    /// What to run, by kind.
    pub(crate) handlers: BTreeMap<String, Handler>,
}

/// A handler as far as it was read.
#[derive(Clone, Debug, Default)]
struct Draft {
    command: Option<Vec<String>>,
    url: Option<Secret>,
    timeout: Option<Duration>,
    concurrency: Option<usize>,
    retry: Option<RetryPolicy>,
}

/// What runs the jobs of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) action: Action,
    pub(crate) options: KindOptions,
}

/// How.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A program and its arguments.
    Command(Vec<String>),
    /// Where to POST.
    Url(Secret),
}

impl Settings {
    /// Reads all sources.
    pub(crate) fn load(file: Option<&Path>, database_url: Option<String>) -> Result<Self, Failure> {
        let default = Path::new(DEFAULT_FILE);
        let file = file.or_else(|| default.exists().then_some(default));
        Self::from_sources(file, std::env::vars_os(), database_url)
    }

    fn from_sources(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
        database_url: Option<String>,
    ) -> Result<Self, Failure> {
        let mut settings = Self::default();
        if let Some(file) = file {
            apply_file(&mut settings, file)?;
        }
        apply_environment(&mut settings, environment)?;
        if let Some(url) = database_url {
            settings.set_database_url(url);
        }
        settings.database.backend()?;
        settings.finish()?;
        Ok(settings)
    }

    /// The library's part.
    pub(crate) fn core(&self) -> Config {
        Config { database: self.database.clone(), executor: self.executor.clone(), ..Config::default() }
    }

    fn set_database_url(&mut self, url: String) {
        self.database.url = Secret::new(url);
    }

    /// A section was there, even if it was empty.
    fn mention(&mut self, section: &str, name: &str) {
        match section {
            "queues" => drop(self.queues.entry(name.to_owned()).or_default()),
            "handlers" => drop(self.drafts.entry(name.to_owned()).or_default()),
            _ => {}
        }
    }

    /// The name that a part of a variable means: that of the file if it looks the same in capitals.
    fn named(&self, section: &str, shouted: &str) -> String {
        let known: Vec<&String> =
            if section == "queues" { self.queues.keys().collect() } else { self.drafts.keys().collect() };
        known.into_iter().find(|name| shout(name) == shouted).cloned().unwrap_or_else(|| shouted.to_ascii_lowercase())
    }

    fn set(&mut self, section: &str, name: Option<&str>, key: &str, value: Value) -> Result<(), String> {
        let (database, executor) = (&mut self.database, &mut self.executor);
        let name = name.unwrap_or_default();
        match (section, key, value) {
            ("database", "url", Value::Text(url)) => database.url = Secret::new(url),
            ("database", "schema", Value::Text(schema)) => database.schema = schema,
            ("database", "max_connections", Value::Number(n)) => database.max_connections = n,
            ("database", "pgbouncer", Value::Flag(on)) => database.pgbouncer = on,
            ("database", "call_timeout", Value::Duration(limit)) => database.call_timeout = limit,
            ("database", "connect_timeout", Value::Duration(limit)) => database.connect_timeout = limit,
            ("database", "max_payload", Value::Number(bytes)) => database.max_payload = bytes,
            ("executor", "name", Value::Text(name)) => executor.name = Some(name),
            ("executor", "lease", Value::Duration(lease)) => executor.lease = lease,
            ("executor", "grace", Value::Duration(grace)) => executor.grace = grace,
            ("executor", "poll_interval", Value::Duration(interval)) => executor.poll_interval = interval,
            ("queues", "concurrency", Value::Number(n)) => {
                if n == 0 {
                    return Err("it must be 1 or more".to_owned());
                }
                self.queues.insert(name.to_owned(), Some(n));
            }
            ("handlers", key, value) => self.drafts.entry(name.to_owned()).or_default().set(key, value)?,
            ("history", "keep", Value::Text(keep)) => match keep.as_str() {
                "off" => {}
                "failed" | "all" => {
                    return Err(format!("{keep:?} is not supported by this version; the only value is \"off\""));
                }
                _ => return Err("the only value this version supports is \"off\"".to_owned()),
            },
            _ => return Err("this program does not know what to do with it".to_owned()),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        for (kind, draft) in std::mem::take(&mut self.drafts) {
            let handler = draft.finish().map_err(|why| Failure::Usage(format!("`[handlers.{kind}]` {why}")))?;
            self.handlers.insert(kind, handler);
        }
        Ok(())
    }
}

impl Draft {
    fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match (key, value) {
            ("command", Value::Words(words)) => self.command = Some(words),
            ("url", Value::Text(url)) => self.url = Some(Secret::new(url)),
            ("timeout", Value::Duration(Duration::ZERO)) => return Err("no handler finishes in no time".to_owned()),
            ("timeout", Value::Duration(timeout)) => self.timeout = Some(timeout),
            ("concurrency", Value::Number(0)) => return Err("it must be 1 or more".to_owned()),
            ("concurrency", Value::Number(n)) => self.concurrency = Some(n),
            ("retry", Value::Retry(retry)) => self.retry = Some(retry),
            _ => return Err("this program does not know what to do with it".to_owned()),
        }
        Ok(())
    }

    fn finish(self) -> Result<Handler, String> {
        let action = match (self.command, self.url) {
            (Some(command), None) if command.first().is_some_and(|program| !program.is_empty()) => {
                Action::Command(command)
            }
            (Some(_), None) => return Err("has an empty `command`: name a program".to_owned()),
            (None, Some(url)) => Action::Url(crate::handlers::check_url(url)?),
            (None, None) => return Err("has neither `command` nor `url`: give one of them".to_owned()),
            (Some(_), Some(_)) => return Err("has both `command` and `url`: remove one of them".to_owned()),
        };
        let mut options = KindOptions::default().concurrency(self.concurrency);
        if let Some(timeout) = self.timeout {
            options = options.timeout(timeout);
        }
        if let Some(retry) = self.retry {
            options = options.retry(retry);
        }
        Ok(Handler { action, options })
    }
}
