//! The engine's side: each method takes the lock once, so it is one transaction.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jobwright::admin::{JobProgress, Released};
use jobwright::headers::{EVENT_QUEUE, REPLY_QUEUE};
use jobwright::internal::engine::{
    Acquitted, ClaimRequest, Claimed, Claims, Enqueue, FullQueue, Hint, HintStream, Inserted, NodeHeartbeat, NodeInfo,
    Nodes, Outcomes, Preclaim, ProgressUpdate, Received, ScanRange, ServerIdentity, Settlement, StoreInfo, Suspect,
};
use jobwright::internal::{ClaimNumber, Fence, Submission};
use jobwright::{HistoryConfig, Job, JobId, JobMessage, NodeId, Result};

use super::Oracle;
use super::model::{JobTable, Node, OWNER_LOST_ALONE, Row, State, after};

impl StoreInfo for Oracle {
    fn describe(&self) -> String {
        "the oracle".to_owned()
    }

    fn is_single_writer(&self) -> bool {
        false
    }

    fn history_config(&self) -> HistoryConfig {
        HistoryConfig::default()
    }
}

#[async_trait]
impl Enqueue for Oracle {
    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        let mut state = self.lock();
        let (rows, inserted) = state.prepare(messages, owned)?;
        state.jobs.extend(rows.into_iter().map(|row| (row.seq, row)));
        Ok(inserted)
    }

    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        let mut state = self.lock();
        Ok(submissions.iter().map(|submission| state.receive(submission)).collect())
    }

    async fn full(&self, _: &[&str]) -> Result<Vec<FullQueue>> {
        Ok(Vec::new())
    }

    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>> {
        Ok(self.lock().unhide(ids))
    }

    async fn notify(&self, _hints: &[Hint]) -> Result<()> {
        Ok(())
    }

    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>> {
        Ok(None)
    }
}

#[async_trait]
impl Claims for Oracle {
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed> {
        let mut state = self.lock();
        if !state.alive(request.node) {
            return Ok(Claimed::default());
        }
        if request.suspects {
            return Ok(Claimed { jobs: state.own_suspects(request), reserved_from: None, allowed: None });
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

    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>> {
        Ok(self.lock().claim_delivered(node, claim, deliveries, kinds))
    }

    async fn suspects(&self, queues: &[String], kinds: Option<&[String]>, limit: usize) -> Result<Vec<Suspect>> {
        let state = self.lock();
        let wanted = |row: &&Row| {
            queues.contains(&row.message.queue) && kinds.is_none_or(|kinds| kinds.contains(&row.message.kind))
        };
        let mut found: Vec<&Row> =
            state.jobs.values().filter(|row| matches!(row.location, JobTable::Suspect)).filter(wanted).collect();
        found.sort_unstable_by_key(|row| (row.rank(), row.seq));
        let found = found.into_iter().take(limit).map(|row| Suspect {
            id: row.message.id,
            version: row.version,
            attempt: row.attempt,
            queue: row.message.queue.clone(),
            kind: row.message.kind.clone(),
            needs_permits: false,
        });
        Ok(found.collect())
    }

    async fn acquit(&self, ids: &[JobId]) -> Result<Acquitted> {
        let mut state = self.lock();
        let mut queues = BTreeSet::new();
        for row in state.jobs.values_mut().filter(|row| ids.contains(&row.message.id)) {
            if matches!(row.location, JobTable::Suspect) {
                row.location = JobTable::Waiting;
                queues.insert(row.message.queue.clone());
            } else if row.owner().is_some() && std::mem::take(&mut row.alone) {
                queues.insert(row.message.queue.clone());
            }
        }
        Ok(Acquitted { queues: queues.into_iter().collect(), locked: 0 })
    }

    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64> {
        Ok(self.lock().release_unknown(node, known, before))
    }

    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64> {
        let mut state = self.lock();
        let mut released = 0;
        for id in ids {
            if let Some(row) = state.owned(node, Fence::new(*id, claim.get())) {
                row.attempt -= 1;
                row.release();
                released += 1;
            }
        }
        Ok(released)
    }
}

#[async_trait]
impl Outcomes for Oracle {
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

    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()> {
        let until = after(Timestamp::now(), by);
        if let Some(row) = self.lock().owned(node, fence) {
            row.location = JobTable::Waiting;
            row.held = Some(until);
        }
        Ok(())
    }

    /// The oracle has no permits, so there is nothing to free.
    async fn handlers_ended(&self, _: NodeId, _: &[Fence]) -> Result<u64> {
        Ok(0)
    }

    async fn stale_claims(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>> {
        let mut state = self.lock();
        Ok(fences.iter().copied().filter(|fence| state.owned(node, *fence).is_none()).collect())
    }

    async fn record_progress(&self, _: NodeId, _: Fence, _: &ProgressUpdate) -> Result<bool> {
        panic!("the oracle keeps no progress")
    }

    async fn progress(&self, _: JobId) -> Result<Option<JobProgress>> {
        Ok(None)
    }
}

#[async_trait]
impl Nodes for Oracle {
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

    async fn identity(&self) -> Result<Option<ServerIdentity>> {
        Ok(None)
    }

    async fn retire_node(&self, id: NodeId) -> Result<u64> {
        let mut state = self.lock();
        state.nodes.remove(&id);
        Ok(state.release_unknown(id, &[], None))
    }

    async fn detached(&self) -> Result<Arc<dyn Nodes>> {
        Ok(Arc::new(self.clone()))
    }

    fn reconnect(&self) {}

    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()> {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.broker = mode.map(str::to_owned);
        }
        Ok(())
    }

    async fn report_failing(&self, _: NodeId, _: Option<&str>) -> Result<()> {
        Ok(())
    }

    async fn report_left_alone(&self, _: NodeId, _: Option<&str>) -> Result<()> {
        Ok(())
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

    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        let mut state = self.lock();
        let lost = |state: &State| -> Vec<(i64, NodeId)> {
            let owned = state.jobs.values().filter_map(|row| Some((row.seq, row.owner()?)));
            owned.filter(|(_, owner)| !state.alive(*owner)).collect()
        };
        let mut released = Released::default();
        for (seq, owner) in lost(&state).into_iter().take(limit) {
            let known = state.nodes.contains_key(&owner);
            let row = state.jobs.get_mut(&seq).unwrap();
            let proof = row.alone && known;
            row.record(owner, if proof { OWNER_LOST_ALONE } else { "owner lost" }, None);
            let proofs = row.proofs();
            if proof && quarantine.is_some_and(|limit| proofs >= limit.get()) {
                row.bury(&format!("quarantined: its process died {proofs} times while it ran alone"));
                released.dead += 1;
            } else if row.spent() {
                row.bury("owner lost");
                released.dead += 1;
            } else {
                row.release();
                let is_run = ![EVENT_QUEUE, REPLY_QUEUE].contains(&row.message.queue.as_str());
                if known && is_run && quarantine.is_some() {
                    row.location = JobTable::Suspect;
                }
                released.waiting += 1;
            }
        }
        let owning: BTreeSet<NodeId> = lost(&state).into_iter().map(|(_, owner)| owner).collect();
        state.nodes.retain(|id, node| !node.dead || owning.contains(id));
        Ok(released)
    }
}
