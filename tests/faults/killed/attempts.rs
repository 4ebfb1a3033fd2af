//! The event log, combined into attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::event_log::{Entry, What};
use super::load::About;

/// The longest time by which a node may stop its work before its lease is over, by the database's clock: a tenth of the lease of a second, plus the
/// time of its last renewal.
const MARGIN: i64 = 600_000;

/// The attempt has not ended yet.
const OPEN: i64 = i64::MAX;

/// The course of one claim.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) job: String,
    pub(super) version: i64,
    pub(super) node: Option<i64>,
    pub(super) about: About,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) failed: bool,
    /// The handler returned, whatever became of its outcome.
    pub(super) returned: bool,
}

impl Attempt {
    /// Whether it counts: not if its process was dead when the handler began.
    pub(super) fn is_one(&self) -> bool {
        self.start < self.end
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, version, node, start, end, about, .. } = self;
        write!(
            f,
            "{job} (seq {}, {}, {}) version {version} of node {node:?} from {start} to ",
            about.seq, about.queue, about.kind
        )?;
        if *end == OPEN { f.write_str("now") } else { end.fmt(f) }
    }
}

/// When each node was declared dead, and when its lease was over.
type Deaths = BTreeMap<i64, (i64, i64)>;

#[derive(Debug, Default)]
pub(super) struct Past {
    /// By their start.
    pub(super) attempts: Vec<Attempt>,
    /// Facts about jobs that have started.
    pub(super) about: BTreeMap<String, About>,
    /// When each job took effect, with the version of the claim.
    pub(super) done: BTreeMap<String, Vec<(i64, i64)>>,
    /// Jobs with a failed attempt.
    pub(super) failed: BTreeSet<String>,
    /// When the last attempt of each job ended.
    last: BTreeMap<String, i64>,
    /// When each job was first claimed.
    pub(super) claimed: BTreeMap<String, i64>,
    /// Jobs that handlers sent.
    pub(super) sent: BTreeSet<String>,
    /// Lines that contradict each other.
    pub(super) wrong: Vec<String>,
    /// Attempts that went on when their job was gone, of nodes that had their lease, or are not known to be dead (yet, as long as processes die). A
    /// node that could not renew its lease gives back its jobs shortly before the lease is over, and a handler's line may come after that.
    pub(super) robbed: Vec<String>,
    pub(super) totals: Totals,
    /// Without rules, only groups limit how many jobs run at a time.
    pub(super) unruled: bool,
}

/// Counts of the events that the tests are about.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) deaths: usize,
    pub(super) claims: usize,
    pub(super) delivered: usize,
    /// Attempts whose node died.
    pub(super) lost: usize,
    /// … before their handler began.
    pub(super) lost_unstarted: usize,
    /// … and whose handler ended nevertheless, or began, although the node was already declared dead.
    pub(super) late: usize,
    /// Jobs that were given back by a node that was not dead.
    pub(super) given_back: usize,
}

/// All lines about one claim.
#[derive(Debug, Default)]
struct Claim {
    node: Option<i64>,
    about: Option<About>,
    start: Option<i64>,
    end: Option<i64>,
    last: Option<i64>,
    done: Option<i64>,
    lost: Option<(i64, Option<i64>)>,
    failed: bool,
}

impl Past {
    pub(super) fn of(entries: &[Entry]) -> Self {
        let mut past = Self::default();
        let mut claims: BTreeMap<(&str, i64), Claim> = BTreeMap::new();
        let mut deaths = Deaths::new();
        for Entry { line, node, at } in entries {
            if line.what == What::Death {
                let late: i64 = line.about.as_ref().unwrap().parse().unwrap();
                if late < 0 {
                    past.wrong.push(format!("node {node:?} was declared dead {}µs before its lease was over", -late));
                }
                deaths.insert(node.unwrap(), (*at, *at - late));
                continue;
            }
            if line.what == What::Sent {
                past.sent.insert(line.job.clone());
                continue;
            }
            let claim = claims.entry((&line.job, line.version)).or_default();
            match line.what {
                What::Start => {
                    claim.about = line.about.as_ref().map(|about| serde_json::from_str(about).unwrap());
                    // A handler that met a conflict begins again within its attempt.
                    claim.start = Some(claim.start.map_or(*at, |start| start.min(*at)));
                }
                What::End | What::Failed => {
                    claim.end = claim.end.max(Some(*at));
                    claim.failed |= line.what == What::Failed;
                }
                What::Done => {
                    claim.done = Some(*at);
                    past.done.entry(line.job.clone()).or_default().push((*at, line.version));
                }
                What::Claim => {
                    claim.node = *node;
                    let first = past.claimed.entry(line.job.clone()).or_insert(*at);
                    *first = (*first).min(*at);
                    past.totals.claims += 1;
                    past.totals.delivered += usize::from(line.about.is_some());
                }
                What::Lost => claim.lost = Some((*at, *node)),
                What::Sent | What::Death => {}
            }
            claim.last = claim.last.max((line.what != What::Lost).then_some(*at));
        }
        past.totals.deaths = deaths.len();
        for ((job, version), claim) in claims {
            past.add(job, version, claim, &deaths);
        }
        past.attempts.sort_by_key(|attempt| attempt.start);
        for attempt in past.attempts.iter().filter(|attempt| attempt.is_one()) {
            let last = past.last.entry(attempt.job.clone()).or_default();
            *last = attempt.end.max(*last);
        }
        past
    }

    fn add(&mut self, job: &str, version: i64, claim: Claim, deaths: &Deaths) {
        let mut end = claim.end.max(claim.done).unwrap_or(OPEN);
        if let Some((lost, node)) = claim.lost {
            let death = node.and_then(|node| deaths.get(&node));
            let late = claim.last.is_some_and(|last| last > lost);
            if death.is_some_and(|(death, _)| *death <= lost) {
                self.totals.lost += 1;
                self.totals.lost_unstarted += usize::from(claim.start.is_none());
                self.totals.late += usize::from(late);
            } else {
                self.totals.given_back += 1;
                if late && death.is_none_or(|(_, lease)| lease - lost > MARGIN) {
                    self.robbed.push(format!("{job} version {version} was taken from {node:?}, which had its lease"));
                }
            }
            if claim.done.is_some() {
                self.wrong.push(format!("{job} version {version} took effect, and was taken from {node:?} at {lost}"));
            }
            // It owned the job until then, whatever its handler still had to do.
            end = lost;
        }
        if claim.failed {
            self.failed.insert(job.to_owned());
        }
        let (Some(start), Some(about)) = (claim.start, claim.about) else { return };
        self.about.insert(job.to_owned(), about.clone());
        self.attempts.push(Attempt {
            job: job.to_owned(),
            version,
            node: claim.node,
            about,
            start,
            end,
            failed: claim.failed,
            returned: claim.end.is_some(),
        });
    }

    /// Returns when a job was over; for a job without its own transaction, the earliest possible time.
    pub(super) fn over(&self, job: &str) -> i64 {
        let done = self.done.get(job).map(|dones| dones[0].0);
        done.unwrap_or_else(|| match self.about.get(job) {
            Some(about) if about.kind == "bare" => self.last.get(job).copied().unwrap_or(OPEN),
            _ => OPEN,
        })
    }
}
