//! Which nodes are dead, judged by what one monitor has seen itself.
//!
//! A node is late if its heartbeat stayed the same for a whole lease on this monitor's own monotonic clock. Neither a server's clock nor
//! the node's takes part, so setting one kills no node and keeps none alive. No node judges itself: a process that was paused would find
//! every node alive but itself.
//!
//! Nothing is known about the time between two checks. They may lie further apart than the lease because this process was paused or the
//! database was away. Then the node's heartbeats could not be seen, or could not be written, so the observation starts again: after an
//! outage of the database every node gets another lease.

use std::collections::HashMap;
use std::time::Instant;

use crate::job::NodeId;
use crate::store::NodeHeartbeat;

/// What one monitor remembers of the other nodes.
#[derive(Debug)]
pub(crate) struct Observation {
    me: NodeId,
    seen: HashMap<NodeId, Seen>,
}

#[derive(Debug)]
struct Seen {
    heartbeats: i64,
    /// Since when it was the same, at the latest.
    since: Instant,
    /// The last check.
    last: Instant,
}

impl Observation {
    pub(crate) fn by(me: NodeId) -> Self {
        Self { me, seen: HashMap::new() }
    }

    /// Compares a check with the ones before, and returns the nodes to be declared dead. The check was sent at `asked` and answered at
    /// `answered`; what it saw was true at some instant in between.
    pub(crate) fn look(
        &mut self,
        node_heartbeats: &[NodeHeartbeat],
        asked: Instant,
        answered: Instant,
    ) -> Vec<NodeHeartbeat> {
        self.seen.retain(|node, _| node_heartbeats.iter().any(|heartbeat| heartbeat.node == *node && !heartbeat.dead));
        let me = self.me;
        let others = node_heartbeats.iter().filter(|heartbeat| !heartbeat.dead && heartbeat.node != me);
        others.filter(|heartbeat| self.is_late(heartbeat, asked, answered)).copied().collect()
    }

    fn is_late(&mut self, heartbeat: &NodeHeartbeat, asked: Instant, answered: Instant) -> bool {
        let news = Seen { heartbeats: heartbeat.heartbeats, since: answered, last: answered };
        let seen = self.seen.entry(heartbeat.node).or_insert(news);
        if seen.heartbeats != heartbeat.heartbeats || asked.saturating_duration_since(seen.last) > heartbeat.lease {
            *seen = Seen { heartbeats: heartbeat.heartbeats, since: answered, last: answered };
        }
        seen.last = answered;
        heartbeat.ended || asked.saturating_duration_since(seen.since) >= heartbeat.lease
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn heartbeat(node: i64, heartbeats: i64) -> NodeHeartbeat {
        NodeHeartbeat { node: NodeId(node), heartbeats, lease: LEASE, ended: false, dead: false }
    }

    /// A monitor, with checks that take no time.
    struct Monitor {
        start: Instant,
        observation: Observation,
    }

    impl Monitor {
        fn new() -> Self {
            Self { start: Instant::now(), observation: Observation::by(NodeId(1)) }
        }

        fn at(&mut self, second: u64, node_heartbeats: &[NodeHeartbeat]) -> Vec<i64> {
            let now = self.start + Duration::from_secs(second);
            self.observation.look(node_heartbeats, now, now).iter().map(|heartbeat| heartbeat.node.0).collect()
        }
    }

    #[test]
    fn a_beat_that_stays_for_a_lease_is_late() {
        let mut monitor = Monitor::new();
        let looks =
            [0, 10, 20, 29].map(|second| monitor.at(second, &[heartbeat(2, 7), heartbeat(3, second.cast_signed())]));
        assert!(looks.iter().all(Vec::is_empty), "{looks:?}");
        assert_eq!(monitor.at(30, &[heartbeat(2, 7), heartbeat(3, 30)]), [2]);
        assert!(monitor.at(31, &[heartbeat(2, 8)]).is_empty(), "it lives");
    }

    #[test]
    fn nobody_judges_itself() {
        let mut monitor = Monitor::new();
        for second in [0, 20, 40, 60] {
            assert!(monitor.at(second, &[heartbeat(1, 7)]).is_empty());
        }
    }

    #[test]
    fn a_gap_in_the_looks_begins_anew() {
        let mut monitor = Monitor::new();
        assert!(monitor.at(0, &[heartbeat(2, 7)]).is_empty());
        assert!(monitor.at(31, &[heartbeat(2, 7)]).is_empty(), "nobody can have seen its heartbeat change");
        assert!(monitor.at(60, &[heartbeat(2, 7)]).is_empty());
        assert_eq!(monitor.at(61, &[heartbeat(2, 7)]), [2]);
    }

    #[test]
    fn a_slow_answer_is_no_silence() {
        let mut monitor = Monitor::new();
        let start = monitor.start;
        assert!(monitor.observation.look(&[heartbeat(2, 7)], start, start + Duration::from_secs(5)).is_empty());
        assert!(monitor.at(20, &[heartbeat(2, 7)]).is_empty());
        assert!(monitor.at(34, &[heartbeat(2, 7)]).is_empty(), "it may have beaten just before the first answer");
        assert_eq!(monitor.at(35, &[heartbeat(2, 7)]), [2]);
    }

    #[test]
    fn an_ended_process_is_late_at_once_and_the_dead_are_not_judged_again() {
        let mut monitor = Monitor::new();
        assert_eq!(monitor.at(0, &[NodeHeartbeat { ended: true, ..heartbeat(2, 7) }]), [2]);
        assert!(monitor.at(1, &[NodeHeartbeat { ended: true, dead: true, ..heartbeat(2, 7) }]).is_empty());
    }
}
