//! The actions that can happen to a database that loses commits, and to its clients.

use std::fmt;

use super::IN_FLIGHT;
use crate::vocabulary::{job_name, process_name};

/// One step. All fields are small numbers, so that a path can be played against a real database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words of each stand below")]
pub enum Action {
    Send,
    Claim { process: u8, job: u8 },
    Finish { process: u8, hand: u8 },
    Drop { process: u8, hand: u8 },
    Look { process: u8 },
    Heartbeat { process: u8 },
    Retire { process: u8 },
    Register { process: u8, heartbeat_old: bool, work_old: bool },
    Crash { process: u8 },
    Declare { node: u8 },
    Release { job: u8 },
    Replicate,
    Failover { old_serves: bool },
    Restore,
    Connect { process: u8, heartbeat: bool, old: bool },
    OldEnds,
}

/// Node ids that explorations reach.
const NODES: u8 = 8;

impl Action {
    pub(super) fn all(jobs: u8, processes: u8) -> Vec<Self> {
        let mut all = vec![
            Self::Send,
            Self::Replicate,
            Self::Failover { old_serves: false },
            Self::Failover { old_serves: true },
            Self::Restore,
            Self::OldEnds,
        ];
        for process in 0..processes {
            all.extend((0..jobs).map(|job| Self::Claim { process, job }));
            for hand in 0..IN_FLIGHT as u8 {
                all.extend([Self::Finish { process, hand }, Self::Drop { process, hand }]);
            }
            all.extend([
                Self::Look { process },
                Self::Heartbeat { process },
                Self::Retire { process },
                Self::Crash { process },
            ]);
            for (one, other) in [(false, false), (false, true), (true, false), (true, true)] {
                all.push(Self::Register { process, heartbeat_old: one, work_old: other });
                all.push(Self::Connect { process, heartbeat: one, old: other });
            }
        }
        all.extend((1..=NODES).map(|node| Self::Declare { node }));
        all.extend((0..jobs).map(|job| Self::Release { job }));
        all
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p, j) = (process_name, job_name);
        let server = |old: bool| if old { "the old primary" } else { "the primary" };
        match *self {
            Self::Send => write!(f, "the next job is sent"),
            Self::Claim { process, job } => write!(f, "{} claims {}", p(process), j(job)),
            Self::Finish { process, hand } => {
                write!(f, "{}'s handler {} reports that it succeeded", p(process), hand + 1)
            }
            Self::Drop { process, hand } => write!(f, "{}'s handler {} ends without an outcome", p(process), hand + 1),
            Self::Look { process } => write!(f, "{} gives back what it owns and does not know", p(process)),
            Self::Heartbeat { process } => {
                write!(f, "{} sends a heartbeat, hears the answer and ends its node", p(process))
            }
            Self::Retire { process } => write!(f, "{} retires its former node", p(process)),
            Self::Register { process, heartbeat_old, work_old } => write!(
                f,
                "{} registers a new node on {}; its work is connected to {}",
                p(process),
                server(heartbeat_old),
                server(work_old)
            ),
            Self::Crash { process } => write!(f, "{} crashes", p(process)),
            Self::Declare { node } => write!(f, "node {node} is declared dead"),
            Self::Release { job } => write!(f, "{}, whose owner is dead or unknown, is released", j(job)),
            Self::Replicate => write!(f, "the standby is as the primary is (or: a backup is made)"),
            Self::Failover { old_serves: false } => write!(f, "the primary is gone, and the standby takes its place"),
            Self::Failover { old_serves: true } => {
                write!(f, "the standby is promoted; the old primary goes on serving those who are connected to it")
            }
            Self::Restore => write!(f, "the backup is restored, with the same timeline"),
            Self::Connect { process, heartbeat, old } => write!(
                f,
                "{} of {} are made anew and lead to {}",
                if heartbeat { "the heartbeat's connections" } else { "the connections" },
                p(process),
                server(old)
            ),
            Self::OldEnds => write!(f, "the old primary stops serving"),
        }
    }
}
