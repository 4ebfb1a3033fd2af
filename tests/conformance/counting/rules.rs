//! Rules that change while jobs run, and rules beside which claims count nothing.

use super::*;

/// Under the rule of all kinds, claims that count would be as many as there are kinds: rounds admit, as without.
pub(crate) async fn not_under_the_rule_of_all_kinds<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    rule(&store, Rule::new(Scope::Kind, "*").running(2)).await;
    rule(&store, Rule::new(Scope::Queue, "default").running(5)).await;
    store.send_all(jobs(9)).await;
    let queue = [limit(Scope::Queue, 0)];
    assert_eq!(claim(&store, node, 9, &queue).await.jobs.len(), 0);
    assert_eq!(round(&store).await, 2);
    let admitted = claim(&store, node, 9, &queue).await.jobs;
    assert_eq!(admitted.iter().map(|job| job.admitted).collect::<Vec<_>>(), [true, true]);
    assert_eq!(claim(&store, node, 9, &queue).await.jobs.len(), 0);
    sound(&store).await;
}

/// Jobs that ran under a limit which claims counted still count when the rules say otherwise, and are counted once.
pub(crate) async fn other_rules_count_what_runs<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let queue = |running| [limit(Scope::Queue, running)];
    rule(&store, Rule::new(Scope::Queue, "default").running(3)).await;
    store.send_all(jobs(20)).await;
    assert_eq!(claim(&store, node, 2, &queue(0)).await.jobs.len(), 2);
    // Of all, which does not hold for a queue that has one of its own: nothing changes.
    rule(&store, Rule::new(Scope::Queue, "*").paused(true)).await;
    rule(&store, Rule::new(Scope::Queue, "*")).await;
    let third = claim(&store, node, 8, &queue(2)).await;
    assert_eq!(
        third.allowed,
        Some(Allowed { jobs: 1, waits: true, written: true, ..Allowed::default() }),
        "two run, and nothing is counted anew"
    );
    // With shares, rounds count.
    rule(&store, Rule::new(Scope::Queue, "default").running(4).shares(ShareBy::Tenant, [])).await;
    assert_eq!(slots(db).await, 3);
    assert_eq!(round(&store).await, 1);
    sound(&store).await;
    // And claims again, with what holds slots.
    rule(&store, Rule::new(Scope::Queue, "default").running(6)).await;
    assert_eq!(claim(&store, node, 0, &queue(3)).await.allowed.map(|allowed| allowed.anew), Some(vec![0]));
    assert_eq!(round(&store).await, 2, "four hold slots, and the others wait at the gate");
    // A limit of another sort: rounds admit whatever is limited, and count what runs.
    rule(&store, Rule::new(Scope::Tenant, "*").running(1)).await;
    assert_eq!(slots(db).await, 6);
    rule(&store, Rule::new(Scope::Queue, "default").running(7)).await;
    assert_eq!(round(&store).await, 1);
    assert_eq!(claim(&store, node, 8, &queue(0)).await.jobs.iter().filter(|job| !job.admitted).count(), 0);
    sound(&store).await;
}

/// Jobs that run when a limit comes count, once; and so they do when it goes and comes again, or changes.
pub(crate) async fn rules_that_come_and_go<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(20)).await;
    assert_eq!(store.take(node, 2).await.len(), 2);
    of_kind(&store, 5).await;
    assert_eq!(taken(&store, node, 8, 0).await, 3, "two ran before");
    of_kind(&store, 6).await;
    assert_eq!(taken(&store, node, 8, 3).await, 1, "and all of them are counted once");
    rule(&store, Rule::new(Scope::Kind, "kind")).await;
    of_kind(&store, 8).await;
    let anew = claim(&store, node, 8, &[limit(Scope::Kind, 4)]).await;
    assert_eq!(
        anew.allowed,
        Some(Allowed { jobs: 2, anew: vec![0], waits: true, written: true, ..Allowed::default() }),
        "six run"
    );
    assert_eq!(taken(&store, node, 8, 2).await, 0);
    assert_eq!(taken(&store, node, 8, 1).await, 1);
    // Shares are weighed by rounds: a claim takes what those admitted.
    rule(&store, Rule::new(Scope::Kind, "kind")).await;
    rule(&store, Rule::new(Scope::Queue, "default").running(20).shares(ShareBy::Tenant, [])).await;
    let queue = [limit(Scope::Queue, 0)];
    assert_eq!(claim(&store, node, 8, &queue).await.jobs.len(), 0);
    let admitted = store.admit_all().await;
    assert!(admitted > 0);
    assert_eq!(claim(&store, node, 50, &queue).await.jobs.len() as u64, admitted);
    sound(&store).await;
}

/// Between the commit of a rule and the moment at which what runs gets slots, a claim may count already.
pub(crate) async fn what_ran_before_is_found_after_a_claim_that_counted<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(20)).await;
    assert_eq!(store.take(node, 2).await.len(), 2);
    db.raw("insert into {schema}.rule (scope, name, paused, running) values ('kind', 'kind', false, 4)").await;
    assert_eq!(taken(&store, node, 8, 0).await, 4);
    of_kind(&store, 5).await;
    assert_eq!(slots(db).await, 2, "not those that are counted");
    assert_eq!(taken(&store, node, 8, 3).await, 0);
    assert_eq!(taken(&store, node, 8, 2).await, 1);
    sound(&store).await;
}
