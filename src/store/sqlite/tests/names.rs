//! One file is one database, whatever name leads to it; and no node dies for a sign that was not to be seen.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use super::{TempFile, job, message, node};
use crate::config::{Access, DatabaseConfig};
use crate::error::ErrorKind;
use crate::job::NodeId;
use crate::store::sqlite::Sqlite;
use crate::store::{Enqueue, Hint, NodeHeartbeat, Nodes, Operator};

fn config(temp: &TempFile, name: &str) -> DatabaseConfig {
    DatabaseConfig { call_timeout: Duration::from_secs(30), ..temp.config() }
        .with_url(format!("sqlite:{}", temp.0.join(name).display()))
}

async fn seen(store: &Sqlite, node: NodeId) -> Option<NodeHeartbeat> {
    store.node_heartbeats().await.unwrap().into_iter().find(|seen| seen.node == node)
}

/// Waits until a new file has a later time than now: the system gives files a clock that lags behind by some milliseconds.
fn until_files_are_later(temp: &TempFile) {
    let (now, probe) = (std::time::SystemTime::now(), temp.0.join("probe"));
    for _ in 0..1_000_000 {
        std::fs::write(&probe, "").unwrap();
        let created = std::fs::metadata(&probe).unwrap().created();
        std::fs::remove_file(&probe).unwrap();
        if !created.is_ok_and(|created| created <= now) {
            return;
        }
    }
}

fn names(temp: &TempFile) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(&temp.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Everything that is named after the file or derived from its identity: signs of life, the check for a replaced file, hints.
#[tokio::test]
async fn every_name_of_a_file_is_the_same_database() {
    let temp = TempFile::new();
    std::fs::create_dir_all(temp.0.join("inner/deep")).unwrap();
    symlink("inner", temp.0.join("folder")).unwrap();
    symlink("inner/jobs.db", temp.0.join("link.db")).unwrap();
    symlink("link.db", temp.0.join("twice.db")).unwrap();
    // The first creates the file, through a link that leads nowhere.
    let first = temp.store_with(config(&temp, "twice.db")).await;
    let mode = std::fs::metadata(temp.0.join("inner/jobs.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "payloads are private");
    let mut hints = first.listen().await.unwrap().unwrap();
    let mine = node(&first).await;
    for name in ["inner/jobs.db", "link.db", "twice.db", "folder/jobs.db", "inner/deep/../jobs.db", "folder/../link.db"]
    {
        let other = temp.store_with(config(&temp, name)).await;
        assert_eq!(other.path(), first.path(), "{name}");
        let theirs = node(&other).await;
        for (store, node) in [(&first, theirs), (&other, mine), (&other, theirs)] {
            let before = seen(store, node).await.unwrap();
            assert!(before.heartbeats >= 0 && !before.ended, "{name}: {before:?}");
            assert!(store.heartbeat(node).await.unwrap());
            assert_ne!(seen(&first, node).await.unwrap().heartbeats, before.heartbeats, "{name}");
        }
        while tokio::time::timeout(Duration::from_millis(200), hints.next()).await.is_ok() {}
        other.insert(&[message(job())], None).await.unwrap();
        let hint = tokio::time::timeout(Duration::from_secs(5), hints.next()).await.unwrap().unwrap();
        assert_eq!(hint, Hint::Any, "{name}");
        // The end of a process is seen through every name, too.
        drop(other);
        let gone = seen(&first, theirs).await.unwrap();
        assert!(gone.ended, "{name}: {gone:?}");
        assert_eq!(first.declare_dead(&[gone]).await.unwrap(), [theirs]);
        first.release_lost(10, None).await.unwrap();
    }
    assert_eq!(names(&temp), ["folder", "inner", "link.db", "twice.db"], "nothing lies beside a mere name");
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_now_is_noticed() {
    let temp = TempFile::new();
    symlink("jobs.db", temp.0.join("link.db")).unwrap();
    let store = temp.store_with(config(&temp, "link.db")).await;
    let mine = node(&store).await;
    assert!(store.heartbeat(mine).await.unwrap());
    // Whoever opens the name from now on gets the other file.
    std::fs::remove_file(temp.0.join("link.db")).unwrap();
    drop(temp.store_with(config(&temp, "other.db")).await);
    symlink("other.db", temp.0.join("link.db")).unwrap();
    let error = store.heartbeat(mine).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert!(error.to_string().contains("another file has its name now"), "{error}");
}

#[tokio::test]
async fn a_file_with_several_names_is_refused_before_it_is_opened() {
    let temp = TempFile::new();
    drop(temp.store().await);
    std::fs::hard_link(temp.0.join("jobs.db"), temp.0.join("second.db")).unwrap();
    symlink("second.db", temp.0.join("link.db")).unwrap();
    for name in ["jobs.db", "second.db", "link.db"] {
        for access in [Access::Create, Access::Existing, Access::ReadOnly] {
            let error = Sqlite::open(&config(&temp, name).access(access)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains("has 2 names (hard links)"), "{error}");
            assert!(error.to_string().contains("remove the others"), "{error}");
        }
    }
    assert_eq!(names(&temp), ["jobs.db", "link.db", "second.db"]);
    std::fs::remove_file(temp.0.join("second.db")).unwrap();
    Sqlite::open(&config(&temp, "jobs.db")).await.unwrap();
}

/// Its file may be elsewhere: it was started by a build that put it beside another name, for instance.
#[tokio::test]
async fn a_node_whose_file_was_never_seen_is_not_declared_dead() {
    let temp = TempFile::new();
    let theirs = temp.patient().await;
    let node = node(&theirs).await;
    let monitor = temp.patient().await;
    let file = temp.0.join(format!("jobs.db-node-{node}"));
    let elsewhere = temp.0.join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();
    assert_eq!(seen(&monitor, node).await, None, "it can't be judged");
    let guess = NodeHeartbeat { node, heartbeats: -1, lease: Duration::from_secs(30), ended: false, dead: false };
    assert_eq!(monitor.declare_dead(&[guess]).await.unwrap(), []);
    // The monitor sees the file once: now its absence means something.
    std::fs::rename(&elsewhere, &file).unwrap();
    assert!(seen(&monitor, node).await.unwrap().heartbeats >= 0);
    std::fs::remove_file(&file).unwrap();
    let silent = seen(&monitor, node).await.unwrap();
    assert!(!silent.ended, "it still has a lease to register again: {silent:?}");
    assert!(!theirs.heartbeat(node).await.unwrap(), "it finds out by itself");
    assert_eq!(monitor.declare_dead(&[silent]).await.unwrap(), [node]);
}

/// A file that can't be read says nothing of its node.
#[tokio::test]
async fn a_node_whose_file_can_not_be_read_is_not_declared_dead() {
    let temp = TempFile::new();
    let theirs = temp.patient().await;
    let node = node(&theirs).await;
    let monitor = temp.patient().await;
    let known = seen(&monitor, node).await.unwrap();
    let file = temp.0.join(format!("jobs.db-node-{node}"));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(seen(&monitor, node).await, None);
    let guess = NodeHeartbeat { heartbeats: -1, ..known };
    assert_eq!(monitor.declare_dead(&[known, guess]).await.unwrap(), []);
}

/// Nodes of the original are found dead in a copy, as after a restore.
#[tokio::test]
async fn nodes_that_were_copied_are_judged() {
    let temp = TempFile::new();
    let original = temp.patient().await;
    let node = node(&original).await;
    until_files_are_later(&temp);
    let copy = temp.0.join("copy.db");
    temp.stranger().execute("vacuum into ?1", [copy.to_str().unwrap()]).unwrap();
    if std::fs::metadata(&copy).unwrap().created().is_err() {
        return;
    }
    let restored = Sqlite::open(&config(&temp, "copy.db")).await.unwrap();
    restored.migrate().await.unwrap();
    let silent = seen(&restored, node).await.unwrap();
    assert!(!silent.ended, "after a lease: {silent:?}");
    assert_eq!(restored.declare_dead(&[silent]).await.unwrap(), [node]);
    assert!(original.heartbeat(node).await.unwrap(), "the original has nothing to do with it");
}
