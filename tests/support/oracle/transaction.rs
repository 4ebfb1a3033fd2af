//! A context's transaction: its changes are kept apart until it commits.

use jobwright::internal::Fence;
use jobwright::internal::engine::{Inserted, JobWriter, NewResult, Preclaim, UnitOfWork};
use jobwright::{JobMessage, NodeId, Result};

use super::Oracle;
use super::model::Row;

/// An open transaction.
#[derive(Debug)]
pub(crate) struct OracleTransaction {
    oracle: Oracle,
    inserted: Vec<Row>,
    removed: Vec<(NodeId, Fence)>,
}

impl OracleTransaction {
    pub(super) fn new(oracle: Oracle) -> Self {
        Self { oracle, inserted: Vec::new(), removed: Vec::new() }
    }
}

impl JobWriter for &mut OracleTransaction {
    async fn insert(&mut self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        let (rows, inserted) = self.oracle.lock().prepare(messages, owned)?;
        self.inserted.extend(rows);
        Ok(inserted)
    }
}

impl UnitOfWork for OracleTransaction {
    type Ref<'t> = &'t mut Self;

    fn lend(&mut self) -> &mut Self {
        self
    }

    async fn remove(&mut self, node: NodeId, fence: Fence) -> Result<bool> {
        let current = self.oracle.lock().owned(node, fence).is_some();
        if current {
            self.removed.push((node, fence));
        }
        Ok(current)
    }

    async fn keep_result(&mut self, _: &NewResult) -> Result<()> {
        panic!("the oracle keeps no results")
    }

    async fn commit(self) -> Result<()> {
        let mut state = self.oracle.lock();
        for (node, fence) in self.removed {
            if let Some(seq) = state.owned(node, fence).map(|row| row.seq) {
                state.jobs.remove(&seq);
            }
        }
        state.jobs.extend(self.inserted.into_iter().map(|row| (row.seq, row)));
        Ok(())
    }

    async fn rollback(self) -> Result<()> {
        Ok(())
    }
}
