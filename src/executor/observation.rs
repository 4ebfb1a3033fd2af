//! Who is dead, judged by what one monitor has seen itself.
//!
//! A node is late if its heartbeat stayed the same for a whole lease of this monitor's own monotonic clock. Neither the clock of a server nor
//! that of a node takes part, so setting one kills nobody and keeps nobody alive. Nobody judges itself: a process that was paused would find
//! everybody alive but itself.
//!
//! Between two looks nothing is known. If they lie further apart than the lease, because this process was paused or the database away, the
//! node could not have been seen to beat, or could not beat, and the observation begins anew: after an outage of the database everybody gets
//! another lease.

use std::collections::HashMap;
use std::time::Instant;

use crate::job::NodeId;
use crate::store::Pulse;

/// What one monitor remembers of the others.
#[derive(Debug)]
pub(super) struct Observation {
    me: NodeId,
    seen: HashMap<NodeId, Seen>,
}

#[derive(Debug)]
struct Seen {
    beat: i64,
    /// From when on it was the same, at the latest.
    since: Instant,
    /// The last look.
    last: Instant,
}

impl Observation {
    pub(super) fn by(me: NodeId) -> Self {
        Self { me, seen: HashMap::new() }
    }

    /// Compares a look with the ones before and returns those to be declared dead. The look was asked for at `asked` and answered at
    /// `answered`; what it saw was so at some moment in between.
    pub(super) fn look(&mut self, pulses: &[Pulse], asked: Instant, answered: Instant) -> Vec<Pulse> {
        self.seen.retain(|node, _| pulses.iter().any(|pulse| pulse.node == *node && !pulse.dead));
        let me = self.me;
        let others = pulses.iter().filter(|pulse| !pulse.dead && pulse.node != me);
        others.filter(|pulse| self.is_late(pulse, asked, answered)).copied().collect()
    }

    fn is_late(&mut self, pulse: &Pulse, asked: Instant, answered: Instant) -> bool {
        let news = Seen { beat: pulse.beat, since: answered, last: answered };
        let seen = self.seen.entry(pulse.node).or_insert(news);
        if seen.beat != pulse.beat || asked.saturating_duration_since(seen.last) > pulse.lease {
            *seen = Seen { beat: pulse.beat, since: answered, last: answered };
        }
        seen.last = answered;
        pulse.ended || asked.saturating_duration_since(seen.since) >= pulse.lease
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn pulse(node: i64, beat: i64) -> Pulse {
        Pulse { node: NodeId(node), beat, lease: LEASE, ended: false, dead: false }
    }

    /// A monitor, and the looks it takes, each in no time.
    struct Monitor {
        start: Instant,
        observation: Observation,
    }

    impl Monitor {
        fn new() -> Self {
            Self { start: Instant::now(), observation: Observation::by(NodeId(1)) }
        }

        fn at(&mut self, second: u64, pulses: &[Pulse]) -> Vec<i64> {
            let now = self.start + Duration::from_secs(second);
            self.observation.look(pulses, now, now).iter().map(|pulse| pulse.node.0).collect()
        }
    }

    #[test]
    fn a_beat_that_stays_for_a_lease_is_late() {
        let mut monitor = Monitor::new();
        let looks = [0, 10, 20, 29].map(|second| monitor.at(second, &[pulse(2, 7), pulse(3, second.cast_signed())]));
        assert!(looks.iter().all(Vec::is_empty), "{looks:?}");
        assert_eq!(monitor.at(30, &[pulse(2, 7), pulse(3, 30)]), [2]);
        assert!(monitor.at(31, &[pulse(2, 8)]).is_empty(), "it lives");
    }

    #[test]
    fn nobody_judges_itself() {
        let mut monitor = Monitor::new();
        for second in [0, 20, 40, 60] {
            assert!(monitor.at(second, &[pulse(1, 7)]).is_empty());
        }
    }

    #[test]
    fn a_gap_in_the_looks_begins_anew() {
        let mut monitor = Monitor::new();
        assert!(monitor.at(0, &[pulse(2, 7)]).is_empty());
        assert!(monitor.at(31, &[pulse(2, 7)]).is_empty(), "who could have seen it beat?");
        assert!(monitor.at(60, &[pulse(2, 7)]).is_empty());
        assert_eq!(monitor.at(61, &[pulse(2, 7)]), [2]);
    }

    #[test]
    fn a_slow_answer_is_no_silence() {
        let mut monitor = Monitor::new();
        let start = monitor.start;
        assert!(monitor.observation.look(&[pulse(2, 7)], start, start + Duration::from_secs(5)).is_empty());
        assert!(monitor.at(20, &[pulse(2, 7)]).is_empty());
        assert!(monitor.at(34, &[pulse(2, 7)]).is_empty(), "it may have beaten just before the first answer");
        assert_eq!(monitor.at(35, &[pulse(2, 7)]), [2]);
    }

    #[test]
    fn an_ended_process_is_late_at_once_and_the_dead_are_not_judged_again() {
        let mut monitor = Monitor::new();
        assert_eq!(monitor.at(0, &[Pulse { ended: true, ..pulse(2, 7) }]), [2]);
        assert!(monitor.at(1, &[Pulse { ended: true, dead: true, ..pulse(2, 7) }]).is_empty());
    }
}
