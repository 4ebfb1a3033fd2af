//! The reference store in memory: one map, one lock, no cleverness. All other stores must behave like it.

mod broker;
mod dead_letters;
mod engine;
mod external;
mod maintenance;
mod model;
mod operators;
mod schedules;
mod transaction;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use jobwright::Store;
use jobwright::internal::engine::JobStore;
use jobwright::{JobId, NodeId, Result};

use self::model::{JobTable, State};
pub(crate) use self::transaction::OracleTransaction;
use super::TestDb;

/// A handle; clones share the same jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle(Arc<Mutex<State>>);

impl Oracle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Store for Oracle {
    type Transaction = OracleTransaction;

    async fn begin(&self) -> Result<OracleTransaction> {
        Ok(OracleTransaction::new(self.clone()))
    }

    fn engine(&self) -> Arc<dyn JobStore> {
        Arc::new(self.clone())
    }
}

impl TestDb for Oracle {
    type Store = Self;
    const HEARS_HINTS: bool = false;

    async fn create_empty() -> Option<Self> {
        Some(Self::default())
    }

    fn store(&self) -> Self {
        self.clone()
    }

    async fn reopen(&self) -> Self {
        self.clone()
    }

    async fn suspend(&self, id: JobId) {
        self.lock().by_id(id).unwrap().location = JobTable::Suspended;
    }

    async fn restart_sequence(&self, next: i64) {
        self.lock().last_seq = next - 1;
    }

    async fn set_counters(&self, id: JobId, version: i64, attempt: u32) {
        let mut state = self.lock();
        let row = state.by_id(id).unwrap();
        (row.version, row.attempt) = (version, attempt);
    }

    async fn date_back(&self, _: JobId, _: Duration) {
        unreachable!("what grows old is asked of databases alone");
    }

    async fn end_lease(&self, node: NodeId) {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.expires_at = Timestamp::UNIX_EPOCH;
        }
    }

    async fn make_due(&self, name: &str, at: Timestamp) {
        self.lock().schedules.get_mut(name).unwrap().next_at = Some(at);
    }

    async fn clear(&self) {
        let mut state = self.lock();
        state.jobs.clear();
        state.nodes.clear();
        state.submissions.clear();
        state.schedules.clear();
    }
}
