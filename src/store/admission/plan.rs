//! What a round decides. Pure: no clock, no database.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use super::super::rules::{EACH, Rate, Rule, Scope, ShareBy, Shares};
use super::group_key;
use crate::job::{JobId, Terms};

/// Of the period of a rate: see [`part`].
const PARTS: i64 = 1000;

/// Where a candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In `blocked_job`.
    Blocked,
    /// In `job`, where a rule covers it.
    Waiting,
}

/// A job that might start.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) id: JobId,
    pub(crate) seq: i64,
    pub(crate) rank: i16,
    pub(crate) place: Place,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) terms: Terms,
    /// It holds its group already.
    pub(crate) holds: bool,
    /// Behind which gate it waits, and in whose share; both empty in `job`.
    pub(crate) gate: String,
    pub(crate) share: String,
}

/// The rules, found by what they go by.
#[derive(Default)]
pub(crate) struct RuleBook(HashMap<Scope, Scoped>);

/// Those that go by the same.
#[derive(Default)]
struct Scoped {
    /// Of all that have none of their own.
    each: Option<Rule>,
    named: HashMap<String, Rule>,
}

impl Scoped {
    /// The rule that holds for a name: its own, or that of all that have none.
    fn find(&self, name: &str) -> Option<&Rule> {
        self.named.get(name).or(self.each.as_ref())
    }

    /// The same, but a pause of all is one of those that have a rule of their own too.
    fn holding(&self, name: &str) -> Option<&Rule> {
        self.each.as_ref().filter(|rule| rule.paused).or_else(|| self.find(name))
    }
}

impl RuleBook {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let mut book = Self::default();
        for rule in rules {
            let scoped = book.0.entry(rule.scope).or_default();
            if rule.name == EACH {
                scoped.each = Some(rule);
            } else {
                scoped.named.insert(rule.name.clone(), rule);
            }
        }
        book
    }

    /// Whether any of them makes jobs wait.
    #[cfg(feature = "sqlite")]
    pub(crate) fn limits(&self) -> bool {
        self.0.values().flat_map(|scoped| scoped.named.values().chain(&scoped.each)).any(Rule::limits)
    }

    /// The rules that cover a job, with the keys of their gates.
    fn covering(&self, job: &Candidate) -> Vec<(String, &Rule)> {
        let terms = &job.terms;
        let names = [
            (Scope::Group, terms.group.as_deref()),
            (Scope::Queue, Some(job.queue.as_str())),
            (Scope::Kind, Some(job.kind.as_str())),
            (Scope::Tenant, terms.tenant.as_deref()),
            (Scope::Key, terms.limit_key.as_deref()),
        ];
        let covering = names.into_iter().filter_map(|(scope, name)| {
            let rule = self.0.get(&scope)?.holding(name?).filter(|rule| rule.limits())?;
            Some((format!("{}{}", scope.prefix(), name?), rule))
        });
        covering.collect()
    }

    /// Keys whose slots and rates decide about these jobs, with the period of those that have a rate (0 = none).
    pub(crate) fn keys(&self, jobs: &[Candidate]) -> BTreeMap<String, i64> {
        let mut keys = BTreeMap::new();
        for job in jobs {
            keys.extend(job.terms.group.as_deref().map(|group| (group_key(group), 0)));
            for (key, rule) in self.covering(job) {
                keys.extend(self.share(job).map(|share| (share_key(&job.queue, share), 0)));
                keys.insert(key, rule.rate.map_or(0, micros));
            }
        }
        keys
    }

    /// Whose share of its queue a job takes, if that is divided.
    fn share<'j>(&self, job: &'j Candidate) -> Option<&'j str> {
        Some(match self.shares(&job.queue)?.by {
            ShareBy::Tenant => job.terms.tenant.as_deref().unwrap_or_default(),
            ShareBy::Kind => &job.kind,
        })
    }

    /// How the places of a queue are divided, if they are.
    fn shares(&self, queue: &str) -> Option<&Shares> {
        self.0.get(&Scope::Queue)?.find(queue)?.shares.as_ref()
    }

    fn weight(&self, queue: &str, share: &str) -> f64 {
        let weight = self.shares(queue).and_then(|shares| shares.weights.get(share)).copied();
        f64::from(weight.unwrap_or(1).max(1))
    }
}

fn micros(rate: Rate) -> i64 {
    i64::try_from(rate.period.as_micros()).unwrap_or(i64::MAX)
}

/// Starts under a rate are counted together that lie within the same part of its period, so that a key has about a thousand rows, whatever
/// its rate. All of them count until the last one is over: a rate is never broken by that. In microseconds.
fn part(rate: Rate) -> i64 {
    (micros(rate) / PARTS).max(1)
}

/// Counts the places that a share of a queue has. Nothing waits for it.
fn share_key(queue: &str, share: &str) -> String {
    // No name contains a control character, so no two pairs make one key.
    format!("s:{queue}\u{1}{share}")
}

/// Starts to be counted under a rate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Starts {
    pub(crate) key: String,
    pub(crate) n: u64,
    /// With those before them of the same such part of time, which begins at a multiple of it since 1970. In microseconds.
    pub(crate) part: i64,
}

/// What is taken at the moment.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Slots by key.
    pub(crate) slots: HashMap<String, u64>,
    /// Slots that candidates hold already: an ordered job keeps its group.
    pub(crate) held: HashSet<(JobId, String)>,
    /// Starts within the period of a rate, and the oldest of them in microseconds since 1970.
    pub(crate) rates: HashMap<String, (u64, i64)>,
    /// The database's clock, in the same unit.
    pub(crate) now: i64,
}

/// A gate that opened, and how many were to be looked at behind it in each share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) key: String,
    pub(crate) n: i64,
}

/// A job that is admitted, with the slots it takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admit {
    pub(crate) id: JobId,
    pub(crate) place: Place,
    pub(crate) keys: Vec<String>,
}

/// A job that has to wait behind another gate than before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) id: JobId,
    pub(crate) place: Place,
    pub(crate) gate: String,
    pub(crate) share: String,
    /// The group it holds from now on, while it waits.
    pub(crate) hold: Option<String>,
}

/// An opening to be written down: at once, or at a moment in microseconds since 1970.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) key: String,
    pub(crate) at: Option<i64>,
    pub(crate) n: i64,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) admit: Vec<Admit>,
    pub(crate) wait: Vec<Wait>,
    pub(crate) rates: Vec<Starts>,
    pub(crate) openings: Vec<Opening>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Decides about the candidates. `limit` is the most that were looked at behind one gate.
pub(crate) fn plan(candidates: Vec<Candidate>, opened: &[Opened], rules: &RuleBook, usage: Usage, limit: i64) -> Plan {
    let mut round = Round { rules, usage, plan: Plan::default(), starts: BTreeMap::new(), late: BTreeMap::new() };
    // How many were shown of each gate and share, and how many of them stay where they are.
    let mut shown: HashMap<(String, String), (i64, i64)> = HashMap::new();
    for candidate in round.in_order(candidates) {
        let stays = round.decide(&candidate);
        if candidate.place == Place::Blocked {
            let (seen, stayed) = shown.entry((candidate.gate, candidate.share)).or_default();
            *seen += 1;
            *stayed += i64::from(stays);
        }
    }
    // Of each gate: the most that were shown of a share of which all could pass.
    let mut passed: HashMap<String, i64> = HashMap::new();
    for ((gate, _), (seen, _)) in shown.into_iter().filter(|(_, (_, stayed))| *stayed == 0) {
        let most = passed.entry(gate).or_default();
        *most = seen.max(*most);
    }
    // A gate behind which all that were shown could pass may have room for more.
    for Opened { key, n } in opened {
        let n = (*n).min(limit);
        let full = passed.get(key).is_some_and(|most| *most >= n);
        // Of a group one can pass; whoever passed will open the gate for the next.
        let closed = key.starts_with(Scope::Group.prefix()) && !round.free(key);
        if full && !closed {
            round.plan.openings.push(Opening { key: key.clone(), at: None, n: (n * 8).min(limit) });
        }
    }
    round.finish()
}

/// What waits in a share of a queue.
struct Share {
    /// It has so many.
    places: f64,
    weight: f64,
    /// The best at the end.
    jobs: Vec<Candidate>,
}

impl Share {
    /// The least is next: the one with the fewest places for its weight; among equals, the one whose next job is better. Nothing, if none waits.
    fn turn(&self) -> Option<(u64, i16, i64)> {
        // Numbers that are not negative have the order of their bits.
        self.jobs.last().map(|job| ((self.places / self.weight).to_bits(), job.rank, job.seq))
    }
}

struct Round<'a> {
    rules: &'a RuleBook,
    usage: Usage,
    plan: Plan,
    /// By key: how many, and the part of time that they are counted in.
    starts: BTreeMap<String, (u64, i64)>,
    /// When a rate allows more, and how many then at most.
    late: BTreeMap<String, (i64, i64)>,
}

impl Round<'_> {
    /// Best first. Within a queue whose places are divided, the share that has the fewest for its weight is next.
    fn in_order(&self, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        // One may have been found twice: as the best behind its gate, and as the holder of its group.
        let mut seen = HashSet::new();
        candidates.retain(|job| seen.insert(job.id));
        candidates.sort_by_key(|job| (job.rank, job.seq));
        // Of a group, who holds it has a turn, and the first. The others come last, in their order: should that give way, the next one may pass.
        let mut groups = HashSet::new();
        let has_turn = |job: &Candidate| match &job.terms.group {
            Some(group) => self.holds(job, &group_key(group)) || groups.insert(group.clone()),
            None => true,
        };
        let (firsts, followers): (Vec<_>, Vec<_>) = candidates.into_iter().partition(has_turn);
        let (divided, mut order): (Vec<_>, Vec<_>) =
            firsts.into_iter().partition(|job| self.rules.share(job).is_some());
        let mut queues: BTreeMap<String, BTreeMap<String, Vec<Candidate>>> = BTreeMap::new();
        // Reversed, so that the best of each is taken from the end.
        for job in divided.into_iter().rev() {
            let share = self.rules.share(&job).unwrap_or_default().to_owned();
            queues.entry(job.queue.clone()).or_default().entry(share).or_default().push(job);
        }
        for (queue, shares) in queues {
            let mut shares: Vec<Share> = shares
                .into_iter()
                .map(|(share, jobs)| Share {
                    places: self.usage.slots.get(&share_key(&queue, &share)).copied().unwrap_or(0) as f64,
                    weight: self.rules.weight(&queue, &share),
                    jobs,
                })
                .collect();
            let turn = |(n, share): (usize, &Share)| Some(Reverse((share.turn()?, n)));
            let mut turns: BinaryHeap<_> = shares.iter().enumerate().filter_map(turn).collect();
            while let Some(Reverse((_, n))) = turns.pop() {
                let share = &mut shares[n];
                share.places += 1.0;
                order.extend(share.jobs.pop());
                turns.extend(turn((n, share)));
            }
        }
        order.extend(followers);
        order
    }

    /// Decides about one. Returns whether it stays where it is.
    fn decide(&mut self, job: &Candidate) -> bool {
        let covering = self.rules.covering(job);
        let group = job.terms.group.as_deref().map(group_key);
        let has_group = group.as_ref().is_some_and(|key| self.holds(job, key));
        let lacks_group = group.clone().filter(|key| !has_group && !self.free(key));
        if let Some((key, _)) = covering.iter().find(|(_, rule)| rule.paused) {
            // Whoever waits for a pause lets the others of its group pass, unless their order is strict: then it stays behind the
            // group until that is free, and holds it while it waits for the pause. Elsewhere it would not be seen when the group
            // becomes free, and one that was sent after it would start.
            if let Some(group) = lacks_group.filter(|_| job.terms.ordered) {
                return self.wait(job, group, None);
            }
            let hold = group.filter(|_| job.terms.ordered && !has_group);
            return self.wait(job, key.clone(), hold);
        }
        if let Some(key) = lacks_group {
            return self.wait(job, key, None);
        }
        if let Some(key) = group.clone().filter(|key| !has_group && job.place == Place::Blocked && job.gate != *key) {
            // It waited for a pause. Its group may have become free after those behind that gate were read, who come first: the next
            // round sees them all.
            self.plan.openings.push(Opening { key: key.clone(), at: None, n: 1 });
            return self.wait(job, key, None);
        }
        let lacking = covering.iter().find(|(key, rule)| !self.has_room(key, rule)).map(|(key, _)| key.clone());
        let group = group.filter(|_| !has_group);
        if let Some(key) = lacking {
            // The first of its group: the others wait for it, so that their order is kept.
            return self.wait(job, key, group);
        }
        let mut keys: Vec<String> = group.into_iter().collect();
        for (key, rule) in &covering {
            if rule.running.is_some() {
                keys.push(key.clone());
            }
            if let Some(rate) = rule.rate {
                self.starts.entry(key.clone()).or_insert((0, part(rate))).0 += 1;
                let now = self.usage.now;
                self.usage.rates.entry(key.clone()).or_insert((0, now)).0 += 1;
            }
        }
        keys.extend(self.rules.share(job).map(|share| share_key(&job.queue, share)));
        for key in &keys {
            *self.usage.slots.entry(key.clone()).or_default() += 1;
        }
        self.plan.admit.push(Admit { id: job.id, place: job.place, keys });
        false
    }

    fn holds(&self, job: &Candidate, group: &str) -> bool {
        job.holds || self.usage.held.contains(&(job.id, group.to_owned()))
    }

    fn free(&self, key: &str) -> bool {
        self.usage.slots.get(key).copied().unwrap_or(0) == 0
    }

    fn has_room(&mut self, key: &str, rule: &Rule) -> bool {
        if let Some(running) = rule.running
            && self.usage.slots.get(key).copied().unwrap_or(0) >= u64::from(running)
        {
            return false;
        }
        let Some(rate) = rule.rate else { return true };
        let (starts, oldest) = self.usage.rates.get(key).copied().unwrap_or((0, self.usage.now));
        if starts < u64::from(rate.starts) {
            return true;
        }
        self.late.insert(key.to_owned(), (oldest.saturating_add(micros(rate)), i64::from(rate.starts)));
        false
    }

    fn wait(&mut self, job: &Candidate, gate: String, hold: Option<String>) -> bool {
        if let Some(key) = &hold {
            *self.usage.slots.entry(key.clone()).or_default() += 1;
        }
        let share = if gate.starts_with(Scope::Queue.prefix()) { self.rules.share(job) } else { None };
        let share = share.unwrap_or_default().to_owned();
        if job.place == Place::Blocked && job.gate == gate && job.share == share && hold.is_none() {
            return true;
        }
        let stays = job.gate == gate;
        self.plan.wait.push(Wait { id: job.id, place: job.place, gate, share, hold });
        stays
    }

    fn finish(mut self) -> Plan {
        self.plan.rates = self.starts.into_iter().map(|(key, (n, part))| Starts { key, n, part }).collect();
        self.plan.openings.extend(self.late.into_iter().map(|(key, (at, n))| Opening { key, at: Some(at), n }));
        self.plan
    }
}
