//! Claims that count the limits of queues and kinds themselves.

mod handed_over;
mod rules;

use std::time::Duration;

use jobwright::admin::{JobState, Rule, Scope, ShareBy};
use jobwright::internal::ClaimNumber;
use jobwright::internal::engine::{AdmitRequest, Allowed, ClaimRequest, Claimed, Counted};
use jobwright::{NewJob, NodeId};

pub(crate) use self::handed_over::{
    a_change_left_half_done_is_finished, running_jobs_count_as_soon_as_their_limit_is_set,
    running_jobs_count_while_another_rule_is_set,
};
pub(crate) use self::rules::{
    earlier_running_jobs_are_found_after_a_counting_claim, not_under_the_rule_of_all_kinds,
    other_rules_count_running_jobs, rules_that_come_and_go,
};
use crate::conformance::groups::sound;
use crate::support::jobs::{claim_number, ids, job, jobs};
use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb as _};

fn limit(scope: Scope, running: usize) -> Counted<'static> {
    let name = if scope == Scope::Queue { "default" } else { "kind" };
    Counted { scope, name, running }
}

/// Claims for `node`, which runs this many jobs under each of these limits.
async fn claim_as(store: &Jobs, node: NodeId, number: ClaimNumber, wanted: usize, limits: &[Counted<'_>]) -> Claimed {
    let kinds = ["kind".to_owned()];
    let request = ClaimRequest::new(node, number, "default", wanted).kinds(&kinds).counted(limits);
    store.claim(&request).await.unwrap()
}

async fn claim(store: &Jobs, node: NodeId, wanted: usize, limits: &[Counted<'_>]) -> Claimed {
    claim_as(store, node, claim_number(), wanted, limits).await
}

/// Returns how many jobs a claim takes while the node runs `running` of the kind.
async fn taken(store: &Jobs, node: NodeId, wanted: usize, running: usize) -> usize {
    claim(store, node, wanted, &[limit(Scope::Kind, running)]).await.jobs.len()
}

async fn rule(store: &Jobs, rule: Rule) {
    store.put_rule(&rule).await.unwrap();
}

async fn of_kind(store: &Jobs, running: u32) {
    rule(store, Rule::new(Scope::Kind, "kind").running(running)).await;
}

/// Runs an admission pass of an executor whose claims count, and returns how many jobs it admitted.
async fn round(store: &Jobs) -> u64 {
    let queues = ["default".to_owned()];
    store.admit(&AdmitRequest { limit: 100, queues: &queues, kinds: None, counting: true }).await.unwrap().jobs
}

/// Counts the permits of limits and groups, without those of shares.
async fn permits<const POOLED: bool>(db: &Pg<POOLED>) -> i64 {
    db.client().await.query_one("select count(*) from permit where key not like 's:%'", &[]).await.unwrap().get(0)
}

/// A claim that got nothing reports whether more jobs wait, even when up to 199 jobs of other kinds are in front of them.
pub(crate) async fn whether_any_waits<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    of_kind(&store, 300).await;
    store.send_all(jobs(301)).await;
    let waits = async |running: usize| {
        let claimed = claim(&store, node, 500, &[limit(Scope::Kind, running)]).await;
        let allowed = claimed.allowed.unwrap();
        (allowed.jobs, claimed.jobs.len(), allowed.waits)
    };
    assert_eq!(waits(0).await, (300, 300, true));
    assert_eq!(waits(300).await, (0, 0, true));
    assert_eq!(waits(299).await, (1, 1, true));
    assert_eq!(waits(300).await, (0, 0, false));
    // Behind this many other jobs it is unknown whether more wait. The node asks again, but the others need not reserve capacity for it.
    let others = |count: usize| (0..count).map(|_| NewJob::json("other", &()));
    store.send_all(others(199)).await;
    assert_eq!(waits(300).await, (0, 0, false));
    store.send_all(others(1)).await;
    assert_eq!(waits(300).await, (0, 0, true));
    let demand = db.client().await.query_one("select max(demand) from usage", &[]).await.unwrap();
    assert_eq!(demand.get::<_, i32>(0), 0);
}

/// All nodes together run as many as the limit allows, in order. No admission pass is involved, and no job gets a permit.
pub(crate) async fn so_many_over_all_nodes<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (one, other) = (store.node().await, store.node().await);
    of_kind(&store, 5).await;
    let sent = store.send_all(jobs(10)).await;
    let first = claim(&store, one, 3, &[limit(Scope::Kind, 0)]).await;
    assert_eq!(
        first.allowed,
        Some(Allowed { jobs: 3, recount: vec![0], waits: true, written: true, ..Allowed::default() })
    );
    assert_eq!(ids(&first.jobs), sent[..3]);
    assert!(first.jobs.iter().all(|job| !job.admitted && job.attempt == 1));
    let second = claim(&store, other, 8, &[limit(Scope::Kind, 0)]).await;
    assert_eq!(second.allowed.map(|allowed| allowed.jobs), Some(2));
    assert_eq!(ids(&second.jobs), sent[3..5]);
    assert_eq!(taken(&store, one, 8, 3).await, 0, "five run");
    for job in &first.jobs[..2] {
        store.finish(one, job).await;
    }
    assert_eq!(taken(&store, other, 1, 2).await, 0, "nobody told of it");
    assert_eq!(taken(&store, one, 1, 1).await, 1, "two have ended, and one of them is made up for");
    assert_eq!(taken(&store, other, 8, 2).await, 1);
    assert_eq!(permits(db).await, 0);
    store.send(job().exclusive("g")).await;
    assert_eq!(round(&store).await, 0, "five run, as a round sees too");
    sound(&store).await;
}

/// A claim that does not count leaves limited jobs alone, and one that counts leaves alone the jobs under other limits.
pub(crate) async fn a_claim_takes_only_jobs_under_limits_that_it_counts<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    of_kind(&store, 5).await;
    let plain = store.send(job()).await;
    assert_eq!(store.take(node, 10).await.len(), 0, "it does not count");
    assert_eq!(claim(&store, node, 10, &[limit(Scope::Queue, 0)]).await.jobs.len(), 0, "nor that");
    rule(&store, Rule::new(Scope::Queue, "default").paused(true)).await;
    assert_eq!(taken(&store, node, 10, 0).await, 0, "the queue is paused");
    rule(&store, Rule::new(Scope::Queue, "default")).await;
    rule(&store, Rule::new(Scope::Kind, "kind").running(5).paused(true)).await;
    assert_eq!(taken(&store, node, 10, 0).await, 0, "the kind is paused");
    of_kind(&store, 5).await;
    assert_eq!(ids(&claim(&store, node, 10, &[limit(Scope::Kind, 0)]).await.jobs), [plain]);
    // With a limit of another scope as well, limited jobs need an admission pass.
    let tenants = store.send(job().tenant("t").priority(3)).await;
    let other = store.send(job()).await;
    rule(&store, Rule::new(Scope::Tenant, "*").running(1)).await;
    assert_eq!(taken(&store, node, 10, 1).await, 0);
    assert_eq!(round(&store).await, 2);
    // A node that knows of no new admitted jobs does not scan for them.
    let (kinds, limits) = (["kind".to_owned()], [limit(Scope::Kind, 1)]);
    let request =
        ClaimRequest::new(node, claim_number(), "default", 10).kinds(&kinds).counted(&limits).admitted_too(false);
    assert!(store.claim(&request).await.unwrap().jobs.is_empty());
    let admitted = claim(&store, node, 10, &[limit(Scope::Kind, 1)]).await;
    assert_eq!(ids(&admitted.jobs), [tenants, other]);
    assert!(admitted.jobs.iter().all(|job| job.admitted));
    sound(&store).await;
}

/// A queue and a kind both have limits: the smaller one decides, and both are counted.
pub(crate) async fn two_limits_at_once<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (one, other) = (store.node().await, store.node().await);
    of_kind(&store, 4).await;
    rule(&store, Rule::new(Scope::Queue, "*").running(3)).await;
    store.send_all(jobs(10)).await;
    let both = |queue, kind| [limit(Scope::Queue, queue), limit(Scope::Kind, kind)];
    assert_eq!(claim(&store, one, 8, &both(0, 0)).await.jobs.len(), 3);
    assert_eq!(claim(&store, other, 8, &both(0, 0)).await.jobs.len(), 0);
    rule(&store, Rule::new(Scope::Queue, "*")).await;
    assert_eq!(claim(&store, other, 8, &both(0, 0)).await.jobs.len(), 1);
}

/// A claim that its process gave up runs after a newer one: the number of running jobs that it names is out of date.
pub(crate) async fn a_late_claim_takes_nothing<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    of_kind(&store, 2).await;
    store.send_all(jobs(6)).await;
    let late = claim_number();
    assert_eq!(taken(&store, node, 8, 0).await, 2);
    let empty = claim_as(&store, node, late, 8, &[limit(Scope::Kind, 0)]).await;
    assert_eq!((empty.jobs.len(), empty.allowed.map(|allowed| allowed.jobs)), (0, Some(0)));
    assert_eq!(taken(&store, node, 8, 2).await, 0, "and nothing that was counted is forgotten");
    assert_eq!(taken(&store, node, 8, 1).await, 1);
    // As many as before run after the next claim, but they are others.
    let late = claim_number();
    assert_eq!(taken(&store, node, 8, 1).await, 1);
    let empty = claim_as(&store, node, late, 8, &[limit(Scope::Kind, 1)]).await;
    assert_eq!(empty.jobs.len(), 0);
    assert!(!empty.allowed.unwrap().written);
    assert_eq!(taken(&store, store.node().await, 8, 0).await, 0);
}

/// Another process is frozen during an admission pass. A claim that counts takes nothing, reports that, and does not wait.
pub(crate) async fn a_claim_does_not_wait_for_a_locked_limit<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    of_kind(&store, 3).await;
    store.send_all(jobs(3)).await;
    assert_eq!(taken(&store, node, 1, 0).await, 1);
    let mut client = db.client().await;
    // All keys share one lock.
    let one = "create or replace function lock_limits(locks bigint[]) returns void language sql set search_path = pg_catalog, pg_temp
               as $$ select pg_advisory_xact_lock(hashtext(current_database()), 7) $$";
    client.batch_execute(one).await.unwrap();
    let holder = client.transaction().await.unwrap();
    holder.batch_execute("select pg_advisory_xact_lock(hashtext(current_database()), 7)").await.unwrap();
    let refused = claim(&store, node, 8, &[limit(Scope::Kind, 1)]).await;
    assert_eq!(refused.jobs.len(), 0);
    assert_eq!(refused.allowed, Some(Allowed { waits: true, permits: true, ..Allowed::default() }));
    holder.rollback().await.unwrap();
    assert_eq!(taken(&store, node, 8, 1).await, 2);
}

/// Claim numbers wrap around: after the last one comes the first, and it is newer.
pub(crate) async fn numbers_that_go_round<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    of_kind(&store, 3).await;
    store.send_all(jobs(6)).await;
    let last = i32::MAX.unsigned_abs() - 1;
    let with = async |number: u32, running: usize| {
        let limits = [limit(Scope::Kind, running)];
        claim_as(&store, node, ClaimNumber::new(number), 1, &limits).await.jobs.len()
    };
    assert_eq!(with(last, 0).await, 1);
    assert_eq!(with(last + 1, 1).await, 1, "the first again");
    assert_eq!(with(last, 0).await, 0, "that one is late");
    assert_eq!(with(last + 2, 2).await, 1);
}

/// A claim of zero jobs reports which jobs have ended.
pub(crate) async fn a_claim_for_nothing_tells<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (one, other) = (store.node().await, store.node().await);
    of_kind(&store, 2).await;
    store.send_all(jobs(6)).await;
    assert_eq!(taken(&store, one, 8, 0).await, 2);
    assert_eq!(taken(&store, one, 0, 1).await, 0);
    assert_eq!(taken(&store, other, 8, 0).await, 1);
}

/// The jobs of a dead node count until the last one is released: its handler's commit may still lock a row.
pub(crate) async fn jobs_of_a_dead_node_count_until_they_are_released<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (dead, living) = (store.node().await, store.node().await);
    of_kind(&store, 2).await;
    store.send_all(jobs(6)).await;
    let theirs = claim(&store, dead, 8, &[limit(Scope::Kind, 0)]).await.jobs;
    assert_eq!(theirs.len(), 2);
    let mut client = db.client().await;
    let commit = client.transaction().await.unwrap();
    commit.execute("select from job where id = $1 for update", &[theirs[0].id.as_uuid()]).await.unwrap();
    store.declare(dead).await;
    store.release_all_lost().await;
    assert_eq!(taken(&store, living, 8, 0).await, 0, "one is still to be decided");
    commit.rollback().await.unwrap();
    store.release_all_lost().await;
    assert_eq!(taken(&store, living, 8, 0).await, 2);
    sound(&store).await;
}

/// A rate limits starts, and each start is counted when it happens.
pub(crate) async fn a_rate_counts_starts<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    rule(&store, Rule::new(Scope::Queue, "default").rate(5, Duration::from_secs(3600))).await;
    store.send_all(jobs(9)).await;
    let queue = [limit(Scope::Queue, 0)];
    assert_eq!(claim(&store, node, 3, &queue).await.jobs.len(), 3);
    let second = claim(&store, node, 8, &queue).await;
    assert_eq!((second.jobs.len(), second.allowed.clone().and_then(|allowed| allowed.wait)), (2, None));
    let third = claim(&store, node, 8, &queue).await;
    assert_eq!(third.jobs.len(), 0);
    let wait = third.allowed.and_then(|allowed| allowed.wait).unwrap();
    assert!(wait > Duration::from_secs(3500) && wait <= Duration::from_secs(3600), "{wait:?}");
    let log = db.client().await.query_one("select sum(n)::int8 from rate_log", &[]).await.unwrap();
    assert_eq!(log.get::<_, i64>(0), 5);
}

/// Jobs of groups that wait for the same limit get a share of it.
pub(crate) async fn others_are_blocked<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    of_kind(&store, 1).await;
    let holder = store.send(job().exclusive("a")).await;
    let others = store.send_all(["b", "c", "d", "e"].map(|group| job().exclusive(group))).await;
    assert_eq!(store.admit_all().await, 1);
    store.send_all(jobs(9)).await;
    let first = claim(&store, node, 8, &[limit(Scope::Kind, 0)]).await;
    assert_eq!(ids(&first.jobs), [holder], "the others of groups stand behind the limit");
    assert_eq!(first.allowed.map(|allowed| allowed.jobs), Some(0));
    // Only the claim itself unblocks the key.
    db.raw("update {schema}.rule set running = 5").await;
    assert_eq!(round(&store).await, 0);
    let second = claim(&store, node, 8, &[limit(Scope::Kind, 0)]).await;
    assert_eq!(
        second.allowed,
        Some(Allowed { jobs: 2, unblocked: true, permits: true, waits: true, written: true, ..Allowed::default() }),
        "half of what is free"
    );
    assert_eq!(round(&store).await, 2);
    let third = claim(&store, node, 8, &[limit(Scope::Kind, 2)]).await;
    assert_eq!(ids(&third.jobs), others[..2]);
    sound(&store).await;
}

/// A node that wants none leaves all to the blocked jobs. One that may take the last permit reports that the blocked jobs got nothing.
pub(crate) async fn unclaimed_permits_go_to_blocked_jobs<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    of_kind(&store, 1).await;
    store.send(job().exclusive("a")).await;
    let blocked = store.send(job().exclusive("b")).await;
    assert_eq!(store.admit_all().await, 1);
    let held = claim(&store, node, 8, &[limit(Scope::Kind, 0)]).await.jobs;
    store.finish(node, &held[0]).await;
    assert_eq!(store.state(blocked).await, Some(JobState::Blocked));
    let asked = async |wanted: usize| {
        db.raw("delete from {schema}.unblock").await;
        claim(&store, node, wanted, &[limit(Scope::Kind, 0)]).await.allowed.unwrap()
    };
    for _ in 0..10 {
        let nothing = asked(0).await;
        assert!(nothing.unblocked && !nothing.passed_over, "{nothing:?}");
        let some = asked(8).await;
        assert_eq!((some.unblocked, some.passed_over), (some.jobs == 0, some.jobs == 1));
    }
    asked(0).await;
    assert_eq!(round(&store).await, 1);
}

/// When there are not enough, each node with demand gets the same.
pub(crate) async fn nodes_with_demand_share_a_limit_equally<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (one, other) = (store.node().await, store.node().await);
    of_kind(&store, 6).await;
    store.send_all(jobs(30)).await;
    assert_eq!(taken(&store, one, 20, 0).await, 6);
    assert_eq!(taken(&store, other, 20, 0).await, 0);
    assert_eq!(taken(&store, one, 20, 4).await, 0, "two have ended, and the other one is waiting");
    assert_eq!(taken(&store, other, 20, 0).await, 2);
    assert_eq!(taken(&store, one, 20, 3).await, 0);
    assert_eq!(taken(&store, other, 20, 2).await, 1);
    assert_eq!(taken(&store, one, 20, 2).await, 1);
}

/// Nodes that were refused for long ask rarely, so those that leave them something say so.
pub(crate) async fn a_claim_that_leaves_some_to_a_node_that_waits_says_so<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (one, other) = (store.node().await, store.node().await);
    of_kind(&store, 2).await;
    store.send_all(jobs(10)).await;
    assert_eq!(taken(&store, one, 20, 0).await, 2);
    assert_eq!(taken(&store, other, 20, 0).await, 0);
    let says = async |most, running| {
        let claimed = claim(&store, one, most, &[limit(Scope::Kind, running)]).await;
        let allowed = claimed.allowed.unwrap();
        assert!(!allowed.permits && claimed.jobs.is_empty(), "{allowed:?}");
        allowed.yields
    };
    assert!(!says(20, 2).await, "nothing has ended");
    assert!(says(20, 1).await);
    assert!(!says(20, 1).await, "it was said");
    assert_eq!(taken(&store, other, 20, 0).await, 1);
    assert!(says(0, 0).await, "one that can run no more leaves all");
    db.raw("update {schema}.usage set at = at - interval '20 seconds' where demand > 0").await;
    assert_eq!(taken(&store, one, 20, 0).await, 1);
    let claimed = claim(&store, one, 20, &[limit(Scope::Kind, 0)]).await;
    assert_eq!((claimed.jobs.len(), claimed.allowed.unwrap().yields), (1, false), "the other one has gone");
}

/// Many claims from many nodes at once never start more than allowed.
pub(crate) async fn many_claims_at_once<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    of_kind(&store, 7).await;
    rule(&store, Rule::new(Scope::Queue, "default").rate(40, Duration::from_secs(3600))).await;
    store.send_all(jobs(100)).await;
    let work = (0..6).map(|_| {
        let store = store.clone();
        async move {
            let node = store.node().await;
            let mut started = 0;
            for _ in 0..30 {
                let limits = [limit(Scope::Queue, 0), limit(Scope::Kind, 0)];
                let jobs = claim(&store, node, 3, &limits).await.jobs;
                started += jobs.len();
                for job in &jobs {
                    store.finish(node, job).await;
                }
            }
            started
        }
    });
    let most = db.client().await;
    let watch = async {
        let mut seen = 0;
        for _ in 0..200 {
            let row = most.query_one("select coalesce(sum(n), 0)::int8 from usage", &[]).await.unwrap();
            seen = row.get::<_, i64>(0).max(seen);
        }
        seen
    };
    let (started, seen) = tokio::join!(futures_util::future::join_all(work), watch);
    assert_eq!(started.iter().sum::<usize>(), 40, "as the rate says");
    // Two keys.
    assert!(seen <= 14, "{seen}");
    sound(&store).await;
}
