//! Decides what is in a job's way. The decision is the same for all databases.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::facts::{Facts, JobPosition, KeyQuestion, KeyUse, ServingNode};
use super::{Holder, Reason};
use crate::job::{EVENT_QUEUE, NodeId, REPLY_QUEUE};
use crate::store::admission::group_key;
use crate::store::clock::MAX_HIDDEN;
use crate::store::nodes::{ADMISSION, CLAIMS, CONSUMERS, TIMERS};
use crate::store::unreadable::SET_ASIDE;
use crate::store::{EACH, JobDetail, JobState, Rule, Scope};

/// What the broker of a node is reported as while the node reaches it.
const UP: &str = "up";
/// The key of jobs whose process died while they ran.
const ALONE: &str = "alone";

/// The names by which rules select a job.
fn subjects(job: &JobDetail) -> impl Iterator<Item = (Scope, &str)> {
    let (summary, options) = (&job.summary, &job.options);
    [
        (Scope::Queue, Some(summary.queue.as_str())),
        (Scope::Kind, Some(summary.kind.as_str())),
        (Scope::Tenant, options.tenant.as_deref()),
        (Scope::Key, options.limit_key.as_deref()),
        (Scope::Group, options.group.as_deref()),
    ]
    .into_iter()
    .filter_map(|(scope, name)| Some((scope, name?)))
}

/// The rule whose limits apply to a name: its own, or else the one for all.
fn limiting<'a>(rules: &'a [Rule], scope: Scope, name: &str) -> Option<&'a Rule> {
    let named = |name: &str| rules.iter().find(|rule| rule.scope == scope && rule.name == name);
    named(name).or_else(|| named(EACH))
}

/// Returns the questions about the keys that the job needs.
pub(crate) fn asked(job: &JobDetail, rules: &[Rule]) -> Vec<KeyQuestion> {
    let keys = subjects(job).filter_map(|(scope, name)| {
        if scope == Scope::Group {
            return Some(KeyQuestion { key: group_key(name), period: 0 });
        }
        let rule = limiting(rules, scope, name).filter(|rule| rule.running.is_some() || rule.rate.is_some())?;
        let period = rule.rate.map_or(Duration::ZERO, |rate| rate.period);
        let period = i64::try_from(period.as_micros()).unwrap_or(i64::MAX);
        Some(KeyQuestion { key: format!("{}{name}", scope.prefix()), period })
    });
    keys.collect()
}

/// Returns all that is in the job's way, or where it is.
pub(crate) fn reasons(job: &JobDetail, facts: &Facts<'_>) -> Vec<Reason> {
    let summary = &job.summary;
    let mut found = Vec::new();
    match summary.state {
        JobState::Running => return vec![running(job, facts.nodes)],
        JobState::External => {
            let JobPosition { lease_until, worker, .. } = facts.position.clone();
            return vec![Reason::HandedOut { until: lease_until, worker }];
        }
        JobState::Dead => {
            let (at, error) = job.dead.clone().unwrap_or((summary.created_at, String::new()));
            return vec![Reason::Dead { at, error }];
        }
        JobState::Suspended => found.push(Reason::Suspended),
        JobState::Timer => {
            let at = summary.due_at.unwrap_or(summary.created_at);
            if at > facts.position.now {
                found.push(Reason::Due { at });
            } else {
                found.push(Reason::Overdue { since: at });
                found.extend(failing(TIMERS, None, alive(facts.nodes)));
            }
        }
        JobState::Waiting | JobState::Blocked => {}
    }
    found.extend(pauses(job, facts.rules));
    let is_suspect = summary.state == JobState::Blocked && job.blocked_on.as_deref() == Some(ALONE);
    if is_suspect {
        found.push(Reason::RunsAlone);
    }
    let is_here = matches!(summary.state, JobState::Waiting | JobState::Blocked);
    // One that is admitted and blocked is the first of its group, and waits for a limit.
    if is_here && (!facts.position.admitted || summary.state == JobState::Blocked) {
        found.extend(limits(job, facts));
        found.extend(group(job, facts.keys));
    }
    let now = facts.position.now;
    if is_here {
        let ended = job.options.expires.and_then(|at| Timestamp::from_microsecond(at).ok()).filter(|at| *at <= now);
        found.extend(ended.map(|at| Reason::Expired { at }));
        // One that is hidden for longer was hidden while the clock was ahead, and claims take it.
        let longest = SignedDuration::try_from(MAX_HIDDEN).unwrap_or(SignedDuration::MAX);
        let hidden = facts.position.hidden_until.filter(|until| *until > now && until.duration_since(now) <= longest);
        found.extend(hidden.map(|until| Reason::Hidden { until }));
    }
    found.extend(nobody(job, facts));
    if found.is_empty() {
        found.push(in_turn(job, facts));
    }
    found
}

/// Where the job is in its queue, if nothing else keeps it.
fn in_turn(job: &JobDetail, facts: &Facts<'_>) -> Reason {
    let JobPosition { before, running, .. } = facts.position;
    match slots(&job.summary.queue, facts.nodes) {
        _ if job.summary.state == JobState::Blocked => {
            failing(ADMISSION, None, alive(facts.nodes)).unwrap_or(Reason::Admission)
        }
        Some(slots) if running >= slots && slots > 0 => Reason::Busy { slots, before },
        _ if before == 0 => Reason::Next,
        slots => Reason::Behind { jobs: before, slots },
    }
}

fn running(job: &JobDetail, nodes: &[ServingNode]) -> Reason {
    let owner = job.summary.owner.unwrap_or(NodeId(0));
    match nodes.iter().find(|node| node.id == owner && node.alive) {
        Some(node) => Reason::Runs { node: owner, name: node.name.clone(), since: job.summary.claimed_at },
        None => Reason::OwnerLost { node: owner },
    }
}

/// The rules that pause the job. A pause of all covers those with rules of their own.
fn pauses(job: &JobDetail, rules: &[Rule]) -> Vec<Reason> {
    let covering = subjects(job).flat_map(|(scope, name)| {
        rules.iter().filter(move |rule| rule.scope == scope && rule.paused && (rule.name == name || rule.name == EACH))
    });
    covering.map(|rule| Reason::Paused { scope: rule.scope, name: rule.name.clone(), by: None, since: None }).collect()
}

fn limits(job: &JobDetail, facts: &Facts<'_>) -> Vec<Reason> {
    let mut found = Vec::new();
    for (scope, name) in subjects(job).filter(|(scope, _)| *scope != Scope::Group) {
        let Some(rule) = limiting(facts.rules, scope, name) else { continue };
        let key = format!("{}{name}", scope.prefix());
        let unused = KeyUse::default();
        let used = facts.keys.iter().find(|used| used.key == key).unwrap_or(&unused);
        if let Some(most) = rule.running.filter(|most| used.taken >= u64::from(*most)) {
            let holders = used.holders.clone();
            found.push(Reason::Limit { scope, name: name.to_owned(), most, running: used.taken, holders });
        }
        if let Some(rate) = rule.rate.filter(|rate| used.starts >= u64::from(rate.starts)) {
            let period = SignedDuration::try_from(rate.period).unwrap_or(SignedDuration::MAX);
            let until = used.first_start.and_then(|first| first.checked_add(period).ok());
            found.push(Reason::Rate { scope, name: name.to_owned(), rate, until });
        }
    }
    found
}

/// The holder of the job's group. A job has it itself if it is ordered, and waits for another attempt.
fn group(job: &JobDetail, keys: &[KeyUse]) -> Option<Reason> {
    let group = job.options.group.as_ref()?;
    let key = group_key(group);
    let own = |holder: &&Holder| matches!(holder, Holder::Job { id, .. } if *id == job.summary.id);
    let used = keys.iter().find(|used| used.key == key)?;
    let holder = match used.holders.iter().find(|holder| !own(holder)) {
        Some(holder) => holder.clone(),
        None if used.taken > used.holders.len() as u64 => Holder::Gone,
        None => return None,
    };
    Some(Reason::Group { group: group.clone(), holder })
}

/// Why neither a node nor a worker by SQL takes the job. Nodes of earlier builds do not say what they serve, so nothing is said while one of them is alive.
fn nobody(job: &JobDetail, facts: &Facts<'_>) -> Option<Reason> {
    let (queue, kind, nodes) = (&job.summary.queue, &job.summary.kind, facts.nodes);
    if queue.starts_with(SET_ASIDE) {
        return Some(Reason::Unreadable);
    }
    if facts.workers.iter().any(|worker| worker.alive && worker.takes(queue, kind)) {
        return None;
    }
    let alive: Vec<&ServingNode> = alive(nodes).collect();
    if alive.is_empty() {
        return Some(Reason::NoNode);
    }
    let unserved = Reason::QueueNotServed { queue: queue.clone() };
    let reaches = |node: &&ServingNode| node.broker.as_deref() == Some(UP);
    if [EVENT_QUEUE, REPLY_QUEUE].contains(&queue.as_str()) {
        return (!alive.iter().any(reaches)).then(|| Reason::NoBroker { queue: queue.clone() });
    }
    let served: Vec<_> =
        alive.iter().map(|node| node.serves.as_ref().map(|serves| (*node, serves))).collect::<Option<_>>()?;
    let out: Vec<_> =
        served.iter().filter(|(_, serves)| serves.external.contains(queue)).map(|(node, _)| *node).collect();
    if !out.is_empty() {
        if out.iter().all(|node| node.broker.is_none()) {
            return Some(Reason::NoWorker { queue: queue.clone() });
        }
        let reaching = out.iter().copied().filter(reaches);
        return if reaching.clone().next().is_none() {
            Some(Reason::NoBroker { queue: queue.clone() })
        } else {
            failing(CLAIMS, Some(queue), reaching.clone()).or_else(|| failing(CONSUMERS, Some(queue), reaching))
        };
    }
    let here: Vec<_> = served.iter().filter(|(_, serves)| serves.queues.contains_key(queue)).collect();
    if here.is_empty() {
        return Some(unserved);
    }
    let able: Vec<_> = here.iter().filter(|(_, serves)| serves.kinds.contains(kind)).collect();
    let Some((first, _)) = able.first() else {
        return Some(Reason::KindNotHandled { queue: queue.clone(), kind: kind.clone() });
    };
    let mut willing = able.iter().map(|(node, _)| *node).filter(|node| !node.left_alone.contains_key(kind)).peekable();
    if willing.peek().is_some() {
        return failing(CLAIMS, Some(queue), willing);
    }
    let error = first.left_alone.get(kind).cloned().unwrap_or_default();
    Some(Reason::LeftAlone { kind: kind.clone(), node: first.name.clone(), error })
}

fn alive(nodes: &[ServingNode]) -> impl Iterator<Item = &ServingNode> {
    nodes.iter().filter(|node| node.alive)
}

/// Returns the failure of a task, if it fails on all of these nodes: one that does it is enough.
fn failing<'a>(task: &str, queue: Option<&str>, nodes: impl Iterator<Item = &'a ServingNode>) -> Option<Reason> {
    let of = |node: &'a ServingNode| {
        let found = node.failing.iter().find(|failing| failing.task == task && failing.queue.as_deref() == queue)?;
        Some(Reason::Failing { node: node.name.clone(), task: found.clone() })
    };
    nodes.map(of).collect::<Option<Vec<_>>>()?.into_iter().next()
}

/// How many jobs of a queue all living nodes together run at the same time.
fn slots(queue: &str, nodes: &[ServingNode]) -> Option<u64> {
    let of = |node: &ServingNode| Some(node.serves.as_ref()?.queues.get(queue).copied().unwrap_or(0));
    nodes.iter().filter(|node| node.alive).map(of).sum()
}
