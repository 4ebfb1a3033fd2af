//! Conditions on the event log that hold at any time, and at the end.
//!
//! An attempt lasts from its handler's first line to its last one. If its node died, it lasts until the database took the job away. What the process
//! does after that, because it does not know yet that it is dead, is not part of the attempt, and nothing of it may be kept. A trigger writes that
//! time in the transaction that takes the job away. It counts only for nodes whose death was logged before, after the end of their lease.

use std::collections::{BTreeMap, BTreeSet};

use jobwright::admin::Scope;

use super::attempts::{Attempt, Past};
use super::load::{EVERY, GUARD, LIMITS, Sent};

/// Scopes that may have at most this many attempts at a time.
type Places<'p> = BTreeMap<(String, u32), Vec<&'p Attempt>>;

/// Returns all violations that can be seen at this time.
pub(super) fn always(past: &Past) -> Vec<String> {
    let mut wrong = past.wrong.clone();
    for ((place, most), attempts) in places(past) {
        let (count, who) = crowd(&attempts);
        if count > most as usize {
            wrong.push(format!("{count} attempts at a time in {place}, where {most} may be: {who:?}"));
        }
    }
    groups_in_order(past, &mut wrong);
    unique_keys(past, &mut wrong);
    schedules(past, &mut wrong);
    for (job, dones) in &past.done {
        if dones.len() > 1 {
            wrong.push(format!("{job} took effect {} times: {dones:?}", dones.len()));
        }
    }
    wrong
}

/// Returns all violations when nothing is left to be done. `fired`: how often the schedules report that they fired.
pub(super) fn finally(past: &Past, sent: &Sent, fired: &BTreeMap<String, u64>) -> Vec<String> {
    let mut wrong = always(past);
    wrong.extend_from_slice(&past.robbed);
    let scheduled = |job: &String| past.about.get(job).is_some_and(|about| about.schedule.is_some());
    let mut expected: BTreeSet<&String> = past.sent.iter().collect();
    expected.extend(sent.jobs.iter().filter(|(_, transactional)| **transactional).map(|(job, _)| job));
    let applied: BTreeSet<&String> = past.done.keys().filter(|job| !scheduled(job)).collect();
    for job in expected.difference(&applied) {
        wrong.push(format!("{job} was sent and took no effect"));
    }
    for job in applied.difference(&expected) {
        wrong.push(format!("{job} took effect and was not sent"));
    }
    let ended: BTreeSet<&String> =
        past.attempts.iter().filter(|attempt| attempt.returned).map(|attempt| &attempt.job).collect();
    for job in sent.jobs.keys().filter(|job| !ended.contains(job)) {
        wrong.push(format!("{job} was sent and never ended"));
    }
    for (name, fired) in fired {
        let happened = occurrences(past).remove(name.as_str()).unwrap_or_default();
        if happened.len() as u64 != *fired {
            wrong.push(format!("{name} says that it fired {fired} times, and {} took effect", happened.len()));
        }
        let moments: Vec<_> = happened.keys().collect();
        let gaps = moments.windows(2).filter(|two| *two[1] - *two[0] != EVERY.1).count();
        if name == EVERY.0 && gaps > 0 {
            wrong.push(format!("{name} left occurrences out {gaps} times"));
        }
    }
    wrong
}

/// Returns the highest number of simultaneous attempts in each scope.
pub(super) fn most(past: &Past) -> BTreeMap<String, usize> {
    places(past).into_iter().map(|((place, most), attempts)| (format!("{place}/{most}"), crowd(&attempts).0)).collect()
}

fn places(past: &Past) -> Places<'_> {
    let mut places = Places::new();
    for attempt in past.attempts.iter().filter(|attempt| attempt.is_one()) {
        let about = &attempt.about;
        if let Some(group) = &about.group {
            places.entry((format!("group {group}"), 1)).or_default().push(attempt);
        }
        for (scope, name, most) in LIMITS.into_iter().filter(|_| !past.unruled) {
            let subject = match scope {
                Scope::Queue => Some(&about.queue),
                Scope::Kind => Some(&about.kind),
                Scope::Tenant => about.tenant.as_ref(),
                Scope::Key => about.key.as_ref(),
                // Groups are above, and nothing else has a limit here.
                _ => None,
            };
            let Some(subject) = subject else { continue };
            // A rule of its own replaces the one for each.
            let own = LIMITS.iter().any(|(other, own, _)| *other == scope && own == subject);
            if name == subject || name == "*" && !own {
                places.entry((format!("{} {subject}", scope.as_str()), most)).or_default().push(attempt);
            }
        }
    }
    places
}

/// Returns the highest number of simultaneous attempts, and which they were.
fn crowd(attempts: &[&Attempt]) -> (usize, Vec<String>) {
    let mut turns: Vec<(i64, bool, usize)> = Vec::new();
    for (n, attempt) in attempts.iter().enumerate() {
        turns.push((attempt.start, true, n));
        turns.push((attempt.end, false, n));
    }
    // At the same time, ends come first: `false` before `true`.
    turns.sort_unstable();
    let (mut now, mut most) = (BTreeSet::new(), BTreeSet::new());
    for (_, comes, n) in turns {
        if comes {
            now.insert(n);
        } else {
            now.remove(&n);
        }
        if now.len() > most.len() {
            most.clone_from(&now);
        }
    }
    (most.len(), most.into_iter().map(|n| attempts[n].to_string()).collect())
}

/// In a group the next job starts when the one before took effect. In an ordered group this always holds; in an exclusive one only if that job never
/// failed, and was not in the queue that is paused at times. (A node's death is no failure of its job.)
fn groups_in_order(past: &Past, wrong: &mut Vec<String>) {
    let mut groups: BTreeMap<&str, BTreeMap<i64, Vec<&Attempt>>> = BTreeMap::new();
    for attempt in past.attempts.iter().filter(|attempt| attempt.is_one()) {
        if let Some(group) = &attempt.about.group {
            groups.entry(group).or_default().entry(attempt.about.seq).or_default().push(attempt);
        }
    }
    for (group, jobs) in groups {
        let mut before: Option<(&Attempt, i64)> = None;
        let mut last_sent = None;
        for attempts in jobs.values() {
            let first = attempts[0];
            if first.about.n < last_sent {
                wrong.push(format!("{group}: {first} was sent before the one before it"));
            }
            last_sent = first.about.n;
            if let Some((other, until)) = before {
                for attempt in attempts.iter().filter(|attempt| attempt.start < until) {
                    wrong.push(format!("{group}: {attempt} started before {other} was over, at {until}"));
                }
            }
            let until = past.over(&first.job);
            let failed = attempts.iter().any(|attempt| attempt.failed) || past.failed.contains(&first.job);
            if first.about.ordered || !failed && first.about.queue != LIMITS[0].1 {
                before = Some((first, until));
            }
        }
    }
}

/// One job of a key is alive: the next is flushed when the one before is over, or has started if its key is held only until then.
fn unique_keys(past: &Past, wrong: &mut Vec<String>) {
    let mut keys: BTreeMap<&str, BTreeMap<i64, &String>> = BTreeMap::new();
    for (job, about) in &past.about {
        if let Some((key, _)) = &about.unique {
            keys.entry(key).or_default().insert(about.seq, job);
        }
    }
    for (key, jobs) in keys {
        let jobs: Vec<_> = jobs.into_values().collect();
        for two in jobs.windows(2) {
            let waiting_only = past.about[two[0]].unique.as_ref().is_some_and(|(_, waiting)| *waiting);
            let free = if waiting_only { past.claimed[two[0]] } else { past.over(two[0]) };
            let flushed = past.about[two[1]].created_at;
            if flushed < free {
                wrong.push(format!("{key}: {} was sent at {flushed}, while {} held it until {free}", two[1], two[0]));
            }
        }
    }
}

/// Returns the jobs of each occurrence that took effect.
fn occurrences(past: &Past) -> BTreeMap<&str, BTreeMap<i64, BTreeSet<&String>>> {
    let mut all: BTreeMap<&str, BTreeMap<i64, BTreeSet<&String>>> = BTreeMap::new();
    for (job, about) in &past.about {
        if let Some((name, at)) = &about.schedule {
            all.entry(name).or_default().entry(*at).or_default().insert(job);
        }
    }
    all
}

fn schedules(past: &Past, wrong: &mut Vec<String>) {
    for (name, moments) in occurrences(past) {
        for (at, jobs) in &moments {
            if jobs.len() > 1 {
                wrong.push(format!("{name} sent {jobs:?} for {at}"));
            }
        }
        let jobs: Vec<_> = moments.into_values().flatten().collect();
        for two in jobs.windows(2).filter(|_| name == GUARD.0) {
            let (over, flushed) = (past.over(two[0]), past.about[two[1]].created_at);
            if flushed < over {
                wrong.push(format!("{name}: {} was sent at {flushed}, {} was over at {over}", two[1], two[0]));
            }
        }
    }
}
