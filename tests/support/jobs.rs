//! Shorthand for what nearly every test does with a store.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobwright::admin::{AffectedJobs, JobDetail, JobFilter, JobState, JobSummary, Page, RetryOptions, Rule};
use jobwright::internal::Action;
use jobwright::internal::engine::{
    AdmitRequest, Admitted, ClaimRequest, JobStore, NodeHeartbeat, NodeInfo, OperatorOptions, Preclaim, ScanCursor,
    Settlement, Verdict, check_schema, testing,
};
use jobwright::internal::{ClaimNumber, Fence, HandOutNumber};
use jobwright::{ErrorKind, Job, JobId, JobMessage, NewJob, NodeId, Result};
use serde_json::json;

use super::eventually;

/// Counts the calls that took jobs. It does not start at 1: no test may rely on the numbers themselves.
static CALLS: AtomicU32 = AtomicU32::new(1000);

/// Returns a new claim number, greater than all before.
pub(crate) fn claim_number() -> ClaimNumber {
    ClaimNumber::new(CALLS.fetch_add(1, Ordering::Relaxed))
}

/// Asks for these messages to be inserted as claimed by this node.
pub(crate) fn preclaim<'m>(node: NodeId, messages: impl IntoIterator<Item = &'m JobMessage>) -> Preclaim {
    Preclaim { node, claim: claim_number(), ids: messages.into_iter().map(|message| message.id).collect() }
}

/// Returns a new hand-out number, greater than all before, claim numbers included.
pub(crate) fn hand_out_number() -> HandOutNumber {
    HandOutNumber::new(CALLS.fetch_add(1, Ordering::Relaxed).into())
}

/// An hour: later than the end of any test.
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

/// Returns a job of kind `kind` in the queue `default`.
pub(crate) fn job() -> NewJob {
    NewJob::json("kind", &json!({ "n": 1 }))
}

/// Returns `count` such jobs.
pub(crate) fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|n| NewJob::json("kind", &json!({ "n": n }))).collect()
}

/// Validates a job, as a context does.
pub(crate) fn message(job: NewJob) -> JobMessage {
    testing::message(job).unwrap()
}

/// Validates all of these jobs.
pub(crate) fn messages(jobs: impl IntoIterator<Item = NewJob>) -> Vec<JobMessage> {
    jobs.into_iter().map(message).collect()
}

/// Returns how a test's node registers: its lease outlives the test.
pub(crate) fn node_info(name: &str) -> NodeInfo {
    NodeInfo::new(name, "host", 4711, Duration::from_secs(300))
}

/// Returns the same claim with another token.
pub(crate) fn with_version(mut fence: Fence, version: i64) -> Fence {
    fence.version = version;
    fence
}

/// An id that no node ever had.
pub(crate) const NOBODY: NodeId = NodeId(9_999_999);

/// Collects ids into a set: the order of a result means nothing unless it is documented.
pub(crate) fn set(ids: impl IntoIterator<Item = JobId>) -> BTreeSet<JobId> {
    ids.into_iter().collect()
}

/// Returns the ids in the order in which the jobs were claimed.
pub(crate) fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Returns the fences that outcomes name.
pub(crate) fn fences(jobs: &[Job]) -> Vec<Fence> {
    jobs.iter().map(Job::fence).collect()
}

/// Returns a scan cursor behind this job.
pub(crate) fn cursor(job: &Job) -> ScanCursor {
    ScanCursor { rank: -job.priority, seq: job.seq }
}

/// Returns counts by state, as an operator's command reports them.
pub(crate) fn affected<const N: usize>(counts: [(JobState, u64); N]) -> AffectedJobs {
    AffectedJobs(counts.into_iter().collect())
}

/// What operators do, in nobody's name: tests of the audit name somebody.
impl Jobs {
    /// Makes dead letters and timers that match wait to run at once.
    pub(crate) async fn retry(&self, filter: &JobFilter, dry_run: bool) -> Result<AffectedJobs> {
        self.retry_with(filter, &RetryOptions::default().dry_run(dry_run)).await
    }

    /// Does the same for some of the jobs, or spreads them over a time.
    pub(crate) async fn retry_with(&self, filter: &JobFilter, options: &RetryOptions) -> Result<AffectedJobs> {
        let RetryOptions { dry_run, limit, spread, .. } = *options;
        self.operate(
            filter,
            &Action::Retry { limit, spread },
            OperatorOptions { dry_run, ..OperatorOptions::default() },
        )
        .await
    }

    /// Removes live jobs that match.
    pub(crate) async fn cancel(&self, filter: &JobFilter, dry_run: bool) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Cancel, OperatorOptions { dry_run, ..OperatorOptions::default() }).await
    }

    /// Removes jobs that match for good, dead letters too.
    pub(crate) async fn delete(&self, filter: &JobFilter, dry_run: bool) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Delete, OperatorOptions { dry_run, ..OperatorOptions::default() }).await
    }

    /// Fails unless the schema is complete and known.
    pub(crate) async fn check_schema(&self) -> Result<()> {
        check_schema(&*self.0).await
    }

    /// Sets a rule; removes it if it sets nothing.
    pub(crate) async fn put_rule(&self, rule: &Rule) -> Result<()> {
        let new = rule.clone();
        self.change_rule(rule.scope, &rule.name, Box::new(move |old| *old = new), None).await.map(drop)
    }
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

    /// Registers a node that lives as long as the test.
    pub(crate) async fn node(&self) -> NodeId {
        self.register_node(&node_info("test")).await.unwrap()
    }

    /// Returns the node's heartbeat as a monitor sees it.
    pub(crate) async fn heartbeat_of(&self, node: NodeId) -> NodeHeartbeat {
        let node_heartbeats = self.node_heartbeats().await.unwrap();
        node_heartbeats.into_iter().find(|heartbeat| heartbeat.node == node).expect("it is registered")
    }

    /// Declares a node dead, naming its present heartbeat.
    pub(crate) async fn declare(&self, node: NodeId) {
        let silent = self.heartbeat_of(node).await;
        eventually(Duration::from_secs(15), async || self.declare_dead(&[silent]).await.unwrap() == [node]).await;
    }

    /// Claims jobs of any kind from the queue `default`.
    pub(crate) async fn take(&self, node: NodeId, limit: usize) -> Vec<Job> {
        self.take_from("default", node, limit).await
    }

    /// Claims jobs of any kind from a queue.
    pub(crate) async fn take_from(&self, queue: &str, node: NodeId, limit: usize) -> Vec<Job> {
        let request = ClaimRequest::new(node, claim_number(), queue, limit);
        let mut jobs = match self.claim(&request).await {
            Ok(claimed) => claimed.jobs,
            // A refused claim took nothing, and only that matters here.
            Err(error) if error.kind() == ErrorKind::LeaseLost => Vec::new(),
            Err(error) => panic!("{error:?}"),
        };
        assert!(jobs.len() <= limit, "{} jobs were claimed where {limit} were asked for", jobs.len());
        // "Best first" decides which jobs are taken; the executor sorts what it gets.
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

    /// Settles one claim and returns whether the outcome was accepted.
    pub(crate) async fn settle_one(&self, node: NodeId, fence: Fence, verdict: Verdict) -> bool {
        self.settle_with(node, Settlement::new(fence, verdict)).await
    }

    /// Settles one claim with a full settlement and returns whether it was accepted.
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

    /// Runs one admission pass for the queue `default` and any kind.
    pub(crate) async fn admit_once(&self) -> Admitted {
        let queues = ["default".to_owned()];
        self.admit(&AdmitRequest { limit: 500, queues: &queues, kinds: None, counting: false }).await.unwrap()
    }

    /// Runs admission passes until nothing is due. Returns how many jobs became claimable.
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

    /// Promotes all timers that are due.
    pub(crate) async fn promote(&self) -> u64 {
        self.promote_due(1000).await.unwrap().jobs
    }

    /// Releases all jobs of dead nodes. Returns how many wait and how many are dead letters.
    pub(crate) async fn release_all_lost(&self) -> (u64, u64) {
        let released = self.release_lost(1000, None).await.unwrap();
        assert!(released.total() < 1000);
        (released.waiting, released.dead)
    }

    /// Returns the detail of a job that must exist.
    pub(crate) async fn detail(&self, id: JobId) -> JobDetail {
        self.show(id).await.unwrap().unwrap_or_else(|| panic!("{id} is gone"))
    }

    /// Returns the state of a job; `None`: it is gone.
    pub(crate) async fn state(&self, id: JobId) -> Option<JobState> {
        self.show(id).await.unwrap().map(|detail| detail.summary.state)
    }

    /// Lists all jobs that match.
    pub(crate) async fn find(&self, filter: &JobFilter) -> Vec<JobSummary> {
        self.list(filter, &Page::new(100_000)).await.unwrap()
    }

    /// Lists all jobs.
    pub(crate) async fn all(&self) -> Vec<JobSummary> {
        self.find(&JobFilter::default()).await
    }

    /// Counts the jobs in this state.
    pub(crate) async fn count(&self, state: JobState) -> usize {
        self.find(&JobFilter::state(state)).await.len()
    }

    /// Sends one job that is owned from the start.
    pub(crate) async fn send_owned(&self, job: NewJob, node: NodeId) -> Fence {
        let message = message(job);
        let owned = preclaim(node, [&message]);
        let inserted = self.insert(std::slice::from_ref(&message), Some(&owned)).await.unwrap();
        assert_eq!(inserted.owned.len(), 1, "not owned");
        Fence::new(message.id, owned.claim.get())
    }
}
