//! Suspects in groups, under rules, and in the hands of operators.

use jobwright::NewJob;
use jobwright::admin::{JobFilter, Rule, Scope};
use jobwright::internal::Action;
use jobwright::internal::engine::{OperatorOptions, Reconciled, Verdict};

use crate::conformance::groups::sound;
use crate::conformance::suspects::{TWICE, acquit, dies_with, suspected, suspects, take_suspect};
use crate::support::jobs::{job, jobs};
use crate::support::{SqlDb, TestDb};

/// A person knows that the machine is gone, and no job is to blame for it.
pub(crate) async fn jobs_of_an_evicted_node_are_no_suspects<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 1).await;
    let ordinary = store.send(job()).await;
    for _ in 0..3 {
        let node = store.node().await;
        take_suspect(&store, node).await.unwrap();
        store.evict(node, Some("ann")).await.unwrap().unwrap();
        store.release_lost(100, TWICE).await.unwrap();
    }
    assert_eq!(suspects(&store).await, sent, "it is one still");
    let node = store.node().await;
    store.take_one(node).await;
    store.evict(node, Some("ann")).await.unwrap().unwrap();
    store.release_lost(100, TWICE).await.unwrap();
    let other = store.node().await;
    assert_eq!(store.take_one(other).await.id, ordinary);
}

/// It keeps its group, and no admission pass starts it.
pub(crate) async fn one_of_a_group_keeps_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    for ordered in [false, true] {
        let group = |job: NewJob| if ordered { job.ordered("g") } else { job.exclusive("g") };
        let sent = store.send_all(jobs(2).into_iter().map(group)).await;
        store.admit_all().await;
        dies_with(db, &store, 1).await;
        assert_eq!(store.admit_all().await, 0);
        sound(&store).await;
        assert_eq!(suspects(&store).await, sent[..1]);
        let node = store.node().await;
        assert!(store.take(node, 10).await.is_empty());
        let first = take_suspect(&store, node).await.unwrap();
        assert_eq!(first.id, sent[0]);
        sound(&store).await;
        assert!(store.settle_one(node, first.fence(), Verdict::Release).await);
        assert_eq!(store.admit_all().await, 0);
        let first = take_suspect(&store, node).await.unwrap();
        store.finish(node, &first).await;
        assert_eq!(store.admit_all().await, 1);
        let next = store.take_one(node).await;
        assert_eq!(next.id, sent[1]);
        store.finish(node, &next).await;
        sound(&store).await;
    }
}

/// Rules hold for them too, and so does the reconciliation of permits: a suspect waits for no key.
pub(crate) async fn a_pause_holds_them_too<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 1).await;
    let node = store.node().await;
    for (scope, name) in [(Scope::Queue, "default"), (Scope::Kind, "kind")] {
        store.put_rule(&Rule::new(scope, name).paused(true)).await.unwrap();
        assert!(take_suspect(&store, node).await.is_none());
        store.put_rule(&Rule::new(scope, name)).await.unwrap();
    }
    store.admit_all().await;
    store.reconcile(&Reconciled::default()).await.unwrap();
    store.admit_all().await;
    sound(&store).await;
    assert_eq!(suspects(&store).await, sent);
    assert_eq!(take_suspect(&store, node).await.map(|job| job.id), Some(sent[0]));
}

/// An operator may suspend it, and it is no suspect when it comes back. It may be cancelled too.
pub(crate) async fn an_operator_may_have_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 2).await;
    let one = JobFilter::ids([sent[0]]);
    store.operate(&one, &Action::Suspend, OperatorOptions::UNNAMED).await.unwrap();
    assert_eq!(suspects(&store).await, sent[1..]);
    store.operate(&one, &Action::Resume, OperatorOptions::UNNAMED).await.unwrap();
    let node = store.node().await;
    assert_eq!(store.take_one(node).await.id, sent[0]);
    store.cancel(&JobFilter::ids([sent[1]]), false).await.unwrap();
    assert!(suspects(&store).await.is_empty());
    sound(&store).await;
}

/// A limit is set while it waits, and only an admission pass counts it: acquitted, it gets its permit. It keeps that as a suspect.
pub(crate) async fn a_suspect_that_needs_permits_is_reported_as_such<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().tenant("acme")).await;
    dies_with(db, &store, 1).await;
    let kinds = ["kind".to_owned()];
    let needs_permits = async || {
        let found = store.suspects(&["default".to_owned()], Some(&kinds), 9).await.unwrap();
        assert_eq!(found.len(), 1);
        found[0].needs_permits
    };
    assert!(!needs_permits().await);
    store.put_rule(&Rule::new(Scope::Tenant, "acme").running(1)).await.unwrap();
    assert!(needs_permits().await);
    let node = store.node().await;
    assert!(take_suspect(&store, node).await.is_none());
    assert_eq!(acquit(&store, &[id]).await, ["default"]);
    assert_eq!(store.admit_all().await, 1);
    dies_with(db, &store, 1).await;
    assert!(!needs_permits().await);
    sound(&store).await;
    let claimed = take_suspect(&store, node).await.unwrap();
    assert_eq!(claimed.id, id);
    store.finish(node, &claimed).await;
    sound(&store).await;
}

/// Nodes do not empty themselves for suspects that may not start anyway.
pub(crate) async fn only_those_that_may_start_are_found<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all([job().tenant("acme"), job()]).await;
    dies_with(db, &store, 2).await;
    for rule in [
        Rule::new(Scope::Queue, "default").paused(true),
        Rule::new(Scope::Queue, "*").paused(true),
        Rule::new(Scope::Kind, "kind").paused(true),
        Rule::new(Scope::Kind, "kind").running(0),
    ] {
        store.put_rule(&rule).await.unwrap();
        assert!(suspects(&store).await.is_empty(), "{rule:?}");
        store.put_rule(&Rule::new(rule.scope, rule.name)).await.unwrap();
        assert_eq!(suspects(&store).await, sent);
    }
    store.put_rule(&Rule::new(Scope::Tenant, "acme").paused(true)).await.unwrap();
    assert_eq!(suspects(&store).await, sent[1..]);
}

/// Anyone who may send may write one.
pub(crate) async fn an_unblock_of_their_key_admits_none<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 2).await;
    db.change("insert into {}unblock (key) values ('alone')").await;
    assert_eq!(store.admit_all().await, 0);
    assert_eq!(suspects(&store).await, sent);
    assert_eq!(store.overdue_unblocks().await.unwrap().unblocks, 0, "it was looked at");
    sound(&store).await;
}

/// A new limit counts those that run, and those that wait and were admitted.
pub(crate) async fn a_new_limit_counts_them<T: TestDb>(db: &T) {
    let store = db.jobs();
    let limit = Rule::new(Scope::Tenant, "acme").running(1);
    store.send(job().tenant("acme").exclusive("g")).await;
    assert_eq!(store.admit_all().await, 1);
    dies_with(db, &store, 1).await;
    store.put_rule(&limit).await.unwrap();
    store.send(job().tenant("acme")).await;
    assert_eq!(store.admit_all().await, 0, "one was admitted that waits");
    sound(&store).await;
    let node = store.node().await;
    let first = take_suspect(&store, node).await.unwrap();
    assert_eq!(store.admit_all().await, 0);
    store.finish(node, &first).await;
    assert_eq!(store.admit_all().await, 1);
    store.put_rule(&Rule::new(Scope::Tenant, "acme")).await.unwrap();

    dies_with(db, &store, 1).await;
    let second = take_suspect(&store, node).await.unwrap();
    store.put_rule(&limit).await.unwrap();
    store.send(job().tenant("acme")).await;
    assert_eq!(store.admit_all().await, 0, "one runs");
    sound(&store).await;
    store.finish(node, &second).await;
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}
