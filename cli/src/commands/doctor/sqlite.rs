//! Checks that only an embedded database needs.

use std::path::Path;
use std::time::Duration;

use jobwright::{AnyStore, AnyTransaction};
use nix::sys::statvfs::statvfs;

use super::Finding;
use crate::commands::Messages;

pub(super) async fn check(messages: &Messages) -> Vec<Finding> {
    match version(messages).await {
        Ok(version) => vec![
            Finding::ok("database version", format!("SQLite {version}, embedded")),
            Finding::ok("clock", "the database's clock is this host's"),
        ],
        Err(error) => {
            vec![Finding::error(
                "database writes",
                error,
                "check the rights on the file and its directory, and the processes that hold it open",
            )]
        }
    }
}

/// Uses a transaction that could write, which also shows whether the file is writable.
async fn version(messages: &Messages) -> jobwright::Result<String> {
    let mut context = messages.begin();
    let version = match context.transaction().await? {
        AnyTransaction::Sqlite(transaction) => {
            transaction.query_row("select sqlite_version()".to_owned(), [], |row| row.get(0)).await?
        }
        _ => String::new(),
    };
    context.rollback().await?;
    Ok(version)
}

/// With less free space than this, a database that grows is soon in trouble.
const ENOUGH: u64 = 256 << 20;

/// Checks the free space beside the file. On a server, no statement can tell it.
pub(super) fn disk(messages: &Messages) -> Option<Finding> {
    const CHECK: &str = "disk";
    let AnyStore::Sqlite(store) = messages.store() else { return None };
    let folder = store.path().parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(match statvfs(folder) {
        Ok(disk) => judged(disk.blocks_available().saturating_mul(disk.fragment_size())),
        Err(error) => Finding::warn(
            CHECK,
            format!("the free space of {} is not known: {error}", folder.display()),
            "nothing depends on this check",
        ),
    })
}

fn judged(free: u64) -> Finding {
    const CHECK: &str = "disk";
    let found = format!("{} MiB are free beside the database", free >> 20);
    if free < ENOUGH {
        return Finding::warn(
            CHECK,
            found,
            "free space there: without any, nothing can be sent or recorded; nothing that was committed is lost",
        );
    }
    Finding::ok(CHECK, found)
}

/// How long a node may take to end whose file is removed already.
const PAUSE: Duration = Duration::from_secs(1);

/// Finds nodes that have no file beside the database, by which the others would see that they live.
pub(super) async fn nodes(messages: &Messages) -> Finding {
    const CHECK: &str = "signs of life";
    let missing = async || {
        let AnyStore::Sqlite(store) = messages.store() else { return Ok(Vec::new()) };
        let file = |node| format!("{}-node-{node}", store.path().display());
        let nodes = messages.admin().nodes().await?;
        let missing = nodes.into_iter().filter(|node| !node.dead && !std::path::Path::new(&file(node.id)).exists());
        Ok(missing
            .map(|node| (node.id, format!("{} ({}, process {} on {})", node.id, node.name, node.pid, node.host)))
            .collect())
    };
    let twice = async || -> jobwright::Result<Vec<(jobwright::NodeId, String)>> {
        let first: Vec<_> = missing().await?;
        if first.is_empty() {
            return Ok(first);
        }
        tokio::time::sleep(PAUSE).await;
        let second = missing().await?;
        Ok(first.into_iter().filter(|node| second.contains(node)).collect())
    };
    match twice().await {
        Ok(nodes) if nodes.is_empty() => Finding::ok(CHECK, "every node has its file beside the database"),
        Ok(nodes) => {
            let nodes: Vec<String> = nodes.into_iter().map(|(_, node)| node).collect();
            Finding::warn(
                CHECK,
                format!("no file shows whether these nodes live, so they keep their jobs: {}", nodes.join(", ")),
                "if such a process runs, stop it and start it with the same path of the database as the others; if not, \
                 `jobwright nodes evict NODE` releases its jobs",
            )
        }
        Err(error) => Finding::error(CHECK, error, "follow the advice in the error"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::{ENOUGH, judged};

    #[test]
    fn a_disk_that_is_nearly_full_is_told() {
        assert_eq!(judged(ENOUGH).state, State::Ok);
        let told = judged(ENOUGH - 1);
        assert!(told.state == State::Warn && told.found.starts_with("255 MiB are free"), "{}", told.found);
    }
}
