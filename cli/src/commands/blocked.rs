//! Finds out what blocks jobs.

use std::collections::{BTreeMap, BTreeSet};

use jobwright::admin::Admin;
use jobwright::admin::{EACH, JobDetail, JobFilter, JobState, Page, Rule, Scope as RuleScope};
use jobwright::{JobId, Result};

/// Most jobs whose key is read: many jobs wait for few keys.
const LOOKED_AT: usize = 100;
/// Most jobs that are counted one by one.
const COUNTED: usize = 10_000;
/// The key of suspects: jobs whose process died while they ran.
const SUSPECTS: &str = "alone";
/// Most keys that are named.
const NAMED: usize = 3;

/// The queues and kinds that a worker can run.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) queues: BTreeSet<String>,
    /// Queues that are sent to the broker: those of external workers, events and replies. Their kinds do not matter here.
    pub(super) outbound: BTreeSet<String>,
    pub(super) kinds: BTreeSet<String>,
}

/// Jobs that a worker could run if they were not blocked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blockers {
    ids: BTreeSet<JobId>,
    /// The keys they wait for: the first few.
    keys: BTreeSet<String>,
    /// The names by which rules select the suspects among them.
    suspects: BTreeSet<Subject>,
}

/// The names by which rules select a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject(Vec<(RuleScope, String)>);

impl Subject {
    fn of(job: &JobDetail) -> Self {
        let (summary, options) = (&job.summary, &job.options);
        let names = [
            (RuleScope::Queue, Some(&summary.queue)),
            (RuleScope::Kind, Some(&summary.kind)),
            (RuleScope::Tenant, options.tenant.as_ref()),
            (RuleScope::Key, options.limit_key.as_ref()),
            (RuleScope::Group, options.group.as_ref()),
        ];
        Self(names.into_iter().filter_map(|(scope, name)| Some((scope, name?.clone()))).collect())
    }

    /// Returns a scope and name whose rule keeps it from starting until a person changes the rule. A pause of all applies to all, and any other
    /// rule for all to those that have none of their own.
    fn held(&self, rules: &[Rule]) -> Option<&(RuleScope, String)> {
        self.0.iter().find(|(scope, name)| {
            let of_scope = || rules.iter().filter(|rule| rule.scope == *scope);
            let has_own = of_scope().any(|rule| rule.name == *name);
            of_scope().any(|rule| {
                let covers = rule.name == *name || rule.name == EACH && (rule.paused || !has_own);
                covers && stops(rule)
            })
        })
    }
}

/// Whether nothing starts under this rule.
fn stops(rule: &Rule) -> bool {
    rule.paused || rule.running == Some(0)
}

impl Blockers {
    /// Describes for people how many there are, and what they wait for.
    pub(super) fn describe(&self, rules: &[Rule]) -> String {
        let about = |blocked_on: &String| {
            if blocked_on == SUSPECTS { self.about_suspects(rules) } else { about(blocked_on, rules) }
        };
        let named: Vec<String> = self.keys.iter().take(NAMED).map(about).collect();
        let more = self.keys.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let some = if self.ids.len() >= COUNTED { " or more" } else { "" };
        format!("{}{some} left, blocked by {}{more}", self.ids.len(), named.join(", "))
    }

    fn about_suspects(&self, rules: &[Rule]) -> String {
        let held: BTreeSet<String> = self
            .suspects
            .iter()
            .filter_map(|subject| subject.held(rules))
            .map(|(scope, name)| format!("; {scope} {name:?} is paused"))
            .collect();
        let named: String = held.into_iter().take(NAMED).collect();
        format!("the death of their process (each runs alone{named})")
    }

    /// Whether some wait for a rate, which admits them when it is time, or are suspects that no rule holds: a node runs these when it runs nothing
    /// else.
    pub(super) fn comes_by_itself(&self, rules: &[Rule]) -> bool {
        self.suspects.iter().any(|subject| subject.held(rules).is_none())
            || self
                .keys
                .iter()
                .any(|blocked_on| rule(blocked_on, rules).is_some_and(|rule| rule.rate.is_some() && !stops(rule)))
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
    let (mut keys, mut suspects) = (BTreeSet::new(), BTreeSet::new());
    for id in ids.iter().take(LOOKED_AT) {
        let Some(job) = admin.show(*id).await? else { continue };
        if job.blocked_on.as_deref() == Some(SUSPECTS) {
            suspects.insert(Subject::of(&job));
        }
        keys.extend(job.blocked_on);
    }
    // If it is empty, none of them is blocked any more, and the caller checks again.
    Ok((!keys.is_empty()).then_some(Blockers { ids, keys, suspects }))
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
    let Some((scope, name)) = parts(blocked_on) else { return format!("{blocked_on:?}") };
    let why = match rule(blocked_on, rules) {
        Some(rule) if stops(rule) => "paused",
        Some(rule) if rule.rate.is_some() => "at its rate",
        Some(_) => "at its limit",
        None if scope == RuleScope::Group => "held by a job that does not run here",
        None => "held",
    };
    format!("{scope} {name:?} ({why})")
}
