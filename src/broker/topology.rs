//! The queues and exchanges that an installation needs. See ADR 0022.

use std::fmt;

use lapin::ExchangeKind;
use lapin::types::{AMQPValue, FieldTable, LongString};

use super::message::QueueRole;
use super::names::Names;
use crate::config::{BrokerConfig, QueueType};

/// The delivery limit of a queue that keeps messages: in effect none, in a form that every version of the broker accepts.
const DELIVERY_LIMIT: i64 = 1_000_000_000;

/// One queue or exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopologyItem {
    /// Whether it is a queue or an exchange.
    pub kind: TopologyKind,
    /// Its name at the broker.
    pub name: String,
    /// Its settings, for people.
    pub settings: String,
    /// Its state at the broker.
    pub state: TopologyState,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TopologyKind {
    /// A durable queue.
    Queue,
    /// A durable exchange.
    Exchange,
}

impl fmt::Display for TopologyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Queue => "queue",
            Self::Exchange => "exchange",
        })
    }
}

/// The state of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyState {
    /// Not checked: this would be declared.
    Planned,
    /// It exists, and is as it should be as far as the user's permissions show.
    Present,
    /// It did not exist, and was created.
    Created,
    /// An earlier version declared it. It exists and works, but without limits for its messages. A policy can set them.
    Unlimited,
    /// It does not exist.
    Missing,
    /// It exists with other settings, in the broker's words. Delete it (when it is empty) and apply again.
    Differs(String),
    /// The user may not declare or bind it, in the broker's words.
    Forbidden(String),
}

impl fmt::Display for TopologyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned => f.write_str("planned"),
            Self::Present => f.write_str("present"),
            Self::Created => f.write_str("created"),
            Self::Unlimited => f.write_str("without limits"),
            Self::Missing => f.write_str("missing"),
            Self::Differs(why) => write!(f, "differs: {why}"),
            Self::Forbidden(why) => write!(f, "forbidden: {why}"),
        }
    }
}

/// A queue or exchange to be declared.
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) made: Made,
}

#[derive(Clone, Debug)]
pub(super) enum Made {
    Exchange(ExchangeKind),
    /// With arguments, and perhaps bound to an exchange.
    Queue {
        arguments: FieldTable,
        /// The arguments of earlier versions, without limits. An existing queue may still have them.
        earlier: Option<FieldTable>,
        bound: Option<String>,
    },
}

impl Declaration {
    /// Returns the declaration of earlier versions, if it differs.
    pub(super) fn earlier(&self) -> Option<Self> {
        let Made::Queue { earlier, bound, .. } = &self.made else { return None };
        let made = Made::Queue { arguments: earlier.clone()?, earlier: None, bound: bound.clone() };
        Some(Self { name: self.name.clone(), made })
    }

    pub(super) fn item(&self, state: TopologyState) -> TopologyItem {
        let (kind, settings) = match &self.made {
            Made::Exchange(kind) => (TopologyKind::Exchange, format!("{kind:?}").to_lowercase()),
            Made::Queue { arguments, bound, .. } => {
                let mut settings: Vec<_> = arguments.inner().iter().map(|(key, value)| shown(key, value)).collect();
                settings.extend(bound.iter().map(|exchange| format!("bound to {exchange}")));
                (TopologyKind::Queue, settings.join(", "))
            }
        };
        TopologyItem { kind, name: self.name.clone(), settings, state }
    }
}

fn shown(key: impl fmt::Display, value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongString(text) => format!("{key}={}", String::from_utf8_lossy(text.as_bytes())),
        AMQPValue::LongLongInt(number) => format!("{key}={number}"),
        other => format!("{key}={other:?}"),
    }
}

/// Returns what a role needs, in the order to declare it.
pub(super) fn role(config: &BrokerConfig, names: &Names, role: &QueueRole) -> Vec<Declaration> {
    match role {
        QueueRole::Events => vec![Declaration { name: names.events(), made: Made::Exchange(ExchangeKind::Topic) }],
        QueueRole::Deliveries(queue) => with(dead(config, names), [limited(config, names, names.deliveries(queue))]),
        QueueRole::External(queue) => {
            let handed_out = with(dead(config, names), [limited(config, names, names.external(queue))]);
            with(handed_out, reports(config, names))
        }
        QueueRole::Submissions => submissions(config, names).into(),
    }
}

fn with(mut parts: Vec<Declaration>, more: impl IntoIterator<Item = Declaration>) -> Vec<Declaration> {
    parts.extend(more);
    parts
}

/// Returns the queue for submissions, after the one for refused submissions.
fn submissions(config: &BrokerConfig, names: &Names) -> [Declaration; 2] {
    [filled(config, kept(config, names.rejected())), taken(config, names.submit(), &names.rejected())]
}

/// Returns the same for reports.
fn reports(config: &BrokerConfig, names: &Names) -> [Declaration; 2] {
    let rejected = names.rejected_reports();
    [filled(config, kept(config, rejected.clone())), taken(config, names.reply(), &rejected)]
}

/// Returns the role of a queue that can be consumed.
pub(super) fn role_of(names: &Names, queue: &str) -> Option<QueueRole> {
    if queue == names.submit() || queue == names.rejected() {
        return Some(QueueRole::Submissions);
    }
    let after = |prefix: String| queue.strip_prefix(&prefix).map(str::to_owned);
    after(names.deliveries(""))
        .map(QueueRole::Deliveries)
        .or_else(|| after(names.external("")).map(QueueRole::External))
}

/// Returns what is needed to consume from this queue. `None`: it does not belong to this installation.
pub(super) fn queue(config: &BrokerConfig, names: &Names, name: &str) -> Option<Vec<Declaration>> {
    if name == names.dead() {
        return Some(dead(config, names));
    }
    if name == names.reply() || name == names.rejected_reports() {
        return Some(reports(config, names).into());
    }
    let role_of = role_of(names, name)?;
    let mut parts = role(config, names, &role_of);
    if role_of != QueueRole::Submissions {
        parts.retain(|part| part.name == name || part.name == names.dead());
    }
    Some(parts)
}

/// Returns everything for these queues of jobwright's executors and these of external workers.
pub(super) fn all(config: &BrokerConfig, names: &Names, queues: &[String], external: &[String]) -> Vec<Declaration> {
    let mut roles = vec![QueueRole::Events];
    if config.intake {
        roles.push(QueueRole::Submissions);
    }
    roles.extend(queues.iter().cloned().map(QueueRole::Deliveries));
    roles.extend(external.iter().cloned().map(QueueRole::External));
    let mut parts: Vec<Declaration> = Vec::new();
    for part in roles.iter().flat_map(|each| role(config, names, each)) {
        let same = |known: &Declaration| known.name == part.name && known.made.kind() == part.made.kind();
        if !parts.iter().any(same) {
            parts.push(part);
        }
    }
    parts
}

impl Made {
    fn kind(&self) -> TopologyKind {
        match self {
            Self::Exchange(_) => TopologyKind::Exchange,
            Self::Queue { .. } => TopologyKind::Queue,
        }
    }
}

/// A queue for messages that exist nowhere else: its dead letters stay until their own queue has taken them.
fn taken(config: &BrokerConfig, name: String, rejected: &str) -> Declaration {
    let mut part = filled(config, dead_lettered(config, name, "", Some(rejected)));
    if let Made::Queue { arguments, .. } = &mut part.made
        && config.queue_type == QueueType::Quorum
        && arguments.contains_key("x-overflow")
    {
        arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    }
    part
}

/// A queue that refuses messages beyond its limits.
fn filled(config: &BrokerConfig, part: Declaration) -> Declaration {
    bounded(config, part, "reject-publish")
}

fn bounded(config: &BrokerConfig, mut part: Declaration, overflow: &str) -> Declaration {
    let Made::Queue { arguments, earlier, .. } = &mut part.made else { return part };
    let unlimited = arguments.clone();
    if config.submit_depth > 0 {
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(i64::from(config.submit_depth)));
    }
    if config.submit_bytes > 0 {
        let bytes = i64::try_from(config.submit_bytes).unwrap_or(i64::MAX);
        arguments.insert("x-max-length-bytes".into(), AMQPValue::LongLongInt(bytes));
    }
    if *arguments != unlimited {
        arguments.insert("x-overflow".into(), text(overflow));
        *earlier = Some(unlimited);
    }
    part
}

/// The exchange and queue for all messages that can't be used. The exchange takes any key.
fn dead(config: &BrokerConfig, names: &Names) -> Vec<Declaration> {
    // Their rows are in the database, so the oldest may be dropped.
    let mut queue = bounded(config, kept(config, names.dead()), "drop-head");
    if let Made::Queue { bound, .. } = &mut queue.made {
        *bound = Some(names.dead());
    }
    vec![Declaration { name: names.dead(), made: Made::Exchange(ExchangeKind::Fanout) }, queue]
}

/// A queue that refuses messages beyond its depth, so that the jobs wait in the table.
fn limited(config: &BrokerConfig, names: &Names, name: String) -> Declaration {
    let mut part = dead_lettered(config, name, &names.dead(), None);
    if let Made::Queue { arguments, .. } = &mut part.made {
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(i64::from(config.depth)));
        arguments.insert("x-overflow".into(), text("reject-publish"));
    }
    part
}

/// A queue whose rejected or too often delivered messages go to this exchange, with this key instead of their own.
fn dead_lettered(config: &BrokerConfig, name: String, exchange: &str, key: Option<&str>) -> Declaration {
    let mut part = plain(config, name);
    if let Made::Queue { arguments, .. } = &mut part.made {
        arguments.insert("x-dead-letter-exchange".into(), text(exchange));
        if let Some(key) = key {
            arguments.insert("x-dead-letter-routing-key".into(), text(key));
        }
    }
    part
}

/// A queue that keeps messages until an operator has read them. Each reading is a delivery, so a broker with a limit would drop a message
/// after a few of them.
fn kept(config: &BrokerConfig, name: String) -> Declaration {
    let mut part = plain(config, name);
    if let Made::Queue { arguments, .. } = &mut part.made
        && config.queue_type == QueueType::Quorum
    {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
    }
    part
}

fn plain(config: &BrokerConfig, name: String) -> Declaration {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text(config.queue_type.as_str()));
    Declaration { name, made: Made::Queue { arguments, earlier: None, bound: None } }
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_planned_once_and_its_dead_letters_first() {
        let config = BrokerConfig::url("amqp://h");
        let names = Names::new("p");
        let parts = all(&config, &names, &["a".to_owned(), "b".to_owned()], &["a".to_owned()]);
        let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "p.event",
                "p.submit.rejected",
                "p.submit",
                "p.dead",
                "p.dead",
                "p.q.a",
                "p.q.b",
                "p.x.a",
                "p.reply.rejected",
                "p.reply"
            ]
        );
        let item = parts[5].item(TopologyState::Planned);
        for part in
            ["x-queue-type=quorum", "x-max-length=1000", "x-overflow=reject-publish", "x-dead-letter-exchange=p.dead"]
        {
            assert!(item.settings.contains(part), "{}", item.settings);
        }
    }

    #[test]
    fn looking_at_what_is_kept_never_uses_it_up() {
        let limited = |config: &BrokerConfig| -> Vec<String> {
            let parts = all(config, &Names::new("p"), &[], &["a".to_owned()]);
            let items = parts.iter().map(|part| part.item(TopologyState::Planned));
            items.filter(|item| item.settings.contains("x-delivery-limit=1000000000")).map(|item| item.name).collect()
        };
        let quorum = BrokerConfig::url("amqp://h");
        assert_eq!(limited(&quorum), ["p.submit.rejected", "p.dead", "p.reply.rejected"]);
        // Classic queues know no such limit, and refuse to be declared with one.
        assert!(limited(&BrokerConfig { queue_type: QueueType::Classic, ..quorum }).is_empty());
    }

    #[test]
    fn a_queue_knows_what_it_needs() {
        let config = BrokerConfig::url("amqp://h");
        let names = Names::new("p");
        let needs = |name: &str| {
            queue(&config, &names, name).map(|parts| parts.into_iter().map(|part| part.name).collect::<Vec<_>>())
        };
        assert_eq!(needs("p.q.a").unwrap(), ["p.dead", "p.dead", "p.q.a"]);
        assert_eq!(needs("p.reply").unwrap(), ["p.reply.rejected", "p.reply"]);
        assert_eq!(needs("p.submit").unwrap(), ["p.submit.rejected", "p.submit"]);
        assert_eq!(needs("p.dead").unwrap(), ["p.dead", "p.dead"]);
        assert_eq!(needs("other"), None);
    }
}
