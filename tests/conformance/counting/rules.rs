//! Rules that change while jobs run, and rules beside which claims do not count.

use super::*;

/// Under the rule of all kinds, a counting claim would be needed for each kind, so admission passes count instead.
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

/// Jobs that started under a limit that claims count still count, once, when other rules apply.
pub(crate) async fn other_rules_count_running_jobs<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let queue = |running| [limit(Scope::Queue, running)];
    rule(&store, Rule::new(Scope::Queue, "default").running(3)).await;
    store.send_all(jobs(20)).await;
    assert_eq!(claim(&store, node, 2, &queue(0)).await.jobs.len(), 2);
    // The rule of all queues does not apply to a queue with a rule of its own: nothing changes.
    rule(&store, Rule::new(Scope::Queue, "*").paused(true)).await;
    rule(&store, Rule::new(Scope::Queue, "*")).await;
    // Nor does a limit of another queue.
    rule(&store, Rule::new(Scope::Queue, "elsewhere").running(1)).await;
    assert_eq!(permits(db).await, 0, "claims no longer count what they counted");
    let third = claim(&store, node, 8, &queue(2)).await;
    assert_eq!(
        third.allowed,
        Some(Allowed { jobs: 1, waits: true, written: true, ..Allowed::default() }),
        "two run, and nothing is counted anew"
    );
    // With shares, admission passes count.
    rule(&store, Rule::new(Scope::Queue, "default").running(4).shares(ShareBy::Tenant, [])).await;
    assert_eq!(permits(db).await, 3);
    assert_eq!(round(&store).await, 1);
    sound(&store).await;
    // Claims count again, together with the jobs that hold permits.
    rule(&store, Rule::new(Scope::Queue, "default").running(6)).await;
    assert_eq!(claim(&store, node, 0, &queue(3)).await.allowed.map(|allowed| allowed.recount), Some(vec![0]));
    assert_eq!(round(&store).await, 2, "four hold permits, and the others wait for the key");
    // With a limit of another scope, admission passes admit all limited jobs, and count those that run.
    rule(&store, Rule::new(Scope::Tenant, "*").running(1)).await;
    assert_eq!(permits(db).await, 6);
    rule(&store, Rule::new(Scope::Queue, "default").running(7)).await;
    assert_eq!(round(&store).await, 1);
    assert_eq!(claim(&store, node, 8, &queue(0)).await.jobs.iter().filter(|job| !job.admitted).count(), 0);
    sound(&store).await;
}

/// Jobs that run when a limit is set count once, also when it is removed and set again, or changed.
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
        Some(Allowed { jobs: 2, recount: vec![0], permits: true, waits: true, written: true, ..Allowed::default() }),
        "six run"
    );
    assert_eq!(taken(&store, node, 8, 2).await, 0);
    assert_eq!(taken(&store, node, 8, 1).await, 1);
    // Shares are weighed by admission passes: a claim takes the jobs these admitted.
    rule(&store, Rule::new(Scope::Kind, "kind")).await;
    rule(&store, Rule::new(Scope::Queue, "default").running(20).shares(ShareBy::Tenant, [])).await;
    let queue = [limit(Scope::Queue, 0)];
    assert_eq!(claim(&store, node, 8, &queue).await.jobs.len(), 0);
    let admitted = store.admit_all().await;
    assert!(admitted > 0);
    assert_eq!(claim(&store, node, 50, &queue).await.jobs.len() as u64, admitted);
    sound(&store).await;
}

/// A claim may count already between the commit of a rule and the moment when running jobs get their permits.
pub(crate) async fn earlier_running_jobs_are_found_after_a_counting_claim<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(20)).await;
    assert_eq!(store.take(node, 2).await.len(), 2);
    db.raw("insert into {schema}.rule (scope, name, paused, running) values ('kind', 'kind', false, 4)").await;
    assert_eq!(taken(&store, node, 8, 0).await, 4);
    of_kind(&store, 5).await;
    assert_eq!(permits(db).await, 2, "not those that are counted");
    assert_eq!(taken(&store, node, 8, 3).await, 0);
    assert_eq!(taken(&store, node, 8, 2).await, 1);
    sound(&store).await;
}
