//! The state, and the rules that change it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jobwright::admin::ScheduleInfo;
use jobwright::admin::{AffectedJobs, JobFilter, JobState, JobSummary};
use jobwright::internal::engine::testing::refuse_other_jobs;
use jobwright::internal::engine::{ClaimRequest, Inserted, NodeInfo, OwnedInsert, Preclaim, Settlement, Verdict};
use jobwright::internal::{ClaimNumber, Fence, HandOutNumber};
use jobwright::{AttemptError, Due, Job, JobId, JobMessage, NodeId, Result};

/// The error of a death that is held against a job.
pub(super) const OWNER_LOST_ALONE: &str = "owner lost while this job ran alone";
/// How many errors a job keeps.
const ERRORS_KEPT: usize = 10;

/// The whole state, with one clock and one sequence.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) rules: Vec<jobwright::admin::Rule>,
    /// The rows by `seq`. A single map, so that a job can't be in two states.
    pub(super) jobs: BTreeMap<i64, Row>,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) last_seq: i64,
    pub(super) last_node: i64,
    pub(super) migrated: Option<Timestamp>,
    /// Digest and time of each submission.
    pub(super) submissions: BTreeMap<JobId, ([u8; 32], Timestamp)>,
    pub(super) schedules: BTreeMap<String, ScheduleInfo>,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) seq: i64,
    pub(super) version: i64,
    pub(super) attempt: u32,
    pub(super) created_at: Timestamp,
    pub(super) message: JobMessage,
    pub(super) errors: Vec<AttemptError>,
    pub(super) location: JobTable,
    /// The row is hidden from claims until then, for its delivery.
    pub(super) held: Option<Timestamp>,
    /// It was last claimed as a suspect.
    pub(super) alone: bool,
}

#[derive(Clone, Debug)]
pub(super) enum JobTable {
    Waiting,
    /// Its process died while it ran: only claims of suspects take it.
    Suspect,
    Running {
        owner: NodeId,
        since: Timestamp,
    },
    External {
        until: Timestamp,
        lease: Duration,
    },
    Timer {
        due: Timestamp,
    },
    Suspended,
    Dead {
        at: Timestamp,
        reason: String,
    },
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) info: NodeInfo,
    pub(super) started_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) heartbeats: i64,
    pub(super) dead: bool,
    pub(super) broker: Option<String>,
}

/// Returns `now` plus `delay`.
pub(super) fn after(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap()
}

impl Row {
    pub(super) fn state(&self) -> JobState {
        match self.location {
            JobTable::Waiting => JobState::Waiting,
            JobTable::Suspect => JobState::Blocked,
            JobTable::Running { .. } => JobState::Running,
            JobTable::External { .. } => JobState::External,
            JobTable::Timer { .. } => JobState::Timer,
            JobTable::Suspended => JobState::Suspended,
            JobTable::Dead { .. } => JobState::Dead,
        }
    }

    pub(super) fn owner(&self) -> Option<NodeId> {
        match self.location {
            JobTable::Running { owner, .. } => Some(owner),
            _ => None,
        }
    }

    pub(super) fn rank(&self) -> i16 {
        -self.message.priority
    }

    pub(super) fn spent(&self) -> bool {
        self.attempt >= self.message.max_attempts
    }

    pub(super) fn own(&mut self, owner: NodeId, claim: ClaimNumber) {
        self.alone = matches!(self.location, JobTable::Suspect);
        self.version = claim.get();
        self.attempt += 1;
        self.location = JobTable::Running { owner, since: Timestamp::now() };
        self.held = None;
    }

    /// Whether claims of the table pass the row over.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some_and(|until| until > Timestamp::now())
    }

    pub(super) fn hand_out(&mut self, until: Timestamp, lease: Duration, token: HandOutNumber) -> Job {
        self.version = token.get();
        self.attempt += 1;
        self.location = JobTable::External { until, lease };
        self.held = None;
        self.job()
    }

    pub(super) fn record(&mut self, node: NodeId, error: &str, detail: Option<String>) {
        let attempt = self.attempt;
        self.errors.push(AttemptError { attempt, at: Timestamp::now(), node: node.0, error: error.to_owned(), detail });
        let excess = self.errors.len().saturating_sub(ERRORS_KEPT);
        self.errors.drain(..excess);
    }

    /// Makes it wait again; a suspect stays one.
    pub(super) fn release(&mut self) {
        self.location = if self.alone { JobTable::Suspect } else { JobTable::Waiting };
    }

    /// Counts the deaths of its nodes while it ran alone that the job's error record shows since it was last a dead letter.
    pub(super) fn proofs(&self) -> u32 {
        let mut proofs = 0;
        let mut before = 0;
        for error in &self.errors {
            if error.attempt < before {
                proofs = 0;
            }
            before = error.attempt;
            proofs += u32::from(error.error == OWNER_LOST_ALONE);
        }
        proofs
    }

    pub(super) fn bury(&mut self, reason: &str) {
        self.location = JobTable::Dead { at: Timestamp::now(), reason: reason.to_owned() };
    }

    fn matches(&self, filter: &JobFilter) -> bool {
        let message = &self.message;
        filter.ids.as_ref().is_none_or(|ids| ids.contains(&message.id))
            && filter.states.as_ref().is_none_or(|states| states.contains(&self.state()))
            && filter.queue.as_ref().is_none_or(|queue| *queue == message.queue)
            && filter.kind.as_ref().is_none_or(|kind| *kind == message.kind)
            && filter.tenant.as_ref().is_none_or(|tenant| message.options.tenant.as_ref() == Some(tenant))
            && filter.group.as_ref().is_none_or(|group| message.options.group.as_ref() == Some(group))
            && filter.limit_key.as_ref().is_none_or(|key| message.options.limit_key.as_ref() == Some(key))
            && filter.error.as_ref().is_none_or(|text| self.errors.last().is_some_and(|last| last.error.contains(text)))
            && filter.created.contains(self.created_at)
            && match &self.location {
                JobTable::Dead { at, .. } => filter.dead.contains(*at),
                _ => !filter.dead.is_limited(),
            }
    }

    pub(super) fn job(&self) -> Job {
        let message = &self.message;
        jobwright::internal::engine::testing::job(
            message.clone(),
            self.seq,
            self.version,
            self.attempt,
            self.created_at,
        )
    }

    pub(super) fn summary(&self) -> JobSummary {
        let message = &self.message;
        let (claimed_at, due_at) = match self.location {
            JobTable::Running { since, .. } => (Some(since), None),
            JobTable::Timer { due } => (None, Some(due)),
            _ => (None, None),
        };
        JobSummary {
            id: message.id,
            seq: self.seq,
            state: self.state(),
            kind: message.kind.clone(),
            queue: message.queue.clone(),
            priority: message.priority,
            attempt: self.attempt,
            max_attempts: message.max_attempts,
            created_at: self.created_at,
            due_at,
            owner: self.owner(),
            claimed_at,
            last_error: self.errors.last().map(|error| error.error.clone()),
        }
    }
}

impl State {
    pub(super) fn by_id(&mut self, id: JobId) -> Option<&mut Row> {
        self.jobs.values_mut().find(|row| row.message.id == id)
    }

    /// Returns the row, if the claim is current.
    pub(super) fn owned(&mut self, node: NodeId, fence: Fence) -> Option<&mut Row> {
        self.by_id(fence.id).filter(|row| row.version == fence.version && row.owner() == Some(node))
    }

    /// Returns the row, if this is its current hand-out.
    pub(super) fn external(&mut self, fence: Fence) -> Option<&mut Row> {
        self.by_id(fence.id).filter(|row| row.version == fence.version && row.state() == JobState::External)
    }

    pub(super) fn alive(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| !node.dead)
    }

    /// Returns the rows an insert would write, without writing them.
    pub(super) fn prepare(
        &mut self,
        messages: &[JobMessage],
        owned: Option<&Preclaim>,
    ) -> Result<(Vec<Row>, Inserted)> {
        let known = self.jobs.values().map(|row| &row.message);
        let known: Vec<&JobMessage> = known.chain(messages.iter().filter(|message| message.id_given)).collect();
        refuse_other_jobs(
            messages
                .iter()
                .filter(|message| message.id_given)
                .filter_map(|message| Some((message, *known.iter().find(|job| job.id == message.id)?))),
        )?;
        let mut taken: BTreeSet<JobId> = self.jobs.values().map(|row| row.message.id).collect();
        let owned = owned.filter(|owned| self.alive(owned.node));
        let mut rows = Vec::new();
        let mut inserted = Inserted::default();
        for (position, message) in messages.iter().enumerate() {
            if !taken.insert(message.id) {
                if messages[..position].iter().all(|earlier| earlier.id != message.id) {
                    inserted.known.push(message.id);
                }
                continue;
            }
            self.last_seq += 1;
            let now = Timestamp::now();
            let due = match message.due {
                Due::Now => now,
                Due::In(delay) => after(now, delay),
                Due::At(at) => at,
            };
            let mut row = Row {
                seq: self.last_seq,
                version: 0,
                attempt: 0,
                created_at: now,
                message: message.clone(),
                errors: Vec::new(),
                alone: false,
                held: (due <= now && !message.hidden_for.is_zero()).then(|| after(now, message.hidden_for)),
                location: if due > now { JobTable::Timer { due } } else { JobTable::Waiting },
            };
            if let Some(owned) = owned
                && owned.ids.contains(&message.id)
                && due <= now
            {
                row.own(owned.node, owned.claim);
                inserted.owned.push(OwnedInsert {
                    id: message.id,
                    seq: row.seq,
                    created_at: now,
                    location: jobwright::internal::RowLocation::default(),
                });
            }
            inserted.rows += 1;
            rows.push(row);
        }
        Ok((rows, inserted))
    }

    /// Calls a function with up to `limit` waiting jobs that match, best first.
    pub(super) fn best(
        &mut self,
        limit: usize,
        wanted: impl Fn(&Row) -> bool,
        mut each: impl FnMut(&mut Row) -> Job,
    ) -> Vec<Job> {
        let mut best: Vec<(i16, i64)> = self
            .jobs
            .values()
            .filter(|row| matches!(row.location, JobTable::Waiting) && wanted(row))
            .map(|row| (row.rank(), row.seq))
            .collect();
        best.sort_unstable();
        best.truncate(limit);
        best.iter().map(|(_, seq)| each(self.jobs.get_mut(seq).unwrap())).collect()
    }

    /// Claims suspects.
    pub(super) fn own_suspects(&mut self, request: &ClaimRequest<'_>) -> Vec<Job> {
        let wanted = |row: &Row| {
            matches!(row.location, JobTable::Suspect)
                && row.message.queue == request.queue
                && request.kinds.is_none_or(|kinds| kinds.contains(&row.message.kind))
        };
        let mut best: Vec<&mut Row> = self.jobs.values_mut().filter(|row| wanted(row)).collect();
        best.sort_unstable_by_key(|row| (row.rank(), row.seq));
        let own = |row: &mut Row| {
            row.own(request.node, request.claim);
            row.job()
        };
        best.into_iter().take(request.limit).map(own).collect()
    }

    /// Claims up to `limit` matching jobs for the node.
    pub(super) fn own_first(
        &mut self,
        (node, claim): (NodeId, ClaimNumber),
        limit: usize,
        wanted: impl Fn(&Row) -> bool,
    ) -> Vec<Job> {
        self.best(limit, wanted, |row| {
            row.own(node, claim);
            row.job()
        })
    }

    /// Returns whether the outcome was accepted.
    pub(super) fn settle(&mut self, node: NodeId, settlement: &Settlement) -> bool {
        let Some(seq) = self.owned(node, settlement.fence).map(|row| row.seq) else { return false };
        self.end(seq, node, settlement);
        true
    }

    /// Applies a verdict to a job.
    pub(super) fn end(&mut self, seq: i64, node: NodeId, settlement: &Settlement) {
        let row = self.jobs.get_mut(&seq).unwrap();
        if let Some(error) = &settlement.error {
            row.record(node, error, settlement.detail.clone());
        }
        let now = Timestamp::now();
        let reason = settlement.error.as_deref().unwrap_or("no reason was given");
        match settlement.verdict {
            Verdict::Retry(_) if row.spent() => row.bury(reason),
            Verdict::Retry(delay) => row.location = JobTable::Timer { due: after(now, delay) },
            Verdict::Snooze(delay) => {
                row.attempt -= 1;
                row.location = JobTable::Timer { due: after(now, delay) };
            }
            Verdict::Release => {
                row.attempt -= 1;
                row.release();
            }
            Verdict::Dead => row.bury(reason),
            Verdict::Cancel => {
                self.jobs.remove(&seq);
            }
            ref other => unreachable!("the model does not know {other:?}"),
        }
    }

    /// Returns the `seq` of all matching jobs in one of these states, and their counts.
    pub(super) fn select(&self, filter: &JobFilter, states: &[JobState]) -> (Vec<i64>, AffectedJobs) {
        let mut affected = AffectedJobs::default();
        let mut chosen = Vec::new();
        for row in self.jobs.values().filter(|row| row.matches(filter) && states.contains(&row.state())) {
            *affected.0.entry(row.state()).or_default() += 1;
            chosen.push(row.seq);
        }
        (chosen, affected)
    }
}
