//! Which queues and exchanges there are to be. See ADR 0022.

use std::fmt;

use lapin::ExchangeKind;
use lapin::types::{AMQPValue, FieldTable, LongString};

use super::message::Lane;
use super::names::Names;
use crate::config::{BrokerConfig, QueueType};

/// Deliveries of a message that is kept: no limit, in a form that every version takes.
const LOOKS: i64 = 1_000_000_000;

/// One queue or exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopologyItem {
    /// Queue or exchange.
    pub kind: TopologyKind,
    /// Its name at the broker.
    pub name: String,
    /// What it is made of, for people.
    pub settings: String,
    /// How it stands.
    pub state: TopologyState,
}

/// What kind of thing an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// How an item stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyState {
    /// Not looked at: what would be declared.
    Planned,
    /// It is there, and as it should be as far as the user's rights let us see.
    Present,
    /// It was not there, and is now.
    Created,
    /// An earlier version declared it: it is there and works, without limits for what waits in it. A policy sets them.
    Unlimited,
    /// It is not there.
    Missing,
    /// It is there and is something else, in the broker's words. Delete it (when it is empty) and apply again.
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

/// What is to be declared.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) made: Made,
}

#[derive(Clone, Debug)]
pub(super) enum Made {
    Exchange(ExchangeKind),
    /// With arguments, and bound to these exchanges.
    Queue {
        arguments: FieldTable,
        /// How earlier versions declared it, which it may still be: without limits.
        earlier: Option<FieldTable>,
        bound: Option<String>,
    },
}

impl Part {
    /// The same as earlier versions declared it, if that is something else.
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

/// What a lane needs, in the order to declare it.
pub(super) fn lane(config: &BrokerConfig, names: &Names, lane: &Lane) -> Vec<Part> {
    match lane {
        Lane::Events => vec![Part { name: names.events(), made: Made::Exchange(ExchangeKind::Topic) }],
        Lane::Deliveries(queue) => with(dead(config, names), [limited(config, names, names.deliveries(queue))]),
        Lane::External(queue) => {
            let handed_out = with(dead(config, names), [limited(config, names, names.external(queue))]);
            with(handed_out, reports(config, names))
        }
        Lane::Submissions => submissions(config, names).into(),
    }
}

fn with(mut parts: Vec<Part>, more: impl IntoIterator<Item = Part>) -> Vec<Part> {
    parts.extend(more);
    parts
}

/// Where jobs are submitted, and before it where those go that are not taken in.
fn submissions(config: &BrokerConfig, names: &Names) -> [Part; 2] {
    [filled(config, kept(config, names.rejected())), taken(config, names.submit(), &names.rejected())]
}

/// The same of reports.
fn reports(config: &BrokerConfig, names: &Names) -> [Part; 2] {
    let rejected = names.rejected_reports();
    [filled(config, kept(config, rejected.clone())), taken(config, names.reply(), &rejected)]
}

/// The lane of a queue that can be consumed.
pub(super) fn lane_of(names: &Names, queue: &str) -> Option<Lane> {
    if queue == names.submit() || queue == names.rejected() {
        return Some(Lane::Submissions);
    }
    let after = |prefix: String| queue.strip_prefix(&prefix).map(str::to_owned);
    after(names.deliveries("")).map(Lane::Deliveries).or_else(|| after(names.external("")).map(Lane::External))
}

/// What is needed to consume from this queue; `None`: it is none of ours.
pub(super) fn queue(config: &BrokerConfig, names: &Names, name: &str) -> Option<Vec<Part>> {
    if name == names.dead() {
        return Some(dead(config, names));
    }
    if name == names.reply() || name == names.rejected_reports() {
        return Some(reports(config, names).into());
    }
    let lane_of = lane_of(names, name)?;
    let mut parts = lane(config, names, &lane_of);
    if lane_of != Lane::Submissions {
        parts.retain(|part| part.name == name || part.name == names.dead());
    }
    Some(parts)
}

/// Everything, for these queues with executors of ours and these with external workers.
pub(super) fn all(config: &BrokerConfig, names: &Names, queues: &[String], external: &[String]) -> Vec<Part> {
    let mut lanes = vec![Lane::Events];
    if config.intake {
        lanes.push(Lane::Submissions);
    }
    lanes.extend(queues.iter().cloned().map(Lane::Deliveries));
    lanes.extend(external.iter().cloned().map(Lane::External));
    let mut parts: Vec<Part> = Vec::new();
    for part in lanes.iter().flat_map(|each| lane(config, names, each)) {
        let same = |known: &Part| known.name == part.name && known.made.kind() == part.made.kind();
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

/// What comes from others, and exists nowhere else: its dead letters stay until their own queue has taken them.
fn taken(config: &BrokerConfig, name: String, rejected: &str) -> Part {
    let mut part = filled(config, buried(config, name, "", Some(rejected)));
    if let Made::Queue { arguments, .. } = &mut part.made
        && config.queue_type == QueueType::Quorum
        && arguments.contains_key("x-overflow")
    {
        arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    }
    part
}

/// Takes no more than it may hold.
fn filled(config: &BrokerConfig, part: Part) -> Part {
    bounded(config, part, "reject-publish")
}

fn bounded(config: &BrokerConfig, mut part: Part, overflow: &str) -> Part {
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

/// Where all that nobody can use ends up: an exchange that takes any key, and a queue.
fn dead(config: &BrokerConfig, names: &Names) -> Vec<Part> {
    // Their rows are in the database: the oldest may go.
    let mut queue = bounded(config, kept(config, names.dead()), "drop-head");
    if let Made::Queue { bound, .. } = &mut queue.made {
        *bound = Some(names.dead());
    }
    vec![Part { name: names.dead(), made: Made::Exchange(ExchangeKind::Fanout) }, queue]
}

/// Refuses what is beyond the depth, so that it waits in the table.
fn limited(config: &BrokerConfig, names: &Names, name: String) -> Part {
    let mut part = buried(config, name, &names.dead(), None);
    if let Made::Queue { arguments, .. } = &mut part.made {
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(i64::from(config.depth)));
        arguments.insert("x-overflow".into(), text("reject-publish"));
    }
    part
}

/// What is rejected, or delivered too often, goes to this exchange, with this key instead of its own.
fn buried(config: &BrokerConfig, name: String, exchange: &str, key: Option<&str>) -> Part {
    let mut part = plain(config, name);
    if let Made::Queue { arguments, .. } = &mut part.made {
        arguments.insert("x-dead-letter-exchange".into(), text(exchange));
        if let Some(key) = key {
            arguments.insert("x-dead-letter-routing-key".into(), text(key));
        }
    }
    part
}

/// Keeps messages until somebody has looked. Looking at one is a delivery, and a broker with a limit would drop it after some looks.
fn kept(config: &BrokerConfig, name: String) -> Part {
    let mut part = plain(config, name);
    if let Made::Queue { arguments, .. } = &mut part.made
        && config.queue_type == QueueType::Quorum
    {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(LOOKS));
    }
    part
}

fn plain(config: &BrokerConfig, name: String) -> Part {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text(config.queue_type.as_str()));
    Part { name, made: Made::Queue { arguments, earlier: None, bound: None } }
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
        // They know no such limit, and refuse to be declared with one.
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
