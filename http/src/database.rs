//! The metrics of what is stored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use jobwright::Admin;
use jobwright::store::{HeldUp, NodeStatus, QueueStatus, Reason, Rule, Scope, StatusReport};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::Mutex;

use crate::encode::{Labels, Writer, answer};

/// The most queues that have rows of their own. The jobs of the others count as those of [`OTHER`]: a queue for each customer must not become a time
/// series for each customer.
const QUEUES: usize = 200;
/// The queue of what has no rows of its own.
const OTHER: &str = "(other)";
/// How long the database may take for an answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Returns `/metrics` for what is stored. The database is asked at most once in `every`, whoever scrapes.
///
/// While the database does not answer, `jobwright_database_up` is 0 and all else is absent: an old number would look like a present one.
pub fn exporter(admin: Admin, every: Duration) -> Router {
    let exporter = Arc::new(Exporter { admin, every, last: Mutex::default() });
    Router::new().route("/metrics", get(metrics)).with_state(exporter)
}

struct Exporter {
    admin: Admin,
    every: Duration,
    /// When it was asked last, and the answer. Locked while the database is asked, so that others wait for the same answer.
    last: Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

async fn metrics(State(exporter): State<Arc<Exporter>>, headers: HeaderMap) -> Response {
    answer(&headers, exporter.snapshot().await)
}

impl Exporter {
    async fn snapshot(&self) -> Arc<Snapshot> {
        let mut last = self.last.lock().await;
        if let Some((at, snapshot)) = &*last
            && at.elapsed() < self.every
        {
            return snapshot.clone();
        }
        let stored = match tokio::time::timeout(DEADLINE, self.ask()).await {
            Ok(Ok(stored)) => Some(stored),
            Ok(Err(error)) => {
                tracing::warn!(%error, "what is stored could not be read; its metrics are absent");
                None
            }
            Err(_) => {
                tracing::warn!("the database did not answer within {DEADLINE:?}; its metrics are absent");
                None
            }
        };
        let snapshot = Arc::new(Snapshot(stored));
        *last = Some((Instant::now(), snapshot.clone()));
        snapshot
    }

    async fn ask(&self) -> jobwright::Result<Stored> {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let StatusReport { queues, nodes, .. } = self.admin.status().await?;
        let (rules, held) = (self.admin.rules().await?, self.admin.why_waiting(None, None).await?);
        Ok(Stored { at, queues: bounded(queues), nodes, rules, held: by_reason(held) })
    }
}

/// What is stored; `None` = the database did not say.
#[derive(Debug)]
struct Snapshot(Option<Stored>);

#[derive(Debug)]
struct Stored {
    at: Duration,
    queues: Vec<QueueStatus>,
    nodes: Vec<NodeStatus>,
    rules: Vec<Rule>,
    /// How many jobs wait for each reason, by queue.
    held: BTreeMap<(String, String), u64>,
}

/// Joins the queues beyond the largest ones.
fn bounded(mut queues: Vec<QueueStatus>) -> Vec<QueueStatus> {
    if queues.len() <= QUEUES {
        return queues;
    }
    queues.sort_by_key(|queue| std::cmp::Reverse(states(queue).map(|(_, count)| count).iter().sum::<u64>()));
    let rest = queues.split_off(QUEUES);
    let Some(mut other) = rest.first().cloned() else { return queues };
    OTHER.clone_into(&mut other.queue);
    for queue in &rest[1..] {
        other.waiting += queue.waiting;
        other.blocked += queue.blocked;
        other.running += queue.running;
        other.external += queue.external;
        other.timer += queue.timer;
        other.overdue += queue.overdue;
        other.suspended += queue.suspended;
        other.dead += queue.dead;
        other.oldest_waiting_seconds = match (other.oldest_waiting_seconds, queue.oldest_waiting_seconds) {
            (Some(one), Some(another)) => Some(one.max(another)),
            (one, another) => one.or(another),
        };
    }
    queues.push(other);
    queues
}

fn states(queue: &QueueStatus) -> [(&'static str, u64); 7] {
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

/// Counts the jobs by the words of `jobwright why`.
fn by_reason(held: Vec<HeldUp>) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for class in held {
        for reason in &class.example.reasons {
            *counts.entry((class.example.queue.clone(), word(reason))).or_default() += class.jobs;
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
        to.gauge("jobwright_database_up", "1 if the database answered", [(Labels::new(), up)])?;
        let Some(stored) = &self.0 else { return Ok(()) };
        let at = stored.at.as_secs_f64();
        to.gauge("jobwright_snapshot_timestamp_seconds", "When this was read", [(Labels::new(), at)])?;
        stored.queues(&mut to)?;
        stored.nodes(&mut to)
    }
}

impl Stored {
    fn queues(&self, to: &mut Writer<'_>) -> fmt::Result {
        let jobs = self.queues.iter().flat_map(|queue| {
            states(queue).map(|(state, count)| (vec![("queue", queue.queue.as_str()), ("state", state)], count as f64))
        });
        to.gauge("jobwright_queue_jobs", "Jobs by queue and state", jobs)?;
        let overdue = self.queues.iter().map(|queue| (named(&queue.queue), queue.overdue as f64));
        to.gauge("jobwright_queue_overdue_timers", "Timers that are due and not moved", overdue)?;
        let oldest =
            self.queues.iter().map(|queue| (named(&queue.queue), queue.oldest_waiting_seconds.unwrap_or_default()));
        to.gauge("jobwright_queue_oldest_waiting_seconds", "Age of the oldest waiting job", oldest)?;
        let held = self.held.iter().map(|((queue, reason), count)| {
            (vec![("queue", queue.as_str()), ("reason", reason.as_str())], *count as f64)
        });
        to.gauge("jobwright_held_jobs", "Waiting and blocked jobs by reason, of the first 100,000", held)?;
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
        let mut slots: BTreeMap<&str, u64> = self.queues.iter().map(|queue| (queue.queue.as_str(), 0)).collect();
        for (queue, count) in here.iter().filter_map(|node| node.serves.as_ref()).flat_map(|serves| &serves.queues) {
            *slots.entry(queue).or_default() += count;
        }
        let slots = slots.into_iter().map(|(queue, count)| (named(queue), count as f64));
        to.gauge("jobwright_queue_slots", "Slots of all living nodes for a queue", slots)
    }
}

fn named(queue: &str) -> Labels<'_> {
    vec![("queue", queue)]
}
