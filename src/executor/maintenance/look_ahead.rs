//! Asks at an interval whether there is anything to do, and wakes the tasks that do it.
//!
//! Hints and due dates wake each task in time. Work without a hint (a job or a timer that plain SQL has inserted, a message that got lost) is found
//! by polling. One query polls for all tasks and all queues here, and reads the heartbeats of other nodes: separate polls would be most of the load
//! of an idle node on the database.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::backoff::{FALLBACK_POLLS, later};
use crate::error::Result;
use crate::executor::maintenance::clock::ClockWatch;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::executor::node::Node;
use crate::executor::node::signals::{HeartbeatsSeen, Signals};
use crate::job::NodeId;
use crate::store::{Maintenance, MaintenanceDue, MaintenanceRequest};

/// A query that takes longer reads many dead rows at the heads of queues.
const SLOW: Duration = Duration::from_millis(250);

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
    kinds: Vec<String>,
    outbound: Vec<String>,
    /// The checksum of the rules at the last poll.
    rules: Option<i64>,
    /// How often the heartbeats of other nodes are read, and when they were last.
    watching: Duration,
    watched: Option<Instant>,
    /// For how many polls the queues are left to their own tasks.
    without_queues: u32,
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
            kinds: node.kinds.keys().cloned().collect(),
            outbound: if node.broker.is_some() { outbound } else { Vec::new() },
            rules: None,
            watching,
            watched: None,
            without_queues: 0,
        }
    }

    async fn ask(&mut self) -> MaintenanceDue {
        // What falls due before the next poll must be known from this one.
        let mut request = MaintenanceRequest::within(2 * self.poll);
        let asks_for_queues = self.without_queues == 0;
        if asks_for_queues {
            (request.queues, request.kinds, request.outbound) = (&self.queues, &self.kinds, &self.outbound);
        } else {
            self.without_queues -= 1;
        }
        let asked = Instant::now();
        request.node = self.watched.is_none_or(|at| asked.duration_since(at) >= self.watching).then_some(self.me);
        let mut due = self.store.maintenance_due(&request).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "{}; each task looks by itself", Self::FAILED);
            MaintenanceDue::ANY
        });
        let answered = Instant::now();
        if !asks_for_queues {
            due.queues = None;
        } else if answered.duration_since(asked) > SLOW {
            // Claims remember how far they have read, and pause for as long as it takes.
            self.without_queues = FALLBACK_POLLS;
        }
        if let Some(heartbeats) = due.heartbeats.take() {
            self.watched = Some(asked);
            self.signals.seen(HeartbeatsSeen { asked, answered, heartbeats });
        }
        if let Some(step) = due.now.and_then(|now| self.watch.look(asked, answered, now)) {
            tracing::warn!(
                step = format_args!("{:+.1}s", step.as_secs_f64()),
                "the database's clock was set: what is due comes earlier or later by that much; who lives is not decided by it"
            );
            self.signals.clock.notify_one();
            // A task that sleeps until something is due computed that time before the step.
            due = MaintenanceDue::ANY;
        }
        due
    }
}

impl Periodic for LookAhead {
    const FAILED: &'static str = "could not ask what there is to do";

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
