//! The settings themselves, and what each key of a section sets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jobwright::DEFAULT_QUEUE;
use jobwright::codec::Seal;
use jobwright::{BrokerConfig, Config, DatabaseConfig, ExecutorConfig, ExternalQueue, Secret};

use super::handler::{Draft, Handler};
use super::keys::{SUBMIT_RULES, Value, shout};
use super::queue::{self, Queue};
use super::seal;
use crate::address::Address;
use crate::failure::Failure;

/// All settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) database: DatabaseConfig,
    pub(crate) executor: ExecutorConfig,
    pub(crate) broker: BrokerConfig,
    /// Where metrics and probes are served.
    pub(crate) listen: Option<Address>,
    /// Settings of queues, by name.
    pub(crate) queues: BTreeMap<String, Queue>,
    drafts: BTreeMap<String, Draft>,
    /// Handlers, by kind.
    pub(crate) handlers: BTreeMap<String, Handler>,
    seal_draft: seal::Draft,
    /// How payloads are encrypted.
    pub(crate) seal: Option<Seal>,
    /// The files that contain its keys.
    pub(crate) key_files: Vec<PathBuf>,
    /// The file that was read, and whether it contains a password.
    pub(crate) file: Option<(PathBuf, bool)>,
    /// Whether this process was started by a handler's program, from which the worker withholds its URLs.
    pub(super) urls_withheld: bool,
    /// The same for keys.
    pub(super) keys_withheld: bool,
    /// The same for URLs of handlers.
    pub(super) hooks_withheld: bool,
}

impl Settings {
    /// Returns the library's part.
    pub(crate) fn core(&self) -> Config {
        Config::new(self.database.clone())
            .executor(self.executor.clone())
            .history(self.database.history.clone())
            .broker(self.broker.clone())
    }

    /// Returns the queues whose jobs run in this program's executors: `default` unless configured otherwise.
    pub(crate) fn own_queues(&self) -> Vec<String> {
        let own: Vec<String> =
            self.queues.iter().filter(|(_, queue)| queue.external.is_none()).map(|(name, _)| name.clone()).collect();
        if self.queues.is_empty() { vec![DEFAULT_QUEUE.to_owned()] } else { own }
    }

    /// Returns the queues whose jobs external workers run.
    pub(crate) fn external_queues(&self) -> impl Iterator<Item = &ExternalQueue> {
        self.queues.values().filter_map(|queue| queue.external.as_ref())
    }

    pub(super) fn set_urls(&mut self, database: Option<String>, amqp: Option<String>) {
        if let Some(url) = database {
            self.database.url = Secret::new(url);
        }
        if let Some(url) = amqp {
            self.broker.url = Some(Secret::new(url));
        }
    }

    /// Records that a section was present, even if it was empty.
    pub(super) fn mention(&mut self, section: &str, name: &str) {
        match section {
            "queues" | "handlers" | "seal_keys" if name.is_empty() => {}
            "queues" => drop(self.queues.entry(name.to_owned()).or_default()),
            "seal_keys" => drop(self.seal_draft.keys.entry(name.to_owned()).or_default()),
            SUBMIT_RULES => {
                let rules = self.broker.submit_rules.get_or_insert_default();
                // Without a named user, no user may submit.
                if !name.is_empty() {
                    rules.entry(name.to_owned()).or_default();
                }
            }
            "handlers" => drop(self.drafts.entry(name.to_owned()).or_default()),
            _ => {}
        }
    }

    /// Resolves a name in a variable: a known name that looks the same in capitals.
    pub(super) fn named(&self, section: &str, shouted: &str) -> String {
        let known: Vec<&String> = match section {
            "queues" => self.queues.keys().collect(),
            "seal_keys" => self.seal_draft.ids().collect(),
            SUBMIT_RULES => self.broker.submit_rules.iter().flatten().map(|(user, _)| user).collect(),
            _ => self.drafts.keys().collect(),
        };
        known.into_iter().find(|name| shout(name) == shouted).cloned().unwrap_or_else(|| shouted.to_ascii_lowercase())
    }

    pub(super) fn set(&mut self, section: &str, name: Option<&str>, key: &str, value: Value) -> Result<(), String> {
        let (database, executor, broker) = (&mut self.database, &mut self.executor, &mut self.broker);
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
            ("executor", "cancel_grace", Value::Duration(grace)) => executor.cancel_grace = grace,
            ("executor", "stall_timeout", Value::Duration(limit)) => executor.stall_timeout = limit,
            ("executor", "poll_interval", Value::Duration(interval)) => executor.poll_interval = interval,
            ("executor", "conflict_retries", Value::Number(n)) => executor.conflict_retries = times(n)?,
            ("executor", "quarantine_after", Value::Number(n)) => executor.quarantine_after = times(n)?,
            ("http", "listen", Value::Text(text)) => self.listen = Some(text.parse()?),
            ("broker", "url", Value::Text(url)) => broker.url = Some(Secret::new(url)),
            ("broker", "required", Value::Flag(on)) => broker.required = on,
            ("broker", "prefix", Value::Text(prefix)) => broker.prefix = prefix,
            ("broker", "declare", Value::Flag(on)) => broker.declare = on,
            ("broker", "queue_type", Value::Text(text)) => {
                // Not the text itself: it may be a misplaced secret.
                broker.queue_type = text.parse().map_err(|_| "it is \"quorum\" or \"classic\"".to_owned())?;
            }
            ("broker", "depth", Value::Number(n)) => broker.depth = queue::depth(n)?,
            ("broker", "submit_depth", Value::Number(n)) => broker.submit_depth = times(n)?,
            ("broker", "submit_bytes", Value::Number(n)) => broker.submit_bytes = n as u64,
            ("broker", "intake_rate", Value::Number(n)) => broker.intake_rate = times(n)?,
            ("broker", "intake_bytes", Value::Number(n)) => broker.intake_bytes = times(n)?,
            ("broker", "intake", Value::Flag(on)) => broker.intake = on,
            ("broker", "direct_reply", Value::Flag(on)) => broker.direct_reply = on,
            ("broker", "report_tokens", Value::Flag(on)) => broker.report_tokens = on,
            ("broker", "reply_to", Value::Words(names)) => broker.reply_to = Some(names),
            ("broker", "connect_timeout", Value::Duration(limit)) => broker.connect_timeout = limit,
            ("broker", "confirm_timeout", Value::Duration(limit)) => broker.confirm_timeout = limit,
            ("broker", "heartbeat", Value::Duration(interval)) => broker.heartbeat = interval,
            (SUBMIT_RULES, key, value) => {
                let rule = broker.submit_rules.get_or_insert_default().entry(name.to_owned()).or_default();
                match (key, value) {
                    ("kinds", Value::Words(words)) => rule.kinds = Some(words),
                    ("queues", Value::Words(words)) => rule.queues = Some(words),
                    ("tenants", Value::Words(words)) => rule.tenants = Some(words),
                    ("groups", Value::Words(words)) => rule.groups = Some(words),
                    ("limit_keys", Value::Words(words)) => rule.limit_keys = Some(words),
                    ("unique_keys", Value::Words(words)) => rule.unique_keys = Some(words),
                    ("max_priority", Value::Number(highest)) => {
                        let highest =
                            i16::try_from(highest).map_err(|_| format!("{highest} is not 0 to {}", i16::MAX))?;
                        rule.max_priority = Some(highest);
                    }
                    ("max_delay", Value::Duration(longest)) => rule.max_delay = Some(longest),
                    _ => {}
                }
            }
            ("queues", key, value) => self.queues.entry(name.to_owned()).or_default().set(key, value)?,
            ("handlers", key, value) => self.drafts.entry(name.to_owned()).or_default().set(key, value)?,
            ("seal", key, value) => self.seal_draft.set(key, value)?,
            ("seal_keys", key, value) => self.seal_draft.keys.entry(name.to_owned()).or_default().set(key, value)?,
            ("history", "keep", Value::Text(keep)) => {
                database.history.keep = keep.parse().map_err(|_| "it is \"off\", \"failed\" or \"all\"".to_owned())?;
            }
            ("history", "retention", Value::Duration(retention)) => database.history.retention = retention,
            ("history", "results", Value::Duration(retention)) => database.history.results = retention,
            ("history", "audit", Value::Span(kept)) => database.history.audit = kept,
            ("history", "dead_letters", Value::Span(kept)) => database.history.dead_letters = kept,
            _ => return Err("unknown key".to_owned()),
        }
        Ok(())
    }

    /// Whether one of the URLs contains a password or a token.
    pub(super) fn holds_secret(&self) -> bool {
        let urls = std::iter::once(&self.database.url).chain(&self.broker.url);
        let password = |url: &Secret| {
            let url = url.expose();
            let user = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')).map(|(user, _)| user);
            user.is_some_and(|user| user.contains(':')) || url.contains("password=")
        };
        urls.clone().any(password)
            || self.seal_draft.holds_secret()
            || self.drafts.values().flat_map(Draft::urls).any(|url| password(url) || url.expose().contains('?'))
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        for (user, rule) in self.broker.submit_rules.iter().flatten() {
            rule.validate(user)?;
        }
        for (name, queue) in &mut self.queues {
            queue.finish(name).map_err(|why| Failure::Usage(format!("`[queues.{name}]` {why}")))?;
        }
        self.key_files = self.seal_draft.files();
        if self.keys_withheld && self.seal_draft.lacks_key() {
            return Err(Failure::Usage(
                "a key is missing, and this is called by the handler of a job; its worker keeps keys to itself: name the key by \
                 `[seal_keys.ID] file`"
                    .to_owned(),
            ));
        }
        self.seal = std::mem::take(&mut self.seal_draft).finish().map_err(Failure::Usage)?;
        for (kind, draft) in std::mem::take(&mut self.drafts) {
            if self.hooks_withheld && draft.does_nothing() {
                continue;
            }
            let handler = draft.finish().map_err(|why| Failure::Usage(format!("`[handlers.{kind}]` {why}")))?;
            self.handlers.insert(kind, handler);
        }
        Ok(())
    }
}

/// Checks a number of repetitions.
fn times(n: usize) -> Result<u32, String> {
    u32::try_from(n).map_err(|_| "it is too large".to_owned())
}
