//! Shorthand for what nearly every test does with a store.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobwright::store::{
    AdmitRequest, Admitted, ClaimRequest, JobDetail, JobFilter, JobState, JobStore, JobSummary, NodeInfo, Page,
    Preclaim, Pulse, ScanMark, Settlement, Steered, Verdict, testing,
};
use jobwright::{ClaimNumber, ErrorKind, Fence, HandOutNumber, Job, JobId, JobMessage, NewJob, NodeId};
use serde_json::json;

use super::eventually;

/// Calls that took jobs. Not from one on: no test may rely on the numbers themselves.
static CALLS: AtomicU32 = AtomicU32::new(1000);

/// The next number of a claim, greater than those before.
pub(crate) fn claim_number() -> ClaimNumber {
    ClaimNumber::new(CALLS.fetch_add(1, Ordering::Relaxed))
}

/// The next number of a hand-out, greater than those before, and those of claims.
pub(crate) fn hand_out_number() -> HandOutNumber {
    HandOutNumber::new(CALLS.fetch_add(1, Ordering::Relaxed).into())
}

/// An hour: later than any test.
pub(crate) const LATER: Duration = Duration::from_secs(3600);

/// The engine's side of a store, with shorthand.
#[derive(Clone, Debug)]
pub(crate) struct Jobs(pub(crate) Arc<dyn JobStore>);

impl Deref for Jobs {
    type Target = dyn JobStore;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// A job of kind `kind` in the queue `default`.
pub(crate) fn job() -> NewJob {
    NewJob::json("kind", &json!({ "n": 1 }))
}

/// `count` such jobs.
pub(crate) fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|n| NewJob::json("kind", &json!({ "n": n }))).collect()
}

/// Checked, as a context does it.
pub(crate) fn message(job: NewJob) -> JobMessage {
    testing::message(job).unwrap()
}

/// Checked, all of them.
pub(crate) fn messages(jobs: impl IntoIterator<Item = NewJob>) -> Vec<JobMessage> {
    jobs.into_iter().map(message).collect()
}

/// How a test's node presents itself: its lease outlives the test.
pub(crate) fn node_info(name: &str) -> NodeInfo {
    NodeInfo::new(name, "host", 4711, Duration::from_secs(300))
}

/// The same claim by another token.
pub(crate) fn with_version(mut fence: Fence, version: i64) -> Fence {
    fence.version = version;
    fence
}

/// An id no node ever had.
pub(crate) const NOBODY: NodeId = NodeId(9_999_999);

/// As a set: the order of an answer means nothing unless it is documented.
pub(crate) fn set(ids: impl IntoIterator<Item = JobId>) -> BTreeSet<JobId> {
    ids.into_iter().collect()
}

/// The ids in the order they were claimed.
pub(crate) fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// What outcomes name.
pub(crate) fn fences(jobs: &[Job]) -> Vec<Fence> {
    jobs.iter().map(Job::fence).collect()
}

/// A scan mark behind this job.
pub(crate) fn mark(job: &Job) -> ScanMark {
    ScanMark { rank: -job.priority, seq: job.seq }
}

/// Counts by state, as an operator's command returns them.
pub(crate) fn steered<const N: usize>(counts: [(JobState, u64); N]) -> Steered {
    Steered(counts.into_iter().collect())
}

impl Jobs {
    /// Sends one job.
    pub(crate) async fn send(&self, job: NewJob) -> JobId {
        self.send_all([job]).await[0]
    }

    /// Sends jobs in one batch.
    pub(crate) async fn send_all(&self, jobs: impl IntoIterator<Item = NewJob>) -> Vec<JobId> {
        let messages = messages(jobs);
        let inserted = self.insert(&messages, None).await.unwrap();
        assert_eq!(inserted.rows, messages.len() as u64, "rows written");
        assert_eq!(inserted.owned, [], "nothing was asked to be owned");
        messages.iter().map(|message| message.id).collect()
    }

    /// A node that lives as long as the test.
    pub(crate) async fn node(&self) -> NodeId {
        self.register_node(&node_info("test")).await.unwrap()
    }

    /// The node's heartbeat as a monitor sees it.
    pub(crate) async fn pulse(&self, node: NodeId) -> Pulse {
        let pulses = self.pulses().await.unwrap();
        pulses.into_iter().find(|pulse| pulse.node == node).expect("it is registered")
    }

    /// Declares a node dead whose heartbeat is the one that it has now.
    pub(crate) async fn declare(&self, node: NodeId) {
        let silent = self.pulse(node).await;
        eventually(Duration::from_secs(15), async || self.declare_dead(&[silent]).await.unwrap() == [node]).await;
    }

    /// Claims from the queue `default`, any kind.
    pub(crate) async fn take(&self, node: NodeId, limit: usize) -> Vec<Job> {
        self.take_from("default", node, limit).await
    }

    /// Claims from a queue, any kind.
    pub(crate) async fn take_from(&self, queue: &str, node: NodeId, limit: usize) -> Vec<Job> {
        let request = ClaimRequest::new(node, claim_number(), queue, limit);
        let mut jobs = match self.claim(&request).await {
            Ok(claimed) => claimed.jobs,
            // Nothing was taken, which is what is asked here.
            Err(error) if error.kind() == ErrorKind::LeaseLost => Vec::new(),
            Err(error) => panic!("{error:?}"),
        };
        assert!(jobs.len() <= limit, "{} jobs were claimed where {limit} were asked for", jobs.len());
        // "Best first" says which are taken; the executor sorts what it got.
        jobs.sort_by_key(|job| (-job.priority, job.seq));
        jobs
    }

    /// Claims exactly one job.
    pub(crate) async fn take_one(&self, node: NodeId) -> Job {
        let mut jobs = self.take(node, 1).await;
        assert_eq!(jobs.len(), 1, "nothing to claim");
        jobs.remove(0)
    }

    /// Sends a job and claims it with a new node.
    pub(crate) async fn running(&self, job: NewJob) -> (NodeId, Job) {
        let id = self.send(job).await;
        let node = self.node().await;
        let claimed = self.take_one(node).await;
        assert_eq!(claimed.id, id, "another job was in the way");
        (node, claimed)
    }

    /// Settles one claim, and says whether it was accepted.
    pub(crate) async fn settle_one(&self, node: NodeId, fence: Fence, verdict: Verdict) -> bool {
        self.settle_with(node, Settlement::new(fence, verdict)).await
    }

    /// Settles one claim with all there is to say about it.
    pub(crate) async fn settle_with(&self, node: NodeId, settlement: Settlement) -> bool {
        let id = settlement.fence.id;
        let accepted = self.settle(node, &[settlement]).await.unwrap();
        assert!(accepted.is_empty() || accepted == [id], "accepted what was not asked for: {accepted:?}");
        !accepted.is_empty()
    }

    /// Fails a claim with an error.
    pub(crate) async fn fail(&self, node: NodeId, job: &Job, delay: Duration, error: &str) {
        let settlement = Settlement::new(job.fence(), Verdict::Retry(delay)).error(error, None);
        assert!(self.settle_with(node, settlement).await, "the failure was refused");
    }

    /// Completes a claim.
    pub(crate) async fn finish(&self, node: NodeId, job: &Job) {
        assert_eq!(self.complete(node, &[job.fence()]).await.unwrap(), [job.id], "its outcome was refused");
    }

    /// One round of admission, for the queue `default` and any kind.
    pub(crate) async fn admit_once(&self) -> Admitted {
        let queues = ["default".to_owned()];
        self.admit(&AdmitRequest { limit: 500, queues: &queues, kinds: None, counting: false }).await.unwrap()
    }

    /// Rounds of admission until there is nothing to look at. How many jobs can be claimed now.
    pub(crate) async fn admit_all(&self) -> u64 {
        let mut jobs = 0;
        loop {
            let admitted = self.admit_once().await;
            jobs += admitted.jobs;
            if !admitted.more {
                return jobs;
            }
        }
    }

    /// Promotes everything that is due.
    pub(crate) async fn promote(&self) -> u64 {
        self.promote_due(1000).await.unwrap().jobs
    }

    /// Releases everything that nobody answers for. Returns how many wait and how many are dead.
    pub(crate) async fn release_all_lost(&self) -> (u64, u64) {
        let released = self.release_lost(1000, None).await.unwrap();
        assert!(released.total() < 1000);
        (released.waiting, released.dead)
    }

    /// Everything about a job that must exist.
    pub(crate) async fn detail(&self, id: JobId) -> JobDetail {
        self.show(id).await.unwrap().unwrap_or_else(|| panic!("{id} is gone"))
    }

    /// Where a job is; `None` = gone.
    pub(crate) async fn state(&self, id: JobId) -> Option<JobState> {
        self.show(id).await.unwrap().map(|detail| detail.summary.state)
    }

    /// All jobs that match.
    pub(crate) async fn find(&self, filter: &JobFilter) -> Vec<JobSummary> {
        self.list(filter, &Page::new(100_000)).await.unwrap()
    }

    /// All jobs.
    pub(crate) async fn all(&self) -> Vec<JobSummary> {
        self.find(&JobFilter::default()).await
    }

    /// How many jobs are in this state.
    pub(crate) async fn count(&self, state: JobState) -> usize {
        self.find(&JobFilter::state(state)).await.len()
    }

    /// Sends one job as already owned.
    pub(crate) async fn send_owned(&self, job: NewJob, node: NodeId) -> Fence {
        let message = message(job);
        let claim = claim_number();
        let owned = Preclaim { node, claim, positions: vec![0] };
        let inserted = self.insert(std::slice::from_ref(&message), Some(&owned)).await.unwrap();
        assert_eq!(inserted.owned.len(), 1, "not owned");
        Fence::new(message.id, claim.get())
    }
}
