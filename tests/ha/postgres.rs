//! A primary of PostgreSQL is lost, and its standby takes over.

use std::time::{Duration, Instant};

use crate::ha::accounting::{Account, back};
use crate::ha::cluster::Node;
use crate::ha::load::Load;
use crate::ha::scenario::{CALL, Stage};

/// Whether a commit waits for the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// It does not: commits that the standby lacks when the primary is lost are lost.
    Asynchronous,
    /// Until the standby has it on disk.
    Synchronous,
    /// Until the standby shows it.
    Applied,
}

impl Commits {
    pub(crate) fn may_lose(self) -> bool {
        self == Self::Asynchronous
    }
}

/// Starts a primary and its standby.
pub(crate) async fn pair(stage: &Stage, commits: Commits) -> (Node, Node) {
    let a = stage.primary().await;
    let b = a.standby("b");
    match commits {
        Commits::Asynchronous => a.caught_up().await,
        Commits::Synchronous => a.wait_for_standby("on").await,
        Commits::Applied => a.wait_for_standby("remote_apply").await,
    }
    (a, b)
}

/// Returns the number of jobs before the fault, and after it: `JOBWRIGHT_HA_JOBS`.
pub(crate) fn some() -> usize {
    std::env::var("JOBWRIGHT_HA_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

async fn killed(title: &str, commits: Commits) {
    let stage = Stage::open(title);
    let (a, b) = pair(&stage, commits).await;
    let mut load = Load::start(&stage, &[&a, &b]).await;
    load.goes_on_for(some()).await;
    let fault = Instant::now();
    a.kill();
    b.promote();
    stage.turn(&b, true);
    let back = back(&load, &b, fault).await;
    load.goes_on_for(some()).await;
    let account = Account::settle(title, &mut load, &b, commits.may_lose()).await;
    let refused = load.refused();
    load.stop_executors().await;
    account.with(back).telling(format!("refused {refused}")).close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn killed_synchronous() {
    killed("primary killed, synchronous", Commits::Synchronous).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn killed_applied() {
    killed("primary killed, remote_apply", Commits::Applied).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn killed_asynchronous() {
    killed("primary killed, asynchronous", Commits::Asynchronous).await;
}

/// `cut`: the balancer that directs clients to the new primary also cuts their connections to the old one.
async fn hung(title: &str, commits: Commits, cut: bool) {
    let stage = Stage::open(title);
    let (a, b) = pair(&stage, commits).await;
    let mut load = Load::start(&stage, &[&a, &b]).await;
    load.goes_on_for(some()).await;
    let fault = Instant::now();
    a.freeze();
    b.promote();
    stage.turn(&b, cut);
    let back = back(&load, &b, fault).await;
    // Some connections are detected one after the other, each with its deadline.
    assert!(back.rest < 8.0 * CALL.as_secs_f64(), "jobs that waited were not looked at for long: {back:?}");
    load.goes_on_for(some()).await;
    if stage.is_open() {
        // It has to be killed, or later clients find it: it is the first one in their URL.
        a.kill();
    } else {
        // It still considers itself the primary, and continues.
        a.thaw();
    }
    load.goes_on_for(some()).await;
    let account = Account::settle(title, &mut load, &b, commits.may_lose()).await;
    load.stop_executors().await;
    account.with(back).close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn hung_synchronous() {
    hung("primary hung, connections cut, synchronous", Commits::Synchronous, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn hung_asynchronous() {
    hung("primary hung, connections cut, asynchronous", Commits::Asynchronous, true).await;
}

/// Connections to the frozen server are not cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn silent_synchronous() {
    hung("primary hung, connections left, synchronous", Commits::Synchronous, false).await;
}

/// Clean switchovers there and back: nothing may be lost, whatever commits wait for.
async fn switched(title: &str, commits: Commits) {
    let stage = Stage::open(title);
    let (a, b) = pair(&stage, commits).await;
    let mut load = Load::start(&stage, &[&a, &b]).await;
    load.goes_on_for(some()).await;
    let fault = Instant::now();
    let there = {
        change_over(&stage, &a, &b);
        back(&load, &b, fault).await
    };
    load.goes_on_for(some()).await;
    a.follow(&b);
    a.start();
    b.caught_up().await;
    change_over(&stage, &b, &a);
    load.goes_on_for(some()).await;
    let account = Account::settle(title, &mut load, &a, false).await;
    load.stop_executors().await;
    account.with(there).close();
}

fn change_over(stage: &Stage, from: &Node, to: &Node) {
    from.stop();
    to.promote();
    stage.turn(to, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn switched_synchronous() {
    switched("switchover and back, synchronous", Commits::Synchronous).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn switched_asynchronous() {
    switched("switchover and back, asynchronous", Commits::Asynchronous).await;
}

/// The old primary comes back and accepts writes, and some connections of an executor unknown to it reach it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn stale() {
    let title = "old primary back, reached by some";
    let stage = Stage::open(title);
    let (a, b) = pair(&stage, Commits::Asynchronous).await;
    let mut load = Load::start(&stage, &[&a, &b]).await;
    load.goes_on_for(some()).await;
    let fault = Instant::now();
    a.kill();
    b.promote();
    stage.turn(&b, true);
    let way = stage.way(&[&b, &a]).await;
    load.join(&way, "executor that came later", 1).await;
    let back = back(&load, &b, fault).await;
    a.start();
    let told = stage.logged("JW-LEASE-LOST");
    way.turn(&[&a, &b]);
    let split = Instant::now();
    crate::support::eventually(Duration::from_secs(60), async || stage.logged("JW-LEASE-LOST") > told).await;
    let said = split.elapsed();
    load.goes_on_for(some()).await;
    way.turn(&[&b]);
    a.stop();
    load.goes_on_for(some()).await;
    let account = Account::settle(title, &mut load, &b, true).await;
    let lost = load.leases_lost();
    only_three_live(&b).await;
    load.stop_executors().await;
    let said = format!("said after {:.1} s, {lost} started anew", said.as_secs_f64());
    account.with(back).telling(said).close();
}

/// Asserts that each executor is known there, and that its former nodes were declared dead.
async fn only_three_live(server: &Node) {
    let client = server.client().await;
    let count = "select count(*) = 3 and bool_and(dead_at is null) from jobwright.node";
    crate::support::eventually(Duration::from_secs(60), async || client.query_one(count, &[]).await.unwrap().get(0))
        .await;
}

/// The server is replaced by a copy made during work, while its executors live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn restored() {
    let title = "restored from a base backup";
    let stage = Stage::open(title);
    let a = stage.primary().await;
    let mut load = Load::start(&stage, &[&a]).await;
    load.goes_on_for(some()).await;
    let copy = a.backup("copy");
    // The copy knows nothing of this one.
    let way = stage.way(&[&a]).await;
    load.join(&way, "executor that came later", 1).await;
    load.goes_on_for(some()).await;
    let fault = Instant::now();
    a.kill();
    copy.start();
    stage.turn(&copy, true);
    let back = back(&load, &copy, fault).await;
    load.goes_on_for(some()).await;
    let account = Account::settle(title, &mut load, &copy, true).await;
    let lost = load.leases_lost();
    only_three_live(&copy).await;
    load.stop_executors().await;
    account.with(back).telling(format!("{lost} started anew")).close();
}
