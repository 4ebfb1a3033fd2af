//! Tests for what the conformance suite can't see: cancelled futures, held locks, faulty files, and the query plans of the hot statements.

mod file;
mod life;
#[cfg(unix)]
mod names;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

use super::Sqlite;
use crate::config::DatabaseConfig;
use crate::error::Result;
use crate::job::{ClaimNumber, JobMessage, Limits, NewJob, NodeId};
use crate::store::{
    Action, AffectedJobs, ClaimRequest, JobFilter, NodeInfo, Nodes, Operator, OperatorOptions, ScanRange,
};

/// A directory that is removed at the end of its test.
struct TempFile(PathBuf);

impl TempFile {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("jobwright-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn config(&self) -> DatabaseConfig {
        let url = format!("sqlite:{}", self.0.join("jobs.db").display());
        DatabaseConfig { call_timeout: Duration::from_millis(300), ..DatabaseConfig::url(url) }
    }

    /// Opens a store and creates its tables.
    async fn store(&self) -> Sqlite {
        self.store_with(self.config()).await
    }

    /// Opens a store with a long call timeout, for tests that are not about time.
    async fn patient(&self) -> Sqlite {
        self.store_with(DatabaseConfig { call_timeout: Duration::from_secs(30), ..self.config() }).await
    }

    async fn store_with(&self, config: DatabaseConfig) -> Sqlite {
        let store = Sqlite::open(&config).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// Opens a connection that is not the store's.
    fn stranger(&self) -> Connection {
        Connection::open(self.0.join("jobs.db")).unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn message(job: NewJob) -> JobMessage {
    job.validate(Limits::default()).unwrap()
}

fn job() -> NewJob {
    NewJob::json("kind", &serde_json::json!({ "a": 1 }))
}

async fn node(store: &Sqlite) -> NodeId {
    let info = NodeInfo::new("test", "here", 1, Duration::from_secs(30));
    store.register_node(&info).await.unwrap()
}

async fn operate(store: &Sqlite, filter: &JobFilter, action: Action) -> Result<AffectedJobs> {
    store.operate(filter, &action, OperatorOptions::UNNAMED).await
}

fn claim(node: NodeId, limit: usize) -> ClaimRequest<'static> {
    ClaimRequest {
        node,
        claim: ClaimNumber::new(0),
        queue: "default",
        kinds: None,
        limit,
        range: ScanRange::All,
        include_hidden: false,
        counted: &[],
        admitted_too: true,
        suspects: false,
    }
}
