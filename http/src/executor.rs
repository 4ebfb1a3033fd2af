//! The metrics of an executor.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use jobwright::telemetry::{ExecutorMetrics, Health, HealthState, Histogram, JobMetrics, Telemetry};
use jobwright::{BrokerMode, BrokerStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::encode::{Labels, Writer, answer};
use crate::later::Later;
use crate::sent;

pub(crate) async fn metrics(State(telemetry): State<Later<Telemetry>>, headers: HeaderMap) -> Response {
    answer(&headers, Before(telemetry.get().map(|telemetry| Snapshot(telemetry.metrics(), telemetry.health()))))
}

/// The metrics, if there is an executor yet.
#[derive(Debug)]
struct Before(Option<Snapshot>);

impl Collector for Before {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |snapshot| snapshot.encode(encoder))
    }
}

#[derive(Debug)]
struct Snapshot(ExecutorMetrics, Health);

fn labels(jobs: &JobMetrics) -> Labels<'_> {
    vec![("queue", &jobs.queue), ("kind", &jobs.kind)]
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (mut to, of) = (Writer(encoder), &self.0);
        self.jobs(&mut to)?;
        sent::encode(&of.sent, &mut to)?;
        self.engine(&mut to)?;
        let failed = self.1.checks.iter().map(|check| {
            (vec![("check", check.name.as_str())], f64::from(u8::from(check.state == HealthState::Failed)))
        });
        to.gauge("jobwright_check_failed", "1 for each check of /readyz that fails", failed)?;
        of.broker.as_ref().map_or(Ok(()), |(mode, broker)| of_broker(mode, broker, of, &mut to))
    }
}

impl Snapshot {
    fn jobs(&self, to: &mut Writer<'_>) -> fmt::Result {
        let jobs = &self.0.jobs;
        to.counter("jobwright_jobs_started", "Attempts that have begun", jobs.iter().map(|j| (labels(j), j.started)))?;
        let running = jobs.iter().map(|j| (labels(j), j.running() as f64));
        to.gauge("jobwright_jobs_running", "Attempts that run", running)?;
        let finished = jobs.iter().flat_map(|j| {
            j.finished.iter().map(move |(outcome, count)| {
                let mut labels = labels(j);
                labels.push(("outcome", outcome));
                (labels, *count)
            })
        });
        to.counter("jobwright_jobs_finished", "Attempts that have ended, by outcome", finished)?;
        let mut times = |name: &str, help: &str, of: fn(&JobMetrics) -> &Histogram| {
            to.histogram(name, help, jobs.iter().map(|j| (labels(j), of(j))))
        };
        times("jobwright_job_run_seconds", "How long attempts ran", |j| &j.run)?;
        times("jobwright_job_wait_seconds", "Time from the flush to the first attempt", |j| &j.wait)?;
        times("jobwright_job_end_to_end_seconds", "Time from the flush until the job was done", |j| &j.end_to_end)
    }

    fn engine(&self, to: &mut Writer<'_>) -> fmt::Result {
        let ExecutorMetrics { stats, slots, claims, claimed, records, fenced, released, lease_seconds_left, .. } =
            &self.0;
        to.gauge("jobwright_in_flight", "Jobs in flight", [(Labels::new(), stats.in_flight as f64)])?;
        let slots = slots.iter().map(|(queue, slots)| (vec![("queue", queue.as_str())], *slots as f64));
        to.gauge("jobwright_slots", "Jobs that may run at the same time", slots)?;
        to.histogram("jobwright_claim_seconds", "How long claims of dispatchers took", [(Labels::new(), claims)])?;
        to.histogram("jobwright_claim_size", "How many jobs each of them claimed", [(Labels::new(), claimed)])?;
        to.histogram(
            "jobwright_record_seconds",
            "How long statements took that record outcomes",
            [(Labels::new(), records)],
        )?;
        to.counters([
            ("jobwright_claimed", "Jobs claimed", stats.claimed),
            ("jobwright_handed_over", "Jobs that came from a commit in this process", stats.handed_over),
            ("jobwright_done", "Jobs done and removed", stats.done),
            ("jobwright_conflicts", "Handlers run again after losing a conflict", stats.conflicts),
            ("jobwright_dead_lettered", "Jobs that became dead letters here", stats.dead),
            ("jobwright_cancelled", "Handlers stopped because their job was cancelled", stats.cancelled),
            ("jobwright_leases_lost", "How often the node lost its lease", stats.leases_lost),
        ])?;
        let released = released.iter().map(|(reason, count)| (vec![("reason", *reason)], *count));
        to.counter("jobwright_released", "Jobs given back without an outcome, by reason", released)?;
        let refused = ENDED.map(|outcome| (vec![("outcome", outcome)], fenced.get(outcome).copied().unwrap_or(0)));
        to.counter("jobwright_fenced", "Outcomes refused because the claim was no longer current", refused)?;
        let left = lease_seconds_left.iter().map(|left| (Labels::new(), *left));
        to.gauge("jobwright_lease_remaining_seconds", "Time until the node stops unless its lease is renewed", left)
    }
}

/// Outcomes that can be refused.
const ENDED: [&str; 6] = ["done", "retry", "snooze", "cancel", "dead", "released"];

/// Reasons for which messages are refused (broker/README.md) that have a row before the first one is.
const REFUSED: [&str; 4] = ["bad-json", "missing-kind", "not-allowed", "not-stored"];

fn of_broker(mode: &BrokerMode, broker: &BrokerStats, of: &ExecutorMetrics, to: &mut Writer<'_>) -> fmt::Result {
    let stats = &of.stats;
    let now = match mode {
        BrokerMode::Up(_) => "up",
        BrokerMode::Blocked(_) => "blocked",
        _ => "down",
    };
    let modes = ["up", "blocked", "down"].map(|mode| (vec![("mode", mode)], f64::from(u8::from(mode == now))));
    to.gauge("jobwright_broker_mode", "1 for the present mode of the broker", modes)?;
    let changes = broker.changes;
    let changes = [("up", changes.up), ("blocked", changes.blocked), ("down", changes.down)]
        .map(|(to, count)| (vec![("to", to)], count));
    to.counter("jobwright_changeovers", "Changes of the mode of the broker, by the mode that began", changes)?;
    let published = [
        ("ack", broker.confirmed),
        ("nack", broker.nacked),
        ("returned", broker.returned),
        ("unknown", broker.unknown),
    ];
    let published = published.map(|(result, count)| (vec![("result", result)], count));
    to.counter("jobwright_publish", "Messages published, by the broker's answer", published)?;
    let mut refused: BTreeMap<&str, u64> = REFUSED.into_iter().map(|reason| (reason, 0)).collect();
    refused.extend(&of.messages_refused);
    let refused = refused.into_iter().map(|(reason, count)| (vec![("reason", reason)], count));
    to.counter("jobwright_messages_refused", "Messages rejected, by the reason in their header", refused)?;
    to.counters([
        ("jobwright_received", "Messages received", broker.received),
        ("jobwright_redelivered", "Messages received again", broker.redelivered),
        ("jobwright_delivered", "Claimed jobs that came through the broker", stats.delivered),
        ("jobwright_submitted", "Jobs taken in from external producers", stats.submitted),
        ("jobwright_handed_out", "Jobs handed to external workers", stats.handed_out),
        ("jobwright_reported", "Ends that external workers reported in time", stats.reported),
        ("jobwright_reports_refused", "Reports that came too late, or twice", stats.reports_refused),
        ("jobwright_relayed", "Events and replies confirmed by the broker", stats.relayed),
    ])
}
