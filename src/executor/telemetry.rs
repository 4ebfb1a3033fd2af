//! The handle through which others watch an executor.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::broker::BrokerMode;
use crate::executor::lifecycle::settings::Settings;
use crate::executor::lifecycle::vitals::State;
use crate::executor::metrics::health::{Health, HealthCheck, HealthState};
use crate::executor::metrics::snapshot::ExecutorMetrics;
use crate::executor::node::alone;
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::queue::Queue;

/// Numbers and health of an executor, for metrics and probes. Obtained from
/// [`CommandExecutor::telemetry`](crate::CommandExecutor::telemetry); cheap to clone. It asks neither the database nor the broker, so a probe
/// costs them nothing and answers while they do not.
///
/// The crate `jobwright-http` serves it as `/metrics`, `/livez`, `/readyz` and `/startupz`.
///
/// ```no_run
/// # fn f(executor: &jobwright::CommandExecutor) {
/// let telemetry = executor.telemetry();
/// let health = telemetry.health();
/// for check in &health.checks {
///     println!("{}: {}: {}", check.name, check.state, check.text);
/// }
/// println!("{} jobs are done", telemetry.metrics().stats.done);
/// # }
/// ```
#[derive(Clone)]
pub struct Telemetry {
    pub(super) settings: Arc<Settings>,
    pub(super) stop: CancellationToken,
    pub(super) ended: CancellationToken,
    pub(super) current: Arc<Mutex<Arc<InFlight>>>,
}

impl Telemetry {
    /// Returns the counters at this moment.
    pub fn metrics(&self) -> ExecutorMetrics {
        let in_flight = self.current.lock().unwrap_or_else(PoisonError::into_inner).len();
        let Settings { counters, kinds, broker, vitals, .. } = &*self.settings;
        let mut jobs: Vec<_> = kinds
            .iter()
            // A kind is listed under each of its names.
            .filter(|(name, kind)| *name == kind.metrics.kind())
            .flat_map(|(_, kind)| kind.metrics.read())
            .collect();
        jobs.sort_by(|a, b| (&a.queue, &a.kind).cmp(&(&b.queue, &b.kind)));
        let session = vitals.read().session;
        ExecutorMetrics {
            stats: counters.snapshot(in_flight),
            jobs,
            slots: self.settings.queues.iter().cloned().collect(),
            claims: counters.claims.read(),
            claimed: counters.claim_sizes.read(),
            records: counters.records.read(),
            lease_seconds_left: session
                .map(|session| session.until.saturating_duration_since(Instant::now()).as_secs_f64()),
            broker: broker.as_ref().map(|broker| (broker.mode(), broker.stats())),
        }
    }

    /// Returns whether the executor lives and works.
    ///
    /// The database counts as reachable as long as the node's lease is renewed in it, which happens three times in the length of a lease. A broker
    /// that is down [degrades](HealthState::Degraded) an executor, which then works from the table alone.
    pub fn health(&self) -> Health {
        let state = self.settings.vitals.read();
        let now = Instant::now();
        let mut checks = vec![self.executor(&state), lease(&state, now)];
        // A pass asks for jobs, and pauses. Each of both is bounded.
        let longest_pass = (self.settings.poll_interval + self.settings.call_timeout) * 2;
        checks.extend(state.queues.iter().map(|queue| dispatch(queue, longest_pass, now)));
        let left_alone = self.settings.breakers.left_alone();
        if !left_alone.is_empty() {
            let kinds: Vec<String> = left_alone.iter().map(|(kind, (why, _))| format!("{kind}: {why}")).collect();
            let text = format!("this node can't run now: {}", kinds.join("; "));
            checks.push(HealthCheck::new("kinds", HealthState::Degraded, text));
        }
        checks.extend(self.settings.broker.as_ref().map(|broker| at_broker(&broker.mode(), now)));
        Health { is_live: !self.ended.is_cancelled() || self.stop.is_cancelled(), is_started: state.is_started, checks }
    }

    fn executor(&self, state: &State) -> HealthCheck {
        let (state, text) = if self.stop.is_cancelled() {
            (HealthState::Failed, "it stops: no more jobs are claimed")
        } else if self.ended.is_cancelled() {
            (HealthState::Failed, "it has ended: its log says why; start the process again")
        } else if state.is_started {
            (HealthState::Ok, "it runs")
        } else {
            (HealthState::Failed, "it starts: its lease was not renewed yet")
        };
        HealthCheck::new("executor", state, text)
    }
}

/// Judges the lease. One failed renewal says that the database does not answer, long before the lease is lost.
fn lease(state: &State, now: Instant) -> HealthCheck {
    let Some(session) = &state.session else {
        return HealthCheck::new("lease", HealthState::Failed, "none at the moment: it registers as soon as it can");
    };
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let (renewed, left) =
        (now.saturating_duration_since(session.renewed), session.until.saturating_duration_since(now));
    let text = format!("node {}, renewed {} ago, {} left", session.node, seconds(renewed), seconds(left));
    match &session.trouble {
        None if left > Duration::ZERO => HealthCheck::new("lease", HealthState::Ok, text),
        None => HealthCheck::new("lease", HealthState::Failed, text),
        Some(why) => HealthCheck::new("lease", HealthState::Failed, format!("{text}; not renewed: {why}")),
    }
}

/// Judges whether jobs of a queue are claimed. A dispatcher that waits for a slot, or while a suspect runs alone, does not claim, and is well.
fn dispatch(queue: &Queue, longest_pass: Duration, now: Instant) -> HealthCheck {
    let pass = queue.last_pass();
    let ago = now.saturating_duration_since(pass.at);
    // A claim under way has taken them too.
    let waits_for_a_slot = queue.free() == 0;
    let (state, text) = match pass.failing {
        Some((since, why)) => {
            let for_long = now.saturating_duration_since(since).as_secs_f64();
            (HealthState::Failed, format!("its jobs can't be claimed for {for_long:.1} s: {why}"))
        }
        None if !waits_for_a_slot && ago > longest_pass && alone::is_open() => {
            (HealthState::Failed, format!("slots are free, and no jobs were looked for in {:.1} s", ago.as_secs_f64()))
        }
        None => (HealthState::Ok, format!("{} slots", queue.concurrency())),
    };
    HealthCheck::new(format!("queue {}", queue.name), state, text)
}

fn at_broker(mode: &BrokerMode, now: Instant) -> HealthCheck {
    let (state, text) = match mode {
        BrokerMode::Up(_) => (HealthState::Ok, "connected".to_owned()),
        BrokerMode::Blocked(why) => {
            (HealthState::Degraded, format!("it takes no messages: {why}; jobs run by the table"))
        }
        BrokerMode::Down { since, why } => {
            let for_long = now.saturating_duration_since(*since).as_secs_f64();
            (HealthState::Degraded, format!("not reached for {for_long:.1} s: {why}; jobs run by the table"))
        }
    };
    HealthCheck::new("broker", state, text)
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("health", &self.health()).finish_non_exhaustive()
    }
}
