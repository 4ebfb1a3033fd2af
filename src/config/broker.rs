//! The broker that deliveries go through.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::duration::duration;
use super::secret::Secret;
use super::submit::{SubmitRules, is_pattern};
use crate::error::{Error, Result};
use crate::job::is_reserved_by_broker;

/// The broker that deliveries go through. Without a URL there is none, and all jobs are claimed from the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BrokerConfig {
    /// `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS; several as `amqp://user:password@a,b/vhost`, or as URLs separated by
    /// commas. Default: no broker.
    #[doc(hidden)]
    pub url: Option<Secret>,
    /// Whether connecting fails when the broker does not answer. Otherwise only the database is used until it does. Default `false`.
    #[doc(hidden)]
    pub required: bool,
    /// First part of the names of all exchanges and queues: letters, digits, `.`, `_` and `-`, at most 40 bytes. Default `jobwright`.
    #[doc(hidden)]
    pub prefix: String,
    /// Whether missing queues are declared. This needs the right to configure them; without it, run `jobwright broker apply` once. Default
    /// `true`.
    #[doc(hidden)]
    pub declare: bool,
    /// Type of the queues. Default quorum.
    #[doc(hidden)]
    pub queue_type: QueueType,
    /// Most messages that wait in one queue of the broker; further ones wait in the table. A message that delivers jobs to executors names
    /// up to 32 jobs. 1 to 1,000,000; default 1000.
    #[doc(hidden)]
    pub depth: u32,
    /// Most messages that may wait in each of the queues for intake, for recording, and for rejected messages. The broker refuses further
    /// ones. 0: no limit. Default 100,000.
    #[doc(hidden)]
    pub submit_depth: u32,
    /// The same limit in bytes of the message bodies. Default 1 GiB.
    #[doc(hidden)]
    pub submit_bytes: u64,
    /// Whether jobs that external producers submit are taken in. Default `true`.
    #[doc(hidden)]
    pub intake: bool,
    /// Whether results are also sent to clients that wait without a queue of their own (direct reply-to). They are sent once, to clients
    /// that are still connected. Senders need the setting too. Default `false`.
    #[doc(hidden)]
    pub direct_reply: bool,
    /// Whether a report of an external worker is accepted only with the token that came with its job (header `reportToken`). With `false`,
    /// every user that may write to the report queue can report; use it only during a migration. Default `true`.
    #[doc(hidden)]
    pub report_tokens: bool,
    /// Where results may go: names of queues, or prefixes of names such as `answers.*`. Default: any queue whose name does not end like
    /// those of an installation, in `.submit`, `.reply`, `.dead` or `.rejected`.
    #[doc(hidden)]
    pub reply_to: Option<Vec<String>>,
    /// Most submissions that this process takes in per second, averaged over time. 0, the default: no limit.
    #[doc(hidden)]
    pub intake_rate: u32,
    /// Most bytes of submissions that this process takes in per second, averaged over time: 65,536 or more. 0, the default: no limit.
    #[doc(hidden)]
    pub intake_bytes: u32,
    /// Which of the broker's users may submit what. Users must then identify themselves (property `user_id`, which the broker checks).
    /// Default: every user that may write to the queue may submit everything.
    #[doc(hidden)]
    pub submit_rules: Option<SubmitRules>,
    /// Deadline for connecting to one broker, and for a call. Default 5 s.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub connect_timeout: Duration,
    /// How long a publish waits for the broker's confirm until its outcome counts as unknown. Default 10 s.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub confirm_timeout: Duration,
    /// AMQP heartbeat: a connection that is silent for twice as long is closed. 1 s to 10 min, whole seconds; default 10 s.
    #[serde(deserialize_with = "duration")]
    #[doc(hidden)]
    pub heartbeat: Duration,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            url: None,
            required: false,
            prefix: "jobwright".to_owned(),
            declare: true,
            queue_type: QueueType::Quorum,
            depth: 1000,
            submit_depth: 100_000,
            submit_bytes: 1024 * 1024 * 1024,
            intake: true,
            direct_reply: false,
            report_tokens: true,
            reply_to: None,
            intake_rate: 0,
            intake_bytes: 0,
            submit_rules: None,
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(10),
        }
    }
}

impl BrokerConfig {
    /// Returns the defaults with this URL.
    pub fn url(url: impl Into<String>) -> Self {
        Self { url: Some(Secret::new(url)), ..Self::default() }
    }

    /// Checks everything but the URL, which is checked where it is used.
    pub(crate) fn validate(&self) -> Result<()> {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if self.prefix.is_empty() || self.prefix.len() > 40 || !self.prefix.bytes().all(good) {
            return Err(Error::config(format!(
                "broker.prefix is {:?}; use letters, digits, `.`, `_` and `-`, 1 to 40 of them",
                self.prefix
            )));
        }
        if self.prefix.starts_with("amq.") {
            return Err(Error::config("broker.prefix begins with `amq.`, which the broker keeps for itself"));
        }
        for pattern in self.reply_to.iter().flatten() {
            let name = pattern.strip_suffix('*').unwrap_or(pattern);
            if !is_pattern(pattern) || name.len() > 255 || is_reserved_by_broker(name) {
                return Err(Error::config(format!(
                    "broker.reply_to has {pattern:?}; use names of queues, or beginnings of names with a * at their end, of `amq.` none but `amq.gen-`"
                )));
            }
        }
        for (user, rule) in self.submit_rules.iter().flatten() {
            rule.validate(user)?;
        }
        if self.depth == 0 || self.depth > 1_000_000 {
            return Err(Error::config(format!("broker.depth is {}; use 1 to 1000000", self.depth)));
        }
        if i64::try_from(self.submit_bytes).is_err() {
            return Err(Error::config("broker.submit_bytes is too large"));
        }
        // With less, messages would stay unacknowledged for longer than the broker accepts.
        if (1..65_536).contains(&self.intake_bytes) {
            return Err(Error::config(format!(
                "broker.intake_bytes is {}; use 0 or at least 65536",
                self.intake_bytes
            )));
        }
        for (key, value) in [("connect_timeout", self.connect_timeout), ("confirm_timeout", self.confirm_timeout)] {
            if value < Duration::from_millis(10) || value > Duration::from_secs(3600) {
                return Err(Error::config(format!("broker.{key} is {value:?}; use 10ms to 1h")));
            }
        }
        if self.heartbeat < Duration::from_secs(1) || self.heartbeat > Duration::from_secs(600) {
            return Err(Error::config(format!("broker.heartbeat is {:?}; use 1s to 10m", self.heartbeat)));
        }
        Ok(())
    }
}

/// The type of a broker queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum QueueType {
    /// Replicated and always on disk.
    #[default]
    Quorum,
    /// On one node.
    Classic,
}

impl QueueType {
    /// Returns the value of the argument `x-queue-type`.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

impl fmt::Display for QueueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for QueueType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "quorum" => Ok(Self::Quorum),
            "classic" => Ok(Self::Classic),
            _ => Err(Error::config(format!("{text:?} is not a queue type; use quorum or classic"))),
        }
    }
}
