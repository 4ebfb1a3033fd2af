//! `jobwright status`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobwright::admin::{Count, HeldUp, NodeStatus, QueueStatus, Serves, StatusReport};
use jobwright::headers::{EVENT_QUEUE, REPLY_QUEUE};
use jobwright::internal::SqlWorker;
use jobwright::{AnyStore, BrokerMode, ExternalQueue, MessageServices};
use serde::Serialize;

use super::mode::Mode;
use super::slow_notice::with_slow_notice;
use super::{connect, rejected};
use crate::args::StatusArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, counted, harmless, json, json_line, or_dash, print, table, time};

/// How long it reads the reasons that hold jobs up.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many of them it shows.
const HELD: usize = 3;
/// Interval of `--watch`.
const EVERY: Duration = Duration::from_secs(2);

/// A queue of the broker. Without numbers, it is missing.
#[derive(Serialize)]
struct BrokerQueue {
    queue: String,
    messages: Option<u32>,
    consumers: Option<u32>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    mode: Mode,
    /// Queues of the broker, by the name of the queue they belong to; empty if the broker can't be asked.
    broker_queues: BTreeMap<String, BrokerQueue>,
    /// Rejected messages at the broker, by the queue that holds them.
    rejected: BTreeMap<String, u32>,
    messages: String,
    #[serde(flatten)]
    status: StatusReport,
    /// Jobs that wait for something that stays until a person acts, the largest classes first. Not read for `--watch`: it asks for much more.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_up: Option<Vec<HeldUp>>,
    /// How many more jobs wait each second than before, by queue; `None` = nothing was read before.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_per_second: Option<BTreeMap<String, f64>>,
    #[serde(skip)]
    read: Instant,
}

impl Report {
    /// Compares the queues with those of an earlier report. Estimates are not compared.
    fn compare(&mut self, before: &Self) {
        let seconds = self.read.duration_since(before.read).as_secs_f64();
        let waiting = |report: &Self, name: &str| match report.status.queues.iter().find(|queue| queue.queue == name) {
            Some(queue) => match queue.waiting {
                Count::Exact(jobs) => Some(jobs as f64),
                _ => None,
            },
            None => Some(0.0),
        };
        let names = self.status.queues.iter().chain(&before.status.queues).map(|queue| &queue.queue);
        let change = |name: &String| Some((name.clone(), (waiting(self, name)? - waiting(before, name)?) / seconds));
        self.waiting_per_second = Some(names.filter_map(change).collect());
    }
}

pub(crate) async fn run(settings: &Settings, args: &StatusArgs) -> Result<(), Failure> {
    // This command should report a broker that does not answer, even one that other commands require.
    let mut settings = settings.clone();
    settings.broker.required = false;
    let settings = &settings;
    let messages = connect(settings).await?;
    if !args.watch {
        let mut report = report(&messages, settings).await?;
        report.held_up = held_up(&messages).await;
        return show(&report, args.output.output, false);
    }
    let mut before: Option<Report> = None;
    loop {
        let mut report = report(&messages, settings).await?;
        if let Some(before) = &before {
            report.compare(before);
        }
        if args.output.output == Format::Table && std::io::stdout().is_terminal() {
            // Cursor home, then clear below: no flicker.
            print("\x1b[H\x1b[J")?;
        }
        show(&report, args.output.output, true)?;
        before = Some(report);
        tokio::select! {
            stop = tokio::signal::ctrl_c() => {
                return stop.map_err(|error| Failure::Failed(format!("can't wait for Ctrl-C: {error}")));
            }
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn report(messages: &MessageServices<AnyStore>, settings: &Settings) -> Result<Report, Failure> {
    let mode = Mode::of(messages).await;
    let status = with_slow_notice(settings, messages.admin().status()).await?;
    let read = Instant::now();
    let (broker_queues, rejected) = (broker_queues(messages, settings, &status).await, put_aside(messages).await);
    Ok(Report {
        mode,
        broker_queues,
        rejected,
        messages: messages.describe(),
        status,
        held_up: None,
        waiting_per_second: None,
        read,
    })
}

/// Reads the reasons that hold jobs up.
async fn held_up(messages: &MessageServices<AnyStore>) -> Option<Vec<HeldUp>> {
    let read = tokio::time::timeout(PATIENCE, messages.admin().why_waiting(None, None)).await;
    let mut held = match read {
        Ok(Ok(held)) => held,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the reasons why jobs wait could not be read");
            return None;
        }
        Err(_) => {
            tracing::warn!(
                "the reasons why jobs wait could not be read within {PATIENCE:?}; `jobwright why` waits longer for them"
            );
            return None;
        }
    };
    held.retain(|held| held.example.lasts());
    held.sort_by_key(|held| std::cmp::Reverse(held.jobs));
    Some(held)
}

/// Reads the broker queues that the database or the configuration names.
async fn broker_queues(
    messages: &MessageServices<AnyStore>,
    settings: &Settings,
    status: &StatusReport,
) -> BTreeMap<String, BrokerQueue> {
    let Some(broker) = messages.broker().filter(|broker| !matches!(broker.mode(), BrokerMode::Down { .. })) else {
        return BTreeMap::new();
    };
    let external: BTreeSet<&str> = settings.external_queues().map(ExternalQueue::name).collect();
    let own = settings.own_queues();
    let known = status.queues.iter().map(|queue| queue.queue.as_str()).chain(own.iter().map(String::as_str));
    let queues: Vec<&str> = known
        .chain(external.iter().copied())
        .filter(|name| ![EVENT_QUEUE, REPLY_QUEUE].contains(name))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let handed = |name: &str| {
        external.contains(name) || status.queues.iter().any(|queue| queue.queue == name && queue.external != 0)
    };
    let names = broker.names();
    let at_broker: Vec<String> =
        queues.iter().map(|name| if handed(name) { names.external(name) } else { names.deliveries(name) }).collect();
    match broker.queues(&at_broker).await {
        Ok(found) => queues
            .into_iter()
            .zip(found)
            .map(|(name, queue)| {
                (
                    name.to_owned(),
                    BrokerQueue { queue: queue.name, messages: queue.messages, consumers: queue.consumers },
                )
            })
            .collect(),
        Err(error) => {
            tracing::warn!(%error, "the queues of the broker could not be read");
            BTreeMap::new()
        }
    }
}

/// Returns the queues of rejected messages that are not empty.
async fn put_aside(messages: &MessageServices<AnyStore>) -> BTreeMap<String, u32> {
    let Some(broker) = messages.broker().filter(|broker| !matches!(broker.mode(), BrokerMode::Down { .. })) else {
        return BTreeMap::new();
    };
    match rejected::waiting(broker).await {
        Ok(waiting) => waiting.into_iter().filter(|(_, messages)| *messages > 0).collect(),
        Err(error) => {
            tracing::warn!(%error, "the rejected messages at the broker could not be counted");
            BTreeMap::new()
        }
    }
}

fn show(report: &Report, format: Format, watching: bool) -> Result<(), Failure> {
    if format == Format::Json {
        // One document per line, for readers of a stream.
        return if watching { json_line(report) } else { json(report) };
    }
    let StatusReport { queues, nodes, workers } = &report.status;
    let mut text = format!("mode      {}\nmessages  {}\n\n", report.mode.text(), report.messages);
    if watching {
        text.insert_str(0, &format!("at        {}\n", time(Timestamp::now())));
    }
    if queues.is_empty() {
        text.push_str("No jobs.\n");
    } else {
        text.push_str(&queues_table(queues));
    }
    if let Some(rates) = &report.waiting_per_second {
        let changes: Vec<_> = rates.iter().filter(|(_, rate)| rate.abs() >= 0.05).collect();
        let told = changes.iter().map(|(queue, rate)| format!("{queue} {rate:+.1}/s"));
        if !changes.is_empty() {
            text.push_str(&harmless(&format!("waiting: {}", told.collect::<Vec<_>>().join(", "))));
            text.push('\n');
        }
    }
    let held = report.held_up.as_deref().unwrap_or_default();
    for HeldUp { jobs, example, .. } in held.iter().take(HELD) {
        let jobs = counted(*jobs, "job");
        if let Some(reason) = example.reasons.iter().find(|reason| reason.lasts()) {
            let remedy = reason.remedy(example.id).map_or_else(String::new, |remedy| format!("; {remedy}"));
            text.extend(["→ ", &harmless(&format!("{jobs}, for instance {}: {reason}{remedy}", example.id)), "\n"]);
        }
    }
    if held.len() > HELD {
        text.push_str("→ `jobwright why` lists all jobs that are held up like this\n");
    }
    if !report.broker_queues.is_empty() {
        text.push('\n');
        text.push_str(&table(
            ["queue", "at the broker", "messages", "consumers"],
            report.broker_queues.iter().map(|(name, at_broker)| {
                let messages = at_broker.messages.map_or_else(|| "missing".to_owned(), |n| n.to_string());
                [name.clone(), at_broker.queue.clone(), messages, or_dash(at_broker.consumers)]
            }),
        ));
    }
    if !report.rejected.is_empty() {
        text.push('\n');
        let rows = report.rejected.iter().map(|(queue, messages)| [queue.clone(), messages.to_string()]);
        text.push_str(&table(["queue of rejected messages", "messages"], rows));
        text.extend(["→ ", rejected::TODO, "\n"]);
    }
    text.push('\n');
    if nodes.is_empty() {
        let runs = if workers.iter().any(|worker| worker.alive) {
            "nothing releases jobs, promotes timers or admits groups"
        } else {
            "nothing runs jobs"
        };
        text.extend(["No nodes: ", runs, " (start one with `jobwright worker`).\n"]);
    } else {
        text.push_str(&nodes_text(nodes));
    }
    text.push_str(&workers_text(workers));
    if watching && !std::io::stdout().is_terminal() {
        // Between two reports.
        text.push('\n');
    }
    print(text)
}

pub(crate) fn queues_table(all: &[QueueStatus]) -> String {
    table(
        [
            "queue",
            "waiting",
            "blocked",
            "running",
            "external",
            "timer",
            "overdue",
            "suspended",
            "dead",
            "oldest waiting",
        ],
        all.iter().map(|queue| {
            let [waiting, blocked, running, external, timer, overdue, suspended, dead] =
                queue.counts().map(|(_, count)| count.to_string());
            let oldest = or_dash(queue.oldest_waiting_seconds.map(|seconds| format!("{seconds:.1} s")));
            [queue.queue.clone(), waiting, blocked, running, external, timer, overdue, suspended, dead, oldest]
        }),
    )
}

/// Lists nodes, and under them the kinds that they leave alone and their tasks that fail.
pub(crate) fn nodes_text(all: &[NodeStatus]) -> String {
    let mut text = nodes_table(all);
    for node in all.iter().filter(|node| !node.dead) {
        for (kind, why) in node.left_alone.iter().take(NAMED) {
            let told = format!("node {} ({}) leaves the kind {kind:?} alone: {why}", node.id, node.name);
            text.extend(["→ ", &harmless(&told), "\n"]);
        }
        for task in node.failing.iter().filter(|task| !task.lacks_consumers()) {
            let told = format!("node {} ({}) has reported since {}: {task}", node.id, node.name, time(task.since));
            text.extend(["→ ", &harmless(&told), "\n"]);
        }
    }
    text
}

/// Lists workers by SQL, if there are any.
pub(crate) fn workers_text(all: &[SqlWorker]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows = all.iter().map(|worker| {
        let queues = worker.queues.iter().map(|(queue, kinds)| match kinds {
            None => queue.clone(),
            Some(kinds) => format!("{queue} ({})", some(kinds.iter().cloned().collect())),
        });
        let heard = time(worker.heard_at) + if worker.alive { "" } else { " (silent)" };
        [worker.name.clone(), worker.held.to_string(), heard, some(queues.collect())]
    });
    format!("\n{}", table(["worker by SQL", "holds", "last heard", "queues"], rows))
}

fn nodes_table(all: &[NodeStatus]) -> String {
    table(
        ["node", "name", "host", "pid", "started at", "lease", "running", "broker", "queues", "kinds"],
        all.iter().map(|node| {
            let lease = if node.dead { "dead".to_owned() } else { format!("{:.0} s left", node.lease_seconds_left) };
            let (id, pid, running) = (node.id.to_string(), node.pid.to_string(), node.running.to_string());
            [
                id,
                node.name.clone(),
                node.host.clone(),
                pid,
                time(node.started_at),
                lease,
                running,
                or_dash(node.broker.as_deref()),
                or_dash(node.serves.as_ref().map(queues_of)),
                or_dash(node.serves.as_ref().map(|serves| kinds_of(node, serves))),
            ]
        }),
    )
}

/// How many names of queues or kinds a line has.
const NAMED: usize = 5;

fn queues_of(serves: &Serves) -> String {
    let here = serves.queues.iter().map(|(queue, slots)| format!("{queue}={slots}"));
    some(here.chain(serves.external.iter().map(|queue| format!("{queue} (external)"))).collect())
}

fn kinds_of(node: &NodeStatus, serves: &Serves) -> String {
    let kind =
        |kind: &String| if node.left_alone.contains_key(kind) { format!("{kind} (left alone)") } else { kind.clone() };
    some(serves.kinds.iter().map(kind).collect())
}

/// Lists the first few names; the JSON has all.
fn some(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}
