//! The next job of a group is claimed with the end of the one before it.

use std::time::Duration;

use jobwright::store::{HandedOn, HistoryFilter, JobFilter, JobState, Rule, Scope, Verdict};
use jobwright::{Fence, Job, JobId, Keep, NewJob, NodeId};

use crate::groups::sound;
use crate::support::jobs::{LATER, claim_number, ids, job, set};
use crate::support::postgres::Pg;
use crate::support::{Jobs, SqlDb as _, TestDb as _};

async fn hand_on(store: &Jobs, node: NodeId, done: &[Job]) -> HandedOn {
    let fences: Vec<Fence> = done.iter().map(Job::fence).collect();
    store.hand_on(node, claim_number(), &fences, &["kind".to_owned()]).await.unwrap()
}

/// The first of a group runs, and the others wait for it.
async fn begun(store: &Jobs, node: NodeId, others: Vec<NewJob>) -> (Job, Vec<JobId>) {
    let first = store.send(job().exclusive("g")).await;
    store.admit_all().await;
    let taken = store.take_one(node).await;
    assert_eq!(taken.id, first);
    (taken, store.send_all(others).await)
}

pub(crate) async fn one_after_the_other<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let waiting = vec![job().exclusive("g"), job().exclusive("g").priority(5)];
    let (first, others) = begun(&store, node, waiting).await;
    let handed = hand_on(&store, node, std::slice::from_ref(&first)).await;
    assert_eq!((handed.accepted, ids(&handed.next)), (vec![first.id], vec![others[1]]), "the best is next");
    let next = &handed.next[0];
    assert_eq!((next.attempt, next.admitted, next.queue.as_str()), (1, true, "default"));
    assert_eq!(store.detail(next.id).await.summary.owner, Some(node));
    assert_eq!(store.admit_all().await, 0, "the group is taken");
    assert_eq!(store.take(node, 10).await.len(), 0);
    sound(&store).await;

    let handed = hand_on(&store, node, &handed.next).await;
    assert_eq!(ids(&handed.next), [others[0]]);
    let last = hand_on(&store, node, &handed.next).await;
    assert_eq!((last.accepted, last.next.len()), (vec![others[0]], 0));
    assert_eq!(store.all().await.len(), 0);
    sound(&store).await;
    let again = store.send(job().exclusive("g")).await;
    assert_eq!(store.admit_all().await, 1, "the group is free");
    assert_eq!(store.take_one(node).await.id, again);
}

/// It can fail, be given back, or be cancelled, as any job that was admitted and claimed.
pub(crate) async fn what_was_handed_on_is_like_any_other<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    for verdict in [Verdict::Retry(Duration::ZERO), Verdict::Release, Verdict::Cancel, Verdict::Dead] {
        let (first, others) = begun(&store, node, vec![job().exclusive("g"), job().exclusive("g")]).await;
        let next = hand_on(&store, node, &[first]).await.next.remove(0);
        assert_eq!(next.id, others[0]);
        assert!(store.settle_one(node, next.fence(), verdict).await);
        sound(&store).await;
        store.promote().await;
        while let Some(left) = {
            store.admit_all().await;
            store.take(node, 1).await.pop()
        } {
            store.finish(node, &left).await;
        }
        sound(&store).await;
        store.cancel(&JobFilter::default(), false).await.unwrap();
    }
}

/// The group is free then, and a round looks.
pub(crate) async fn not_what_another_has_to_judge<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    for other in [job().exclusive("g").queue("elsewhere"), NewJob::json("other", &1).exclusive("g")] {
        let (first, others) = begun(&store, node, vec![other]).await;
        let handed = hand_on(&store, node, std::slice::from_ref(&first)).await;
        assert_eq!((handed.accepted, handed.next.len()), (vec![first.id], 0));
        assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
        assert_eq!(store.admit_all().await, 1);
        store.cancel(&JobFilter::default(), false).await.unwrap();
        sound(&store).await;
    }
    let (first, others) = begun(&store, node, vec![job().exclusive("g").ttl(LATER)]).await;
    db.change("update {}blocked_job set terms = terms || '{\"expires\": 1}'").await;
    assert_eq!(hand_on(&store, node, &[first]).await.next.len(), 0);
    assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
    store.cancel(&JobFilter::default(), false).await.unwrap();
    // Whatever the rule is about.
    store.put_rule(&Rule::new(Scope::Tenant, "nobody").running(1)).await.unwrap();
    let (first, others) = begun(&store, node, vec![job().exclusive("g")]).await;
    assert_eq!(hand_on(&store, node, &[first]).await.next.len(), 0);
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, others[0]);
    sound(&store).await;
}

/// Whoever has it in hand may take his time, and nobody waits for him.
pub(crate) async fn not_what_somebody_holds<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, vec![job().exclusive("g"), job().exclusive("g")]).await;
    let held = db.hold(&format!("select from {{schema}}.blocked_job where id = '{}' for update", others[0])).await;
    let handed = hand_on(&store, node, std::slice::from_ref(&first)).await;
    assert_eq!((handed.accepted, handed.next.len()), (vec![first.id], 0), "nor is it passed by the one behind it");
    held.commit().await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, others[0]);
    sound(&store).await;
}

/// An outcome that is refused hands nothing on, and neither does a node that others gave up.
pub(crate) async fn not_to_who_has_lost_it<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, vec![job().exclusive("g")]).await;
    assert!(store.settle_one(node, first.fence(), Verdict::Release).await);
    let handed = hand_on(&store, node, std::slice::from_ref(&first)).await;
    assert_eq!((handed.accepted.len(), handed.next.len()), (0, 0));
    assert_eq!(store.admit_all().await, 0, "it holds its group");
    let again = store.take_one(node).await;
    assert_eq!(again.id, first.id);
    let mut old = again.clone();
    old.version = first.version;
    let handed = hand_on(&store, node, &[old]).await;
    assert_eq!((handed.accepted.len(), handed.next.len()), (0, 0), "by an old claim, even if it knew where the row is");
    db.bury(node).await;
    let handed = hand_on(&store, node, std::slice::from_ref(&again)).await;
    assert_eq!(handed.next.len(), 0);
    assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
    sound(&store).await;
}

/// Somebody's own SQL put the next one into the queue as well. It is dropped there, as a round would drop it, and its group goes on.
pub(crate) async fn an_id_in_two_tables_keeps_no_group<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, vec![job().exclusive("g"), job().exclusive("g")]).await;
    db.raw(&format!(
        "insert into {{schema}}.job (id, kind, queue, rank, max_attempts, payload) values ('{}', 'kind', 'aside', 0, 1, '1')",
        others[0]
    ))
    .await;
    let handed = hand_on(&store, node, std::slice::from_ref(&first)).await;
    assert_eq!((handed.accepted, handed.next.len()), (vec![first.id], 0));
    store.admit_all().await;
    assert_eq!(ids(&store.take(node, 10).await), [others[1]]);
    sound(&store).await;
}

/// Nobody heard that it was claimed.
pub(crate) async fn unheard_it_is_given_back<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, vec![job().exclusive("g"), job().exclusive("g")]).await;
    hand_on(&store, node, &[first]).await;
    assert_eq!(store.release_unknown(node, &[], None).await.unwrap(), 1);
    assert_eq!(store.admit_all().await, 0, "it holds its group");
    let again = store.take(node, 10).await;
    assert_eq!((ids(&again), again[0].attempt), (vec![others[0]], 1));
    sound(&store).await;
}

/// Two hundred groups at once, of which some have nobody who waits: none is lost, and none is taken twice.
pub(crate) async fn many_at_once<const POOLED: bool>(db: &Pg<POOLED>) {
    const GROUPS: usize = 200;
    let place = db.remembering(Keep::All).await;
    let store = Jobs(jobwright::store::Store::jobs(&place));
    let node = store.node().await;
    let sent = store.send_all((0..GROUPS * 5 / 2).map(|n| job().exclusive(format!("g{}", n % GROUPS)))).await;
    let mut ended = Vec::new();
    store.admit_all().await;
    let mut hand = store.take(node, 1000).await;
    assert_eq!(hand.len(), GROUPS);
    for left in [GROUPS, GROUPS / 2, 0] {
        let handed = hand_on(&store, node, &hand).await;
        assert_eq!(set(handed.accepted.iter().copied()), set(ids(&hand)));
        assert_eq!(handed.next.len(), left);
        sound(&store).await;
        ended.extend(handed.accepted);
        hand = handed.next;
    }
    assert_eq!(set(ended), set(sent));
    assert_eq!(store.admit_all().await, 0);
    let history = store.history(&HistoryFilter::default(), 1000).await.unwrap();
    assert_eq!(history.len(), GROUPS * 5 / 2);
}
