//! The actions that can happen to claims.

use std::fmt;

use super::IN_FLIGHT;
use crate::vocabulary::{job_name, process_name};

/// One step. All fields are small numbers, so that a path can be played against a real database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words of each stand below")]
pub enum Action {
    Send { job: u8 },
    Cancel { job: u8 },
    Draw { process: u8 },
    Ask { process: u8, job: u8, born: bool },
    Execute { process: u8 },
    Commit { process: u8 },
    Abort { process: u8 },
    Answer { process: u8 },
    GiveUp { process: u8 },
    Report { process: u8, hand: u8, success: bool, answered: bool },
    Listen { process: u8 },
    EndTold { process: u8, hand: u8 },
    Look { process: u8 },
    Walk { process: u8 },
    Heartbeat { process: u8 },
    Fence { process: u8 },
    Retire { process: u8 },
    Register { process: u8 },
    Crash { process: u8 },
    Declare { node: u8 },
    Release { job: u8 },
}

/// Node ids that explorations reach.
const NODES: u8 = 8;

impl Action {
    pub(super) fn all(jobs: u8, processes: u8) -> Vec<Self> {
        let mut all = Vec::new();
        for job in 0..jobs {
            all.extend([Self::Send { job }, Self::Cancel { job }, Self::Release { job }]);
        }
        for process in 0..processes {
            for job in 0..jobs {
                all.extend([false, true].map(|born| Self::Ask { process, job, born }));
            }
            all.extend([
                Self::Draw { process },
                Self::Execute { process },
                Self::Commit { process },
                Self::Abort { process },
                Self::Answer { process },
                Self::GiveUp { process },
                Self::Listen { process },
                Self::Look { process },
                Self::Walk { process },
                Self::Heartbeat { process },
                Self::Fence { process },
                Self::Retire { process },
                Self::Register { process },
                Self::Crash { process },
            ]);
            for hand in 0..IN_FLIGHT as u8 {
                for success in [true, false] {
                    all.extend([true, false].map(|answered| Self::Report { process, hand, success, answered }));
                }
                all.push(Self::EndTold { process, hand });
            }
        }
        all.extend((1..=NODES).map(|node| Self::Declare { node }));
        all
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p, j) = (process_name, job_name);
        match *self {
            Self::Send { job } => write!(f, "{} is sent", j(job)),
            Self::Cancel { job } => write!(f, "{} is cancelled", j(job)),
            Self::Draw { process } => write!(f, "{} draws the number of its next claim", p(process)),
            Self::Ask { process, job, born: false } => {
                write!(f, "{} sends a claim, which may take {}", p(process), j(job))
            }
            Self::Ask { process, job, born: true } => {
                write!(f, "{} sends {}, to be born owned by its own node", p(process), j(job))
            }
            Self::Execute { process } => write!(f, "the server runs {}'s statement", p(process)),
            Self::Commit { process } => write!(f, "the server commits {}'s statement", p(process)),
            Self::Abort { process } => write!(f, "the server ends {}'s transaction", p(process)),
            Self::Answer { process } => write!(f, "{} hears the answer", p(process)),
            Self::GiveUp { process } => write!(f, "{} waits for the answer no longer", p(process)),
            Self::Report { process, hand, success, answered } => write!(
                f,
                "{}'s handler {} reports that it {}{}",
                p(process),
                hand + 1,
                if success { "succeeded" } else { "failed" },
                if answered { "" } else { "; the answer gets lost" }
            ),
            Self::Listen { process } => write!(f, "{} asks which of its claims are gone", p(process)),
            Self::EndTold { process, hand } => {
                write!(f, "{}'s handler {}, which was told to stop, ends without an outcome", p(process), hand + 1)
            }
            Self::Look { process } => write!(f, "{} notes what it knows, to check what it owns", p(process)),
            Self::Walk { process } => write!(f, "{} gives back what it owns and did not know", p(process)),
            Self::Heartbeat { process } => write!(f, "{} sends a heartbeat and hears the answer", p(process)),
            Self::Fence { process } => write!(f, "{} could not renew its lease and stops its node", p(process)),
            Self::Retire { process } => write!(f, "{} retires its former node", p(process)),
            Self::Register { process } => write!(f, "{} registers a new node", p(process)),
            Self::Crash { process } => write!(f, "{} crashes", p(process)),
            Self::Declare { node } => write!(f, "node {node} is declared dead"),
            Self::Release { job } => write!(f, "{}, whose owner is dead, is released", j(job)),
        }
    }
}
