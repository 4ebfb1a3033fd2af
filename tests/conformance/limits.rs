//! Limits, rates, pauses and shares.

use std::time::Duration;

use jobwright::admin::{JobState, Rule, Scope, ShareBy};
use jobwright::internal::Fence;
use jobwright::internal::engine::RuleEdit;

use crate::conformance::groups::sound;
use crate::conformance::hidden_rows::{self, held};
use crate::support::TestDb;
use crate::support::jobs::{LATER, claim_number, fences, hand_out_number, ids, job, jobs};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// For each scope of a limit: two jobs run, the others wait, and one that ends frees a permit for the next.
pub(crate) async fn a_limit_bounds_running_jobs<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for (scope, name) in [
        (Scope::Queue, "default"),
        (Scope::Kind, "kind"),
        (Scope::Tenant, "acme"),
        (Scope::Tenant, "*"),
        (Scope::Key, "printer"),
    ] {
        store.put_rule(&Rule::new(scope, name).running(2)).await.unwrap();
        let sent = store.send_all(jobs(5).into_iter().map(|job| job.tenant("acme").limit_key("printer"))).await;
        assert!(store.take(node, 10).await.is_empty(), "{scope}: nothing starts before it was admitted");
        assert_eq!(store.admit_all().await, 2, "{scope}");
        let first = store.take(node, 10).await;
        assert_eq!(ids(&first), sent[..2], "{scope}");
        assert_eq!(store.state(sent[2]).await, Some(JobState::Blocked));
        assert_eq!(store.admit_all().await, 0);
        store.finish(node, &first[0]).await;
        assert_eq!(store.admit_all().await, 1);
        let second = store.take(node, 10).await;
        assert_eq!(ids(&second), sent[2..3]);
        sound(&store).await;

        // Without the rule, all waiting jobs may start.
        store.put_rule(&Rule::new(scope, name)).await.unwrap();
        assert_eq!(store.admit_all().await, 2);
        let rest = store.take(node, 10).await;
        assert_eq!(ids(&rest), sent[3..]);
        let running: Vec<_> = first[1..].iter().chain(&second).chain(&rest).cloned().collect();
        assert_eq!(store.complete(node, &fences(&running)).await.unwrap().len(), 4);
        sound(&store).await;
    }
}

/// Jobs that no rule covers are claimed ahead of those that wait, and need no admission.
pub(crate) async fn others_pass<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Tenant, "acme").running(0)).await.unwrap();
    store.send_all(jobs(5).into_iter().map(|job| job.tenant("acme"))).await;
    let free = store.send_all([job(), job().tenant("other")]).await;
    assert_eq!(ids(&store.take(node, 10).await), free);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
}

/// One rule for all names without a rule of their own, counted separately for each.
pub(crate) async fn each_by_itself<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Tenant, "*").running(1)).await.unwrap();
    store.put_rule(&Rule::new(Scope::Tenant, "big").running(3)).await.unwrap();
    for tenant in ["a", "b", "big"] {
        store.send_all(jobs(4).into_iter().map(|job| job.tenant(tenant))).await;
    }
    assert_eq!(store.admit_all().await, 5);
    let mut running: Vec<_> = store.take(node, 20).await.into_iter().filter_map(|job| job.options.tenant).collect();
    running.sort_unstable();
    assert_eq!(running, ["a", "b", "big", "big", "big"]);
    sound(&store).await;
}

/// A pause of all also pauses names that have rules of their own.
pub(crate) async fn a_pause_of_all_is_one_of_all<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for own in [
        Rule::new(Scope::Queue, "default").depth(100),
        Rule::new(Scope::Queue, "default").running(2),
        Rule::new(Scope::Kind, "kind").running(2),
        Rule::new(Scope::Tenant, "acme").running(2),
    ] {
        let (scope, limited) = (own.scope, own.running.is_some());
        store.put_rule(&own).await.unwrap();
        store.put_rule(&Rule::new(scope, "*").paused(true)).await.unwrap();
        let sent = store.send_all(jobs(3).into_iter().map(|job| job.tenant("acme"))).await;
        assert_eq!(store.admit_all().await, 0, "{scope}");
        assert!(store.take(node, 10).await.is_empty(), "{scope}");
        sound(&store).await;

        // Its end leaves the other rules in place.
        store.put_rule(&Rule::new(scope, "*")).await.unwrap();
        store.admit_all().await;
        let mut running = store.take(node, 10).await;
        assert_eq!(ids(&running), if limited { &sent[..2] } else { &sent[..] }, "{scope}");
        store.put_rule(&Rule::new(scope, own.name)).await.unwrap();
        store.admit_all().await;
        running.extend(store.take(node, 10).await);
        assert_eq!(store.complete(node, &fences(&running)).await.unwrap().len(), 3);
        sound(&store).await;
    }
}

/// Running jobs count under a new limit, however they were started.
pub(crate) async fn a_new_limit_counts_running_jobs<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(2)).await;
    let running = store.take(node, 2).await;
    store.send(job()).await;
    store.hand_out("default", 1, LATER, hand_out_number()).await.unwrap();
    store.put_rule(&Rule::new(Scope::Kind, "kind").running(3)).await.unwrap();
    store.send_all(jobs(2)).await;
    assert_eq!(store.admit_all().await, 0, "three run already");
    store.finish(node, &running[0]).await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take(node, 10).await.len(), 1);
    // More permits, while it runs.
    store.put_rule(&Rule::new(Scope::Kind, "kind").running(4)).await.unwrap();
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// No more jobs start than the rate allows, and the rest start when their time has come.
pub(crate) async fn a_rate_bounds_starts<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Queue, "default").rate(3, DAY)).await.unwrap();
    store.send_all(jobs(5)).await;
    assert_eq!(store.admit_all().await, 3);
    let claimed = store.take(node, 10).await;
    assert_eq!(claimed.len(), 3);
    for job in &claimed {
        store.finish(node, job).await;
    }
    assert_eq!(store.admit_all().await, 0, "the end of a job is no start");
    let next = store.admit_once().await.next.expect("it opens by itself");
    assert!(next + Duration::from_secs(600) > DAY && next <= DAY, "{next:?}");
    // A higher rate takes effect at once.
    store.put_rule(&Rule::new(Scope::Queue, "default").rate(4, DAY)).await.unwrap();
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// Nothing of a paused queue, kind, tenant, key or group starts: neither waiting jobs, nor later ones, nor those admitted before.
pub(crate) async fn paused<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let make = || job().tenant("acme").limit_key("printer").exclusive("g");
    for (scope, name) in [
        (Scope::Queue, "default"),
        (Scope::Kind, "kind"),
        (Scope::Tenant, "acme"),
        (Scope::Key, "printer"),
        (Scope::Group, "g"),
    ] {
        let before = store.send(make()).await;
        assert_eq!(store.admit_all().await, 1);
        store.put_rule(&Rule::new(scope, name).paused(true)).await.unwrap();
        let after = store.send(make()).await;
        store.admit_all().await;
        assert!(store.take(node, 10).await.is_empty(), "{scope}");
        assert!(store.hand_out("default", 10, LATER, hand_out_number()).await.unwrap().is_empty(), "{scope}");
        sound(&store).await;

        store.put_rule(&Rule::new(scope, name)).await.unwrap();
        for id in [before, after] {
            store.admit_all().await;
            let claimed = store.take(node, 10).await;
            assert_eq!(ids(&claimed), [id], "{scope}");
            store.finish(node, &claimed[0]).await;
        }
        sound(&store).await;
    }
}

/// A queue's permits go to the tenant with the fewest for its weight, whatever number of jobs the others send.
pub(crate) async fn shares_by_weight<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let rule = Rule::new(Scope::Queue, "default").running(4).shares(ShareBy::Tenant, [("big".to_owned(), 3)]);
    store.put_rule(&rule).await.unwrap();
    store.send_all(jobs(20).into_iter().map(|job| job.tenant("greedy").priority(9))).await;
    store.send_all(jobs(20).into_iter().map(|job| job.tenant("big"))).await;
    assert_eq!(store.admit_all().await, 4);
    // As long as both have waiting jobs.
    for _ in 0..6 {
        let claimed = store.take(node, 10).await;
        let big = claimed.iter().filter(|job| job.options.tenant.as_deref() == Some("big")).count();
        assert_eq!((claimed.len(), big), (4, 3));
        sound(&store).await;
        for job in &claimed {
            store.finish(node, job).await;
        }
        store.admit_all().await;
    }
}

/// A job that has waited long goes before younger ones of a higher priority, whether it waits or is blocked on its queue's limit.
pub(crate) async fn long_waiting_jobs_gain_priority<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for limit in [None, Some(1)] {
        let mut rule = Rule::new(Scope::Queue, "default").aging(Duration::from_secs(60));
        rule.running = limit;
        store.put_rule(&rule).await.unwrap();
        let old = store.send(job()).await;
        let young = store.send(job().priority(3)).await;
        // One that runs, so that both are blocked on the key.
        let mut first = None;
        if limit.is_some() {
            let id = store.send(job().priority(9)).await;
            assert_eq!(store.admit_all().await, 1);
            first = Some(store.take_one(node).await);
            assert_eq!(first.as_ref().map(|job| job.id), Some(id));
        }
        assert_eq!(store.age_jobs(100).await.unwrap(), 0, "nobody has waited for long");
        db.date_back(old, Duration::from_secs(60 * 5)).await;
        assert_eq!(store.age_jobs(100).await.unwrap(), 1);
        assert_eq!(store.age_jobs(100).await.unwrap(), 0, "five minutes are five priorities, once");
        let row = store.detail(old).await;
        assert_eq!(row.summary.priority, 5);
        if let Some(first) = first {
            store.finish(node, &first).await;
            assert_eq!(store.admit_all().await, 1);
        }
        let claimed = store.take_one(node).await;
        assert_eq!(claimed.id, old);
        store.finish(node, &claimed).await;
        store.admit_all().await;
        let claimed = store.take_one(node).await;
        assert_eq!(claimed.id, young);
        store.finish(node, &claimed).await;
        sound(&store).await;
    }
}

/// A delivery that comes before the admission is dropped, so the row is not hidden for it any longer.
pub(crate) async fn an_admitted_job_is_not_held_for_its_delivery<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Kind, "kind").running(1)).await.unwrap();
    let sent = hidden_rows::send(&store, &[held(job()), held(job())]).await;
    let delivery = Fence::new(sent[0], 0);
    assert!(
        store.claim_delivered(node, claim_number(), &[delivery], None).await.unwrap().is_empty(),
        "it was not admitted"
    );
    assert_eq!(store.admit_all().await, 1);
    let claimed = store.take(node, 10).await;
    assert_eq!(ids(&claimed), sent[..1]);
    store.finish(node, &claimed[0]).await;
    assert_eq!(store.admit_all().await, 1);
    let late = Fence::new(sent[1], 0);
    assert_eq!(
        ids(&store.claim_delivered(node, claim_number(), &[late], None).await.unwrap()),
        sent[1..],
        "a delivery that comes later counts"
    );
    sound(&store).await;
}

/// Each change applies to the present rule, not to the rule that the caller read.
pub(crate) async fn changes_of_a_rule_do_not_undo_each_other<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let store = store.0.clone();
        tasks.spawn(async move {
            let edit: RuleEdit = match n {
                0 => Box::new(|rule| rule.paused = true),
                _ => Box::new(|rule| rule.running = Some(rule.running.unwrap_or(0) + 1)),
            };
            store.change_rule(Scope::Queue, "default", edit, None).await.unwrap()
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(store.rules().await.unwrap(), [Rule::new(Scope::Queue, "default").running(19).paused(true)]);
    let refused = store.change_rule(Scope::Group, "g", Box::new(|rule| rule.running = Some(1)), None).await;
    assert!(refused.unwrap_err().is_invalid());
    let renamed =
        store.change_rule(Scope::Queue, "default", Box::new(|rule| rule.name = "x".into()), None).await.unwrap();
    assert_eq!((renamed.name.as_str(), renamed.running), ("default", Some(19)), "another rule is not its business");
    let emptied = Box::new(|rule: &mut Rule| *rule = Rule::new(Scope::Queue, "default"));
    store.change_rule(Scope::Queue, "default", emptied, None).await.unwrap();
    assert_eq!(store.rules().await.unwrap(), [], "one that asks for nothing is not kept");
}

pub(crate) async fn rules_are_kept<T: TestDb>(db: &T) {
    let store = db.jobs();
    let full = Rule::new(Scope::Queue, "default")
        .running(4)
        .rate(100, Duration::from_secs(1))
        .aging(Duration::from_secs(60))
        .depth(1_000)
        .shares(ShareBy::Kind, [("a".to_owned(), 2)])
        .paused(true);
    let other = Rule::new(Scope::Tenant, "*").running(1);
    store.put_rule(&other).await.unwrap();
    store.put_rule(&full).await.unwrap();
    assert_eq!(store.rules().await.unwrap(), [full.clone(), other.clone()]);
    store.put_rule(&Rule::new(Scope::Queue, "default").running(1)).await.unwrap();
    assert_eq!(store.rules().await.unwrap()[0], Rule::new(Scope::Queue, "default").running(1));
    store.put_rule(&Rule::new(Scope::Queue, "default")).await.unwrap();
    assert_eq!(store.rules().await.unwrap(), [other]);
    for bad in [
        Rule::new(Scope::Group, "g").running(1),
        Rule::new(Scope::Kind, "k").depth(1),
        Rule::new(Scope::Queue, "q").shares(ShareBy::Kind, []),
        Rule::new(Scope::Queue, ""),
        Rule::new(Scope::Queue, "q").rate(0, DAY),
    ] {
        let error = store.put_rule(&bad).await.unwrap_err();
        assert!(error.to_string().contains("the rule for"), "{error}");
    }
    assert_eq!(store.rules().await.unwrap().len(), 1);
}
