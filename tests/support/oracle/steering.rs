//! What operators do, as far as the oracle goes: the cases of the rest are for databases.

use async_trait::async_trait;
use jobwright::store::{Action, AuditEntry, AuditFilter, JobFilter, JobState, Order, Released, Steered, Steering};
use jobwright::{Fence, NodeId, Result};

use super::Oracle;
use super::model::State;

#[async_trait]
impl Steering for Oracle {
    async fn steer(&self, filter: &JobFilter, action: &Action, order: Order<'_>) -> Result<Steered> {
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

    async fn gone(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>> {
        let mut state = self.lock();
        Ok(fences.iter().copied().filter(|fence| state.owned(node, *fence).is_none()).collect())
    }

    async fn condemn(&self, _: NodeId, _: Option<&str>) -> Result<Option<Released>> {
        panic!("the oracle condemns nobody")
    }

    async fn audit(&self, _: &AuditFilter, _: usize) -> Result<Vec<AuditEntry>> {
        Ok(Vec::new())
    }
}

impl State {
    fn remove(&mut self, filter: &JobFilter, states: &[JobState], dry_run: bool) -> Steered {
        let (chosen, steered) = self.select(filter, states);
        for seq in chosen.into_iter().filter(|_| !dry_run) {
            self.jobs.remove(&seq);
        }
        steered
    }
}
