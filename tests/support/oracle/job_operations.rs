//! Operations on jobs, as far as the oracle supports them: the other cases run on databases alone.

use async_trait::async_trait;
use jobwright::store::{
    Action, AffectedJobs, AuditEntry, AuditFilter, JobFilter, JobOperations, JobState, OperatorOptions, Released,
};
use jobwright::{Fence, NodeId, Result};

use super::Oracle;
use super::model::State;

#[async_trait]
impl JobOperations for Oracle {
    async fn operate(&self, filter: &JobFilter, action: &Action, order: OperatorOptions<'_>) -> Result<AffectedJobs> {
        action.check()?;
        let mut state = self.lock();
        Ok(match action {
            Action::Retry { limit, spread } => {
                let options =
                    jobwright::store::RetryOptions::default().dry_run(order.dry_run).limit(*limit).spread(*spread);
                state.retry(filter, &options)
            }
            Action::Cancel | Action::Delete => state.remove(filter, action.states(), order.dry_run),
            other => panic!("the oracle can't {other:?}"),
        })
    }

    async fn stale_claims(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>> {
        let mut state = self.lock();
        Ok(fences.iter().copied().filter(|fence| state.owned(node, *fence).is_none()).collect())
    }

    async fn evict(&self, _: NodeId, _: Option<&str>) -> Result<Option<Released>> {
        panic!("the oracle evicts nobody")
    }

    async fn audit(&self, _: &AuditFilter, _: usize) -> Result<Vec<AuditEntry>> {
        Ok(Vec::new())
    }
}

impl State {
    fn remove(&mut self, filter: &JobFilter, states: &[JobState], dry_run: bool) -> AffectedJobs {
        let (chosen, affected) = self.select(filter, states);
        for seq in chosen.into_iter().filter(|_| !dry_run) {
            self.jobs.remove(&seq);
        }
        affected
    }
}
