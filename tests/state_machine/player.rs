//! Plays a history against a store and the oracle, and compares after each step.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;
use std::time::Duration;

use jobwright::admin::{AffectedJobs, JobFilter, JobState};
use jobwright::internal::Fence;
use jobwright::internal::engine::{ClaimRequest, Inserted, MAX_HIDDEN, Preclaim, ScanCursor, Settlement, Verdict};
use jobwright::{ErrorKind, Job, JobId, JobMessage, NewJob, NodeId};

use crate::state_machine::ops::{AttemptOutcome, Filter, GIVEN, KINDS, Message, NODES, Op, Part, QUEUES, Steer};
use crate::state_machine::snapshot::{self, Snapshot};
use crate::support::Jobs;
use crate::support::jobs::{LATER, claim_number, cursor, message, node_info};

pub(crate) type Outcome<T> = Result<T, String>;

/// One of the two compared stores, with the ids that it drew itself.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) jobs: Jobs,
    /// All nodes that ever existed.
    pub(crate) nodes: Vec<NodeId>,
    cursors: [Option<ScanCursor>; QUEUES.len()],
}

/// Returns the jobs of a claim. A node that may not claim takes nothing; the oracle reports that without an error.
pub(crate) fn taken_by(answer: jobwright::Result<Vec<Job>>) -> jobwright::Result<Vec<Job>> {
    match answer {
        Err(error) if error.kind() == jobwright::ErrorKind::LeaseLost => Ok(Vec::new()),
        other => other,
    }
}

/// A claim, perhaps an old one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) fence: Fence,
    /// Its index in `Side::nodes`.
    pub(crate) node: usize,
}

#[derive(Debug)]
pub(crate) struct Player {
    pub(crate) sides: [Side; 2],
    /// The indexes in `Side::nodes` of the live nodes.
    alive: [usize; NODES],
    pub(crate) claims: Vec<Claim>,
    /// Hand-outs to external workers, perhaps old ones.
    pub(crate) outs: Vec<Fence>,
    given: [JobId; GIVEN],
    sent: u64,
    /// How many jobs must exist, by what the store itself reported.
    pub(crate) balance: u64,
    versions: BTreeMap<(JobId, i64), i64>,
    last: Snapshot,
}

/// Asserts that both sides returned the same.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, [store, oracle]: [T; 2]) -> Outcome<T> {
    if store == oracle { Ok(store) } else { Err(format!("{what}: the store says {store:?}, the oracle {oracle:?}")) }
}

/// Returns what a claim or a hand-out took, in order: rank, fence, attempt and kind.
pub(crate) fn taken(jobs: &[Job]) -> Vec<(i16, Fence, u32, String)> {
    let mut jobs: Vec<_> = jobs.iter().map(|job| (-job.priority, job.seq, job)).collect();
    jobs.sort_by_key(|(rank, seq, _)| (*rank, *seq));
    jobs.into_iter().map(|(rank, _, job)| (rank, job.fence(), job.attempt, job.kind.clone())).collect()
}

/// Runs the same on both sides.
macro_rules! both {
    ($player:expr, |$side:ident| $work:expr) => {{
        let [store, oracle] = &mut $player.sides;
        let store = {
            let $side = store;
            $work.map_err(|error| format!("{error:?}"))?
        };
        let oracle = {
            let $side = oracle;
            $work.map_err(|error| format!("the oracle: {error:?}"))?
        };
        [store, oracle]
    }};
}

pub(crate) use both;

pub(crate) fn sorted(ids: Vec<JobId>) -> Vec<JobId> {
    let mut ids = ids;
    ids.sort_unstable();
    ids
}

impl Player {
    pub(crate) async fn new(store: Jobs, oracle: Jobs) -> Self {
        let side = |jobs| Side { jobs, nodes: Vec::new(), cursors: Default::default() };
        let mut player = Self {
            sides: [side(store), side(oracle)],
            alive: [0; NODES],
            claims: Vec::new(),
            outs: Vec::new(),
            given: std::array::from_fn(|_| JobId::new()),
            sent: 0,
            balance: 0,
            versions: BTreeMap::new(),
            last: Vec::new(),
        };
        for slot in 0..NODES {
            player.register(slot).await.unwrap();
        }
        player
    }

    async fn register(&mut self, slot: usize) -> Outcome<()> {
        let nodes = both!(self, |side| side.jobs.register_node(&node_info("node")).await);
        for (side, node) in self.sides.iter_mut().zip(nodes) {
            if side.nodes.contains(&node) {
                return Err(format!("the number of node {node} was given out twice"));
            }
            side.nodes.push(node);
        }
        self.alive[slot] = self.sides[0].nodes.len() - 1;
        Ok(())
    }

    /// Plays one step, and checks everything that must hold after it.
    pub(crate) async fn play(&mut self, op: &Op) -> Outcome<()> {
        let before = std::mem::take(&mut self.last);
        let changed = self.apply(op, &before).await?;
        let after = self.compare().await?;
        if !changed && after != before {
            return Err("it was refused, or only looked, but changed something".to_owned());
        }
        if after.len() as u64 != self.balance {
            return Err(format!(
                "{} jobs are there; by what was reported there should be {}",
                after.len(),
                self.balance
            ));
        }
        self.last = after;
        Ok(())
    }

    /// Returns what both sides show, if it is the same.
    pub(crate) async fn compare(&mut self) -> Outcome<Snapshot> {
        let [store, oracle] = both!(self, |side| snapshot::take(&side.jobs, &side.nodes).await);
        if let Some(difference) = snapshot::difference(&store, &oracle) {
            return Err(difference);
        }
        for row in self.sides[0].jobs.all().await {
            let seen = store.iter().find(|seen| seen.id == row.id).map_or(0, |seen| seen.version);
            let version = self.versions.entry((row.id, row.seq)).or_insert(seen);
            if seen < *version {
                return Err(format!("the version of {} fell from {version} to {seen}", row.id));
            }
            *version = seen;
        }
        Ok(store)
    }

    /// Selects one of the waiting jobs.
    pub(crate) fn waiting(&self, n: usize) -> Option<JobId> {
        let waiting: Vec<JobId> =
            self.last.iter().filter(|seen| seen.state == JobState::Waiting).map(|seen| seen.id).collect();
        waiting.get(n % waiting.len().max(1)).copied()
    }

    /// Applies it to both. Returns whether it may have changed anything.
    async fn apply(&mut self, op: &Op, before: &Snapshot) -> Outcome<bool> {
        match op {
            Op::Send { messages, owned_by } => self.send(messages, *owned_by).await,
            Op::Claim { node, queue, kinds, limit, part, include_hidden } => {
                self.claim(self.anyone(*node), *queue, kinds.as_deref(), *limit, *part, *include_hidden).await
            }
            Op::Complete { node, claims } => {
                let (place, claims) = self.pick(*node, claims);
                let fences: Vec<Fence> = claims.iter().map(|claim| claim.fence).collect();
                let accepted = both!(self, |side| side.jobs.complete(side.nodes[place], &fences).await);
                let accepted = same("complete", accepted.map(sorted))?;
                self.balance -= accepted.len() as u64;
                Ok(!accepted.is_empty())
            }
            Op::Settle { node, outcomes } => self.settle(*node, outcomes).await,
            Op::Promote { limit } => self.promote(*limit).await,
            Op::Retire { node } => {
                let place = self.alive[*node];
                let released = both!(self, |side| side.jobs.retire_node(side.nodes[place]).await);
                let released = same("retire_node", released)?;
                self.register(*node).await?;
                Ok(released > 0)
            }
            // Already declared dead, bypassing both stores.
            Op::Perish { node } => {
                self.register(*node).await?;
                Ok(false)
            }
            Op::Deliver { node, jobs, kinds } => self.deliver(self.anyone(*node), jobs, kinds.as_deref(), before).await,
            Op::Unhide { jobs } => self.unhide(jobs, before).await,
            Op::HandOut { queue, limit } => self.hand_out(*queue, *limit).await,
            Op::TakeBack { outs } => self.take_back(outs).await,
            Op::CompleteExternal { outs } => self.complete_external(outs, before).await,
            Op::SettleExternal { outcomes } => self.settle_external(outcomes).await,
            Op::ExpireExternal { limit } => self.expire_external(*limit).await,
            Op::ReleaseLost { limit } => self.release_lost(*limit).await,
            Op::ReleaseUnknown { node, forgets } => {
                let place = self.alive[*node];
                let owned = before.iter().filter(|seen| seen.owner == Some(place));
                let known: Vec<Fence> = owned.map(|seen| Fence::new(seen.id, seen.version)).skip(*forgets).collect();
                let released = both!(self, |side| side.jobs.release_unknown(side.nodes[place], &known, None).await);
                Ok(same("release_unknown", released)? > 0)
            }
            // Already done, bypassing both stores.
            Op::Suspend { .. } => Ok(true),
            Op::Steer { how, filter, dry_run } => self.operate(*how, filter, *dry_run, before).await,
        }
    }

    async fn send(&mut self, plans: &[Message], owned_by: Option<usize>) -> Outcome<bool> {
        let messages: Vec<JobMessage> = plans.iter().map(|plan| self.message(plan)).collect();
        let own = messages.iter().zip(plans).filter(|(_, plan)| plan.own).map(|(message, _)| message.id);
        let own: HashSet<JobId> = own.collect();
        let place = owned_by.map(|slot| self.anyone(slot));
        let claim = claim_number();
        let answers = both!(self, |side| {
            let owned = place.map(|place| Preclaim { node: side.nodes[place], claim, ids: own.clone() });
            // An id of another job is refused, and nothing is written.
            match side.jobs.insert(&messages, owned.as_ref()).await {
                Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
                answer => answer.map(Some),
            }
        });
        same("insert", [answers[0].is_some(), answers[1].is_some()])?;
        let [Some(store), Some(oracle)] = answers else { return Ok(false) };
        let answers = [store, oracle];
        let summary = |inserted: &Inserted| (inserted.rows, sorted(inserted.owned.iter().map(|row| row.id).collect()));
        let (rows, owned) = same("insert", [summary(&answers[0]), summary(&answers[1])])?;
        self.balance += rows;
        self.claims.extend(
            owned.iter().map(|id| Claim { fence: Fence::new(*id, claim.get()), node: place.unwrap_or_default() }),
        );
        Ok(rows > 0)
    }

    fn message(&mut self, plan: &Message) -> JobMessage {
        self.sent += 1;
        let mut job = NewJob::json(KINDS[plan.kind], &self.sent)
            .queue(QUEUES[plan.queue])
            .priority(plan.priority)
            .max_attempts(plan.max_attempts);
        if plan.later {
            job = job.delay(LATER);
        }
        if let Some(given) = plan.given {
            job = job.id(self.given[given]);
        }
        if plan.asks {
            job = job.reply_to("answers", "c");
        }
        let mut message = message(job);
        if plan.held {
            message.hidden_for = MAX_HIDDEN;
        }
        message
    }

    /// Returns both sides' ids of the node at this index.
    pub(crate) fn alive(&self, node: usize) -> [NodeId; 2] {
        [0, 1].map(|side| self.sides[side].nodes[self.alive[node]])
    }

    /// Returns mostly a live node, sometimes the first one, which may be gone.
    pub(crate) fn anyone(&self, node: usize) -> usize {
        if node == NODES * 4 { 0 } else { self.alive[node % NODES] }
    }

    async fn claim(
        &mut self,
        place: usize,
        queue: usize,
        kinds: Option<&[usize]>,
        limit: usize,
        part: Part,
        include_hidden: bool,
    ) -> Outcome<bool> {
        let kinds: Option<Vec<String>> = kinds.map(|kinds| kinds.iter().map(|kind| KINDS[*kind].to_owned()).collect());
        let claim = claim_number();
        let answers = both!(self, |side| {
            let mut request = ClaimRequest::new(side.nodes[place], claim, QUEUES[queue], limit)
                .range(part.of(side.cursors[queue].as_ref()))
                .include_hidden(include_hidden);
            request.kinds = kinds.as_deref();
            taken_by(side.jobs.claim(&request).await.map(|claimed| claimed.jobs))
        });
        for (side, jobs) in self.sides.iter_mut().zip(&answers) {
            let (before, last) = (side.cursors[queue], jobs.iter().map(cursor).max());
            side.cursors[queue] = match part {
                Part::Whole => last,
                Part::On => last.or(before),
                Part::Passed => before.or(last),
            };
        }
        let claimed = same("claim", [taken(&answers[0]), taken(&answers[1])])?;
        self.claims.extend(claimed.iter().map(|(_, fence, _, _)| Claim { fence: *fence, node: place }));
        Ok(!claimed.is_empty())
    }

    /// Selects the node that reports, and the claims it reports, counted from the newest. It is mostly the node of the first claim.
    fn pick(&self, node: usize, claims: &[usize]) -> (usize, Vec<Claim>) {
        let mut seen = BTreeSet::new();
        let picked: Vec<Claim> = claims
            .iter()
            .filter_map(|back| self.claims.iter().rev().nth(*back).copied())
            .filter(|claim| seen.insert(claim.fence.id))
            .collect();
        let own = picked.first().map_or(self.alive[0], |claim| claim.node);
        (if node < NODES { self.alive[node] } else { own }, picked)
    }

    async fn settle(&mut self, node: usize, outcomes: &[(usize, AttemptOutcome)]) -> Outcome<bool> {
        let (place, claims) = self.pick(node, &outcomes.iter().map(|(back, _)| *back).collect::<Vec<_>>());
        let settlements: Vec<Settlement> =
            claims.iter().zip(outcomes).map(|(claim, (_, ending))| settlement(claim.fence, *ending)).collect();
        let accepted = both!(self, |side| side.jobs.settle(side.nodes[place], &settlements).await);
        let accepted = same("settle", accepted.map(sorted))?;
        let cancelled = settlements.iter().filter(|s| s.verdict == Verdict::Cancel && accepted.contains(&s.fence.id));
        self.balance -= cancelled.count() as u64;
        Ok(!accepted.is_empty())
    }

    async fn promote(&mut self, limit: usize) -> Outcome<bool> {
        let answers = both!(self, |side| {
            let mut total = 0;
            let mut queues = BTreeSet::new();
            loop {
                let promoted = side.jobs.promote_due(limit).await.map_err(|error| error.to_string())?;
                if promoted.jobs > limit as u64 {
                    return Err(format!("{} timers were promoted with a limit of {limit}", promoted.jobs));
                }
                total += promoted.jobs;
                queues.extend(promoted.queues);
                if promoted.jobs < limit as u64 {
                    // Only timers due in an hour are left.
                    let next = promoted.next.map(|next| next > Duration::from_secs(60));
                    break Ok::<_, String>((total, queues, next));
                }
            }
        });
        Ok(same("promote_due", answers)?.0 > 0)
    }

    async fn release_lost(&mut self, limit: usize) -> Outcome<bool> {
        let answers = both!(self, |side| {
            let mut sum = (0, 0);
            loop {
                let released = side.jobs.release_lost(limit, None).await.map_err(|error| error.to_string())?;
                sum = (sum.0 + released.waiting, sum.1 + released.dead);
                if released.total() < limit as u64 {
                    break Ok::<_, String>(sum);
                }
            }
        });
        let sum = same("release_lost", answers)?;
        let alive = both!(self, |side| side.jobs.status().await.map(|status| status.nodes.len()));
        same("nodes after release_lost", alive)?;
        Ok(sum != (0, 0))
    }

    async fn operate(&mut self, how: Steer, filter: &Filter, dry_run: bool, before: &Snapshot) -> Outcome<bool> {
        let mut meant = JobFilter::default();
        meant.ids = filter.ids.map(|rest| before.iter().skip(rest).step_by(3).map(|seen| seen.id).collect());
        meant.states = filter.state.map(|state| vec![state]);
        meant.queue = filter.queue.map(|queue| QUEUES[queue].to_owned());
        meant.kind = filter.kind.map(|kind| KINDS[kind].to_owned());
        let filter = meant;
        let answers = both!(self, |side| match how {
            Steer::Retry => side.jobs.retry(&filter, dry_run).await,
            Steer::Cancel => side.jobs.cancel(&filter, dry_run).await,
            Steer::Delete => side.jobs.delete(&filter, dry_run).await,
        });
        let counts = |affected: AffectedJobs| -> Vec<(JobState, u64)> {
            affected.0.into_iter().filter(|(_, count)| *count > 0).collect()
        };
        let total: u64 = same("steer", answers.map(counts))?.iter().map(|(_, count)| count).sum();
        if !dry_run && !matches!(how, Steer::Retry) {
            self.balance -= total;
        }
        Ok(!dry_run && total > 0)
    }
}

pub(crate) fn settlement(fence: Fence, ending: AttemptOutcome) -> Settlement {
    let verdict = match ending {
        AttemptOutcome::RetryNow | AttemptOutcome::Silent => Verdict::Retry(Duration::ZERO),
        AttemptOutcome::RetryLater => Verdict::Retry(LATER),
        AttemptOutcome::SnoozeNow => Verdict::Snooze(Duration::ZERO),
        AttemptOutcome::SnoozeLater => Verdict::Snooze(LATER),
        AttemptOutcome::Release => Verdict::Release,
        AttemptOutcome::Cancel => Verdict::Cancel,
        AttemptOutcome::Dead => Verdict::Dead,
    };
    match ending {
        AttemptOutcome::RetryNow | AttemptOutcome::RetryLater | AttemptOutcome::Dead => {
            Settlement::new(fence, verdict).error("failed", Some("detail"))
        }
        _ => Settlement::new(fence, verdict),
    }
}
