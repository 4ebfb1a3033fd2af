//! Hidden rows, external workers, submissions.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use jobwright::admin::Released;
use jobwright::headers::{CORRELATION_ID, REPLY_QUEUE, REPLY_TO};
use jobwright::internal::engine::{Extension, ExternalDone, Received, Settlement};
use jobwright::internal::{ClaimNumber, Fence, HandOutNumber, Submission};
use jobwright::{Job, JobId, NewJob, NodeId, Payload};

use super::model::{JobTable, Row, State, after};

/// The node that errors of external workers name.
const NOBODY: NodeId = NodeId(0);

impl State {
    pub(super) fn release_unknown(&mut self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> u64 {
        // Claim numbers never wrap around in tests.
        let earlier = |version| before.is_none_or(|before| version < before.get());
        let unknown = self.jobs.values_mut().filter(|row| {
            row.owner() == Some(node)
                && !known.contains(&Fence::new(row.message.id, row.version))
                && earlier(row.version)
        });
        unknown
            .map(|row| {
                row.attempt -= 1;
                row.release();
            })
            .count() as u64
    }

    pub(super) fn claim_delivered(
        &mut self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Vec<Job> {
        if !self.alive(node) {
            return Vec::new();
        }
        let named = |row: &Row| {
            deliveries.contains(&Fence::new(row.message.id, row.version))
                && kinds.is_none_or(|kinds| kinds.contains(&row.message.kind))
        };
        self.own_first((node, claim), usize::MAX, named)
    }

    pub(super) fn unhide(&mut self, ids: &[JobId]) -> Vec<String> {
        let held = self.jobs.values_mut().filter(|row| {
            ids.contains(&row.message.id) && matches!(row.location, JobTable::Waiting) && row.held.is_some()
        });
        let queues: BTreeSet<String> = held
            .map(|row| {
                row.held = None;
                row.message.queue.clone()
            })
            .collect();
        queues.into_iter().collect()
    }

    pub(super) fn hand_out(&mut self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Vec<Job> {
        let until = after(Timestamp::now(), lease);
        self.best(limit, |row| row.message.queue == queue, |row| row.hand_out(until, lease, token))
    }

    pub(super) fn take_back(&mut self, fence: Fence) -> bool {
        let row = self.external(fence);
        row.map(|row| {
            row.attempt -= 1;
            row.location = JobTable::Waiting;
        })
        .is_some()
    }

    /// Returns whether there is a reply. `None`: the outcome was refused.
    pub(super) fn complete_external(&mut self, done: &ExternalDone) -> Option<bool> {
        let seq = self.external(done.fence).map(|row| row.seq)?;
        let message = self.jobs.remove(&seq).unwrap().message;
        let replies = message.headers.contains_key(REPLY_TO);
        if let Some(reply_to) = message.headers.get(REPLY_TO) {
            let nothing = || Payload::json(&()).unwrap();
            let mut reply = NewJob::new(message.kind, done.result.clone().unwrap_or_else(nothing))
                .queue(REPLY_QUEUE)
                .header(REPLY_TO, reply_to)
                .header("jobId", done.fence.id.to_string());
            if let Some(correlation) = message.headers.get(CORRELATION_ID) {
                reply = reply.header(CORRELATION_ID, correlation);
            }
            let (rows, _) =
                self.prepare(&[jobwright::internal::engine::testing::message(reply).unwrap()], None).unwrap();
            self.jobs.extend(rows.into_iter().map(|row| (row.seq, row)));
        }
        Some(replies)
    }

    pub(super) fn settle_external(&mut self, settlement: &Settlement) -> bool {
        let Some(seq) = self.external(settlement.fence).map(|row| row.seq) else { return false };
        self.end(seq, NOBODY, settlement);
        true
    }

    pub(super) fn extend_external(&mut self, extension: &Extension) -> bool {
        let Some(row) = self.external(extension.fence) else { return false };
        if let JobTable::External { until, lease } = &mut row.location {
            *until = after(Timestamp::now(), extension.lease.unwrap_or(*lease));
        }
        true
    }

    pub(super) fn expire_external(&mut self, limit: usize) -> Released {
        let now = Timestamp::now();
        let mut late: Vec<(Timestamp, i64)> = self
            .jobs
            .values()
            .filter_map(|row| match row.location {
                JobTable::External { until, .. } if until <= now => Some((until, row.seq)),
                _ => None,
            })
            .collect();
        late.sort_unstable();
        let mut released = Released::default();
        for (_, seq) in late.into_iter().take(limit) {
            let row = self.jobs.get_mut(&seq).unwrap();
            row.record(NOBODY, "lease expired: the external worker did not answer in time", None);
            if row.spent() {
                row.bury("lease expired");
                released.dead += 1;
            } else {
                row.location = JobTable::Waiting;
                released.waiting += 1;
            }
        }
        released
    }

    pub(super) fn receive(&mut self, submission: &Submission) -> Received {
        let id = submission.message.id;
        match self.submissions.get(&id) {
            Some((digest, _)) if *digest == submission.digest => return Received::Known(id),
            Some(_) => return Received::Conflict(id),
            None => {}
        }
        let other = self.jobs.values().map(|row| &row.message).find(|message| message.id == id);
        if other.is_some_and(|it| (&it.kind, &it.queue) != (&submission.message.kind, &submission.message.queue)) {
            return Received::Conflict(id);
        }
        self.submissions.insert(id, (submission.digest, Timestamp::now()));
        let (rows, inserted) = self.prepare(std::slice::from_ref(&submission.message), None).unwrap();
        self.jobs.extend(rows.into_iter().map(|row| (row.seq, row)));
        if inserted.rows == 1 { Received::Stored(id) } else { Received::Known(id) }
    }

    pub(super) fn prune_submissions(&mut self, age: Duration, limit: usize) -> u64 {
        let before = Timestamp::now().checked_sub(age).unwrap();
        let mut old: Vec<(Timestamp, JobId)> = self
            .submissions
            .iter()
            .filter(|(_, (_, received))| *received < before)
            .map(|(id, (_, received))| (*received, *id))
            .collect();
        old.sort_unstable();
        old.truncate(limit);
        for (_, id) in &old {
            self.submissions.remove(id);
        }
        old.len() as u64
    }
}
