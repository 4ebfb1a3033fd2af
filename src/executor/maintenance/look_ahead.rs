//! Asks at an interval whether there is anything to do, and wakes the tasks that do it.
//!
//! Hints and due dates wake each task in time. Work without a hint (a job or a timer that plain SQL has inserted, a message that got lost) is found
//! by polling. One query polls for all tasks and all queues here, and reads the heartbeats of other nodes: separate polls would be most of the load
//! of an idle node on the database.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::backoff::later;
use crate::error::Result;
use crate::executor::kinds::breaker::Breaker;
use crate::executor::maintenance::clock::ClockWatch;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::executor::node::Node;
use crate::executor::node::signals::{HeartbeatsSeen, Signals};
use crate::job::NodeId;
use crate::store::{Maintenance, MaintenanceDue, MaintenanceRequest};

/// A query that takes longer reads many dead rows at the heads of queues.
const SLOW: Duration = Duration::from_millis(250);
/// How many polls leave the queues out after two slow ones.
const LEFT_OUT: u32 = 10;

/// Polls for all tasks. Every node does.
pub(crate) struct LookAhead {
    store: Arc<dyn Maintenance>,
    signals: Signals,
    poll: Duration,
    watch: ClockWatch,
    /// To wake the tasks of its queues.
    node: Weak<Node>,
    me: NodeId,
    queues: Vec<String>,
    kinds: Vec<(String, Arc<Breaker>)>,
    outbound: Vec<String>,
    /// The checksum of the rules at the last poll.
    rules: Option<i64>,
    /// How often the heartbeats of other nodes are read, and when they were last.
    watching: Duration,
    watched: Option<Instant>,
    queue_checks: QueueChecks,
}

/// Whether polls look into the queues. While they don't, the tasks of the queues look by themselves, as often.
#[derive(Debug, Default)]
struct QueueChecks {
    /// How many polls in a row that looked were slow.
    slow: u32,
    /// How many more polls leave the queues out.
    left_out: u32,
}

impl QueueChecks {
    /// Returns whether the next poll looks.
    fn next(&mut self) -> bool {
        self.left_out = self.left_out.saturating_sub(1);
        self.left_out == 0
    }

    /// Notes how long a poll took that looked. One that is slow may have waited for a connection.
    fn took(&mut self, time: Duration) {
        self.slow = if time > SLOW { self.slow + 1 } else { 0 };
        if self.slow > 1 {
            self.left_out = LEFT_OUT;
        }
    }
}

impl LookAhead {
    /// Creates the task of a node that sends the jobs of these queues to the broker, and reads the heartbeats of other nodes this often.
    pub(crate) fn new(node: &Node, outbound: Vec<String>, watching: Duration) -> Self {
        Self {
            store: node.store.clone(),
            signals: node.signals.clone(),
            poll: node.poll_interval,
            watch: ClockWatch::default(),
            node: node.this.clone(),
            me: node.id,
            queues: node.queues.keys().cloned().collect(),
            kinds: node.kinds.iter().map(|(name, kind)| (name.clone(), kind.breaker.clone())).collect(),
            outbound: if node.broker.is_some() { outbound } else { Vec::new() },
            rules: None,
            watching,
            watched: None,
            queue_checks: QueueChecks::default(),
        }
    }

    async fn ask(&mut self) -> MaintenanceDue {
        // What falls due before the next poll must be known from this one.
        let mut request = MaintenanceRequest::within(2 * self.poll);
        let looks = self.queue_checks.next();
        let able = self.kinds.iter().filter(|(_, breaker)| !breaker.is_open());
        let kinds: Vec<String> = able.map(|(name, _)| name.clone()).collect();
        if looks {
            (request.queues, request.kinds, request.outbound) = (&self.queues, &kinds, &self.outbound);
        }
        let asked = Instant::now();
        request.node = self.watched.is_none_or(|at| asked.duration_since(at) >= self.watching).then_some(self.me);
        let mut due = self.store.maintenance_due(&request).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "{}; each task looks by itself", Self::FAILED);
            MaintenanceDue::ANY
        });
        let answered = Instant::now();
        if looks {
            self.queue_checks.took(answered.duration_since(asked));
        } else {
            // Claims remember how far they have read, and pause for as long as it takes.
            (due.queues, due.admission) = (None, true);
        }
        if let Some(heartbeats) = due.heartbeats.take() {
            self.watched = Some(asked);
            self.signals.seen(HeartbeatsSeen { asked, answered, heartbeats });
        }
        if let Some(step) = due.now.and_then(|now| self.watch.look(asked, answered, now)) {
            tracing::warn!(
                step = format_args!("{:+.1}s", step.as_secs_f64()),
                "the database's clock was set: due jobs start earlier or later by that much; node leases are not affected"
            );
            self.signals.clock.notify_one();
            // A task that sleeps until something is due computed that time before the step.
            due = MaintenanceDue::ANY;
        }
        if self.watch.is_due_again(answered) {
            self.signals.clock.notify_one();
        }
        due
    }
}

impl Periodic for LookAhead {
    const FAILED: &'static str = "could not check for due work";

    async fn run(&mut self) -> Result<Next> {
        let mut due = self.ask().await;
        // A change of the rules that no hint has announced.
        due.admission |= due.rules.is_none() || self.rules != due.rules;
        self.rules = due.rules;
        self.signals.notify(&due);
        if let Some(node) = self.node.upgrade() {
            match &due.queues {
                Some(queues) => queues.iter().for_each(|queue| node.look_into(queue)),
                None => self.queues.iter().chain(&self.outbound).for_each(|queue| node.look_into(queue)),
            }
        }
        Ok(Next::After(later(self.poll)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_left_out_after_two_slow_polls_and_looked_into_again() {
        let (slow, fast) = (2 * SLOW, SLOW / 2);
        let mut checks = QueueChecks::default();
        for time in [slow, fast, slow, fast] {
            assert!(checks.next(), "one may have waited for a connection");
            checks.took(time);
        }
        for round in 0..3 {
            assert!(checks.next());
            checks.took(slow);
            if round == 0 {
                assert!(checks.next());
                checks.took(slow);
            }
            let left_out = (0..LEFT_OUT - 1).filter(|_| !checks.next()).count();
            assert_eq!(left_out, LEFT_OUT as usize - 1, "round {round}");
        }
        assert!(checks.next());
        checks.took(fast);
        assert!(checks.next(), "it is fast again");
    }
}
