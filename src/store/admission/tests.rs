//! What a round decides, without a database.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::plan::{Candidate, Opened, Opening, Place, Plan, RuleBook, Starts, Usage, plan};
use crate::job::{JobId, Terms};
use crate::store::rules::{Rule, Scope, ShareBy};

const LIMIT: i64 = 500;
const SECOND: i64 = 1_000_000;

fn candidate(seq: i64, terms: Terms) -> Candidate {
    let gate = terms.group.as_ref().map(|group| format!("g:{group}")).unwrap_or_default();
    Candidate {
        id: JobId::new(),
        seq,
        rank: 0,
        place: if gate.is_empty() { Place::Waiting } else { Place::Blocked },
        kind: "kind".to_owned(),
        queue: "default".to_owned(),
        terms,
        holds: false,
        gate,
        share: String::new(),
    }
}

fn of_group(seq: i64, group: &str) -> Candidate {
    candidate(seq, Terms { group: Some(group.to_owned()), ..Terms::default() })
}

fn of_tenant(seq: i64, tenant: &str) -> Candidate {
    candidate(seq, Terms { tenant: Some(tenant.to_owned()), ..Terms::default() })
}

fn taken(slots: &[(&str, u64)]) -> Usage {
    let slots = slots.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect();
    Usage { slots, now: 100 * SECOND, ..Usage::default() }
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
fn what_holds_its_group_already_takes_it_once() {
    let held = Candidate { holds: true, ..of_group(1, "g") };
    let plan = decide(&[], std::slice::from_ref(&held), taken(&[("g:g", 1)]));
    assert_eq!((admitted(&plan), plan.admit[0].keys.len()), (vec![held.id], 0));

    let ordered = of_group(1, "g");
    let mut usage = taken(&[("g:g", 1)]);
    usage.held.insert((ordered.id, "g:g".to_owned()));
    assert_eq!(admitted(&decide(&[], std::slice::from_ref(&ordered), usage)), [ordered.id]);
}

/// Otherwise each job of a group would cost a second round that finds nothing.
#[test]
fn the_gate_of_a_group_stays_closed_behind_the_one_that_passed() {
    let opened = [Opened { key: "g:g".to_owned(), n: 1 }];
    let decide =
        |rules: &[Rule]| plan(vec![of_group(1, "g")], &opened, &RuleBook::new(rules.to_vec()), taken(&[]), LIMIT);
    assert!(decide(&[]).openings.is_empty());
    // One that went to wait for something else, and does not hold its group, leaves the gate open for the next.
    let paused = decide(&[Rule::new(Scope::Kind, "kind").paused(true)]);
    assert_eq!(paused.openings, [Opening { key: "g:g".to_owned(), at: None, n: 8 }]);
}

/// The first of a group that lacks a place holds the group while it waits: otherwise the second could overtake it in a queue that
/// has room.
#[test]
fn the_order_of_a_group_is_kept_while_its_first_waits_for_a_limit() {
    let first = Candidate { queue: "full".to_owned(), ..of_group(1, "g") };
    let second = of_group(2, "g");
    let rules = [Rule::new(Scope::Queue, "full").running(1)];
    let plan = decide(&rules, &[first.clone(), second], taken(&[("q:full", 1)]));
    assert!(plan.admit.is_empty());
    assert_eq!(plan.wait.len(), 1);
    assert_eq!((plan.wait[0].id, plan.wait[0].gate.as_str()), (first.id, "q:full"));
    assert_eq!(plan.wait[0].hold.as_deref(), Some("g:g"));
}

#[test]
fn whoever_waits_for_a_pause_lets_its_group_pass_unless_the_order_is_strict() {
    let rules = [Rule::new(Scope::Kind, "paused").paused(true)];
    for ordered in [false, true] {
        let mut first = Candidate { kind: "paused".to_owned(), ..of_group(1, "g") };
        first.terms.ordered = ordered;
        let second = of_group(2, "g");
        let plan = decide(&rules, &[first, second.clone()], taken(&[]));
        assert_eq!(admitted(&plan), if ordered { vec![] } else { vec![second.id] });
        assert_eq!(plan.wait[0].hold.is_some(), ordered);
    }
}

/// While the group is taken, an ordered job of a paused queue stays behind the group. Behind the pause it would not be seen when the
/// group becomes free, and whoever was sent after it would start before it.
#[test]
fn a_pause_does_not_take_an_ordered_job_out_of_its_group_s_line() {
    let rules = [Rule::new(Scope::Queue, "paused").paused(true)];
    let mut second = Candidate { queue: "paused".to_owned(), ..of_group(2, "g") };
    let mut third = of_group(3, "g");
    (second.terms.ordered, third.terms.ordered) = (true, true);
    let while_first_runs = decide(&rules, &[second.clone(), third.clone()], taken(&[("g:g", 1)]));
    assert_eq!(while_first_runs, Plan::default(), "both stay where they are");
    let when_it_is_over = decide(&rules, &[second.clone(), third], taken(&[]));
    assert_eq!(admitted(&when_it_is_over), []);
    let [wait] = when_it_is_over.wait.as_slice() else { panic!("{when_it_is_over:?}") };
    assert_eq!((wait.id, wait.gate.as_str(), wait.hold.as_deref()), (second.id, "q:paused", Some("g:g")));
}

/// Between the reading of what opened and the counting of slots a group may become free: who comes back from a pause then must not
/// take it before those that wait for it.
#[test]
fn who_comes_back_from_a_pause_gets_in_line_behind_its_group() {
    let back = Candidate { queue: "paused".to_owned(), gate: "q:paused".to_owned(), ..of_group(2, "g") };
    let plan = decide(&[], std::slice::from_ref(&back), taken(&[]));
    assert_eq!(admitted(&plan), []);
    let [wait] = plan.wait.as_slice() else { panic!("{plan:?}") };
    assert_eq!((wait.id, wait.gate.as_str(), wait.hold.as_deref()), (back.id, "g:g", None));
    let [opening] = plan.openings.as_slice() else { panic!("{plan:?}") };
    assert_eq!((opening.key.as_str(), opening.at), ("g:g", None), "the next round decides");
    // While somebody is at work in it, that one's end is what opens it.
    assert!(decide(&[], &[back], taken(&[("g:g", 1)])).openings.is_empty());
}

#[test]
fn a_rule_of_its_own_counts_and_not_the_one_for_all() {
    let rules = [Rule::new(Scope::Tenant, "*").running(1), Rule::new(Scope::Tenant, "big").running(2)];
    let jobs: Vec<_> = (0..6).map(|n| of_tenant(n, if n % 2 == 0 { "big" } else { "small" })).collect();
    let plan = decide(&rules, &jobs, taken(&[]));
    assert_eq!(admitted(&plan), [jobs[0].id, jobs[1].id, jobs[2].id]);
    assert_eq!(plan.wait.len(), 3, "what can't start leaves the way of the others");
}

/// It opens when the oldest start leaves the period, and not before.
#[test]
fn a_rate_says_when_it_allows_more() {
    let rules = [Rule::new(Scope::Queue, "default").rate(3, Duration::from_secs(10))];
    let jobs: Vec<_> = (0..3).map(|n| candidate(n, Terms::default())).collect();
    let mut usage = taken(&[]);
    usage.rates.insert("q:default".to_owned(), (2, 95 * SECOND));
    let plan = decide(&rules, &jobs, usage);
    assert_eq!(admitted(&plan), [jobs[0].id]);
    assert_eq!(plan.rates, [Starts { key: "q:default".to_owned(), n: 1, part: SECOND / 100 }]);
    assert_eq!(plan.openings[0].at, Some(105 * SECOND));

    // All of them in this round: it opens a period from now.
    let plan = decide(&rules, &[jobs, vec![candidate(9, Terms::default())]].concat(), taken(&[]));
    assert_eq!(plan.admit.len(), 3);
    assert_eq!(plan.openings[0].at, Some(110 * SECOND));
}

#[test]
fn shares_follow_weights_and_what_runs_already() {
    let rules = [Rule::new(Scope::Queue, "default").running(8).shares(ShareBy::Tenant, [("big".to_owned(), 3)])];
    let mut jobs: Vec<_> = (0..20).map(|n| of_tenant(n, "small")).collect();
    jobs.extend((20..40).map(|n| of_tenant(n, "big")));
    let plan = decide(&rules, &jobs, taken(&[]));
    let big = plan.admit.iter().filter(|admit| jobs[20..].iter().any(|job| job.id == admit.id)).count();
    assert_eq!((plan.admit.len(), big), (8, 6));

    // Two places of `small` are taken: the rest goes to the other one.
    let plan = decide(&rules, &jobs, taken(&[("q:default", 2), ("s:default\u{1}small", 2)]));
    let big = plan.admit.iter().filter(|admit| jobs[20..].iter().any(|job| job.id == admit.id)).count();
    assert_eq!((plan.admit.len(), big), (6, 6));
}

/// More of a group than one may have been read. Whose turn it is among shares or queues must not decide which of them is the first.
#[test]
fn shares_do_not_change_the_order_of_a_group() {
    let rules = [Rule::new(Scope::Queue, "default").running(8).shares(ShareBy::Kind, [])];
    let of = |kind: &str, queue: &str, seq| {
        let terms = Terms { group: Some("g".to_owned()), ordered: true, ..Terms::default() };
        Candidate { kind: kind.to_owned(), queue: queue.to_owned(), ..candidate(seq, terms) }
    };
    let busy = taken(&[("q:default", 3), ("s:default\u{1}book", 3)]);
    for second in [of("mail", "default", 2), of("book", "elsewhere", 2)] {
        let first = of("book", "default", 1);
        let plan = decide(&rules, &[first.clone(), second], Usage { slots: busy.slots.clone(), ..taken(&[]) });
        assert_eq!(admitted(&plan), [first.id]);
    }
    // The first one gives way, and keeps its place by that: it is of a kind that is paused, and not ordered.
    let first =
        Candidate { terms: Terms { group: Some("g".to_owned()), ..Terms::default() }, ..of("book", "default", 1) };
    let second = of("mail", "default", 2);
    let rules = [rules[0].clone(), Rule::new(Scope::Kind, "book").paused(true)];
    assert_eq!(admitted(&decide(&rules, &[first, second.clone()], taken(&[]))), [second.id]);
}

/// A gate whose shown jobs could all pass may have more behind it; one at which somebody has to wait has not.
#[test]
fn a_gate_stays_open_as_long_as_there_is_room() {
    let rules = RuleBook::new(vec![Rule::new(Scope::Kind, "kind").running(10)]);
    let behind = |n: i64| -> Vec<Candidate> {
        (0..n)
            .map(|seq| Candidate {
                place: Place::Blocked,
                gate: "k:kind".to_owned(),
                ..candidate(seq, Terms::default())
            })
            .collect()
    };
    let opened = [Opened { key: "k:kind".to_owned(), n: 2 }];
    let more = plan(behind(2), &opened, &rules, taken(&[]), LIMIT);
    assert_eq!((more.openings.len(), more.openings[0].n, more.openings[0].at), (1, 16, None));
    assert!(plan(behind(1), &opened, &rules, taken(&[]), LIMIT).openings.is_empty(), "nobody else is there");
    assert!(plan(behind(2), &opened, &rules, taken(&[("k:kind", 9)]), LIMIT).openings.is_empty(), "it is full");
}

proptest! {
    /// Whatever comes: no group twice, no limit exceeded, nobody admitted and told to wait, and who could start does.
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
                let terms = Terms { group, tenant, ..Terms::default() };
                Candidate { rank: *rank, queue: format!("q{queue}"), ..candidate(seq as i64, terms) }
            })
            .collect();
        let usage = Usage { slots: before.clone(), ..Usage::default() };
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
        // Whoever waits lacks something that is really taken.
        for job in &candidates {
            if plan.admit.iter().any(|admit| admit.id == job.id) {
                continue;
            }
            let group_taken = job.terms.group.as_ref().is_some_and(|group| after.contains_key(&format!("g:{group}")));
            let limit_taken = job.terms.tenant.as_ref().is_some_and(|tenant| {
                let key = format!("t:{tenant}");
                most.get(&key).is_some_and(|most| after.get(&key).copied().unwrap_or(0) >= *most)
            });
            prop_assert!(group_taken || limit_taken, "{job:?} could have started");
        }
    }
}
