//! Nodes: registered, renewed, retired, expired.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jobwright::NodeId;
use jobwright::admin::{JobState, NodeStatus};
use jobwright::internal::engine::NodeInfo;

use crate::support::jobs::{NOBODY, job, node_info};
use crate::support::{Jobs, TestDb, eventually};

/// The shortest possible lease, for tests that wait until it is over.
fn brief(name: &str) -> NodeInfo {
    node_info(name).lease(Duration::from_secs(1))
}

async fn status(store: &Jobs, node: NodeId) -> Option<NodeStatus> {
    store.status().await.unwrap().nodes.into_iter().find(|status| status.id == node)
}

pub(crate) async fn each_start_is_a_new_node<T: TestDb>(db: &T) {
    let store = db.jobs();
    let first = store.register_node(&node_info("same")).await.unwrap();
    let second = store.register_node(&node_info("same")).await.unwrap();
    assert_ne!(first, second);
    db.bury(first).await;
    store.release_all_lost().await;
    let third = store.register_node(&node_info("same")).await.unwrap();
    assert!(third != first && third != second, "no number is used again");
    assert!(!store.heartbeat(first).await.unwrap(), "the name does not revive it");
}

pub(crate) async fn status_lists_the_nodes<T: TestDb>(db: &T) {
    let store = db.jobs();
    let info = NodeInfo::new("bïlling", "host.example", u32::MAX, Duration::from_secs(90));
    let node = store.register_node(&info).await.unwrap();
    let found = status(&store, node).await.unwrap();
    assert_eq!((found.name, found.host, found.pid), (info.name, info.host, info.pid));
    assert_eq!((found.dead, found.running.get()), (false, 0));
    assert!(found.lease_seconds_left > 30.0 && found.lease_seconds_left <= 90.0, "{}", found.lease_seconds_left);
    store.send_all([job(), job(), job()]).await;
    store.take(node, 2).await;
    assert_eq!(status(&store, node).await.unwrap().running, 2);
}

pub(crate) async fn a_heartbeat_renews_the_lease<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.register_node(&brief("n")).await.unwrap();
    let left = async || status(&store, node).await.unwrap().lease_seconds_left;
    eventually(Duration::from_secs(5), async || left().await < 0.8).await;
    assert!(store.heartbeat(node).await.unwrap());
    let renewed = left().await;
    assert!(renewed > 0.8 && renewed <= 1.0, "{renewed} s left");
}

/// A late heartbeat still counts unless the node was declared dead: nothing was taken from it yet.
pub(crate) async fn a_late_heartbeat_renews_too<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.register_node(&brief("n")).await.unwrap();
    let late = async || status(&store, node).await.unwrap().lease_seconds_left < 0.0;
    eventually(Duration::from_secs(15), late).await;
    let silent = store.heartbeat_of(node).await;
    assert!(store.heartbeat(node).await.unwrap());
    assert_eq!(store.declare_dead(&[silent]).await.unwrap(), [], "it was heard after that");
    assert!(!status(&store, node).await.unwrap().dead);
}

/// A server whose clock was set may see a lease as over, or as good for years. Its clock is not consulted.
pub(crate) async fn node_death_does_not_depend_on_a_clock<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let before = store.heartbeat_of(node).await;
    assert!(!before.dead && !before.ended);
    db.end_lease(node).await;
    assert_eq!(store.heartbeat_of(node).await, before, "what a monitor sees is the same");
    assert!(store.heartbeat(node).await.unwrap());
    let after = store.heartbeat_of(node).await;
    assert_ne!(after.heartbeats, before.heartbeats);
    assert_eq!((after.lease, after.dead), (node_info("n").lease, false));
}

pub(crate) async fn a_dead_node_is_not_revived<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.register_node(&brief("n")).await.unwrap();
    // It owns a job, or it would be forgotten at once.
    store.send(job()).await;
    store.take_one(node).await;
    store.declare(node).await;
    assert!(status(&store, node).await.unwrap().dead);
    let heartbeat = store.heartbeat_of(node).await;
    assert!(heartbeat.dead, "on the list until it is forgotten");
    assert_eq!(store.declare_dead(&[heartbeat]).await.unwrap(), [], "once is enough");
    for _ in 0..3 {
        assert!(!store.heartbeat(node).await.unwrap());
    }
    assert!(status(&store, node).await.unwrap().dead);
    store.send(job()).await;
    assert_eq!(store.take(node, 10).await.len(), 0, "a dead node takes nothing");
    assert_eq!(store.release_all_lost().await, (1, 0));
    assert!(status(&store, node).await.is_none(), "forgotten when it owns nothing");
    assert!(!store.heartbeat(node).await.unwrap());
}

pub(crate) async fn only_the_silent_are_declared<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (silent, renewed) = (store.node().await, store.node().await);
    let node_heartbeats = store.node_heartbeats().await.unwrap();
    assert_eq!(node_heartbeats.len(), 2);
    assert!(store.heartbeat(renewed).await.unwrap());
    assert_eq!(store.declare_dead(&node_heartbeats).await.unwrap(), [silent]);
    store.release_all_lost().await;
    assert_eq!(
        store.node_heartbeats().await.unwrap().iter().map(|heartbeat| heartbeat.node).collect::<Vec<_>>(),
        [renewed],
        "forgotten"
    );
    assert!(store.heartbeat(renewed).await.unwrap());
    assert_eq!(store.declare_dead(&[]).await.unwrap(), []);
}

pub(crate) async fn an_expired_node_loses_its_jobs<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.register_node(&brief("n")).await.unwrap();
    let id = store.send(job()).await;
    let claimed = store.take_one(node).await;
    assert_eq!(store.release_all_lost().await, (0, 0), "not while it is alive");
    store.declare(node).await;
    assert_eq!(store.state(id).await, Some(JobState::Running), "declaring is not releasing");
    assert_eq!(store.release_all_lost().await, (1, 0));
    assert_eq!(store.state(id).await, Some(JobState::Waiting));
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), []);
}

pub(crate) async fn retired_is_gone<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.retire_node(node).await.unwrap();
    assert!(!store.heartbeat(node).await.unwrap());
    store.release_all_lost().await;
    assert!(status(&store, node).await.is_none());
    store.retire_node(node).await.unwrap();
    store.retire_node(NOBODY).await.unwrap();
    assert!(!store.heartbeat(NOBODY).await.unwrap());
}

/// Jobs that a node still owns when it stops are given back, whether it knows of them or not; no handler failed, so none counts as failed.
pub(crate) async fn a_retiring_node_gives_back_the_jobs_it_owns<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().max_attempts(1)).await;
    assert_eq!(store.retire_node(node).await.unwrap(), 1);
    let detail = store.detail(claimed.id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 0));
    assert_eq!(detail.errors, []);
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [], "its report comes too late");
    assert!(status(&store, node).await.is_none(), "nothing keeps it from being forgotten");
    assert_eq!(store.release_all_lost().await, (0, 0));
}

/// A node that retires gives back its own jobs only.
pub(crate) async fn retired_beside_others<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    let other = store.node().await;
    assert_eq!(store.retire_node(other).await.unwrap(), 0);
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [claimed.id]);
}

/// A dead node's outcomes count as long as its jobs were not released: its work is done.
pub(crate) async fn expired_but_not_yet_released<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    db.bury(node).await;
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [claimed.id]);
    assert_eq!(store.release_all_lost().await, (0, 0));
}

pub(crate) async fn the_broker_is_shown<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let shown = async || status(&store, node).await.unwrap().broker;
    assert_eq!(shown().await, None);
    for mode in [Some("up"), Some("blocked"), None] {
        store.report_broker(node, mode).await.unwrap();
        assert_eq!(shown().await.as_deref(), mode);
    }
    store.report_broker(NOBODY, Some("up")).await.unwrap();
}

/// The heartbeat has its own thread and runtime.
pub(crate) async fn a_detached_handle_lives_elsewhere<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let detached = store.detached().await.unwrap();
    let heartbeats = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert!(detached.heartbeat(node).await.unwrap());
            assert!(!detached.heartbeat(NOBODY).await.unwrap());
        });
    };
    tokio::task::spawn_blocking(heartbeats).await.expect("it is the same database");
}

/// Each living node is watched by another one, however many there are, and whichever of them die. Not all of them watch all others.
pub(crate) async fn each_node_is_watched_by_another<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut living = BTreeSet::new();
    for _ in 0..30 {
        living.insert(store.register_node(&brief("n")).await.unwrap());
    }
    loop {
        let mut watched_by = BTreeMap::<NodeId, usize>::new();
        for node in &living {
            let seen = store.watched_heartbeats(*node).await.unwrap();
            for other in seen.iter().filter(|other| !other.dead && other.node != *node) {
                *watched_by.entry(other.node).or_default() += 1;
            }
        }
        let alone = living.len() == 1;
        assert!(alone || living.iter().all(|node| watched_by.contains_key(node)), "{watched_by:?}");
        let Some(first) = living.pop_first() else { break };
        // It stays on the list: it owns a job.
        store.send(job()).await;
        store.take_one(first).await;
        store.declare(first).await;
        if let Some(node) = living.first() {
            assert!(store.watched_heartbeats(*node).await.unwrap().iter().any(|seen| seen.dead), "it is not released");
        }
    }
}
