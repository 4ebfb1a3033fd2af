//! Finds out what blocks jobs.

use std::collections::{BTreeMap, BTreeSet};

use jobwright::store::{EACH, JobFilter, JobState, Page, Rule, Scope as RuleScope};
use jobwright::{Admin, JobId, Result};

use super::drained::Scope;

/// Most jobs whose key is read: many jobs wait for few keys.
const LOOKED_AT: usize = 100;
/// Most jobs that are counted one by one.
const COUNTED: usize = 10_000;
/// What jobs are blocked on whose process died while they ran.
pub(super) const SUSPECTS: &str = "alone";
/// Most keys that are named.
const NAMED: usize = 3;

/// Jobs that a worker could run if they were not blocked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blockers {
    ids: BTreeSet<JobId>,
    /// The keys they wait for: the first few.
    keys: BTreeSet<String>,
}

impl Blockers {
    /// Describes for people how many there are, and what they wait for.
    pub(super) fn describe(&self, rules: &[Rule]) -> String {
        let named: Vec<String> = self.keys.iter().take(NAMED).map(|blocked_on| about(blocked_on, rules)).collect();
        let more = self.keys.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let some = if self.ids.len() >= COUNTED { " or more" } else { "" };
        format!("{}{some} left, blocked by {}{more}", self.ids.len(), named.join(", "))
    }

    /// Whether some wait for a rate, which admits them when it is time, or for a node that runs nothing else.
    pub(super) fn comes_by_itself(&self, rules: &[Rule]) -> bool {
        self.keys.iter().any(|blocked_on| {
            blocked_on == SUSPECTS
                || rule(blocked_on, rules)
                    .is_some_and(|rule| rule.rate.is_some() && !rule.paused && rule.running != Some(0))
        })
    }
}

/// Returns the blocked jobs of this scope; `None` if there are none.
pub(super) async fn blockers(admin: &Admin, scope: &Scope) -> Result<Option<Blockers>> {
    let mut ids = BTreeSet::new();
    let of_kinds =
        scope.queues.iter().flat_map(|queue| scope.kinds.iter().map(move |kind| (queue, Some(kind.clone()))));
    for (queue, kind) in of_kinds.chain(scope.outbound.iter().map(|queue| (queue, None))) {
        let mut filter = JobFilter::state(JobState::Blocked).queue(queue.clone());
        filter.kind = kind;
        let page = Page::new(COUNTED);
        ids.extend(admin.list(&filter, &page).await?.into_iter().map(|job| job.id));
    }
    let mut keys = BTreeSet::new();
    for id in ids.iter().take(LOOKED_AT) {
        keys.extend(admin.show(*id).await?.and_then(|job| job.blocked_on));
    }
    // If it is empty, none of them is blocked any more, and the caller checks again.
    Ok((!keys.is_empty()).then_some(Blockers { ids, keys }))
}

/// Splits a key into the kind of thing it belongs to, and its name.
fn parts(blocked_on: &str) -> Option<(RuleScope, &str)> {
    let (prefix, name) = blocked_on.split_once(':')?;
    let scopes = BTreeMap::from([
        ("g", RuleScope::Group),
        ("q", RuleScope::Queue),
        ("k", RuleScope::Kind),
        ("t", RuleScope::Tenant),
        ("l", RuleScope::Key),
    ]);
    Some((*scopes.get(prefix)?, name))
}

/// Returns the rule that applies to the key.
fn rule<'a>(blocked_on: &str, rules: &'a [Rule]) -> Option<&'a Rule> {
    let (scope, name) = parts(blocked_on)?;
    let named = |name: &str| rules.iter().find(|rule| rule.scope == scope && rule.name == name);
    named(name).or_else(|| named(EACH))
}

fn about(blocked_on: &str, rules: &[Rule]) -> String {
    if blocked_on == SUSPECTS {
        return "the death of their process: each runs alone".to_owned();
    }
    let Some((scope, name)) = parts(blocked_on) else { return format!("{blocked_on:?}") };
    let why = match rule(blocked_on, rules) {
        Some(rule) if rule.paused || rule.running == Some(0) => "paused",
        Some(rule) if rule.rate.is_some() => "at its rate",
        Some(_) => "at its limit",
        None if scope == RuleScope::Group => "held by a job that does not run here",
        None => "held",
    };
    format!("{scope} {name:?} ({why})")
}
