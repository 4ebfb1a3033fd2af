//! The engine's side: each method takes the lock once, so it is one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jobwright::store::{
    ClaimRequest, Claimed, Completed, DeadLetterGroups, Extension, ExternalDone, Hint, HintStream, Inserted, JobDetail,
    JobFilter, JobState, JobStore, JobSummary, MigrationStatus, NodeHeartbeat, NodeInfo, NodeStatus, Page, Preclaim,
    Promoted, QueueStatus, Received, Released, ScanRange, ServerIdentity, Settlement, StatusReport,
};
use jobwright::{ClaimNumber, Fence, HandOutNumber, Job, JobId, JobMessage, NodeId, Result, Submission};

use super::Oracle;
use super::model::{JobTable, Node, State, after};

/// Returns the seconds from `earlier` to `later`.
fn seconds(earlier: Timestamp, later: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64()
}

#[async_trait]
impl JobStore for Oracle {
    fn describe(&self) -> String {
        "the oracle".to_owned()
    }

    async fn detached(&self) -> Result<Arc<dyn JobStore>> {
        Ok(Arc::new(self.clone()))
    }

    async fn migrate(&self) -> Result<Vec<MigrationStatus>> {
        self.lock().migrated.get_or_insert_with(Timestamp::now);
        self.migration_status().await
    }

    async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        let applied_at = self.lock().migrated;
        let step = |(version, name): (i32, &str)| MigrationStatus {
            version,
            name: name.to_owned(),
            applied_at,
            known: true,
            compatible: true,
        };
        Ok(vec![step((1, "schema"))])
    }

    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        let mut state = self.lock();
        let (rows, inserted) = state.prepare(messages, owned);
        state.jobs.extend(rows.into_iter().map(|row| (row.seq, row)));
        Ok(inserted)
    }

    async fn notify(&self, _hints: &[Hint]) -> Result<()> {
        Ok(())
    }

    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>> {
        Ok(None)
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed> {
        let mut state = self.lock();
        if !state.alive(request.node) {
            return Ok(Claimed::default());
        }
        let jobs = state.own_first((request.node, request.claim), request.limit, |row| {
            row.message.queue == request.queue
                && (request.include_hidden || !row.is_held())
                && request.kinds.is_none_or(|kinds| kinds.contains(&row.message.kind))
                && match request.range {
                    ScanRange::All => true,
                    ScanRange::After { cursors, .. } => {
                        cursors.iter().all(|cursor| row.rank() != cursor.rank || row.seq > cursor.seq)
                    }
                    ScanRange::UpTo(last) => (row.rank(), row.seq) <= (last.rank, last.seq),
                }
        });
        Ok(Claimed { jobs, reserved_from: None, allowed: None })
    }

    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
        let mut state = self.lock();
        let mut accepted = Vec::new();
        for fence in fences {
            if let Some(seq) = state.owned(node, *fence).map(|row| row.seq) {
                state.jobs.remove(&seq);
                accepted.push(fence.id);
            }
        }
        Ok(accepted)
    }

    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        let mut state = self.lock();
        let accepted = settlements.iter().filter(|settlement| state.settle(node, settlement));
        Ok(accepted.map(|settlement| settlement.fence.id).collect())
    }

    async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        let now = Timestamp::now();
        let mut state = self.lock();
        let mut timers: Vec<(Timestamp, i64)> = state
            .jobs
            .values()
            .filter_map(|row| match row.location {
                JobTable::Timer { due } => Some((due, row.seq)),
                _ => None,
            })
            .collect();
        timers.sort_unstable();
        let due = timers.iter().take_while(|(due, _)| *due <= now).count().min(limit);
        let next = timers.get(due).map(|(due, _)| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        let mut queues = BTreeSet::new();
        for (_, seq) in &timers[..due] {
            let row = state.jobs.get_mut(seq).unwrap();
            row.location = JobTable::Waiting;
            queues.insert(row.message.queue.clone());
        }
        Ok(Promoted { jobs: due as u64, queues: queues.into_iter().collect(), blocked: false, next })
    }

    async fn register_node(&self, info: &NodeInfo) -> Result<NodeId> {
        let mut state = self.lock();
        state.last_node += 1;
        let id = NodeId(state.last_node);
        let now = Timestamp::now();
        let expires_at = after(now, info.lease);
        state.nodes.insert(
            id,
            Node { info: info.clone(), started_at: now, expires_at, heartbeats: 0, dead: false, broker: None },
        );
        Ok(id)
    }

    async fn heartbeat(&self, id: NodeId) -> Result<bool> {
        let mut state = self.lock();
        let Some(node) = state.nodes.get_mut(&id).filter(|node| !node.dead) else { return Ok(false) };
        node.expires_at = after(Timestamp::now(), node.info.lease);
        node.heartbeats += 1;
        Ok(true)
    }

    async fn retire_node(&self, id: NodeId) -> Result<u64> {
        let mut state = self.lock();
        state.nodes.remove(&id);
        Ok(state.release_unknown(id, &[], None))
    }

    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>> {
        let state = self.lock();
        let heartbeat = |(id, node): (&NodeId, &Node)| NodeHeartbeat {
            node: *id,
            heartbeats: node.heartbeats,
            lease: node.info.lease,
            ended: false,
            dead: node.dead,
        };
        Ok(state.nodes.iter().map(heartbeat).collect())
    }

    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>> {
        let mut state = self.lock();
        let mut declared = Vec::new();
        for heartbeat in silent {
            let node = state.nodes.get_mut(&heartbeat.node);
            if let Some(node) = node.filter(|node| !node.dead && node.heartbeats == heartbeat.heartbeats) {
                node.dead = true;
                declared.push(heartbeat.node);
            }
        }
        Ok(declared)
    }

    async fn identity(&self) -> Result<Option<ServerIdentity>> {
        Ok(None)
    }

    fn reconnect(&self) {}

    /// The oracle has no permits, so there is nothing to free.
    async fn handlers_ended(&self, _: NodeId, _: &[Fence]) -> Result<u64> {
        Ok(0)
    }

    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()> {
        let until = after(Timestamp::now(), by);
        if let Some(row) = self.lock().owned(node, fence) {
            row.location = JobTable::Waiting;
            row.held = Some(until);
        }
        Ok(())
    }

    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64> {
        let mut state = self.lock();
        let mut released = 0;
        for id in ids {
            if let Some(row) = state.owned(node, Fence::new(*id, claim.get())) {
                row.attempt -= 1;
                row.location = JobTable::Waiting;
                released += 1;
            }
        }
        Ok(released)
    }

    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        let mut state = self.lock();
        let lost = |state: &State| -> Vec<(i64, NodeId)> {
            let owned = state.jobs.values().filter_map(|row| Some((row.seq, row.owner()?)));
            owned.filter(|(_, owner)| !state.alive(*owner)).collect()
        };
        let mut released = Released::default();
        for (seq, owner) in lost(&state).into_iter().take(limit) {
            let row = state.jobs.get_mut(&seq).unwrap();
            row.record(owner, "owner lost", None);
            let deaths = row.deaths();
            if quarantine.is_some_and(|limit| deaths >= limit.get()) {
                row.bury(&format!("quarantined: its process died {deaths} times while it ran"));
                released.dead += 1;
            } else if row.spent() {
                row.bury("owner lost");
                released.dead += 1;
            } else {
                row.location = JobTable::Waiting;
                released.waiting += 1;
            }
        }
        let owning: BTreeSet<NodeId> = lost(&state).into_iter().map(|(_, owner)| owner).collect();
        state.nodes.retain(|id, node| !node.dead || owning.contains(id));
        Ok(released)
    }

    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64> {
        Ok(self.lock().release_unknown(node, known, before))
    }

    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>> {
        Ok(self.lock().claim_delivered(node, claim, deliveries, kinds))
    }

    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>> {
        Ok(self.lock().unhide(ids))
    }

    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()> {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.broker = mode.map(str::to_owned);
        }
        Ok(())
    }

    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>> {
        Ok(self.lock().hand_out(queue, limit, lease, token))
    }

    async fn report_key(&self) -> Result<jobwright::job::ReportKey> {
        Ok(jobwright::job::ReportKey::new([1; 32]))
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

    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        let mut state = self.lock();
        Ok(submissions.iter().map(|submission| state.receive(submission)).collect())
    }

    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64> {
        Ok(self.lock().prune_submissions(age, limit))
    }

    async fn status(&self) -> Result<StatusReport> {
        let now = Timestamp::now();
        let state = self.lock();
        let mut queues: BTreeMap<&str, QueueStatus> = BTreeMap::new();
        let mut running: BTreeMap<NodeId, u64> = BTreeMap::new();
        for row in state.jobs.values() {
            let name = row.message.queue.as_str();
            let queue =
                queues.entry(name).or_insert_with(|| QueueStatus { queue: name.to_owned(), ..Default::default() });
            match row.location {
                JobTable::Waiting => {
                    queue.waiting += 1;
                    let age = seconds(row.created_at, now);
                    queue.oldest_waiting_seconds =
                        Some(queue.oldest_waiting_seconds.map_or(age, |oldest| oldest.max(age)));
                }
                JobTable::Running { owner, .. } => {
                    queue.running += 1;
                    *running.entry(owner).or_default() += 1;
                }
                JobTable::External { .. } => queue.external += 1,
                JobTable::Timer { due } => {
                    queue.timer += 1;
                    queue.overdue += u64::from(due <= now);
                }
                JobTable::Suspended => queue.suspended += 1,
                JobTable::Dead { .. } => queue.dead += 1,
            }
        }
        let nodes = state.nodes.iter().map(|(id, node)| NodeStatus {
            id: *id,
            name: node.info.name.clone(),
            host: node.info.host.clone(),
            pid: node.info.pid,
            started_at: node.started_at,
            lease_seconds_left: seconds(now, node.expires_at),
            dead: node.dead,
            running: running.get(id).copied().unwrap_or(0),
            broker: node.broker.clone(),
        });
        Ok(StatusReport { queues: queues.into_values().collect(), nodes: nodes.collect() })
    }

    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        let state = self.lock();
        let (chosen, _) = state.select(filter, &JobState::ALL);
        let rest = chosen.into_iter().filter(|seq| page.after.is_none_or(|after| *seq > after));
        Ok(rest.take(page.limit).map(|seq| state.jobs[&seq].summary()).collect())
    }

    async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        Ok(self.lock().by_id(id).map(|row| JobDetail {
            summary: row.summary(),
            version: row.version,
            errors: row.errors.clone(),
            headers: row.message.headers.clone(),
            payload: row.message.payload.clone(),
            dead: match &row.location {
                JobTable::Dead { at, reason } => Some((*at, reason.clone())),
                _ => None,
            },
            options: row.message.options.clone(),
            blocked_on: None,
        }))
    }

    async fn dead_letter_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadLetterGroups> {
        Ok(self.lock().dead_letter_groups(filter, limit))
    }
}
