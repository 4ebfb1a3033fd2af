//! Rules of an installation for its jobs: pauses, limits, rates, shares, aging.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::unreadable::{UnreadableRow, is_news};
use crate::error::{Error, Result};

/// What a rule selects jobs by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Scope {
    /// The job's queue.
    Queue,
    /// Its kind.
    Kind,
    /// Its tenant, if it has one.
    Tenant,
    /// Its limit key, if it has one.
    Key,
    /// Its exclusive group, if it has one. Such a rule can only pause.
    Group,
}

impl Scope {
    /// All scopes.
    pub const ALL: &'static [Self] = &[Self::Queue, Self::Kind, Self::Tenant, Self::Key, Self::Group];

    /// Returns the word used in output and commands.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Kind => "kind",
            Self::Tenant => "tenant",
            Self::Key => "key",
            Self::Group => "group",
        }
    }

    /// Returns the prefix of keys of this scope (`blocked_on`, permits).
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Queue => "q:",
            Self::Kind => "k:",
            Self::Tenant => "t:",
            Self::Key => "l:",
            Self::Group => "g:",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ");
            Error::invalid(format!("{text:?} is not the scope of a rule; use one of {all}"))
        })
    }
}

/// The name of the rule for all names that have none of their own. Its pause covers all names, whatever rules they have.
pub const EACH: &str = "*";

/// A limit on the starts within any period of a given length, over all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rate {
    /// How many jobs may start; at least 1.
    pub starts: u32,
    /// Length of the period; at least 1 ms. In JSON `period_seconds`.
    #[serde(rename = "period_seconds", with = "seconds")]
    pub period: Duration,
}

/// Times as seconds, for JSON.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        time.as_secs_f64().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(serde::de::Error::custom)
    }

    pub(super) mod optional {
        use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

        #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
        pub(in super::super) fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
            time.map(|time| time.as_secs_f64()).serialize(to)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
            let seconds = Option::<f64>::deserialize(from)?;
            seconds.map(Duration::try_from_secs_f64).transpose().map_err(serde::de::Error::custom)
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:?}", self.starts, self.period)
    }
}

impl FromStr for Rate {
    type Err = Error;

    /// Reads `100/1s`, `5/PT1M`.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: String| Error::invalid(format!("{text:?} is not a rate: {why}; write `100/1s` or `5/1m`"));
        let (starts, period) = text.split_once('/').ok_or_else(|| refuse("there is no `/`".into()))?;
        let starts = starts.trim().parse().map_err(|_| refuse(format!("{starts:?} is not a number")))?;
        Ok(Self { starts, period: crate::job::parse_duration(period.trim()).map_err(refuse)? })
    }
}

/// Who has the shares of a limited queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ShareBy {
    /// Tenants; jobs without a tenant have one share together.
    Tenant,
    /// Kinds.
    Kind,
}

/// How the permits of a limited queue are divided among tenants or kinds. The share with the fewest permits for its weight is next, whatever
/// the priority and number of jobs in other shares. Within a share, priority and order decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Who has the shares.
    pub by: ShareBy,
    /// Weights of shares whose weight is not 1; at least 1 each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

/// A rule for all jobs of a queue, kind, tenant, limit key or group, over all nodes. It takes effect at once, also for jobs that wait already.
/// Jobs that run already count, and go on.
///
/// ```
/// use jobwright::admin::{Rule, Scope};
/// use std::time::Duration;
///
/// let rule = Rule::new(Scope::Tenant, "*").running(5).rate(100, Duration::from_secs(60));
/// assert!(rule.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rule {
    /// What it selects jobs by.
    pub scope: Scope,
    /// The name of the queue, kind, etc.; [`EACH`] for all that have no rule of their own, each counted separately.
    pub name: String,
    /// Whether jobs are kept from starting.
    pub paused: bool,
    /// How many jobs may run at the same time.
    pub running: Option<u32>,
    /// How many jobs may start within a period.
    pub rate: Option<Rate>,
    /// The waiting time after which a job counts as one priority higher each time, so that no job starves. Queues only; at least 1 s.
    /// In JSON `aging_seconds`.
    #[serde(rename = "aging_seconds", with = "seconds::optional", default)]
    pub aging: Option<Duration>,
    /// How many jobs may wait before the queue is full for senders. Queues only.
    pub depth: Option<u64>,
    /// How its permits are divided. Queues only, with `running`.
    pub shares: Option<Shares>,
}

impl Rule {
    /// Creates a rule that sets nothing yet.
    pub fn new(scope: Scope, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { scope, name, paused: false, running: None, rate: None, aging: None, depth: None, shares: None }
    }

    /// Sets whether jobs are kept from starting.
    #[must_use]
    pub fn paused(mut self, paused: bool) -> Self {
        self.paused = paused;
        self
    }

    /// Sets how many jobs may run at the same time; 0 pauses.
    #[must_use]
    pub fn running(mut self, running: u32) -> Self {
        self.running = Some(running);
        self
    }

    /// Sets how many jobs may start within any such period.
    #[must_use]
    pub fn rate(mut self, starts: u32, period: Duration) -> Self {
        self.rate = Some(Rate { starts, period });
        self
    }

    /// Sets the waiting time after which a job counts as one priority higher.
    #[must_use]
    pub fn aging(mut self, aging: Duration) -> Self {
        self.aging = Some(aging);
        self
    }

    /// Sets how many jobs may wait.
    #[must_use]
    pub fn depth(mut self, depth: u64) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Divides the permits by weight.
    #[must_use]
    pub fn shares(mut self, by: ShareBy, weights: impl IntoIterator<Item = (String, u32)>) -> Self {
        self.shares = Some(Shares { by, weights: weights.into_iter().collect() });
        self
    }

    /// Returns whether the rule sets nothing, so that it need not be kept.
    pub fn is_empty(&self) -> bool {
        *self == Self::new(self.scope, self.name.clone())
    }

    /// Returns whether a job may have to wait because of it.
    pub(crate) fn limits(&self) -> bool {
        self.paused || self.running.is_some() || self.rate.is_some()
    }

    /// Checks the rule.
    ///
    /// # Errors
    /// When the rule is invalid; the error says why and what to write instead.
    pub fn check(&self) -> Result<()> {
        let about = format!("the rule for {} {:?}", self.scope, self.name);
        let refuse = |why: &str| Err(Error::invalid(format!("{about}: {why}")));
        if self.name.is_empty() || self.name.len() > 200 || self.name.chars().any(char::is_control) {
            return refuse("its name is empty, longer than 200 bytes, or has control characters");
        }
        if self.scope == Scope::Group && (self.running.is_some() || self.rate.is_some()) {
            return refuse("a group runs one job at a time anyway; it can only be paused");
        }
        if self.scope != Scope::Queue && (self.aging.is_some() || self.depth.is_some() || self.shares.is_some()) {
            return refuse("aging, depth and shares are for queues; use the scope `queue`");
        }
        if self.shares.is_some() && self.running.is_none() {
            return refuse("shares divide the places of a limit; set `running` too");
        }
        if let Some(Rate { starts, period }) = self.rate
            && (starts == 0 || period < Duration::from_millis(1) || period > Duration::from_secs(366 * 24 * 3600))
        {
            return refuse("a rate needs at least one start within 1 ms to a year; to let nothing start, pause it");
        }
        if self.aging.is_some_and(|aging| aging < Duration::from_secs(1)) {
            return refuse("aging is less than 1s; use 1s or more");
        }
        if self.running.is_some_and(|running| running > 1_000_000) {
            return refuse("running is more than 1000000; leave it out for no limit");
        }
        if self.shares.as_ref().is_some_and(|shares| shares.weights.values().any(|weight| *weight == 0)) {
            return refuse("a weight is 0; use 1 or more, or pause the tenant or kind");
        }
        Ok(())
    }
}

/// A change to a rule.
pub type RuleEdit = Box<dyn FnOnce(&mut Rule) + Send>;

/// Applies a change to a rule, and checks the result.
pub(crate) fn edited(mut rule: Rule, edit: RuleEdit) -> Result<Rule> {
    let (scope, name) = (rule.scope, rule.name.clone());
    edit(&mut rule);
    (rule.scope, rule.name) = (scope, name);
    rule.check()?;
    Ok(rule)
}

/// Returns the rule with this scope and name, or one that sets nothing.
pub(crate) fn named(rules: Vec<Rule>, scope: Scope, name: &str) -> Rule {
    let mut rules = rules.into_iter();
    rules.find(|rule| rule.scope == scope && rule.name == name).unwrap_or_else(|| Rule::new(scope, name))
}

/// Logs what can't be read of rules, once for each change.
pub(crate) fn log_faults(faults: &[UnreadableRow]) {
    for fault in faults.iter().filter(|fault| is_news("rule", fault, 0)) {
        tracing::error!(
            rule = fault.name,
            why = fault.why,
            "a rule can't be read as a whole; its readable part applies"
        );
    }
}
