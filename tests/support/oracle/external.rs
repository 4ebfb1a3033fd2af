//! Jobs of external workers.

use std::time::Duration;

use async_trait::async_trait;
use jobwright::admin::{JobDetail, JobState, Released};
use jobwright::internal::engine::Operator as _;
use jobwright::internal::engine::{Completed, Extension, External, ExternalDone, Settlement};
use jobwright::internal::{Fence, HandOutNumber};
use jobwright::{Job, JobId, Result};

use super::Oracle;

#[async_trait]
impl External for Oracle {
    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>> {
        Ok(self.lock().hand_out(queue, limit, lease, token))
    }

    async fn report_key(&self) -> Result<jobwright::internal::ReportKey> {
        Ok(jobwright::internal::ReportKey::new([1; 32]))
    }

    async fn take_back(&self, fences: &[Fence]) -> Result<u64> {
        let mut state = self.lock();
        Ok(fences.iter().filter(|fence| state.take_back(**fence)).count() as u64)
    }

    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed> {
        let mut state = self.lock();
        let mut completed = Completed::default();
        for one in done {
            match state.complete_external(one) {
                // The oracle blocks no jobs.
                Some(replies) => {
                    completed.ids.push(one.fence.id);
                    completed.replies |= replies;
                }
                None => completed.unblocks = true,
            }
        }
        Ok(completed)
    }

    async fn handed_out(&self, fence: Fence) -> Result<Option<JobDetail>> {
        let found = self.show(fence.id).await?;
        Ok(found.filter(|detail| detail.summary.state == JobState::External && detail.version == fence.version))
    }

    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        let mut state = self.lock();
        let accepted = settlements.iter().filter(|settlement| state.settle_external(settlement));
        Ok(accepted.map(|settlement| settlement.fence.id).collect())
    }

    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>> {
        let mut state = self.lock();
        let accepted = extensions.iter().filter(|extension| state.extend_external(extension));
        Ok(accepted.map(|extension| extension.fence.id).collect())
    }

    async fn expire_external(&self, limit: usize) -> Result<Released> {
        Ok(self.lock().expire_external(limit))
    }
}
