//! The actions that can happen to a group, and their descriptions.

use std::fmt;

use super::{IN_FLIGHT, MAX_GROUP_CLAIM, PROCESSES};
use crate::vocabulary::{job_name, process_name};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words of each stand below")]
pub enum Action {
    Send { job: u8 },
    Admit { job: u8 },
    Round,
    Claim { process: u8, job: u8, answered: bool },
    Start { process: u8 },
    Succeed { process: u8 },
    ClaimNext { process: u8, most: u8, answered: bool },
    Commit { process: u8, answered: bool },
    GiveUp { process: u8, commits: bool },
    Arrive,
    Fail { process: u8 },
    GiveBack { process: u8 },
    Cancel { job: u8 },
    Told { process: u8, hand: u8 },
    Look { process: u8 },
    Note { process: u8 },
    LookAtPermits { process: u8 },
    Fence { process: u8 },
    Crash { process: u8 },
    Register { process: u8 },
    Declare { node: u8 },
    Release { job: u8 },
    Free,
}

impl Action {
    /// Returns all actions for this number of jobs.
    pub(super) fn all(jobs: u8) -> Vec<Self> {
        let mut all = vec![Self::Round, Self::Arrive, Self::Free];
        for job in 0..jobs {
            all.extend([Self::Send { job }, Self::Admit { job }, Self::Cancel { job }, Self::Release { job }]);
        }
        for process in 0..PROCESSES as u8 {
            for answered in [true, false] {
                all.extend((0..jobs).map(|job| Self::Claim { process, job, answered }));
                all.extend((0..=MAX_GROUP_CLAIM).rev().map(|most| Self::ClaimNext { process, most, answered }));
                all.push(Self::Commit { process, answered });
            }
            all.extend((0..IN_FLIGHT as u8).map(|hand| Self::Told { process, hand }));
            all.extend([true, false].map(|commits| Self::GiveUp { process, commits }));
            all.extend([
                Self::Start { process },
                Self::Succeed { process },
                Self::Fail { process },
                Self::GiveBack { process },
                Self::Look { process },
                Self::Note { process },
                Self::LookAtPermits { process },
                Self::Fence { process },
                Self::Crash { process },
                Self::Register { process },
            ]);
        }
        all.extend((1..=PROCESSES as u8 + 3).map(|node| Self::Declare { node }));
        all
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p, j) = (process_name, job_name);
        let lost = |answered: bool| if answered { "" } else { "; the answer gets lost" };
        match *self {
            Self::Send { job } => write!(f, "{} is sent", j(job)),
            Self::Admit { job } => write!(f, "{} is admitted", j(job)),
            Self::Round => write!(f, "a round finds nothing to admit"),
            Self::Claim { process, job, answered } => write!(f, "{} claims {}{}", p(process), j(job), lost(answered)),
            Self::Start { process } => write!(f, "{} starts the first handler that waits in it", p(process)),
            Self::Succeed { process } => write!(f, "{}'s handler succeeds; that is yet to be recorded", p(process)),
            Self::ClaimNext { process, most: 0, answered } => {
                write!(f, "{} records what ended, and takes nothing{}", p(process), lost(answered))
            }
            Self::ClaimNext { process, most, answered } => {
                write!(f, "{} records what ended, and takes the next, {most} at most{}", p(process), lost(answered))
            }
            Self::Commit { process, answered } => {
                write!(f, "{}'s handler commits, and its end with it{}", p(process), lost(answered))
            }
            Self::GiveUp { process, commits: true } => {
                write!(f, "{}'s handler commits; it gives up waiting, and the commit is still under way", p(process))
            }
            Self::GiveUp { process, commits: false } => {
                write!(
                    f,
                    "{} records what ended; it gives up waiting, and the statement is still under way",
                    p(process)
                )
            }
            Self::Arrive => write!(f, "what was under way is done at last"),
            Self::Fail { process } => write!(f, "{}'s handler fails, which is recorded", p(process)),
            Self::GiveBack { process } => write!(f, "{} gives back what has not started", p(process)),
            Self::Cancel { job } => write!(f, "{} is cancelled", j(job)),
            Self::Told { process, hand } => {
                write!(f, "{} hears that number {} in its hand is gone, and drops it", p(process), hand + 1)
            }
            Self::Look { process } => write!(f, "{} gives back what it owns and does not know", p(process)),
            Self::Note { process } => write!(f, "{} is going to look at slots, and notes which it knows", p(process)),
            Self::LookAtPermits { process } => {
                write!(f, "{} frees the permit that it has and does not know", p(process))
            }
            Self::Fence { process } => {
                write!(f, "{} stops its handlers: its node could not report in time", p(process))
            }
            Self::Crash { process } => write!(f, "{} crashes", p(process)),
            Self::Register { process } => write!(f, "{} registers a new node", p(process)),
            Self::Declare { node } => write!(f, "node {node} is declared dead"),
            Self::Release { job } => write!(f, "{}, whose owner is dead, is released", j(job)),
            Self::Free => write!(f, "the permit that a dead node has is freed"),
        }
    }
}
