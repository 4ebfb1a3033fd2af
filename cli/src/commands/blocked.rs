//! What holds back jobs that are blocked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobwright::store::{EACH, JobFilter, JobState, JobStore, Page, Rule, Scope as RuleScope};
use jobwright::{JobId, Result};

use super::drained::Scope;

/// Most jobs whose gate is looked at: many wait behind few gates.
const LOOKED_AT: usize = 100;
/// Most that are counted one by one.
const COUNTED: usize = 10_000;
/// Most gates that are named.
const NAMED: usize = 3;

/// Jobs that a worker could run if nothing held them back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held {
    ids: BTreeSet<JobId>,
    /// What they wait for: the first few.
    gates: BTreeSet<String>,
}

impl Held {
    /// For people: how many there are, and what they wait for.
    pub(super) fn describe(&self, rules: &[Rule]) -> String {
        let named: Vec<String> = self.gates.iter().take(NAMED).map(|gate| about(gate, rules)).collect();
        let more = self.gates.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let some = if self.ids.len() >= COUNTED { " or more" } else { "" };
        format!("{}{some} left, blocked by {}{more}", self.ids.len(), named.join(", "))
    }

    /// Some wait for a rate, which lets them start by itself when it is time.
    pub(super) fn comes_by_itself(&self, rules: &[Rule]) -> bool {
        self.gates.iter().any(|gate| {
            rule(gate, rules).is_some_and(|rule| rule.rate.is_some() && !rule.paused && rule.running != Some(0))
        })
    }
}

/// Those of this scope; `None`: there are none.
pub(super) async fn held(jobs: &Arc<dyn JobStore>, scope: &Scope) -> Result<Option<Held>> {
    let mut ids = BTreeSet::new();
    let of_kinds =
        scope.queues.iter().flat_map(|queue| scope.kinds.iter().map(move |kind| (queue, Some(kind.clone()))));
    for (queue, kind) in of_kinds.chain(scope.outbound.iter().map(|queue| (queue, None))) {
        let mut filter = JobFilter::state(JobState::Blocked).queue(queue.clone());
        filter.kind = kind;
        let page = Page::new(COUNTED);
        ids.extend(jobs.list(&filter, &page).await?.into_iter().map(|job| job.id));
    }
    let mut gates = BTreeSet::new();
    for id in ids.iter().take(LOOKED_AT) {
        gates.extend(jobs.show(*id).await?.and_then(|job| job.gate));
    }
    // None of them is blocked any more: whoever asks will look again.
    Ok((!gates.is_empty()).then_some(Held { ids, gates }))
}

/// The kind of thing a gate belongs to, and its name.
fn parts(gate: &str) -> Option<(RuleScope, &str)> {
    let (prefix, name) = gate.split_once(':')?;
    let scopes = BTreeMap::from([
        ("g", RuleScope::Group),
        ("q", RuleScope::Queue),
        ("k", RuleScope::Kind),
        ("t", RuleScope::Tenant),
        ("l", RuleScope::Key),
    ]);
    Some((*scopes.get(prefix)?, name))
}

/// The rule that holds for it.
fn rule<'a>(gate: &str, rules: &'a [Rule]) -> Option<&'a Rule> {
    let (scope, name) = parts(gate)?;
    let named = |name: &str| rules.iter().find(|rule| rule.scope == scope && rule.name == name);
    named(name).or_else(|| named(EACH))
}

fn about(gate: &str, rules: &[Rule]) -> String {
    let Some((scope, name)) = parts(gate) else { return format!("{gate:?}") };
    let why = match rule(gate, rules) {
        Some(rule) if rule.paused || rule.running == Some(0) => "paused",
        Some(rule) if rule.rate.is_some() => "at its rate",
        Some(_) => "at its limit",
        None if scope == RuleScope::Group => "held by a job that does not run here",
        None => "held",
    };
    format!("{scope} {name:?} ({why})")
}
