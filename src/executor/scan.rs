//! Where a dispatcher's next look at its queue starts.
//!
//! Rows that were removed stay in the index until the server has cleaned up, and as long as anybody holds an old snapshot it
//! can't. A look from the start of the queue walks over all of them; a minute of work under a held snapshot makes each look
//! take seconds. So a look starts where earlier ones have been: at the last row taken, of each priority. Such a look can't see
//! what became claimable behind it, so there are looks from the start too ("full" ones):
//!
//! * the first one, when nothing is known;
//! * when a hint says that rows changed elsewhere than at the end ([`Hint::Rescan`], [`Hint::Any`]), when a poll is due, and
//!   when a flood seems to end: at once;
//! * a second after the last one, if there were other looks since.
//!
//! A full look that was expensive is followed by a rest, so that full looks take a small share of the time whatever they cost.
//!
//! Rows get their numbers before they are committed, so those of a slow transaction appear behind what was taken meanwhile.
//! While a queue is flooded they wait for the next full look, like everything else waits its turn. When it is not, they are
//! next: then a look starts where the scan was half a second to a second ago, which only longer transactions miss.
//!
//! Several processes that drain a queue together would each walk over what the others took. So while they are flooded they also share
//! how far they have come ([`ScanFront`], by `flow.rs`).
//!
//! [`Hint::Rescan`]: crate::store::Hint::Rescan
//! [`Hint::Any`]: crate::store::Hint::Any

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::flow::Flow;
use super::jitter;
use crate::job::Job;
use crate::store::{ScanFront, ScanMark};

/// Longest time without a full look while there are looks at all.
const FULL_LOOK: Duration = Duration::from_secs(1);
/// A full look that took no longer needs no rest: on a clean table it is one descent of the index.
const CHEAP: Duration = Duration::from_millis(20);
/// The rest after an expensive one, in multiples of what it took: full looks take at most a seventeenth of the time.
const REST: u32 = 16;
/// How far back a look starts while nothing floods: one to two times this. A transaction that commits sooner after its insert
/// is not missed; what died meanwhile is walked over.
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
    /// The last look found all that it asked for.
    flooded: bool,
    /// How dense the flood is, if that is known.
    flow: Option<Flow>,
    /// A full look is wanted as soon as it may be.
    owed: bool,
    /// There were other looks since the last full one.
    partial: bool,
    /// One may be.
    allowed_at: Instant,
    /// One is due, wanted or not.
    due_at: Instant,
}

/// One look.
#[derive(Debug)]
pub(super) struct Look {
    /// Where it starts, for each rank that has been looked at; empty for a full one.
    pub(super) after: Vec<ScanMark>,
    /// What it shares with other processes.
    pub(super) front: Option<ScanFront>,
    full: bool,
    begun: Instant,
}

impl Scan {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            newest: Marks::new(),
            earlier: Marks::new(),
            earliest: Marks::new(),
            turned: now,
            flooded: false,
            flow: None,
            owed: true,
            partial: false,
            allowed_at: now,
            due_at: now,
        }
    }

    /// There may be something behind the marks.
    pub(super) fn owe(&mut self) {
        self.owed = true;
    }

    pub(super) fn is_flooded(&self) -> bool {
        self.flooded
    }

    /// When there is to be a full look, if nothing else happens.
    pub(super) fn wanted_at(&self) -> Option<Instant> {
        if self.owed {
            return Some(self.allowed_at);
        }
        // What the others passed over does not wait for a poll.
        self.partial.then_some(self.due_at)
    }

    /// How to look now, for so many jobs.
    pub(super) fn next(&mut self, now: Instant, limit: usize) -> Look {
        let full = now >= self.due_at || (self.owed && now >= self.allowed_at);
        if full {
            // What is told from here on may be missed by it.
            self.owed = false;
        }
        self.turn(now);
        let marks = match (full, self.flooded) {
            (true, _) => &Marks::new(),
            (false, true) => &self.newest,
            (false, false) => &self.earliest,
        };
        Look {
            after: marks.iter().map(|(rank, seq)| ScanMark { rank: *rank, seq: *seq }).collect(),
            front: self.flow.filter(|_| !full).map(|flow| flow.front(limit)),
            full,
            begun: now,
        }
    }

    /// What it found, of how many it asked for. Returns whether to look again at once.
    pub(super) fn found(&mut self, look: &Look, jobs: &[Job], asked: usize, now: Instant) -> bool {
        self.note(jobs);
        self.partial = !look.full;
        if look.full {
            self.rest(now.duration_since(look.begun), now);
        }
        let all = jobs.len() >= asked;
        self.flow = match (all, look.full) {
            (false, _) => None,
            // It finds old rows beside new ones, which says nothing of what comes next.
            (true, true) => self.flow,
            (true, false) => Flow::seen(self.flow, look.front, jobs),
        };
        // It ends, unless something was passed over.
        self.owed |= self.flooded && !all && !look.full;
        self.flooded = all;
        all || self.wanted_at().is_some_and(|at| at <= now)
    }

    /// It failed. If it was a full one that took too long, looks from the marks go on meanwhile.
    pub(super) fn failed(&mut self, look: &Look, now: Instant) {
        if look.full {
            self.rest(now.duration_since(look.begun), now);
        }
        // What was set aside for it was not taken.
        self.owed |= look.full || look.front.is_some();
        self.flow = None;
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

    fn rest(&mut self, cost: Duration, now: Instant) {
        let rest = if cost > CHEAP { cost * REST } else { Duration::ZERO };
        self.allowed_at = now + rest;
        // Many nodes that began together should not look together.
        self.due_at = now + rest.max(jitter(FULL_LOOK));
    }

    /// Lets the marks grow old.
    fn turn(&mut self, now: Instant) {
        if now.duration_since(self.turned) >= SLACK {
            self.turned = now;
            self.earliest = std::mem::replace(&mut self.earlier, self.newest.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::NewJob;
    use crate::store::testing::{job, message};

    const MS: Duration = Duration::from_millis(1);

    /// Jobs of these ranks and numbers, as a claim answers them.
    fn jobs(places: &[(i16, i64)]) -> Vec<Job> {
        let at = |(rank, seq): &(i16, i64)| {
            let message = message(NewJob::json("kind", &1).priority(-rank)).unwrap();
            job(message, *seq, 1, 1, jiff::Timestamp::UNIX_EPOCH)
        };
        places.iter().map(at).collect()
    }

    fn after(look: &Look) -> Vec<(i16, i64)> {
        look.after.iter().map(|mark| (mark.rank, mark.seq)).collect()
    }

    /// One look that takes `cost` and finds these of so many asked for.
    fn look(scan: &mut Scan, now: &mut Instant, cost: Duration, places: &[(i16, i64)], asked: usize) -> (Look, bool) {
        let look = scan.next(*now, asked);
        *now += cost;
        let again = scan.found(&look, &jobs(places), asked, *now);
        (look, again)
    }

    #[test]
    fn a_flood_is_scanned_from_the_newest_marks_and_ends_with_a_full_look() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        let (first, again) = look(&mut scan, &mut now, MS, &[(-5, 90), (0, 7)], 2);
        assert!(first.full && again && scan.is_flooded());
        let (second, again) = look(&mut scan, &mut now, MS, &[(0, 8), (0, 9)], 2);
        assert_eq!((after(&second), again), (vec![(-5, 90), (0, 7)], true));
        let (third, again) = look(&mut scan, &mut now, MS, &[(0, 12)], 2);
        assert_eq!((after(&third), again), (vec![(-5, 90), (0, 9)], true), "something may have been passed over");
        let (last, again) = look(&mut scan, &mut now, MS, &[], 2);
        assert!(last.full && !again && !scan.is_flooded());
    }

    #[test]
    fn without_a_flood_a_look_starts_where_the_scan_was_a_moment_ago() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        let mut seq = 0;
        let mut starts = Vec::new();
        for _ in 0..60 {
            seq += 1;
            let (look, again) = look(&mut scan, &mut now, MS, &[(0, seq)], 10);
            assert!(
                !again || scan.wanted_at().is_some_and(|at| at <= now),
                "again, and not because a full look is due"
            );
            if !look.full {
                starts.push((seq, look.after.first().map_or(0, |mark| mark.seq)));
            }
            now += 99 * MS;
        }
        // Ten looks a second: what it starts behind was taken 0.5 to 1 s ago.
        assert!(starts.iter().all(|(seq, start)| (5..=11).contains(&(seq - start)) || *start == 0), "{starts:?}");
        assert!(starts.iter().any(|(_, start)| *start > 0), "{starts:?}");
    }

    #[test]
    fn full_looks_come_when_they_are_owed_and_every_second() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        look(&mut scan, &mut now, MS, &[(0, 1)], 1);
        assert!(!look(&mut scan, &mut now, MS, &[(0, 2)], 1).0.full);
        scan.owe();
        assert_eq!(scan.wanted_at().map(|at| at <= now), Some(true));
        assert!(look(&mut scan, &mut now, MS, &[(0, 3)], 1).0.full);
        assert_eq!(scan.wanted_at(), None, "an idle queue is left alone");
        assert!(!look(&mut scan, &mut now, 500 * MS, &[(0, 4)], 1).0.full);
        now += 800 * MS;
        assert!(look(&mut scan, &mut now, MS, &[(0, 5)], 1).0.full);
    }

    #[test]
    fn what_a_look_from_the_marks_passed_over_waits_for_a_second_at_most() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        look(&mut scan, &mut now, MS, &[(0, 1)], 10);
        let full = now;
        now += 300 * MS;
        assert!(!look(&mut scan, &mut now, MS, &[], 10).0.full);
        let at = scan.wanted_at().unwrap();
        assert!(at > now && at <= full + 1200 * MS);
        now = at;
        assert!(look(&mut scan, &mut now, MS, &[], 10).0.full);
        assert_eq!(scan.wanted_at(), None);
    }

    #[test]
    fn marks_are_kept_for_few_ranks() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        for rank in 0..200 {
            look(&mut scan, &mut now, MS, &[(rank, 7), (-1, i64::from(rank))], 2);
        }
        assert!((1..=RANKS).contains(&scan.newest.len()) && scan.newest.contains_key(&-1), "{:?}", scan.newest);
        let many: Vec<_> = (0..200).map(|rank| (rank, 9)).collect();
        look(&mut scan, &mut now, MS, &many, 200);
        assert_eq!(scan.newest.len(), RANKS);
    }

    #[test]
    fn an_expensive_full_look_is_followed_by_a_rest() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        let begun = now;
        look(&mut scan, &mut now, 3000 * MS, &[(0, 1)], 1);
        let mut full = 0;
        for seq in 2..40_000 {
            // Asked for again and again.
            scan.owe();
            let cost = if scan.wanted_at() <= Some(now) { 3000 * MS } else { 10 * MS };
            full += u32::from(look(&mut scan, &mut now, cost, &[(0, seq)], 1).0.full);
        }
        let share = f64::from(full * 3000) / (now - begun).as_millis() as f64;
        assert!(full > 0 && share < 0.07, "{full} full looks, {share}");
    }

    #[test]
    fn looks_go_on_from_the_marks_when_a_full_one_takes_too_long() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        look(&mut scan, &mut now, MS, &[(0, 1)], 1);
        now += 2000 * MS;
        let full = scan.next(now, 1);
        assert!(full.full);
        now += 30_000 * MS;
        scan.failed(&full, now);
        let next = scan.next(now, 1);
        assert_eq!(after(&next), [(0, 1)]);
        assert!(scan.wanted_at() > Some(now + 60_000 * MS), "the full one is still owed");
    }

    #[test]
    fn a_flood_is_shared_but_by_full_looks() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        let flood = |from: i64| (from..from + 100).map(|seq| (0, seq)).collect::<Vec<_>>();
        assert_eq!(look(&mut scan, &mut now, MS, &flood(0), 100).0.front, None);
        assert_eq!(look(&mut scan, &mut now, MS, &flood(100), 100).0.front, None, "nothing is known yet");
        let shared = look(&mut scan, &mut now, MS, &flood(200), 100).0.front;
        assert_eq!(shared, Some(ScanFront { rank: 0, span: 100, ours_until: None }));
        scan.owe();
        let (full, _) = look(&mut scan, &mut now, MS, &flood(0), 100);
        assert_eq!((full.full, full.front), (true, None));
        assert_eq!(look(&mut scan, &mut now, MS, &flood(300), 100).0.front, shared, "it is still known");
        look(&mut scan, &mut now, MS, &[(0, 400)], 100);
        assert_eq!(scan.next(now, 100).front, None, "it is over");
    }

    #[test]
    fn what_was_set_aside_for_a_look_that_failed_is_looked_for() {
        let mut now = Instant::now();
        let mut scan = Scan::new(now);
        let flood: Vec<_> = (0..100).map(|seq| (0, seq)).collect();
        look(&mut scan, &mut now, MS, &flood, 100);
        look(&mut scan, &mut now, MS, &flood, 100);
        let failed = scan.next(now, 100);
        assert!(!failed.full && failed.front.is_some());
        scan.failed(&failed, now);
        assert!(scan.next(now, 100).full);
    }
}
