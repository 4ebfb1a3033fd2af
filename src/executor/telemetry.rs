//! The handle through which observers see an executor.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::broker::BrokerMode;
use crate::executor::lifecycle::settings::Settings;
use crate::executor::lifecycle::vitals::State;
use crate::executor::metrics::health::{Health, HealthCheck, HealthState};
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::snapshot::ExecutorMetrics;
use crate::executor::node::alone;
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::queue::{Dispatch, DispatchPhase, Queue};
use crate::store::FailingTask;

/// How late a task may come on a busy machine.
const LENIENCE: Duration = Duration::from_secs(5);

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
    pub(super) current: Arc<Mutex<Arc<InFlight>>>,
}

impl Telemetry {
    /// Returns the counters at this moment.
    pub fn metrics(&self) -> ExecutorMetrics {
        let in_flight = self.current.lock().unwrap_or_else(PoisonError::into_inner).len();
        let Settings { counters, kinds, broker, sent, vitals, .. } = &*self.settings;
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
            sent: sent.read(),
            fenced: counters.refused.read(),
            released: ReleaseReason::counts(&counters.releases),
            messages_refused: counters.messages_refused.read(),
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
        let call = self.settings.call_timeout;
        let bounds = Bounds { claim: call * 3 + LENIENCE, pause: self.settings.poll_interval * 2 + call + LENIENCE };
        checks.extend(state.queues.iter().map(|queue| dispatch(queue, bounds, now)));
        checks.extend(self.kinds());
        checks.extend(self.tasks(now));
        checks.extend(self.settings.broker.as_ref().map(|broker| self.broker(&broker.mode(), now)));
        Health { is_live: !state.is_gone, is_started: state.is_started, checks }
    }

    fn executor(&self, state: &State) -> HealthCheck {
        let (state, text) = if state.is_gone {
            (HealthState::Failed, "it has ended: its log says why; start the process again")
        } else if self.stop.is_cancelled() {
            (HealthState::Failed, "it is stopping: no more jobs are claimed")
        } else if state.is_started {
            (HealthState::Ok, "it runs")
        } else {
            (HealthState::Failed, "it is starting: its lease has not been renewed yet")
        };
        HealthCheck::new("executor", state, text)
    }

    /// Names the kinds that this node can't run now.
    fn kinds(&self) -> Option<HealthCheck> {
        let left_alone = self.settings.breakers.left_alone();
        if left_alone.is_empty() {
            return None;
        }
        let kinds: Vec<String> = left_alone.iter().map(|(kind, (why, _))| format!("{kind}: {why}")).collect();
        let all = self.settings.kinds.values().all(|kind| left_alone.contains_key(kind.metrics.kind()));
        let state = if all { HealthState::Failed } else { HealthState::Degraded };
        Some(HealthCheck::new("kinds", state, format!("this node can't run now: {}", kinds.join("; "))))
    }

    /// Names the tasks that have failed for long. Others still work.
    fn tasks(&self, now: Instant) -> Option<HealthCheck> {
        let mut failing = self.settings.failing().lasting(now);
        // Its own queues have checks of their own.
        let is_own = |task: &FailingTask| {
            task.queue.as_ref().is_some_and(|of| self.settings.queues.iter().any(|(queue, _)| queue == of))
        };
        failing.retain(|task| !task.lacks_consumers() && !is_own(task));
        if failing.is_empty() {
            return None;
        }
        let tasks: Vec<String> = failing.iter().map(ToString::to_string).collect();
        Some(HealthCheck::new("tasks", HealthState::Degraded, tasks.join("; ")))
    }

    /// Without the broker jobs run from the table, but for those of external workers.
    fn broker(&self, mode: &BrokerMode, now: Instant) -> HealthCheck {
        let problem = match mode {
            BrokerMode::Up(_) => return HealthCheck::new("broker", HealthState::Ok, "connected"),
            BrokerMode::Blocked(why) => format!("it takes no messages: {why}"),
            BrokerMode::Down { since, why } => {
                let for_long = now.saturating_duration_since(*since).as_secs_f64();
                format!("not reached for {for_long:.1} s: {why}")
            }
        };
        let (state, rest) = match (self.settings.queues.is_empty(), self.settings.external.is_empty()) {
            (true, false) => (HealthState::Failed, "nothing goes to external workers"),
            (false, false) => (HealthState::Degraded, "jobs run from the table, and nothing goes to external workers"),
            (_, true) => (HealthState::Degraded, "jobs run from the table"),
        };
        HealthCheck::new("broker", state, format!("{problem}; {rest}"))
    }
}

/// How long a dispatcher may claim, and pause.
#[derive(Clone, Copy)]
struct Bounds {
    claim: Duration,
    pause: Duration,
}

/// Judges the lease. One failed renewal says that the database does not answer, long before the lease is lost.
fn lease(state: &State, now: Instant) -> HealthCheck {
    let Some(session) = &state.session else {
        return HealthCheck::new("lease", HealthState::Failed, "none now: the node registers as soon as it can");
    };
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let (renewed, left) =
        (now.saturating_duration_since(session.renewed), session.until.saturating_duration_since(now));
    let text = format!("node {}, renewed {} ago, {} left", session.node, seconds(renewed), seconds(left));
    match &session.trouble {
        None if !session.is_proven => HealthCheck::new("lease", HealthState::Failed, "granted, and not renewed yet"),
        None if left > Duration::ZERO => HealthCheck::new("lease", HealthState::Ok, text),
        None => HealthCheck::new("lease", HealthState::Failed, text),
        Some(why) => HealthCheck::new("lease", HealthState::Failed, format!("{text}; not renewed: {why}")),
    }
}

/// Judges whether jobs of a queue are claimed. A dispatcher that waits for a slot, or while a suspect runs alone, does not claim, and is well.
fn dispatch(queue: &Queue, bounds: Bounds, now: Instant) -> HealthCheck {
    let Dispatch { phase, since, failing } = queue.dispatch();
    let ago = now.saturating_duration_since(since);
    let failed = match (phase, failing) {
        (DispatchPhase::WaitsForTurn, _) => None,
        (_, Some((since, why))) => {
            let for_long = now.saturating_duration_since(since).as_secs_f64();
            Some(format!("claims of its jobs have failed for {for_long:.1} s: {why}"))
        }
        (DispatchPhase::Claims, None) if ago > bounds.claim && alone::is_open() => {
            Some(format!("a claim has not ended for {:.1} s", ago.as_secs_f64()))
        }
        (DispatchPhase::Pauses, None) if ago > bounds.pause && alone::is_open() => {
            Some(format!("no jobs were looked for in {:.1} s", ago.as_secs_f64()))
        }
        _ => None,
    };
    let activity = match phase {
        DispatchPhase::Pauses => "waits for jobs",
        DispatchPhase::Claims => "claims jobs",
        DispatchPhase::WaitsForTurn => "waits for a free slot or its turn to count",
    };
    let text = || format!("{} slots; it {activity}, for {:.1} s now", queue.concurrency(), ago.as_secs_f64());
    let (state, text) = failed.map_or_else(|| (HealthState::Ok, text()), |why| (HealthState::Failed, why));
    HealthCheck::new(format!("queue {}", queue.name), state, text)
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("health", &self.health()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};

    const BOUNDS: Bounds = Bounds { claim: Duration::from_secs(20), pause: Duration::from_secs(10) };

    /// Returns the text of a failed check.
    fn failed(queue: &Queue, later: u64) -> Option<String> {
        let check = dispatch(queue, BOUNDS, Instant::now() + Duration::from_secs(later));
        (check.state == HealthState::Failed).then_some(check.text)
    }

    #[test]
    fn a_dispatcher_that_does_nothing_for_long_has_failed_unless_it_waits_for_a_slot() {
        let queue = Queue::new("q".to_owned(), 4);
        for (phase, long, what) in [
            (DispatchPhase::Claims, 21, Some("a claim has not ended")),
            (DispatchPhase::Pauses, 11, Some("no jobs were looked for")),
            (DispatchPhase::WaitsForTurn, 100_000, None),
        ] {
            queue.enter(phase);
            assert_eq!(failed(&queue, 1), None, "{phase:?}");
            let told = failed(&queue, long);
            assert_eq!(told.is_some(), what.is_some(), "{phase:?}: {told:?}");
            assert!(what.is_none_or(|what| told.unwrap().contains(what)), "{phase:?}");
        }
    }

    #[test]
    fn a_claim_that_failed_counts_until_one_succeeds_or_nothing_is_to_be_claimed() {
        let queue = Queue::new("q".to_owned(), 4);
        queue.claimed(Some(&Error::new(ErrorKind::Unreachable, "the server is away")));
        assert!(
            failed(&queue, 3).unwrap().contains("claims of its jobs have failed for 3.0 s: "),
            "{:?}",
            failed(&queue, 3)
        );
        queue.enter(DispatchPhase::WaitsForTurn);
        assert_eq!(failed(&queue, 3), None, "its slots run jobs that came in another way");
        queue.enter(DispatchPhase::Claims);
        assert!(failed(&queue, 3).is_some());
        queue.claimed(None);
        assert_eq!(failed(&queue, 3), None);
    }
}
