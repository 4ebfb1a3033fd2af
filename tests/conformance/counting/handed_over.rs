//! A change of the rules hands the counts of running jobs from claims to permits. Meanwhile the change waits for claims under way, such as a
//! commit that starts a job, and the limits hold.

use std::time::Duration;

use jobwright::Result;

use super::*;
use crate::support::eventually;
use crate::support::postgres::Held;

const SOON: Duration = Duration::from_secs(30);

/// Sets a rule in a task of its own, and waits until it is committed.
async fn changing(store: &Jobs, new: Rule) -> tokio::task::JoinHandle<Result<()>> {
    let before = store.rules().await.unwrap();
    let task = tokio::spawn({
        let (store, new) = (store.clone(), new);
        async move { store.put_rule(&new).await }
    });
    eventually(SOON, async || store.rules().await.unwrap() != before).await;
    task
}

/// Starts three of twelve jobs under a limit of three, and begins a commit that may start another one.
async fn three_of_twelve_run<const POOLED: bool>(db: &Pg<POOLED>, store: &Jobs, node: NodeId) -> Held {
    of_kind(store, 3).await;
    store.send_all(jobs(12)).await;
    assert_eq!(taken(store, node, 3, 0).await, 3);
    db.hold(&format!("select {{schema}}.hold_node({node})")).await
}

/// The limits of jobs that run are kept while a rule of another sort is put beside theirs.
pub(crate) async fn running_jobs_count_while_another_rule_is_set<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let commit = three_of_twelve_run(db, &store, node).await;
    let change = changing(&store, Rule::new(Scope::Tenant, "*").running(50)).await;
    assert_eq!(round(&store).await, 0, "three run under a limit of three");
    assert_eq!(taken(&store, node, 3, 3).await, 0);
    assert!(!change.is_finished(), "it waits for the commit");
    commit.release().await;
    change.await.unwrap().unwrap();
    assert_eq!((permits(db).await, round(&store).await), (3, 0));
    sound(&store).await;
}

/// The same where the process that changed the rule died in between: another one finishes the change.
pub(crate) async fn a_change_left_half_done_is_finished<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let commit = three_of_twelve_run(db, &store, node).await;
    changing(&store, Rule::new(Scope::Tenant, "*").running(50)).await.abort();
    let unfinished = async || {
        let request = AdmitRequest { limit: 100, queues: &[], kinds: None, counting: true };
        store.admit(&request).await.unwrap().unfinished
    };
    assert!(unfinished().await);
    store.finish_rule_change().await.unwrap();
    assert!(unfinished().await, "a commit is under way, which may start a job under the old rules");
    assert_eq!(round(&store).await, 0, "three run under a limit of three");
    commit.release().await;
    store.finish_rule_change().await.unwrap();
    assert!(!unfinished().await);
    assert_eq!((permits(db).await, round(&store).await), (3, 0));
    sound(&store).await;
}

/// A new limit counts what runs already from the commit on that sets it, and not only once claims under way have ended.
pub(crate) async fn running_jobs_count_as_soon_as_their_limit_is_set<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(12)).await;
    assert_eq!(store.take(node, 2).await.len(), 2);
    let commit = db.hold(&format!("select {{schema}}.hold_node({node})")).await;
    let change = changing(&store, Rule::new(Scope::Kind, "kind").running(2)).await;
    assert_eq!(taken(&store, node, 8, 0).await, 0, "two run under a limit of two");
    commit.release().await;
    change.await.unwrap().unwrap();
    assert_eq!(taken(&store, node, 8, 0).await, 0);
    sound(&store).await;
}
