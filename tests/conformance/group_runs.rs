//! Group runs: a node completes jobs of a group and claims the next ones in the same statement, and holds the group by a lease meanwhile.

use std::time::Duration;

use jobwright::Store as _;
use jobwright::admin::{HistoryFilter, JobFilter, JobState, Rule, Scope};
use jobwright::internal::Fence;
use jobwright::internal::engine::{GroupClaim, GroupsClaimed, Removed, UnitOfWork as _, Verdict};
use jobwright::{Job, JobId, Keep, NewJob, NodeId};

use crate::conformance::groups::sound;
use crate::support::jobs::{LATER, claim_number, ids, job, jobs, set};
use crate::support::postgres::Pg;
use crate::support::{Jobs, SqlDb as _, TestDb as _};

async fn go_on(store: &Jobs, node: NodeId, ended: &[Job], turns: &[GroupClaim]) -> GroupsClaimed {
    let fences: Vec<Fence> = ended.iter().map(Job::fence).collect();
    store.complete_and_claim_next(node, claim_number(), &fences, turns, &["kind".to_owned()]).await.unwrap()
}

/// Returns the group claim that follows a job that holds its group.
fn turn(job: &Job, wanted: usize) -> GroupClaim {
    GroupClaim::after_job(job.options.group.clone().unwrap(), &job.queue, job.id, JobId::new()).wanted(wanted)
}

/// Completes a job and claims the next ones of its group. Returns these and the group claim that follows them.
async fn complete_and_claim_next(
    store: &Jobs,
    node: NodeId,
    ended: &Job,
    wanted: usize,
) -> (GroupsClaimed, GroupClaim) {
    let mut turn = turn(ended, wanted);
    let handed = go_on(store, node, std::slice::from_ref(ended), std::slice::from_ref(&turn)).await;
    if let Some(last) = handed.next.last() {
        turn.taken(last);
    }
    (handed, turn)
}

/// Starts the first job of a group and sends others, which wait for it.
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
    let (handed, mut turn) = complete_and_claim_next(&store, node, &first, 1).await;
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

/// Several jobs are claimed at once, in order, and complete together.
pub(crate) async fn several_at_once<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(5)).await;
    let (handed, mut turn) = complete_and_claim_next(&store, node, &first, 3).await;
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
    // The group run ends although more jobs may come.
    turn.taken(&rest.next[1]);
    let later = store.send(job().exclusive("g")).await;
    let end = go_on(&store, node, &rest.next, &[turn.wanted(0)]).await;
    assert_eq!((end.accepted.len(), end.next.len()), (2, 0));
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, later);
    sound(&store).await;
}

/// A job that was tried before may have killed its process, or run beside one that did, so it runs alone. So does a job with a single attempt.
pub(crate) async fn only_fresh_ones_are_in_a_run<const POOLED: bool>(db: &Pg<POOLED>) {
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
    let (handed, mut turn) = complete_and_claim_next(&store, node, &first, 10).await;
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

/// A job of a group run can fail, be given back or be cancelled like any other; its node holds the group until it releases the lease.
pub(crate) async fn a_job_claimed_next_is_like_any_claimed_job<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    for verdict in [Verdict::Retry(Duration::ZERO), Verdict::Release, Verdict::Cancel, Verdict::Dead] {
        let (first, others) = begun(&store, node, several(2)).await;
        let (handed, turn) = complete_and_claim_next(&store, node, &first, 1).await;
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

/// Cancelling a running job frees nothing: its handler may continue for a while, and only its node knows.
pub(crate) async fn a_cancelled_one_keeps_the_group<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(2)).await;
    let (handed, turn) = complete_and_claim_next(&store, node, &first, 1).await;
    store.cancel(&JobFilter::ids([others[0]]), false).await.unwrap();
    assert_eq!(store.admit_all().await, 0);
    assert_eq!(store.handlers_ended(node, &[handed.next[0].fence()]).await.unwrap(), 0);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
    let next = go_on(&store, node, &handed.next, &[turn]).await;
    assert_eq!((next.accepted.len(), ids(&next.next)), (0, vec![others[1]]));
    sound(&store).await;
}

/// In these cases the group becomes free and an admission pass decides.
pub(crate) async fn jobs_that_need_admission_are_not_claimed_next<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    for other in [job().exclusive("g").queue("elsewhere"), NewJob::json("other", &1).exclusive("g")] {
        let (first, others) = begun(&store, node, vec![other, job().exclusive("g")]).await;
        let (handed, _) = complete_and_claim_next(&store, node, &first, 5).await;
        assert_eq!((handed.accepted, handed.next.len()), (vec![first.id], 0), "nor is it passed by the one behind it");
        assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
        assert_eq!(store.admit_all().await, 1);
        store.cancel(&JobFilter::default(), false).await.unwrap();
        sound(&store).await;
    }
    let (first, others) = begun(&store, node, vec![job().exclusive("g").ttl(LATER)]).await;
    db.change("update {}job set options = options || '{\"expires\": 1}' where blocked_on is not null").await;
    assert_eq!(complete_and_claim_next(&store, node, &first, 1).await.0.next.len(), 0);
    assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
    store.cancel(&JobFilter::default(), false).await.unwrap();
    // This holds for any rule, and also if a lease holds the group already.
    let (first, others) = begun(&store, node, several(3)).await;
    let (handed, turn) = complete_and_claim_next(&store, node, &first, 1).await;
    store.put_rule(&Rule::new(Scope::Tenant, "nobody").running(1)).await.unwrap();
    assert_eq!(go_on(&store, node, &handed.next, &[turn]).await.next.len(), 0);
    assert_eq!(store.admit_all().await, 1);
    let taken = store.take_one(node).await;
    assert_eq!(taken.id, others[1]);
    assert_eq!(complete_and_claim_next(&store, node, &taken, 1).await.0.next.len(), 0);
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// Under a limit that is set meanwhile, the running job counts, and those that wait in the group run do not.
pub(crate) async fn a_new_limit_counts_only_the_running_job_of_a_group_run<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, _) = begun(&store, node, several(3)).await;
    let (handed, turn) = complete_and_claim_next(&store, node, &first, 3).await;
    store.put_rule(&Rule::new(Scope::Kind, "kind").running(2)).await.unwrap();
    store.send_all(jobs(3)).await;
    assert_eq!(store.admit_all().await, 1, "two may run, and one does");
    sound(&store).await;
    go_on(&store, node, &handed.next, &[turn]).await;
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// The next job's row may be locked by another transaction, and nothing waits for it.
pub(crate) async fn a_locked_next_job_is_not_waited_for<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(3)).await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", others[1])).await;
    let (handed, turn) = complete_and_claim_next(&store, node, &first, 3).await;
    assert_eq!(ids(&handed.next), others[..1], "the one that is held is not passed by the one behind it");
    let handed = go_on(&store, node, &handed.next, &[turn]).await;
    assert_eq!((handed.accepted, handed.next.len()), (vec![others[0]], 0));
    held.commit().await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, others[1]);
    sound(&store).await;
}

/// A refused outcome claims nothing next, and neither does a node that was declared dead.
pub(crate) async fn a_refused_outcome_claims_no_next_job<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(1)).await;
    assert!(store.settle_one(node, first.fence(), Verdict::Release).await);
    let (handed, _) = complete_and_claim_next(&store, node, &first, 1).await;
    assert_eq!((handed.accepted.len(), handed.next.len()), (0, 0));
    assert_eq!(store.admit_all().await, 0, "it holds its group");
    let again = store.take_one(node).await;
    assert_eq!(again.id, first.id);
    let mut old = again.clone();
    old.version = first.version;
    let (handed, _) = complete_and_claim_next(&store, node, &old, 1).await;
    assert_eq!((handed.accepted.len(), handed.next.len()), (0, 0), "by an old claim, even if it knew where the row is");
    db.bury(node).await;
    let (handed, _) = complete_and_claim_next(&store, node, &again, 1).await;
    assert_eq!(handed.next.len(), 0);
    assert_eq!(store.state(others[0]).await, Some(JobState::Blocked));
    sound(&store).await;
}

/// A lease belongs to one node: another node that names it frees nothing.
pub(crate) async fn a_lease_is_of_one_node<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (node, other) = (store.node().await, store.node().await);
    let (first, _) = begun(&store, node, several(2)).await;
    let (_, turn) = complete_and_claim_next(&store, node, &first, 1).await;
    assert_eq!(go_on(&store, other, &[], std::slice::from_ref(&turn)).await.next.len(), 0);
    assert_eq!(go_on(&store, other, &[], &[turn.wanted(0)]).await.next.len(), 0);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
}

/// The node never received the answer to the claim.
pub(crate) async fn unheard_it_is_given_back<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(3)).await;
    let (handed, turn) = complete_and_claim_next(&store, node, &first, 2).await;
    // A claim that began later knows the lease, and so does a caller that names it.
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

/// A check leaves alone the leases of claims that began after it.
pub(crate) async fn a_look_leaves_later_leases_alone<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, _) = begun(&store, node, several(2)).await;
    let before = claim_number();
    complete_and_claim_next(&store, node, &first, 1).await;
    assert_eq!(store.release_unknown(node, &[], Some(before)).await.unwrap(), 0);
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
}

/// The jobs of the run are blocked on their key again, in order and with one attempt less, and the group is free.
pub(crate) async fn the_lease_of_a_dead_node_ends<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    for locked in [false, true] {
        let node = store.node().await;
        let (first, others) = begun(&store, node, several(3)).await;
        complete_and_claim_next(&store, node, &first, 2).await;
        db.bury(node).await;
        assert_eq!(store.admit_all().await, 0);
        if locked {
            // Another transaction has locked one of them while the others are released and the lease ends.
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

/// A fenced node may have sent its handler's commit. No other job of the group starts before that is decided.
pub(crate) async fn a_lease_outlives_a_commit_under_way<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (first, others) = begun(&store, node, several(3)).await;
    complete_and_claim_next(&store, node, &first, 2).await;
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

/// A handler's own transaction removes the job and leaves the group to its node by a lease, if other jobs wait for the group.
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

/// Two hundred groups at once, some of which have no waiting jobs: none is lost, and none is taken twice.
pub(crate) async fn many_at_once<const POOLED: bool>(db: &Pg<POOLED>) {
    const GROUPS: usize = 200;
    let place = db.remembering(Keep::All).await;
    let store = Jobs(jobwright::Store::engine(&place));
    let node = store.node().await;
    let sent = store.send_all((0..GROUPS * 9 / 2).map(|n| job().exclusive(format!("g{}", n % GROUPS)))).await;
    let mut ended = Vec::new();
    store.admit_all().await;
    let mut hand = store.take(node, 1000).await;
    assert_eq!(hand.len(), GROUPS);
    let mut turns: Vec<GroupClaim> = hand.iter().map(|job| turn(job, 2)).collect();
    for left in [GROUPS * 2, GROUPS * 3 / 2, 0] {
        let handed = go_on(&store, node, &hand, &turns).await;
        assert_eq!(set(handed.accepted.iter().copied()), set(ids(&hand)));
        assert_eq!(handed.next.len(), left);
        for turn in &mut turns {
            if let Some(last) = handed.next.iter().rfind(|job| job.options.group.as_ref() == Some(&turn.group)) {
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
