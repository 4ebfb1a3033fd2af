//! What an admission pass decides, without a database.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::plan::{Candidate, CandidateState, Plan, RuleBook, Starts, Unblock, Unblocked, Usage, plan};
use crate::job::{JobId, JobOptions};
use crate::store::rules::{Rule, Scope, ShareBy};

const LIMIT: i64 = 500;
const SECOND: i64 = 1_000_000;

fn candidate(seq: i64, options: JobOptions) -> Candidate {
    let blocked_on = options.group.as_ref().map(|group| format!("g:{group}")).unwrap_or_default();
    Candidate {
        id: JobId::new(),
        seq,
        rank: 0,
        state: if blocked_on.is_empty() { CandidateState::Waiting } else { CandidateState::Blocked },
        kind: "kind".to_owned(),
        queue: "default".to_owned(),
        options,
        holds: false,
        blocked_on,
        share: String::new(),
    }
}

fn of_group(seq: i64, group: &str) -> Candidate {
    candidate(seq, JobOptions { group: Some(group.to_owned()), ..JobOptions::default() })
}

fn of_tenant(seq: i64, tenant: &str) -> Candidate {
    candidate(seq, JobOptions { tenant: Some(tenant.to_owned()), ..JobOptions::default() })
}

fn taken(permits: &[(&str, u64)]) -> Usage {
    let permits = permits.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect();
    Usage { permits, now: 100 * SECOND, ..Usage::default() }
}

fn decide(rules: &[Rule], candidates: &[Candidate], usage: Usage) -> Plan {
    plan(candidates.to_vec(), &[], &RuleBook::new(rules.to_vec()), usage, LIMIT)
}

fn admitted(plan: &Plan) -> Vec<JobId> {
    plan.admit.iter().map(|admit| admit.id).collect()
}

#[test]
fn the_first_of_a_group_starts_and_takes_it() {
    let jobs = [of_group(2, "g"), of_group(1, "g")];
    let plan = decide(&[], &jobs, taken(&[]));
    assert_eq!(admitted(&plan), [jobs[1].id]);
    assert_eq!(plan.admit[0].keys, ["g:g"]);
    assert!(plan.wait.is_empty(), "the other one waits where it is");
    assert!(decide(&[], &jobs, taken(&[("g:g", 1)])).admit.is_empty());
}

#[test]
fn a_job_that_holds_its_group_takes_it_once() {
    let held = Candidate { holds: true, ..of_group(1, "g") };
    let plan = decide(&[], std::slice::from_ref(&held), taken(&[("g:g", 1)]));
    assert_eq!((admitted(&plan), plan.admit[0].keys.len()), (vec![held.id], 0));

    let ordered = of_group(1, "g");
    let mut usage = taken(&[("g:g", 1)]);
    usage.held.insert((ordered.id, "g:g".to_owned()));
    assert_eq!(admitted(&decide(&[], std::slice::from_ref(&ordered), usage)), [ordered.id]);
}

/// Otherwise each job of a group would cost a second admission pass that finds nothing.
#[test]
fn the_key_of_a_group_stays_taken_behind_the_one_that_passed() {
    let unblocked = [Unblocked { key: "g:g".to_owned(), n: 1 }];
    let decide =
        |rules: &[Rule]| plan(vec![of_group(1, "g")], &unblocked, &RuleBook::new(rules.to_vec()), taken(&[]), LIMIT);
    assert!(decide(&[]).unblocks.is_empty());
    // A job that now waits for something else, and does not hold its group, leaves the key unblocked for the next.
    let paused = decide(&[Rule::new(Scope::Kind, "kind").paused(true)]);
    assert_eq!(paused.unblocks, [Unblock { key: "g:g".to_owned(), at: None, n: 8 }]);
}

/// The first job of a group holds the group while it waits for a limit: otherwise the second could overtake it in a queue with free permits.
#[test]
fn the_order_of_a_group_is_kept_while_its_first_waits_for_a_limit() {
    let first = Candidate { queue: "full".to_owned(), ..of_group(1, "g") };
    let second = of_group(2, "g");
    let rules = [Rule::new(Scope::Queue, "full").running(1)];
    let plan = decide(&rules, &[first.clone(), second], taken(&[("q:full", 1)]));
    assert!(plan.admit.is_empty());
    assert_eq!(plan.wait.len(), 1);
    assert_eq!((plan.wait[0].id, plan.wait[0].blocked_on.as_str()), (first.id, "q:full"));
    assert_eq!(plan.wait[0].hold.as_deref(), Some("g:g"));
}

#[test]
fn a_paused_job_lets_its_group_pass_unless_the_order_is_strict() {
    let rules = [Rule::new(Scope::Kind, "paused").paused(true)];
    for ordered in [false, true] {
        let mut first = Candidate { kind: "paused".to_owned(), ..of_group(1, "g") };
        first.options.ordered = ordered;
        let second = of_group(2, "g");
        let plan = decide(&rules, &[first, second.clone()], taken(&[]));
        assert_eq!(admitted(&plan), if ordered { vec![] } else { vec![second.id] });
        assert_eq!(plan.wait[0].hold.is_some(), ordered);
    }
}

/// While the group is taken, an ordered job of a paused queue stays blocked on the group. Blocked on the pause's key it would not be read when
/// the group becomes free, and a job that was sent after it would start before it.
#[test]
fn a_pause_does_not_take_an_ordered_job_out_of_its_group_s_line() {
    let rules = [Rule::new(Scope::Queue, "paused").paused(true)];
    let mut second = Candidate { queue: "paused".to_owned(), ..of_group(2, "g") };
    let mut third = of_group(3, "g");
    (second.options.ordered, third.options.ordered) = (true, true);
    let while_first_runs = decide(&rules, &[second.clone(), third.clone()], taken(&[("g:g", 1)]));
    assert_eq!(while_first_runs, Plan::default(), "both stay where they are");
    let when_it_is_over = decide(&rules, &[second.clone(), third], taken(&[]));
    assert_eq!(admitted(&when_it_is_over), []);
    let [wait] = when_it_is_over.wait.as_slice() else { panic!("{when_it_is_over:?}") };
    assert_eq!((wait.id, wait.blocked_on.as_str(), wait.hold.as_deref()), (second.id, "q:paused", Some("g:g")));
}

/// A group may become free after its blocked jobs were read and before permits are counted. A job that comes back from a pause must not take it
/// then before the jobs that are blocked on it.
#[test]
fn a_resumed_job_queues_behind_its_group() {
    let back = Candidate { queue: "paused".to_owned(), blocked_on: "q:paused".to_owned(), ..of_group(2, "g") };
    let plan = decide(&[], std::slice::from_ref(&back), taken(&[]));
    assert_eq!(admitted(&plan), []);
    let [wait] = plan.wait.as_slice() else { panic!("{plan:?}") };
    assert_eq!((wait.id, wait.blocked_on.as_str(), wait.hold.as_deref()), (back.id, "g:g", None));
    let [unblock] = plan.unblocks.as_slice() else { panic!("{plan:?}") };
    assert_eq!((unblock.key.as_str(), unblock.at), ("g:g", None), "the next round decides");
    // While a job of the group runs, the end of that job unblocks the key.
    assert!(decide(&[], &[back], taken(&[("g:g", 1)])).unblocks.is_empty());
}

#[test]
fn an_own_rule_replaces_the_one_for_all() {
    let rules = [Rule::new(Scope::Tenant, "*").running(1), Rule::new(Scope::Tenant, "big").running(2)];
    let jobs: Vec<_> = (0..6).map(|n| of_tenant(n, if n % 2 == 0 { "big" } else { "small" })).collect();
    let plan = decide(&rules, &jobs, taken(&[]));
    assert_eq!(admitted(&plan), [jobs[0].id, jobs[1].id, jobs[2].id]);
    assert_eq!(plan.wait.len(), 3, "what can't start leaves the way of the others");
}

/// The key is unblocked when the oldest start leaves the period, and not before.
#[test]
fn a_rate_says_when_it_allows_more() {
    let rules = [Rule::new(Scope::Queue, "default").rate(3, Duration::from_secs(10))];
    let jobs: Vec<_> = (0..3).map(|n| candidate(n, JobOptions::default())).collect();
    let mut usage = taken(&[]);
    usage.rates.insert("q:default".to_owned(), (2, 95 * SECOND));
    let plan = decide(&rules, &jobs, usage);
    assert_eq!(admitted(&plan), [jobs[0].id]);
    assert_eq!(plan.rates, [Starts { key: "q:default".to_owned(), n: 1, part: SECOND / 100 }]);
    assert_eq!(plan.unblocks[0].at, Some(105 * SECOND));

    // All starts are of this pass: the key is unblocked one period from now.
    let plan = decide(&rules, &[jobs, vec![candidate(9, JobOptions::default())]].concat(), taken(&[]));
    assert_eq!(plan.admit.len(), 3);
    assert_eq!(plan.unblocks[0].at, Some(110 * SECOND));
}

#[test]
fn shares_follow_weights_and_what_runs_already() {
    let rules = [Rule::new(Scope::Queue, "default").running(8).shares(ShareBy::Tenant, [("big".to_owned(), 3)])];
    let mut jobs: Vec<_> = (0..20).map(|n| of_tenant(n, "small")).collect();
    jobs.extend((20..40).map(|n| of_tenant(n, "big")));
    let plan = decide(&rules, &jobs, taken(&[]));
    let big = plan.admit.iter().filter(|admit| jobs[20..].iter().any(|job| job.id == admit.id)).count();
    assert_eq!((plan.admit.len(), big), (8, 6));

    // `small` holds two permits already: all others go to `big`.
    let plan = decide(&rules, &jobs, taken(&[("q:default", 2), ("s:default\u{1}small", 2)]));
    let big = plan.admit.iter().filter(|admit| jobs[20..].iter().any(|job| job.id == admit.id)).count();
    assert_eq!((plan.admit.len(), big), (6, 6));
}

/// More than one job of a group may have been read. The turns of shares or queues must not decide which of them is the first.
#[test]
fn shares_do_not_change_the_order_of_a_group() {
    let rules = [Rule::new(Scope::Queue, "default").running(8).shares(ShareBy::Kind, [])];
    let of = |kind: &str, queue: &str, seq| {
        let options = JobOptions { group: Some("g".to_owned()), ordered: true, ..JobOptions::default() };
        Candidate { kind: kind.to_owned(), queue: queue.to_owned(), ..candidate(seq, options) }
    };
    let busy = taken(&[("q:default", 3), ("s:default\u{1}book", 3)]);
    for second in [of("mail", "default", 2), of("book", "elsewhere", 2)] {
        let first = of("book", "default", 1);
        let plan = decide(&rules, &[first.clone(), second], Usage { permits: busy.permits.clone(), ..taken(&[]) });
        assert_eq!(admitted(&plan), [first.id]);
    }
    // The first job gives way and takes no permit: its kind is paused, and it is not ordered.
    let first = Candidate {
        options: JobOptions { group: Some("g".to_owned()), ..JobOptions::default() },
        ..of("book", "default", 1)
    };
    let second = of("mail", "default", 2);
    let rules = [rules[0].clone(), Rule::new(Scope::Kind, "book").paused(true)];
    assert_eq!(admitted(&decide(&rules, &[first, second.clone()], taken(&[]))), [second.id]);
}

/// If all candidates of a key could pass, more jobs that can pass may be blocked on it. If one has to wait, there are none.
#[test]
fn a_key_stays_unblocked_as_long_as_there_is_room() {
    let rules = RuleBook::new(vec![Rule::new(Scope::Kind, "kind").running(10)]);
    let behind = |n: i64| -> Vec<Candidate> {
        (0..n)
            .map(|seq| Candidate {
                state: CandidateState::Blocked,
                blocked_on: "k:kind".to_owned(),
                ..candidate(seq, JobOptions::default())
            })
            .collect()
    };
    let unblocked = [Unblocked { key: "k:kind".to_owned(), n: 2 }];
    let more = plan(behind(2), &unblocked, &rules, taken(&[]), LIMIT);
    assert_eq!((more.unblocks.len(), more.unblocks[0].n, more.unblocks[0].at), (1, 16, None));
    assert!(plan(behind(1), &unblocked, &rules, taken(&[]), LIMIT).unblocks.is_empty(), "nobody else is there");
    assert!(plan(behind(2), &unblocked, &rules, taken(&[("k:kind", 9)]), LIMIT).unblocks.is_empty(), "it is full");
}

proptest! {
    /// For any input: no group is held twice, no limit is exceeded, no job is both admitted and made to wait, and every job that could start does.
    #[test]
    fn limits_hold_and_nothing_is_left_out(
        jobs in prop::collection::vec((0u8..5, 0u8..4, 0u8..3, -2i16..3), 0..60),
        limits in prop::collection::vec((0u8..4, 0u32..5), 0..4),
        running in prop::collection::vec((0u8..4, 0u64..3), 0..4),
    ) {
        let rules: Vec<Rule> =
            limits.iter().map(|(n, most)| Rule::new(Scope::Tenant, format!("t{n}")).running(*most)).collect();
        let most: HashMap<String, u64> =
            rules.iter().map(|rule| (format!("t:{}", rule.name), u64::from(rule.running.unwrap_or(0)))).collect();
        let before: HashMap<String, u64> = running.iter().map(|(n, k)| (format!("t:t{n}"), *k)).collect();
        let candidates: Vec<_> = jobs
            .iter()
            .enumerate()
            .map(|(seq, (group, tenant, queue, rank))| {
                let group = (*group > 0).then(|| format!("g{group}"));
                let tenant = (*tenant > 0).then(|| format!("t{tenant}"));
                let options = JobOptions { group, tenant, ..JobOptions::default() };
                Candidate { rank: *rank, queue: format!("q{queue}"), ..candidate(seq as i64, options) }
            })
            .collect();
        let usage = Usage { permits: before.clone(), ..Usage::default() };
        let plan = plan(candidates.clone(), &[], &RuleBook::new(rules), usage, LIMIT);

        let mut after = before;
        for key in plan.admit.iter().flat_map(|admit| &admit.keys).chain(plan.wait.iter().filter_map(|wait| wait.hold.as_ref())) {
            *after.entry(key.clone()).or_default() += 1;
        }
        for (key, n) in &after {
            if key.starts_with("g:") {
                prop_assert!(*n <= 1, "{key} is held {n} times");
            } else if let Some(most) = most.get(key) {
                let added = *n - running.iter().filter(|(t, _)| format!("t:t{t}") == *key).map(|(_, k)| *k).next_back().unwrap_or(0);
                prop_assert!(added == 0 || n <= most, "{key} has {n} of {most}");
            }
        }
        for admit in &plan.admit {
            prop_assert!(plan.wait.iter().all(|wait| wait.id != admit.id));
        }
        // A job that waits lacks something that is really taken.
        for job in &candidates {
            if plan.admit.iter().any(|admit| admit.id == job.id) {
                continue;
            }
            let group_taken = job.options.group.as_ref().is_some_and(|group| after.contains_key(&format!("g:{group}")));
            let limit_taken = job.options.tenant.as_ref().is_some_and(|tenant| {
                let key = format!("t:{tenant}");
                most.get(&key).is_some_and(|most| after.get(&key).copied().unwrap_or(0) >= *most)
            });
            prop_assert!(group_taken || limit_taken, "{job:?} could have started");
        }
    }
}
