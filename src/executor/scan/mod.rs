//! Where a dispatcher's next look at its queue starts, and ends.
//!
//! Rows that were removed stay in the index until the server has cleaned up, and as long as anybody holds an old snapshot it
//! can't. A look from the start of the queue walks over all of them; a minute of work under a held snapshot makes each look
//! take seconds. So a look starts where earlier ones have been: at the last row taken, of each priority. Such a look can't see
//! what became claimable behind it, so there are looks from the start too:
//!
//! * the first one, when nothing is known;
//! * when a hint says that rows changed elsewhere than at the end ([`Hint::Rescan`], [`Hint::Any`]), when a poll is due, and
//!   when a flood seems to end: at once;
//! * a second after the last one, if there were other looks since.
//!
//! While a queue is flooded, a look from its start ends where this dispatcher was half a second to a second ago: it is to find what was
//! passed over, and not to take the next rows before those that come for them. One without an end waits until the flood is over.
//!
//! A look from the start that was expensive is followed by a rest, so that such looks take a small share of the time whatever they cost.
//! One that failed says little of what the next will cost: a server that fell silent, or was replaced, cost it its deadline. So the rest is
//! short at first, and longer each time.
//!
//! Rows get their numbers before they are committed, so those of a slow transaction appear behind what was taken meanwhile.
//! While a queue is flooded they wait for the next look from the start, like everything else waits its turn. When it is not, they are
//! next: then a look starts where the scan was half a second to a second ago, which only longer transactions miss.
//!
//! Kinds that are claimed by themselves have looks of their own. When one took all there was for them, the next starts where those of the others would.
//!
//! Several processes that drain a queue together would each walk over what the others took. So while they are flooded they also share
//! how far they have come ([`ScanFront`], by `flow.rs`).
//!
//! [`Hint::Rescan`]: crate::store::Hint::Rescan
//! [`Hint::Any`]: crate::store::Hint::Any

mod flow;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use self::flow::Flow;
use super::jitter;
use crate::job::Job;
use crate::store::{Claimed, ScanFront, ScanMark, ScanPart};

/// Longest time without a look from the start while there are looks at all.
const FROM_START: Duration = Duration::from_secs(1);
/// A look from the start that took no longer needs no rest: on a clean table it is one descent of the index.
const CHEAP: Duration = Duration::from_millis(20);
/// The rest after an expensive one, in multiples of what it took longer: such looks take about a seventeenth of the time at most.
const REST: u32 = 16;
/// How far back a look starts while nothing floods: one to two times this. A transaction that commits sooner after its insert
/// is not missed; what died meanwhile is walked over. In a flood, what was passed over is looked for up to there.
const SLACK: Duration = Duration::from_millis(500);

/// Ranks that have a mark. Each is a scan of its own, so a program with hundreds of priorities must not have hundreds of them; a rank
/// without a mark is merely looked at whole.
const RANKS: usize = 16;

/// The last row taken of each rank.
type Marks = BTreeMap<i16, i64>;

/// The looks of a dispatcher for one group of kinds.
#[derive(Debug)]
pub(super) struct Scan {
    newest: Marks,
    /// The same as it was [`SLACK`] ago, and before that.
    earlier: Marks,
    earliest: Marks,
    turned: Instant,
    /// The worst rank that the last look took of, if it found all that it asked for: then there is a flood.
    draining: Option<i16>,
    /// How dense the flood is, if that is known.
    flow: Option<Flow>,
    /// What the last look from the marks took.
    usual: Duration,
    /// A look from the start is wanted as soon as it may be.
    owed: bool,
    /// There were other looks since the last one.
    partial: bool,
    /// One may be.
    allowed_at: Instant,
    /// One is due, wanted or not.
    due_at: Instant,
    /// So many of them have failed since the last one that did not.
    failures: u32,
    /// The last look went on to the end of the queue, and took all there was for it.
    saw_all: bool,
}

/// One look.
#[derive(Debug)]
pub(super) struct Look {
    reach: Reach,
    begun: Instant,
}

/// What a look is at.
#[derive(Debug)]
enum Reach {
    /// From the marks on; shared with other processes, if the flood is known.
    On { marks: Vec<ScanMark>, front: Option<ScanFront> },
    /// From the start to where this dispatcher was a moment ago.
    PassedOver(ScanMark),
    /// From the start to the end.
    Whole,
}

impl Look {
    pub(super) fn part(&self) -> ScanPart<'_> {
        match &self.reach {
            Reach::On { marks, front } => ScanPart::After { marks, front: *front },
            Reach::PassedOver(last) => ScanPart::UpTo(*last),
            Reach::Whole => ScanPart::All,
        }
    }

    pub(super) fn is_from_start(&self) -> bool {
        !matches!(self.reach, Reach::On { .. })
    }
}

impl Scan {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            newest: Marks::new(),
            earlier: Marks::new(),
            earliest: Marks::new(),
            turned: now,
            draining: None,
            flow: None,
            usual: Duration::ZERO,
            owed: true,
            partial: false,
            allowed_at: now,
            due_at: now,
            failures: 0,
            saw_all: false,
        }
    }

    /// There may be something behind the marks.
    pub(super) fn owe(&mut self) {
        self.owed = true;
    }

    /// The last look found all that it asked for.
    pub(super) fn is_flooded(&self) -> bool {
        self.draining.is_some()
    }

    /// When there is to be a look from the start, if nothing else happens.
    pub(super) fn wanted_at(&self) -> Option<Instant> {
        if self.owed {
            return Some(self.allowed_at);
        }
        // What the others passed over does not wait for a poll.
        self.partial.then_some(self.due_at)
    }

    /// How to look now, for so many jobs.
    pub(super) fn next(&mut self, now: Instant, limit: usize) -> Look {
        self.turn(now);
        let wanted = now >= self.due_at || (self.owed && now >= self.allowed_at);
        let behind = if wanted { self.behind_the_marks() } else { None };
        let reach = behind.unwrap_or_else(|| {
            let marks = if self.is_flooded() { &self.newest } else { &self.earliest };
            let marks = marks.iter().map(|(rank, seq)| ScanMark { rank: *rank, seq: *seq }).collect();
            Reach::On { marks, front: self.flow.map(|flow| flow.front(limit)) }
        });
        let look = Look { reach, begun: now };
        if look.is_from_start() {
            // What is told from here on may be missed by it.
            self.owed = false;
        }
        look
    }

    /// `None`: a flood is too young to have passed over anything for long.
    fn behind_the_marks(&self) -> Option<Reach> {
        let Some(draining) = self.draining else { return Some(Reach::Whole) };
        // Ranks without a mark are looked at whole by the others.
        let (rank, seq) = self.earliest.range(..=draining).next_back()?;
        Some(Reach::PassedOver(ScanMark { rank: *rank, seq: *seq }))
    }

    /// What it found, of how many it asked for. Returns whether to look again at once.
    pub(super) fn found(&mut self, look: &Look, claimed: &Claimed, asked: usize, now: Instant) -> bool {
        let jobs = &claimed.jobs;
        self.note(jobs);
        let all = jobs.len() >= asked;
        self.saw_all = !all && matches!(look.reach, Reach::Whole | Reach::On { front: None, .. });
        let draining = jobs.last().filter(|_| all).map(|worst| -worst.priority);
        match look.reach {
            Reach::On { front, .. } => {
                self.usual = now.duration_since(look.begun);
                self.partial = true;
                // It ends, unless something was passed over.
                self.owed |= self.is_flooded() && !all;
                self.flow = Flow::seen(self.flow, front, claimed).filter(|_| all);
                self.draining = draining;
            }
            // It says nothing of the flood.
            Reach::PassedOver(_) => self.answered_from_start(look, now),
            Reach::Whole => {
                self.answered_from_start(look, now);
                self.flow = Flow::seen(None, None, claimed).filter(|_| all);
                self.draining = draining;
            }
        }
        self.is_flooded() || self.wanted_at().is_some_and(|at| at <= now)
    }

    /// Whether it can [start where others are](Self::start_with).
    pub(super) fn saw_all(&mut self) -> bool {
        std::mem::take(&mut self.saw_all)
    }

    /// There is nothing for it before the marks of this one, which looks at the same queue for other kinds, and has not looked since. Without that, kinds of
    /// which there are none would be looked for among all that died.
    pub(super) fn start_with(&mut self, other: &Self) {
        let both = [
            (&mut self.newest, &other.newest),
            (&mut self.earlier, &other.earlier),
            (&mut self.earliest, &other.earliest),
        ];
        for (mine, theirs) in both {
            for (rank, seq) in theirs {
                if mine.len() < RANKS || mine.contains_key(rank) {
                    let known = mine.entry(*rank).or_insert(*seq);
                    *known = *seq.max(known);
                }
            }
        }
    }

    /// It failed. If it was one from the start that took too long, looks from the marks go on meanwhile.
    pub(super) fn failed(&mut self, look: &Look, now: Instant) {
        match look.reach {
            // What was set aside for it was not taken, and only a look without an end finds it.
            Reach::On { front: Some(_), .. } => {
                self.owed = true;
                self.draining = None;
            }
            Reach::On { front: None, .. } => {}
            Reach::PassedOver(_) | Reach::Whole => {
                let rest = REST.min(1_u32.checked_shl(self.failures).unwrap_or(REST));
                self.looked_from_start(look, now, rest);
                self.failures += 1;
                self.owed = true;
            }
        }
        self.flow = None;
    }

    /// It was allowed to take nothing, and says nothing of what waits.
    pub(super) fn saw_nothing(&mut self, look: &Look) {
        self.owed |= look.is_from_start();
    }

    fn answered_from_start(&mut self, look: &Look, now: Instant) {
        self.failures = 0;
        self.looked_from_start(look, now, REST);
    }

    /// A rest of so many times what it cost too much.
    fn looked_from_start(&mut self, look: &Look, now: Instant, rest: u32) {
        self.partial = false;
        // One that takes rows is as expensive as one from the marks. What it costs more is what it walked over.
        let cost = now.duration_since(look.begun).saturating_sub(self.usual);
        let rest = if cost > CHEAP { cost * rest } else { Duration::ZERO };
        self.allowed_at = now + rest;
        // Many nodes that began together should not look together.
        self.due_at = now + rest.max(jitter(FROM_START));
    }

    fn note(&mut self, jobs: &[Job]) {
        for job in jobs {
            let newest = self.newest.entry(-job.priority).or_insert(job.seq);
            *newest = job.seq.max(*newest);
        }
        if self.newest.len() > RANKS {
            // Those at work matter.
            self.newest.retain(|rank, _| jobs.iter().any(|job| -job.priority == *rank));
            while self.newest.len() > RANKS {
                self.newest.pop_first();
            }
        }
    }

    /// Lets the marks grow old.
    fn turn(&mut self, now: Instant) {
        if now.duration_since(self.turned) >= SLACK {
            self.turned = now;
            self.earliest = std::mem::replace(&mut self.earlier, self.newest.clone());
        }
    }
}
