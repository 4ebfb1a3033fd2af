//! Decides what an admission pass does. Pure: no clock, no database.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use super::super::rules::{EACH, Rate, Rule, Scope, ShareBy, Shares};
use super::group_key;
use crate::job::{JobId, JobOptions};

/// How many parts the period of a rate has: see [`part`].
const BUCKETS: i64 = 1000;

/// How a candidate waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CandidateState {
    /// Blocked on a key.
    Blocked,
    /// In `job`, not blocked, and covered by a rule.
    Waiting,
}

/// A job that might start.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) id: JobId,
    pub(crate) seq: i64,
    pub(crate) rank: i16,
    pub(crate) state: CandidateState,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) options: JobOptions,
    /// Whether it holds its group already.
    pub(crate) holds: bool,
    /// The key it is blocked on, and whose share it belongs to there; both empty if it is not blocked.
    pub(crate) blocked_on: String,
    pub(crate) share: String,
}

/// The rules, by scope and name.
#[derive(Default)]
pub(crate) struct RuleBook(HashMap<Scope, Scoped>);

/// The rules of one scope.
#[derive(Default)]
struct Scoped {
    /// The rule of all names that have none of their own.
    each: Option<Rule>,
    named: HashMap<String, Rule>,
}

impl Scoped {
    /// Returns the rule of a name: its own, or else the one for all.
    fn find(&self, name: &str) -> Option<&Rule> {
        self.named.get(name).or(self.each.as_ref())
    }

    /// Like [`find`](Self::find), but a pause of all also covers names that have a rule of their own.
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

    /// Returns whether any rule makes jobs wait.
    #[cfg(feature = "sqlite")]
    pub(crate) fn limits(&self) -> bool {
        self.0.values().flat_map(|scoped| scoped.named.values().chain(&scoped.each)).any(Rule::limits)
    }

    /// Returns the rules that cover a job, each with its key.
    fn covering(&self, job: &Candidate) -> Vec<(String, &Rule)> {
        let options = &job.options;
        let names = [
            (Scope::Group, options.group.as_deref()),
            (Scope::Queue, Some(job.queue.as_str())),
            (Scope::Kind, Some(job.kind.as_str())),
            (Scope::Tenant, options.tenant.as_deref()),
            (Scope::Key, options.limit_key.as_deref()),
        ];
        let covering = names.into_iter().filter_map(|(scope, name)| {
            let rule = self.0.get(&scope)?.holding(name?).filter(|rule| rule.limits())?;
            Some((format!("{}{}", scope.prefix(), name?), rule))
        });
        covering.collect()
    }

    /// Returns the keys whose permits and rates decide about these jobs, each with the period of its rate in microseconds (0 = no rate).
    pub(crate) fn keys(&self, jobs: &[Candidate]) -> BTreeMap<String, i64> {
        let mut keys = BTreeMap::new();
        for job in jobs {
            keys.extend(job.options.group.as_deref().map(|group| (group_key(group), 0)));
            for (key, rule) in self.covering(job) {
                keys.extend(self.share(job).map(|share| (share_key(&job.queue, share), 0)));
                keys.insert(key, rule.rate.map_or(0, micros));
            }
        }
        keys
    }

    /// Returns whose share of its queue a job uses, if the queue is divided.
    fn share<'j>(&self, job: &'j Candidate) -> Option<&'j str> {
        Some(match self.shares(&job.queue)?.by {
            ShareBy::Tenant => job.options.tenant.as_deref().unwrap_or_default(),
            ShareBy::Kind => &job.kind,
        })
    }

    /// Returns how the permits of a queue are divided, if they are.
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

/// Returns the length of a part of a rate's period, in microseconds. Starts within the same part are counted together, so that a key has about a
/// thousand rows, whatever its rate. All of them count until the last one leaves the period, so the rate is never exceeded.
fn part(rate: Rate) -> i64 {
    (micros(rate) / BUCKETS).max(1)
}

/// Returns the key of the permits that a share of a queue holds. No job is blocked on it.
fn share_key(queue: &str, share: &str) -> String {
    // No name contains a control character, so no two pairs make one key.
    format!("s:{queue}\u{1}{share}")
}

/// Starts to count under a rate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Starts {
    pub(crate) key: String,
    pub(crate) n: u64,
    /// Length of the part of the period that they are counted in, in microseconds. Parts begin at multiples of it since 1970.
    pub(crate) part: i64,
}

/// What is taken now.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// How many permits are taken, by key.
    pub(crate) permits: HashMap<String, u64>,
    /// Permits that candidates hold already: an ordered job keeps its group.
    pub(crate) held: HashSet<(JobId, String)>,
    /// Starts within the period of a rate, and the time of the oldest in microseconds since 1970; by key.
    pub(crate) rates: HashMap<String, (u64, i64)>,
    /// The database's clock, in the same unit.
    pub(crate) now: i64,
}

/// A key that was unblocked, and how many of the jobs blocked on it were to be read from each share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unblocked {
    pub(crate) key: String,
    pub(crate) n: i64,
}

/// A job to admit, with the permits it takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admit {
    pub(crate) id: JobId,
    pub(crate) state: CandidateState,
    pub(crate) keys: Vec<String>,
}

/// A job to block on another key than before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) id: JobId,
    pub(crate) state: CandidateState,
    pub(crate) blocked_on: String,
    pub(crate) share: String,
    /// The key of the group that it holds from now on, while it waits.
    pub(crate) hold: Option<String>,
}

/// An unblock to write: due at once, or at a time in microseconds since 1970.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unblock {
    pub(crate) key: String,
    pub(crate) at: Option<i64>,
    pub(crate) n: i64,
}

/// What an admission pass has to write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) admit: Vec<Admit>,
    pub(crate) wait: Vec<Wait>,
    pub(crate) rates: Vec<Starts>,
    pub(crate) unblocks: Vec<Unblock>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Decides about the candidates. At most `limit` jobs blocked on one key may be read at once.
pub(crate) fn plan(
    candidates: Vec<Candidate>,
    unblocked: &[Unblocked],
    rules: &RuleBook,
    usage: Usage,
    limit: i64,
) -> Plan {
    let mut planner = Planner { rules, usage, plan: Plan::default(), starts: BTreeMap::new(), late: BTreeMap::new() };
    // By key and share: how many candidates there were, and how many of them stay where they are.
    let mut shown: HashMap<(String, String), (i64, i64)> = HashMap::new();
    for candidate in planner.in_order(candidates) {
        let stays = planner.decide(&candidate);
        if candidate.state == CandidateState::Blocked {
            let (seen, stayed) = shown.entry((candidate.blocked_on, candidate.share)).or_default();
            *seen += 1;
            *stayed += i64::from(stays);
        }
    }
    // By key: the most candidates of a share whose candidates could all pass.
    let mut passed: HashMap<String, i64> = HashMap::new();
    for ((blocked_on, _), (seen, _)) in shown.into_iter().filter(|(_, (_, stayed))| *stayed == 0) {
        let most = passed.entry(blocked_on).or_default();
        *most = seen.max(*most);
    }
    // If as many passed as were to be read, more may be blocked on the key that can pass.
    for Unblocked { key, n } in unblocked {
        let n = (*n).min(limit);
        let full = passed.get(key).is_some_and(|most| *most >= n);
        // Only one job of a group can pass; the end of that one unblocks the key for the next.
        let closed = key.starts_with(Scope::Group.prefix()) && !planner.free(key);
        if full && !closed {
            planner.plan.unblocks.push(Unblock { key: key.clone(), at: None, n: (n * 8).min(limit) });
        }
    }
    planner.finish()
}

/// The candidates of a share of a queue.
struct Share {
    /// How many permits it has.
    permits: f64,
    weight: f64,
    /// The best is the last.
    jobs: Vec<Candidate>,
}

impl Share {
    /// Returns the key to sort shares by; the least is next. That is the share with the fewest permits for its weight; among equals, the one whose
    /// next job is better. `None`: the share has no candidates left.
    fn turn(&self) -> Option<(u64, i16, i64)> {
        // Numbers that are not negative sort like their bits.
        self.jobs.last().map(|job| ((self.permits / self.weight).to_bits(), job.rank, job.seq))
    }
}

struct Planner<'a> {
    rules: &'a RuleBook,
    usage: Usage,
    plan: Plan,
    /// By key: how many starts, and the length of the part of the period that they are counted in.
    starts: BTreeMap<String, (u64, i64)>,
    /// By key: when a rate allows more starts, and how many then at most.
    late: BTreeMap<String, (i64, i64)>,
}

impl Planner<'_> {
    /// Sorts the candidates, best first. Within a queue whose permits are divided, the share that has the fewest for its weight is next.
    fn in_order(&self, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        // A job may have been found twice: as the best one blocked on its key, and as the holder of its group.
        let mut seen = HashSet::new();
        candidates.retain(|job| seen.insert(job.id));
        candidates.sort_by_key(|job| (job.rank, job.seq));
        // Of each group, the holder and the first job have a turn. The others come last, in order: if those give way, the next one may pass.
        let mut groups = HashSet::new();
        let has_turn = |job: &Candidate| match &job.options.group {
            Some(group) => self.holds(job, &group_key(group)) || groups.insert(group.clone()),
            None => true,
        };
        let (firsts, followers): (Vec<_>, Vec<_>) = candidates.into_iter().partition(has_turn);
        let (divided, mut order): (Vec<_>, Vec<_>) =
            firsts.into_iter().partition(|job| self.rules.share(job).is_some());
        let mut queues: BTreeMap<String, BTreeMap<String, Vec<Candidate>>> = BTreeMap::new();
        // Reversed, so that the best of each share can be popped from the end.
        for job in divided.into_iter().rev() {
            let share = self.rules.share(&job).unwrap_or_default().to_owned();
            queues.entry(job.queue.clone()).or_default().entry(share).or_default().push(job);
        }
        for (queue, shares) in queues {
            let mut shares: Vec<Share> = shares
                .into_iter()
                .map(|(share, jobs)| Share {
                    permits: self.usage.permits.get(&share_key(&queue, &share)).copied().unwrap_or(0) as f64,
                    weight: self.rules.weight(&queue, &share),
                    jobs,
                })
                .collect();
            let turn = |(n, share): (usize, &Share)| Some(Reverse((share.turn()?, n)));
            let mut turns: BinaryHeap<_> = shares.iter().enumerate().filter_map(turn).collect();
            while let Some(Reverse((_, n))) = turns.pop() {
                let share = &mut shares[n];
                share.permits += 1.0;
                order.extend(share.jobs.pop());
                turns.extend(turn((n, share)));
            }
        }
        order.extend(followers);
        order
    }

    /// Decides about one job. Returns whether it stays where it is.
    fn decide(&mut self, job: &Candidate) -> bool {
        let covering = self.rules.covering(job);
        let group = job.options.group.as_deref().map(group_key);
        let has_group = group.as_ref().is_some_and(|key| self.holds(job, key));
        let lacks_group = group.clone().filter(|key| !has_group && !self.free(key));
        if let Some((key, _)) = covering.iter().find(|(_, rule)| rule.paused) {
            // A job that waits for a pause to end lets the others of its group pass, unless it is ordered. An ordered job stays blocked on
            // its group until the group is free, and then holds it while it waits for the pause to end. If it were blocked on the pause's key
            // instead, it would not be read when the group becomes free, and a job that was sent after it would start first.
            if let Some(group) = lacks_group.filter(|_| job.options.ordered) {
                return self.wait(job, group, None);
            }
            let hold = group.filter(|_| job.options.ordered && !has_group);
            return self.wait(job, key.clone(), hold);
        }
        if let Some(key) = lacks_group {
            return self.wait(job, key, None);
        }
        if let Some(key) =
            group.clone().filter(|key| !has_group && job.state == CandidateState::Blocked && job.blocked_on != *key)
        {
            // It waited for a pause to end. Its group may have become free after the jobs blocked on the group were read, and they come first:
            // the next admission pass sees them all.
            self.plan.unblocks.push(Unblock { key: key.clone(), at: None, n: 1 });
            return self.wait(job, key, None);
        }
        let lacking = covering.iter().find(|(key, rule)| !self.allows(key, rule)).map(|(key, _)| key.clone());
        let group = group.filter(|_| !has_group);
        if let Some(key) = lacking {
            // It is the first of its group: it holds the group while it waits, so that the others can't overtake it.
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
            *self.usage.permits.entry(key.clone()).or_default() += 1;
        }
        self.plan.admit.push(Admit { id: job.id, state: job.state, keys });
        false
    }

    fn holds(&self, job: &Candidate, group: &str) -> bool {
        job.holds || self.usage.held.contains(&(job.id, group.to_owned()))
    }

    fn free(&self, key: &str) -> bool {
        self.usage.permits.get(key).copied().unwrap_or(0) == 0
    }

    fn allows(&mut self, key: &str, rule: &Rule) -> bool {
        if let Some(running) = rule.running
            && self.usage.permits.get(key).copied().unwrap_or(0) >= u64::from(running)
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

    fn wait(&mut self, job: &Candidate, blocked_on: String, hold: Option<String>) -> bool {
        if let Some(key) = &hold {
            *self.usage.permits.entry(key.clone()).or_default() += 1;
        }
        let share = if blocked_on.starts_with(Scope::Queue.prefix()) { self.rules.share(job) } else { None };
        let share = share.unwrap_or_default().to_owned();
        if job.state == CandidateState::Blocked && job.blocked_on == blocked_on && job.share == share && hold.is_none()
        {
            return true;
        }
        let stays = job.blocked_on == blocked_on;
        self.plan.wait.push(Wait { id: job.id, state: job.state, blocked_on, share, hold });
        stays
    }

    fn finish(mut self) -> Plan {
        self.plan.rates = self.starts.into_iter().map(|(key, (n, part))| Starts { key, n, part }).collect();
        self.plan.unblocks.extend(self.late.into_iter().map(|(key, (at, n))| Unblock { key, at: Some(at), n }));
        self.plan
    }
}
