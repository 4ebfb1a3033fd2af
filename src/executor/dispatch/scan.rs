//! Where a dispatcher's next scan of its queue starts and ends.
//!
//! Removed rows stay in the index until the server has cleaned up, and it can't while any transaction holds an old snapshot. A scan from
//! the start of the queue walks over all of them: a minute of work under an old snapshot makes each scan take seconds. So a scan starts
//! where earlier ones have been: at the last row taken, for each priority. Such a scan can't see jobs that became claimable behind its
//! cursors, so there are scans from the start too:
//!
//! * the first one, when nothing is known;
//! * at once when a hint says that rows changed elsewhere than at the end ([`Hint::Rescan`], [`Hint::Any`]), when a poll is due, and when a
//!   backlog seems to end;
//! * a second after the last one, if there were other scans since.
//!
//! While a queue has a backlog, a scan from its start ends where this dispatcher was half a second to a second ago. It is to find rows that
//! were passed over, and not to take rows ahead of the dispatchers whose turn they are. A scan without an end waits until the backlog is
//! over.
//!
//! After an expensive scan from the start there is a rest, so that such scans take a small share of the time whatever they cost. A failed
//! scan says little about the cost of the next: a server that went silent or was replaced cost it its whole deadline. So after a failure
//! the rest is short at first, and longer each time.
//!
//! Rows get their numbers before they are committed, so the rows of a slow transaction appear behind rows that were taken meanwhile. While
//! a queue has a backlog, they wait for the next scan from the start. Without a backlog they are next in order. So scans then start where
//! the dispatcher was half a second to a second ago, and miss only the rows of longer transactions.
//!
//! Groups of kinds that are claimed separately have their own scans. When one took all jobs there were for it, the next starts where those
//! of the other groups would.
//!
//! Several processes that drain a queue together would each walk over the rows that the others took. So while there is a backlog, they also
//! share how far they have come ([`SharedCursor`], in `density.rs`).
//!
//! [`Hint::Rescan`]: crate::store::Hint::Rescan
//! [`Hint::Any`]: crate::store::Hint::Any

mod density;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use self::density::BacklogDensity;
use crate::backoff::jitter;
use crate::job::Job;
use crate::store::{Claimed, ScanCursor, ScanRange, SharedCursor};

/// Longest time without a scan from the start, while there are scans at all.
const FROM_START: Duration = Duration::from_secs(1);
/// A scan from the start that took no longer than this needs no rest: on a clean table it is one descent of the index.
const CHEAP: Duration = Duration::from_millis(20);
/// The rest after an expensive scan, as a multiple of its extra time. So that extra time is at most a seventeenth of all.
const REST: u32 = 16;
/// How far back a scan starts while there is no backlog: one to two times this. It finds the rows of transactions that commit sooner than
/// this after their insert, and walks over rows that died meanwhile. Under a backlog, a scan for rows that were passed over ends there.
const SLACK: Duration = Duration::from_millis(500);

/// The number of ranks that have a cursor. Each is a scan, so a program with hundreds of priorities must not have hundreds of them. A rank
/// without a cursor is scanned whole.
const RANKS: usize = 16;

/// The last row taken of each rank.
type Cursors = BTreeMap<i16, i64>;

/// The scans of a dispatcher for one group of kinds.
#[derive(Debug)]
pub(crate) struct Scan {
    newest: Cursors,
    /// The cursors as they were [`SLACK`] ago, and the same time before that.
    earlier: Cursors,
    earliest: Cursors,
    /// Positions before which there was nothing for this scan, though it never took a row there.
    floor: Cursors,
    turned: Instant,
    /// The worst rank in the last scan, if that found as many jobs as it asked for. Then there is a backlog.
    draining: Option<i16>,
    /// How dense the backlog is, if that is known.
    density: Option<BacklogDensity>,
    /// How long the last scan from the cursors took.
    usual: Duration,
    /// Whether a scan from the start is wanted as soon as it is allowed.
    owed: bool,
    /// Whether there were other scans since the last one from the start.
    partial: bool,
    /// When the next scan from the start is allowed.
    allowed_at: Instant,
    /// When the next scan from the start is due, wanted or not.
    due_at: Instant,
    /// The number of failed scans from the start since the last that succeeded.
    failures: u32,
    /// Whether the last scan reached the end of the queue and took all jobs there were for it.
    saw_all: bool,
}

/// One scan.
#[derive(Debug)]
pub(crate) struct ScanPlan {
    reach: Reach,
    begun: Instant,
}

/// Which rows a scan covers.
#[derive(Debug)]
enum Reach {
    /// From the cursors on. Shared with other processes if the backlog's density is known.
    On { cursors: Vec<ScanCursor>, shared_cursor: Option<SharedCursor> },
    /// From the start to where this dispatcher was a short time ago.
    PassedOver(ScanCursor),
    /// From the start to the end.
    Whole,
}

impl ScanPlan {
    pub(crate) fn range(&self) -> ScanRange<'_> {
        match &self.reach {
            Reach::On { cursors, shared_cursor } => ScanRange::After { cursors, shared_cursor: *shared_cursor },
            Reach::PassedOver(last) => ScanRange::UpTo(*last),
            Reach::Whole => ScanRange::All,
        }
    }

    pub(crate) fn is_from_start(&self) -> bool {
        !matches!(self.reach, Reach::On { .. })
    }
}

impl Scan {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            newest: Cursors::new(),
            earlier: Cursors::new(),
            earliest: Cursors::new(),
            floor: Cursors::new(),
            turned: now,
            draining: None,
            density: None,
            usual: Duration::ZERO,
            owed: true,
            partial: false,
            allowed_at: now,
            due_at: now,
            failures: 0,
            saw_all: false,
        }
    }

    /// Notes that there may be jobs behind the cursors.
    pub(crate) fn owe(&mut self) {
        self.owed = true;
    }

    /// Returns whether the last scan found as many jobs as it asked for.
    pub(crate) fn has_backlog(&self) -> bool {
        self.draining.is_some()
    }

    /// Returns when to scan from the start if nothing else happens.
    pub(crate) fn wanted_at(&self) -> Option<Instant> {
        if self.owed {
            return Some(self.allowed_at);
        }
        // Rows that the other scans passed over do not wait for a poll.
        self.partial.then_some(self.due_at)
    }

    /// Plans a scan for `limit` jobs.
    pub(crate) fn next(&mut self, now: Instant, limit: usize) -> ScanPlan {
        self.turn(now);
        let wanted = now >= self.due_at || (self.owed && now >= self.allowed_at);
        let behind = if wanted { self.behind_cursors() } else { None };
        let reach = behind.unwrap_or_else(|| Reach::On {
            cursors: self.cursors(),
            shared_cursor: self.density.map(|density| density.shared_cursor(limit)),
        });
        let plan = ScanPlan { reach, begun: now };
        if plan.is_from_start() {
            // This scan may miss rows that are announced from here on.
            self.owed = false;
        }
        plan
    }

    /// Returns where a scan starts: behind its own cursors, and not before the floor. In the rank of a backlog the floor does not count. A
    /// transaction that committed late may have put the backlog before rows of other kinds, which were taken already.
    fn cursors(&self) -> Vec<ScanCursor> {
        let mut cursors = if self.has_backlog() { self.newest.clone() } else { self.earliest.clone() };
        for (rank, seq) in &self.floor {
            let is_draining = self.draining == Some(*rank);
            if cursors.contains_key(rank) && !is_draining || !cursors.contains_key(rank) && cursors.len() < RANKS {
                let known = cursors.entry(*rank).or_insert(*seq);
                *known = *seq.max(known);
            }
        }
        cursors.into_iter().map(|(rank, seq)| ScanCursor { rank, seq }).collect()
    }

    /// Returns the range behind the cursors. `None`: the backlog is too young to have passed over anything for long.
    fn behind_cursors(&self) -> Option<Reach> {
        let Some(draining) = self.draining else { return Some(Reach::Whole) };
        // Ranks without a cursor are covered whole by the other scans.
        let (rank, seq) = self.earliest.range(..=draining).next_back()?;
        Some(Reach::PassedOver(ScanCursor { rank: *rank, seq: *seq }))
    }

    /// Takes in what a scan found when it asked for `asked` jobs. Returns whether to scan again at once.
    pub(crate) fn found(&mut self, plan: &ScanPlan, claimed: &Claimed, asked: usize, now: Instant) -> bool {
        let jobs = &claimed.jobs;
        self.note(jobs);
        let all = jobs.len() >= asked;
        self.saw_all = !all && matches!(plan.reach, Reach::Whole | Reach::On { shared_cursor: None, .. });
        let draining = jobs.last().filter(|_| all).map(|worst| -worst.priority);
        match plan.reach {
            Reach::On { shared_cursor, .. } => {
                self.usual = now.duration_since(plan.begun);
                self.partial = true;
                // The backlog ends here, unless rows were passed over.
                self.owed |= self.has_backlog() && !all;
                self.density = BacklogDensity::seen(self.density, shared_cursor, claimed).filter(|_| all);
                self.draining = draining;
            }
            // Says nothing about the backlog.
            Reach::PassedOver(_) => self.rest_after(plan, now),
            Reach::Whole => {
                self.rest_after(plan, now);
                self.density = BacklogDensity::seen(None, None, claimed).filter(|_| all);
                self.draining = draining;
            }
        }
        self.has_backlog() || self.wanted_at().is_some_and(|at| at <= now)
    }

    /// Returns whether it can [start where others are](Self::start_with).
    pub(crate) fn saw_all(&mut self) -> bool {
        std::mem::take(&mut self.saw_all)
    }

    /// Raises the floor to where `other`, a scan of the same queue for other kinds, was a short time ago. There is nothing before that for
    /// this scan, which saw the whole queue last. Otherwise a scan for kinds that have no jobs would walk over all dead rows.
    pub(crate) fn start_with(&mut self, other: &Self) {
        for (rank, seq) in &other.earliest {
            if self.floor.len() < RANKS || self.floor.contains_key(rank) {
                let known = self.floor.entry(*rank).or_insert(*seq);
                *known = *seq.max(known);
            }
        }
    }

    /// Notes that a scan failed. If it was one from the start that took too long, scans from the cursors go on meanwhile.
    pub(crate) fn failed(&mut self, plan: &ScanPlan, now: Instant) {
        match plan.reach {
            // The rows reserved for it were not taken, and only a scan without an end finds them.
            Reach::On { shared_cursor: Some(_), .. } => {
                self.owed = true;
                self.draining = None;
            }
            Reach::On { shared_cursor: None, .. } => {}
            Reach::PassedOver(_) | Reach::Whole => {
                let rest = REST.min(1_u32.checked_shl(self.failures).unwrap_or(REST));
                self.rest_for(plan, now, rest);
                self.failures += 1;
                self.owed = true;
            }
        }
        self.density = None;
    }

    /// Notes that a scan was allowed to take nothing, so it says nothing about the waiting jobs.
    pub(crate) fn saw_nothing(&mut self, plan: &ScanPlan) {
        self.owed |= plan.is_from_start();
    }

    fn rest_after(&mut self, plan: &ScanPlan, now: Instant) {
        self.failures = 0;
        self.rest_for(plan, now, REST);
    }

    /// Sets the rest to `rest` times the scan's extra cost.
    fn rest_for(&mut self, plan: &ScanPlan, now: Instant, rest: u32) {
        self.partial = false;
        // Taking rows costs as much in a scan from the cursors. Only the extra cost comes from the rows it walked over.
        let cost = now.duration_since(plan.begun).saturating_sub(self.usual);
        let rest = if cost > CHEAP { cost * rest } else { Duration::ZERO };
        self.allowed_at = now + rest;
        // Nodes that started together should not scan together.
        self.due_at = now + rest.max(jitter(FROM_START));
    }

    fn note(&mut self, jobs: &[Job]) {
        for job in jobs {
            let newest = self.newest.entry(-job.priority).or_insert(job.seq);
            *newest = job.seq.max(*newest);
        }
        if self.newest.len() > RANKS {
            // The ranks at work matter.
            self.newest.retain(|rank, _| jobs.iter().any(|job| -job.priority == *rank));
            while self.newest.len() > RANKS {
                self.newest.pop_first();
            }
        }
    }

    /// Ages the cursors.
    fn turn(&mut self, now: Instant) {
        if now.duration_since(self.turned) >= SLACK {
            self.turned = now;
            self.earliest = std::mem::replace(&mut self.earlier, self.newest.clone());
        }
    }
}
