//! A node goes on with a group: it claims the next jobs of it with the end of those before, and holds it by a lease meanwhile.

use std::time::Duration;

use jobwright::store::{
    GroupTurn, HandedOn, HistoryFilter, JobFilter, JobState, Removed, Rule, Scope, Store as _, UnitOfWork as _, Verdict,
};
use jobwright::{Fence, Job, JobId, Keep, NewJob, NodeId};

use crate::groups::sound;
use crate::support::jobs::{LATER, claim_number, ids, job, jobs, set};
use crate::support::postgres::Pg;
use crate::support::{Jobs, SqlDb as _, TestDb as _};

async fn go_on(store: &Jobs, node: NodeId, ended: &[Job], turns: &[GroupTurn]) -> HandedOn {
    let fences: Vec<Fence> = ended.iter().map(Job::fence).collect();
    store.hand_on(node, claim_number(), &fences, turns, &["kind".to_owned()]).await.unwrap()
}

/// The turn after a job that holds its group.
fn turn(job: &Job, wanted: usize) -> GroupTurn {
    GroupTurn::after_job(job.terms.group.clone().unwrap(), &job.queue, job.id, JobId::new()).wanted(wanted)
}

/// Goes on with the group of a job that has ended. What it handed on, and the turn as it is then.
async fn hand_on(store: &Jobs, node: NodeId, ended: &Job, wanted: usize) -> (HandedOn, GroupTurn) {
    let mut turn = turn(ended, wanted);
    let handed = go_on(store, node, std::slice::from_ref(ended), std::slice::from_ref(&turn)).await;
    if let Some(last) = handed.next.last() {
        turn.taken(last);
    }
    (handed, turn)
}

/// The first of a group runs, and the others wait for it.
async fn begun(store: &Jobs, node: NodeId, others: Vec<NewJob>) -> (Job, Vec<JobId>) {
    let first = store.send(job().exclusive("g")).await;
    store.admit_all().await;
    let taken = store.take_one(node).await;
    assert_eq!(taken.id, first);
    (taken, store.send_all(others).await)
}

fn several(count: usize) -> Vec<NewJob> {
    jobs(count).into_iter().map(|job| job.exclusive("g")).collect()
}

pub(crate) async fn one_after_the_other<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, vec![job().exclusive("g"), job().exclusive("g").priority(5)]).await;
    let (handed, mut turn) = hand_on(&store, node, &first, 1).await;
    assert_eq!((handed.accepted, ids(&handed.next)), (vec![first.id], vec![others[1]]), "the best is next");
    let next = &handed.next[0];
    assert_eq!((next.attempt, next.admitted, next.queue.as_str()), (1, false, "default"));
    assert_eq!(store.detail(next.id).await.summary.owner, Some(node));
    assert_eq!(store.detail(next.id).await.summary.state, JobState::Running);
    assert_eq!(store.admit_all().await, 0, "the group is taken");
    assert_eq!(store.take(node, 10).await.len(), 0);
    sound(&store).await;

    let second = go_on(&store, node, &handed.next, &[turn.clone()]).await;
    assert_eq!(ids(&second.next), [others[0]]);
    turn.taken(&second.next[0]);
    let last = go_on(&store, node, &second.next, &[turn]).await;
    assert_eq!((last.accepted, last.next.len()), (vec![others[0]], 0));
    assert_eq!(store.all().await.len(), 0);
    sound(&store).await;
    let again = store.send(job().exclusive("g")).await;
    assert_eq!(store.admit_all().await, 1, "the group is free");
    assert_eq!(store.take_one(node).await.id, again);
}

/// As many as are wanted, in their order, and they end together.
pub(crate) async fn several_at_once<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(5)).await;
    let (handed, mut turn) = hand_on(&store, node, &first, 3).await;
    assert_eq!(ids(&handed.next), others[..3]);
    assert_eq!(store.count(JobState::Blocked).await, 2);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
    // One of them ends earlier: the lease holds the group, and not a job.
    assert_eq!(store.complete(node, &[handed.next[0].fence()]).await.unwrap(), [others[0]]);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
    let rest = go_on(&store, node, &handed.next[1..], &[turn.clone()]).await;
    assert_eq!((rest.accepted.len(), ids(&rest.next)), (2, others[3..].to_vec()));
    // The turn ends though more may come.
    turn.taken(&rest.next[1]);
    let later = store.send(job().exclusive("g")).await;
    let end = go_on(&store, node, &rest.next, &[turn.wanted(0)]).await;
    assert_eq!((end.accepted.len(), end.next.len()), (2, 0));
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, later);
    sound(&store).await;
}

/// One that was tried before may have been with a process that died of it, or of another one in its line: it is alone. So is one that has but one attempt.
pub(crate) async fn only_fresh_ones_stand_in_line<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let waiting = vec![
        job().exclusive("g").priority(9),
        job().exclusive("g").priority(8).max_attempts(1),
        job().exclusive("g").priority(7),
        job().exclusive("g").priority(6),
    ];
    let (first, others) = begun(&store, node, waiting).await;
    db.set_counters(others[2], 5, 1).await;
    let (handed, mut turn) = hand_on(&store, node, &first, 10).await;
    let mut ended = handed.next;
    for alone in &others {
        assert_eq!(ids(&ended), [*alone]);
        let handed = go_on(&store, node, &ended, &[turn.clone()]).await;
        ended = handed.next;
        if let Some(last) = ended.last() {
            turn.taken(last);
        }
    }
    assert_eq!(store.all().await.len(), 0);
    sound(&store).await;
}

/// It can fail, be given back, or be cancelled, as any job that was claimed; its node holds the group until it says that it does not.
pub(crate) async fn what_was_handed_on_is_like_any_other<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    for verdict in [Verdict::Retry(Duration::ZERO), Verdict::Release, Verdict::Cancel, Verdict::Dead] {
        let (first, others) = begun(&store, node, several(2)).await;
        let (handed, turn) = hand_on(&store, node, &first, 1).await;
        let next = &handed.next[0];
        assert_eq!(next.id, others[0]);
        assert!(store.settle_one(node, next.fence(), verdict.clone()).await);
        store.promote().await;
        assert_eq!(store.admit_all().await, 0, "{verdict:?}: the lease holds the group");
        sound(&store).await;
        go_on(&store, node, &[], &[turn.wanted(0)]).await;
        while let Some(left) = {
            store.admit_all().await;
            store.take(node, 1).await.pop()
        } {
            assert_eq!(left.attempt, if left.id == others[0] && verdict != Verdict::Release { 2 } else { 1 });
            store.finish(node, &left).await;
        }
        sound(&store).await;
        store.cancel(&JobFilter::default(), false).await.unwrap();
    }
}

/// Whoever cancels one that runs frees nothing: its handler may go on for a while, and nobody but its node knows.
pub(crate) async fn a_cancelled_one_keeps_the_group<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(2)).await;
    let (handed, turn) = hand_on(&store, node, &first, 1).await;
    store.cancel(&JobFilter::ids([others[0]]), false).await.unwrap();
    assert_eq!(store.admit_all().await, 0);
    assert_eq!(store.handlers_ended(node, &[handed.next[0].fence()]).await.unwrap(), 0);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
    let next = go_on(&store, node, &handed.next, &[turn]).await;
    assert_eq!((next.accepted.len(), ids(&next.next)), (0, vec![others[1]]));
    sound(&store).await;
}

/// The group is free then, and a round looks.
pub(crate) async fn not_what_another_has_to_judge<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    for other in [job().exclusive("g").queue("elsewhere"), NewJob::json("other", &1).exclusive("g")] {
        let (first, others) = begun(&store, node, vec![other, job().exclusive("g")]).await;
        let (handed, _) = hand_on(&store, node, &first, 5).await;
        assert_eq!((handed.accepted, handed.next.len()), (vec![first.id], 0), "nor is it passed by the one behind it");
        assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
        assert_eq!(store.admit_all().await, 1);
        store.cancel(&JobFilter::default(), false).await.unwrap();
        sound(&store).await;
    }
    let (first, others) = begun(&store, node, vec![job().exclusive("g").ttl(LATER)]).await;
    db.change("update {}job set terms = terms || '{\"expires\": 1}' where gate is not null").await;
    assert_eq!(hand_on(&store, node, &first, 1).await.0.next.len(), 0);
    assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
    store.cancel(&JobFilter::default(), false).await.unwrap();
    // Whatever the rule is about, and also if the group is held by a lease already.
    let (first, others) = begun(&store, node, several(3)).await;
    let (handed, turn) = hand_on(&store, node, &first, 1).await;
    store.put_rule(&Rule::new(Scope::Tenant, "nobody").running(1)).await.unwrap();
    assert_eq!(go_on(&store, node, &handed.next, &[turn]).await.next.len(), 0);
    assert_eq!(store.admit_all().await, 1);
    let taken = store.take_one(node).await;
    assert_eq!(taken.id, others[1]);
    assert_eq!(hand_on(&store, node, &taken, 1).await.0.next.len(), 0);
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// Under a limit that comes meanwhile, the one that runs counts, and not those that stand in line.
pub(crate) async fn a_new_limit_counts_who_runs<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, _) = begun(&store, node, several(3)).await;
    let (handed, turn) = hand_on(&store, node, &first, 3).await;
    store.put_rule(&Rule::new(Scope::Kind, "kind").running(2)).await.unwrap();
    store.send_all(jobs(3)).await;
    assert_eq!(store.admit_all().await, 1, "two may run, and one does");
    sound(&store).await;
    go_on(&store, node, &handed.next, &[turn]).await;
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// Whoever has it in hand may take his time, and nobody waits for him.
pub(crate) async fn not_what_somebody_holds<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(3)).await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", others[1])).await;
    let (handed, turn) = hand_on(&store, node, &first, 3).await;
    assert_eq!(ids(&handed.next), others[..1], "the one that is held is not passed by the one behind it");
    let handed = go_on(&store, node, &handed.next, &[turn]).await;
    assert_eq!((handed.accepted, handed.next.len()), (vec![others[0]], 0));
    held.commit().await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, others[1]);
    sound(&store).await;
}

/// An outcome that is refused hands nothing on, and neither does a node that others gave up.
pub(crate) async fn not_to_who_has_lost_it<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(1)).await;
    assert!(store.settle_one(node, first.fence(), Verdict::Release).await);
    let (handed, _) = hand_on(&store, node, &first, 1).await;
    assert_eq!((handed.accepted.len(), handed.next.len()), (0, 0));
    assert_eq!(store.admit_all().await, 0, "it holds its group");
    let again = store.take_one(node).await;
    assert_eq!(again.id, first.id);
    let mut old = again.clone();
    old.version = first.version;
    let (handed, _) = hand_on(&store, node, &old, 1).await;
    assert_eq!((handed.accepted.len(), handed.next.len()), (0, 0), "by an old claim, even if it knew where the row is");
    db.bury(node).await;
    let (handed, _) = hand_on(&store, node, &again, 1).await;
    assert_eq!(handed.next.len(), 0);
    assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
    sound(&store).await;
}

/// The lease of another node is nobody else's, and a stranger's name for it opens nothing.
pub(crate) async fn a_lease_is_of_one_node<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (node, other) = (store.node().await, store.node().await);
    let (first, _) = begun(&store, node, several(2)).await;
    let (_, turn) = hand_on(&store, node, &first, 1).await;
    assert_eq!(go_on(&store, other, &[], std::slice::from_ref(&turn)).await.next.len(), 0);
    assert_eq!(go_on(&store, other, &[], &[turn.wanted(0)]).await.next.len(), 0);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
}

/// Nobody heard that they were claimed.
pub(crate) async fn unheard_it_is_given_back<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(3)).await;
    let (handed, turn) = hand_on(&store, node, &first, 2).await;
    // A claim that began later knows it, and so does who names it.
    let known = [Fence::new(turn.lease, 0), handed.next[0].fence()];
    assert_eq!(store.release_unknown(node, &known, None).await.unwrap(), 1);
    assert_eq!((store.admit_all().await, store.state(others[1]).await), (0, Some(JobState::Blocked)));
    sound(&store).await;
    assert_eq!(store.release_unknown(node, &[], Some(claim_number())).await.unwrap(), 1);
    assert_eq!(store.admit_all().await, 1, "the lease is gone, too");
    let again = store.take(node, 10).await;
    assert_eq!((ids(&again), again[0].attempt), (vec![others[0]], 1));
    sound(&store).await;
}

/// What claims took that begin after a look is left alone by it.
pub(crate) async fn a_look_leaves_later_leases_alone<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, _) = begun(&store, node, several(2)).await;
    let before = claim_number();
    hand_on(&store, node, &first, 1).await;
    assert_eq!(store.release_unknown(node, &[], Some(before)).await.unwrap(), 0);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
}

/// Those who stood in line wait behind their gate again, in their order and with one attempt less, and the group is free.
pub(crate) async fn the_lease_of_a_dead_node_ends<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    for locked in [false, true] {
        let node = store.node().await;
        let (first, others) = begun(&store, node, several(3)).await;
        hand_on(&store, node, &first, 2).await;
        db.bury(node).await;
        assert_eq!(store.admit_all().await, 0);
        if locked {
            // Somebody has one of them in hand when the others are released and the lease ends.
            let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", others[0])).await;
            store.release_all_lost().await;
            held.commit().await;
        }
        store.release_all_lost().await;
        sound(&store).await;
        let node = store.node().await;
        let mut done = Vec::new();
        for _ in &others {
            assert_eq!(store.admit_all().await, 1);
            let next = store.take_one(node).await;
            assert_eq!(next.attempt, if next.id == others[2] { 1 } else { 2 });
            done.push(next.id);
            store.finish(node, &next).await;
        }
        assert_eq!(done, others);
        sound(&store).await;
    }
}

/// The handler of a node that is fenced may have sent its commit. Nobody else of the group begins before that is decided.
pub(crate) async fn a_lease_outlives_a_commit_under_way<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(3)).await;
    hand_on(&store, node, &first, 2).await;
    let commit = db.hold(&format!("delete from {{schema}}.job where id = '{}'", others[0])).await;
    db.bury(node).await;
    store.release_all_lost().await;
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
    commit.commit().await;
    store.release_all_lost().await;
    let node = store.node().await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, others[1]);
    sound(&store).await;
}

/// In the transaction that a handler used: with its end the group is its node's, if anybody waits for it.
pub(crate) async fn from_a_transaction<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(2)).await;
    let mut turn = turn(&first, 5);
    let mut transaction = db.store().begin().await.unwrap();
    let stale = Fence::new(first.id, first.version + 1);
    let removed = transaction.remove_and_lease(node, stale, &turn, claim_number()).await.unwrap();
    assert_eq!(removed, Removed::NotOwned);
    let removed = transaction.remove_and_lease(node, first.fence(), &turn, claim_number()).await.unwrap();
    assert_eq!(removed, Removed::Leased);
    transaction.commit().await.unwrap();
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
    turn.holder = turn.lease;
    let handed = go_on(&store, node, &[], &[turn]).await;
    assert_eq!(ids(&handed.next), others);
    sound(&store).await;
    store.cancel(&JobFilter::default(), false).await.unwrap();
    store.release_unknown(node, &[], None).await.unwrap();

    let (alone, _) = begun(&store, node, vec![]).await;
    let turn = self::turn(&alone, 5);
    let mut transaction = db.store().begin().await.unwrap();
    let removed = transaction.remove_and_lease(node, alone.fence(), &turn, claim_number()).await.unwrap();
    assert_eq!(removed, Removed::Gone);
    transaction.commit().await.unwrap();
    store.send(job().exclusive("g")).await;
    assert_eq!(store.admit_all().await, 1, "the group is free");
    sound(&store).await;
}

/// Two hundred groups at once, of which some have nobody who waits: none is lost, and none is taken twice.
pub(crate) async fn many_at_once<const POOLED: bool>(db: &Pg<POOLED>) {
    const GROUPS: usize = 200;
    let place = db.remembering(Keep::All).await;
    let store = Jobs(jobwright::store::Store::jobs(&place));
    let node = store.node().await;
    let sent = store.send_all((0..GROUPS * 9 / 2).map(|n| job().exclusive(format!("g{}", n % GROUPS)))).await;
    let mut ended = Vec::new();
    store.admit_all().await;
    let mut hand = store.take(node, 1000).await;
    assert_eq!(hand.len(), GROUPS);
    let mut turns: Vec<GroupTurn> = hand.iter().map(|job| turn(job, 2)).collect();
    for left in [GROUPS * 2, GROUPS * 3 / 2, 0] {
        let handed = go_on(&store, node, &hand, &turns).await;
        assert_eq!(set(handed.accepted.iter().copied()), set(ids(&hand)));
        assert_eq!(handed.next.len(), left);
        for turn in &mut turns {
            if let Some(last) = handed.next.iter().rfind(|job| job.terms.group.as_ref() == Some(&turn.group)) {
                turn.taken(last);
            }
        }
        sound(&store).await;
        ended.extend(handed.accepted);
        hand = handed.next;
    }
    assert_eq!(set(ended), set(sent));
    assert_eq!(store.admit_all().await, 0);
    let history = store.history(&HistoryFilter::default(), 1000).await.unwrap();
    assert_eq!(history.len(), GROUPS * 9 / 2);
}
