//! The metrics of the database.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use jobwright::admin::Admin;
use jobwright::admin::{Count, HeldUp, NodeStatus, QueueStatus, Reason, Rule, Scope, StatusReport};
use jobwright::internal::VacuumStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::Mutex;
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;

use crate::encode::{Labels, Writer, answer};
use crate::kinds::Kinds;
use crate::later::Later;
use crate::overdue::Overdue;
use crate::vacuum;

/// The most queues that have rows of their own. The jobs of the others count as those of [`OTHER`]: a queue for each customer must not become a time
/// series for each customer.
const QUEUES: usize = 200;
/// The queue of the rows that stand for all others.
const OTHER: &str = "(other)";
/// How soon it is asked again after it did not answer.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// How long the database may take for an answer: less than a scraper waits.
const DEADLINE: Duration = Duration::from_secs(8);

type Last = Option<(Instant, Arc<Snapshot>)>;

/// Reads the database for scrapers.
#[derive(Clone)]
pub(crate) struct Exporter {
    admin: Later<Admin>,
    every: Duration,
    /// When it was read last, and the answer. Locked while the database is asked, so that others wait for the same answer.
    last: Arc<Mutex<Last>>,
}

pub(crate) async fn metrics(State(exporter): State<Exporter>, headers: HeaderMap) -> Response {
    answer(&headers, exporter.snapshot().await)
}

impl Exporter {
    pub(crate) fn new(admin: Later<Admin>, every: Duration) -> Self {
        Self { admin, every, last: Arc::default() }
    }

    async fn snapshot(&self) -> Arc<Snapshot> {
        let mut last = self.last.clone().lock_owned().await;
        if let Some((at, snapshot)) = &*last
            && at.elapsed() < if snapshot.0.is_some() { self.every } else { self.every.min(AFTER_FAILURE) }
        {
            return snapshot.clone();
        }
        let Some(admin) = self.admin.get().cloned() else { return Arc::default() };
        // A task of its own, which goes on if the scraper goes: or each scrape would ask a slow database again.
        let reading = tokio::spawn(async move {
            let snapshot = Arc::new(Snapshot(read(&admin).await));
            *last = Some((Instant::now(), snapshot.clone()));
            snapshot
        });
        reading.await.unwrap_or_default()
    }
}

async fn read(admin: &Admin) -> Option<Stored> {
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let until = tokio::time::Instant::now() + DEADLINE;
    let counts = async {
        let read = timeout_at(until, async { tokio::try_join!(admin.status(), admin.rules()) }).await;
        let (StatusReport { queues, nodes, .. }, rules) = told("the queues and nodes", read)?;
        let named = named(&queues);
        let kinds = timeout_at(until, admin.waiting_kinds(with_kinds(&queues, named.as_ref()))).await;
        Some((queues, nodes, rules, named, kinds))
    };
    // They ask for much more, and the others do not depend on them.
    let more = async {
        tokio::join!(
            timeout_at(until, admin.why_waiting(None, None)),
            timeout_at(until, admin.vacuum()),
            timeout_at(until, Overdue::read(admin)),
        )
    };
    let (counts, (held, vacuum, overdue)) = tokio::join!(counts, more);
    let (queues, nodes, rules, named, kinds) = counts?;
    let held = told("the reasons why jobs wait", held).unwrap_or_default();
    let vacuum = told("the dead rows", vacuum).flatten();
    let overdue = told("the overdue work", overdue);
    let mut kinds = told("the kinds of waiting jobs", kinds).map(Kinds::new);
    let (queues, held) = (joined(&queues, named.as_ref()), by_reason(held, named.as_ref()));
    let others = queues.iter().find(|queue| named.is_some() && queue.queue == OTHER && queue.waiting != 0);
    if let (Some(kinds), Some(others)) = (&mut kinds, others) {
        kinds.add_rest(OTHER, others.waiting, others.oldest_waiting_seconds);
    }
    Some(Stored { at, queues, kinds, nodes, rules, held, vacuum, overdue, named })
}

/// Logs a failed reading.
fn told<T>(what: &str, answer: Result<jobwright::Result<T>, Elapsed>) -> Option<T> {
    match answer {
        Ok(Ok(answer)) => return Some(answer),
        Ok(Err(error)) => tracing::warn!(%error, "{what} could not be read; their metrics are absent"),
        Err(_) => tracing::warn!("{what} could not be read within {DEADLINE:?}; their metrics are absent"),
    }
    None
}

/// The state of the database; `None` = it did not answer.
#[derive(Debug, Default)]
pub(crate) struct Snapshot(Option<Stored>);

#[derive(Debug)]
struct Stored {
    at: Duration,
    queues: Vec<QueueStatus>,
    /// `None`: they could not be read in time.
    kinds: Option<Kinds>,
    nodes: Vec<NodeStatus>,
    rules: Vec<Rule>,
    /// How many jobs wait for each reason, by queue.
    held: BTreeMap<Held, u64>,
    /// `None`: it could not be read in time, or the database has no dead rows.
    vacuum: Option<VacuumStatus>,
    /// `None`: it could not be read in time.
    overdue: Option<Overdue>,
    /// The queues that have rows of their own; `None` = all.
    named: Option<BTreeSet<String>>,
}

/// Jobs of a queue that wait for a reason.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    queue: String,
    reason: String,
    /// Whether that stays until a person or another program acts.
    lasts: bool,
}

/// Returns the queues with the most jobs, if there are too many.
fn named(queues: &[QueueStatus]) -> Option<BTreeSet<String>> {
    if queues.len() <= QUEUES {
        return None;
    }
    let mut all: Vec<&QueueStatus> = queues.iter().collect();
    all.sort_by_key(|queue| std::cmp::Reverse(states(queue).into_iter().map(|(_, count)| count.get()).sum::<u64>()));
    Some(all.into_iter().take(QUEUES).map(|queue| queue.queue.clone()).collect())
}

/// Returns the queue under which the numbers of a queue are shown.
fn shown<'a>(queue: &'a str, named: Option<&BTreeSet<String>>) -> &'a str {
    if named.is_none_or(|named| named.contains(queue)) { queue } else { OTHER }
}

/// Returns the queues whose jobs are sorted by kind: those that have rows of their own. The jobs of the others have no kind there.
fn with_kinds<'a>(queues: &'a [QueueStatus], named: Option<&BTreeSet<String>>) -> impl Iterator<Item = &'a str> {
    let waits = queues.iter().filter(|queue| queue.waiting != 0).map(|queue| queue.queue.as_str());
    waits.filter(move |queue| named.is_none_or(|named| named.contains(*queue)))
}

/// Joins the queues that have no rows of their own.
fn joined(queues: &[QueueStatus], named: Option<&BTreeSet<String>>) -> Vec<QueueStatus> {
    let mut joined: BTreeMap<&str, QueueStatus> = BTreeMap::new();
    let older = |one: Option<f64>, another: Option<f64>| match (one, another) {
        (Some(one), Some(another)) => Some(one.max(another)),
        (one, another) => one.or(another),
    };
    for queue in queues {
        let name = shown(&queue.queue, named);
        let sum = joined.entry(name).or_default();
        name.clone_into(&mut sum.queue);
        sum.waiting += queue.waiting;
        sum.blocked += queue.blocked;
        sum.running += queue.running;
        sum.external += queue.external;
        sum.timer += queue.timer;
        sum.suspended += queue.suspended;
        sum.dead += queue.dead;
        sum.oldest_waiting_seconds = older(sum.oldest_waiting_seconds, queue.oldest_waiting_seconds);
        sum.oldest_overdue_seconds = older(sum.oldest_overdue_seconds, queue.oldest_overdue_seconds);
    }
    joined.into_values().collect()
}

fn states(queue: &QueueStatus) -> [(&'static str, Count); 7] {
    [
        ("waiting", queue.waiting),
        ("blocked", queue.blocked),
        ("running", queue.running),
        ("external", queue.external),
        ("timer", queue.timer),
        ("suspended", queue.suspended),
        ("dead", queue.dead),
    ]
}

/// Counts the jobs by the words of `jobwright why`. Two reasons with the same word, such as two pauses, count once.
fn by_reason(held: Vec<HeldUp>, named: Option<&BTreeSet<String>>) -> BTreeMap<Held, u64> {
    let mut counts = BTreeMap::new();
    for HeldUp { jobs, example, .. } in held {
        let words: BTreeMap<String, bool> = example.reasons.iter().fold(BTreeMap::new(), |mut words, reason| {
            *words.entry(word(reason)).or_default() |= reason.lasts();
            words
        });
        for (reason, lasts) in words {
            let queue = shown(&example.queue, named).to_owned();
            *counts.entry(Held { queue, reason, lasts }).or_default() += jobs;
        }
    }
    counts
}

/// Returns the word of a reason, which `jobwright why --output json` has too.
fn word(reason: &Reason) -> String {
    let json = serde_json::to_value(reason).unwrap_or_default();
    json["reason"].as_str().unwrap_or("unknown").to_owned()
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Writer(encoder);
        let up = f64::from(u8::from(self.0.is_some()));
        to.gauge("jobwright_database_up", "1 if the database could be read", [(Labels::new(), up)])?;
        let Some(stored) = &self.0 else { return Ok(()) };
        let at = stored.at.as_secs_f64();
        to.gauge("jobwright_snapshot_timestamp_seconds", "When this was read", [(Labels::new(), at)])?;
        stored.queues(&mut to)?;
        stored.kinds.as_ref().map_or(Ok(()), |kinds| kinds.encode(&mut to))?;
        stored.vacuum.as_ref().map_or(Ok(()), |status| vacuum::encode(status, &mut to))?;
        stored.overdue.as_ref().map_or(Ok(()), |overdue| overdue.encode(&mut to))?;
        stored.nodes(&mut to)
    }
}

impl Stored {
    fn queues(&self, to: &mut Writer<'_>) -> fmt::Result {
        let jobs = self.queues.iter().flat_map(|queue| {
            states(queue)
                .map(|(state, count)| (vec![("queue", queue.queue.as_str()), ("state", state)], count.get() as f64))
        });
        to.gauge("jobwright_queue_jobs", "Jobs by queue and state", jobs)?;
        let inexact = self.queues.iter().flat_map(|queue| {
            let inexact = states(queue).into_iter().map(|(state, count)| (state, u8::from(!count.is_exact())));
            inexact.map(|(state, inexact)| (vec![("queue", queue.queue.as_str()), ("state", state)], inexact.into()))
        });
        to.gauge(
            "jobwright_queue_jobs_inexact",
            "Whether the number of jobs is an estimate or a lower bound",
            inexact,
        )?;
        let late = self.queues.iter().map(|queue| (queue.oldest_overdue_seconds, queue));
        let late = late.map(|(late, queue)| (of(&queue.queue), late.unwrap_or_default()));
        to.gauge("jobwright_queue_oldest_overdue_seconds", "For how long a timer is due and not moved", late)?;
        let oldest = self.queues.iter().map(|queue| (queue.oldest_waiting_seconds, queue));
        let oldest = oldest.map(|(oldest, queue)| (of(&queue.queue), oldest.unwrap_or_default()));
        to.gauge("jobwright_queue_oldest_waiting_seconds", "Age of the oldest waiting job", oldest)?;
        let held = self.held.iter().map(|(Held { queue, reason, lasts }, count)| {
            let lasts = if *lasts { "true" } else { "false" };
            (vec![("queue", queue.as_str()), ("reason", reason.as_str()), ("lasts", lasts)], *count as f64)
        });
        to.gauge("jobwright_held_jobs", "Waiting and blocked jobs by reason, of the 50 largest classes", held)?;
        let paused = self.rules.iter().filter(|rule| rule.paused && matches!(rule.scope, Scope::Queue | Scope::Kind));
        let paused = paused.map(|rule| (vec![("scope", rule.scope.as_str()), ("name", rule.name.as_str())], 1.0));
        to.gauge("jobwright_paused", "1 for each queue and kind that is paused", paused)
    }

    fn nodes(&self, to: &mut Writer<'_>) -> fmt::Result {
        let alive = |node: &&NodeStatus| !node.dead && node.lease_seconds_left > 0.0;
        let (here, gone): (Vec<&NodeStatus>, Vec<_>) = self.nodes.iter().partition(alive);
        let nodes = [("alive", here.len()), ("dead", gone.len())];
        let nodes = nodes.map(|(state, count)| (vec![("state", state)], count as f64));
        to.gauge("jobwright_nodes", "Nodes by state", nodes)?;
        let mut tasks: BTreeMap<&str, u64> = BTreeMap::new();
        for node in &here {
            // One node may claim for many queues. Missing external workers are told by the jobs that wait for them.
            let failing: BTreeSet<&str> =
                node.failing.iter().filter(|task| !task.lacks_consumers()).map(|task| task.task.as_str()).collect();
            for task in failing {
                *tasks.entry(task).or_default() += 1;
            }
        }
        let tasks = tasks.into_iter().map(|(task, count)| (vec![("task", task)], count as f64));
        to.gauge("jobwright_failing_tasks", "Living nodes on which a task fails again and again", tasks)?;
        let name = |queue| shown(queue, self.named.as_ref());
        let mut slots: BTreeMap<&str, u64> = self.queues.iter().map(|queue| (queue.queue.as_str(), 0)).collect();
        for (queue, count) in here.iter().filter_map(|node| node.serves.as_ref()).flat_map(|serves| &serves.queues) {
            *slots.entry(name(queue)).or_default() += count;
        }
        let slots = slots.into_iter().map(|(queue, count)| (of(queue), count as f64));
        to.gauge("jobwright_queue_slots", "Slots of all living nodes for a queue", slots)
    }
}

fn of(queue: &str) -> Labels<'_> {
    vec![("queue", queue)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, waiting: u64, oldest: f64) -> QueueStatus {
        let waiting = Count::Exact(waiting);
        QueueStatus { queue: name.to_owned(), waiting, oldest_waiting_seconds: Some(oldest), ..QueueStatus::default() }
    }

    /// A queue for each customer, of which one is named as the others are.
    #[test]
    fn the_smaller_of_many_queues_are_joined() {
        let mut queues: Vec<_> = (0..300).map(|n| queue(&format!("q{n}"), 1_000 - n, n as f64)).collect();
        queues.push(queue(OTHER, 5, 1.0));
        let named = named(&queues);
        let joined = joined(&queues, named.as_ref());
        assert_eq!(joined.len(), QUEUES + 1);
        let other = joined.iter().find(|queue| queue.queue == OTHER).unwrap();
        assert_eq!(other.waiting, (200..300).map(|n| 1_000 - n).sum::<u64>() + 5);
        assert_eq!(other.oldest_waiting_seconds, Some(299.0));
        assert_eq!((shown("q0", named.as_ref()), shown("q299", named.as_ref())), ("q0", OTHER));
        assert!(super::named(&queues[..QUEUES]).is_none());
    }
}
