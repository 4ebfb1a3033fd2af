//! Hidden rows, deliveries, and jobs handed out to external workers.

use std::collections::BTreeSet;
use std::time::Duration;

use jobwright::JobId;
use jobwright::admin::JobState;
use jobwright::headers::REPLY_QUEUE;
use jobwright::internal::Fence;
use jobwright::internal::engine::{ExternalDone, Settlement, Verdict};

use crate::state_machine::ops::{AttemptOutcome, KINDS, QUEUES};
use crate::state_machine::player::{Claim, Outcome, Player, both, same, settlement, sorted, taken, taken_by};
use crate::state_machine::snapshot::Snapshot;
use crate::support::jobs::{LATER, claim_number, hand_out_number};

impl Player {
    pub(crate) async fn deliver(
        &mut self,
        place: usize,
        jobs: &[(usize, bool)],
        kinds: Option<&[usize]>,
        before: &Snapshot,
    ) -> Outcome<bool> {
        let kinds: Option<Vec<String>> = kinds.map(|kinds| kinds.iter().map(|kind| KINDS[*kind].to_owned()).collect());
        let deliveries: Vec<Fence> = jobs
            .iter()
            .filter_map(|(n, old)| {
                let seen = before.get(n % before.len().max(1))?;
                Some(Fence::new(seen.id, seen.version - i64::from(*old)))
            })
            .collect();
        let claim = claim_number();
        let answers = both!(self, |side| taken_by(
            side.jobs.claim_delivered(side.nodes[place], claim, &deliveries, kinds.as_deref()).await
        ));
        let claimed = same("claim_delivered", [taken(&answers[0]), taken(&answers[1])])?;
        self.claims.extend(claimed.iter().map(|(_, fence, _, _)| Claim { fence: *fence, node: place }));
        Ok(!claimed.is_empty())
    }

    /// Makes rows visible, which no snapshot shows.
    pub(crate) async fn unhide(&mut self, jobs: &[usize], before: &Snapshot) -> Outcome<bool> {
        let ids: Vec<JobId> =
            jobs.iter().filter_map(|n| before.get(n % before.len().max(1)).map(|seen| seen.id)).collect();
        let answers = both!(self, |side| side.jobs.unhide(&ids).await);
        same("unhide", answers.map(|queues| queues.into_iter().collect::<BTreeSet<_>>()))?;
        Ok(false)
    }

    pub(crate) async fn hand_out(&mut self, queue: usize, limit: usize) -> Outcome<bool> {
        let token = hand_out_number();
        let answers = both!(self, |side| side.jobs.hand_out(QUEUES[queue], limit, LATER, token).await);
        let out = same("hand_out", [taken(&answers[0]), taken(&answers[1])])?;
        self.outs.extend(out.iter().map(|(_, fence, _, _)| *fence));
        Ok(!out.is_empty())
    }

    /// Selects hand-outs, counted from the newest; none of a job twice.
    fn pick_outs(&self, outs: &[usize]) -> Vec<Fence> {
        let mut seen = BTreeSet::new();
        let all = outs.iter().filter_map(|back| self.outs.iter().rev().nth(*back).copied());
        all.filter(|fence| seen.insert(fence.id)).collect()
    }

    pub(crate) async fn take_back(&mut self, outs: &[usize]) -> Outcome<bool> {
        let fences = self.pick_outs(outs);
        let answers = both!(self, |side| side.jobs.take_back(&fences).await);
        Ok(same("take_back", answers)? > 0)
    }

    /// Completes hand-outs. Each side draws the ids of its replies, so these are checked and removed.
    pub(crate) async fn complete_external(&mut self, outs: &[usize], before: &Snapshot) -> Outcome<bool> {
        let fences = self.pick_outs(outs);
        let done: Vec<ExternalDone> = fences.iter().map(|fence| ExternalDone { fence: *fence, result: None }).collect();
        let answers = both!(self, |side| {
            let completed = side.jobs.complete_external(&done).await.map_err(|error| error.to_string())?;
            let mut replies = Vec::new();
            for out in side
                .jobs
                .hand_out(REPLY_QUEUE, 100, LATER, hand_out_number())
                .await
                .map_err(|error| error.to_string())?
            {
                replies.push((out.kind.clone(), out.headers["jobId"].clone(), out.headers.len()));
                let cancel = Settlement::new(out.fence(), Verdict::Cancel);
                side.jobs.settle_external(&[cancel]).await.map_err(|error| error.to_string())?;
            }
            replies.sort();
            Ok::<_, String>((sorted(completed.ids), completed.replies, replies))
        });
        let (accepted, ..) = same("complete_external", answers)?;
        if accepted.iter().any(|id| !before.iter().any(|seen| seen.id == *id && seen.state == JobState::External)) {
            return Err(format!("one of {accepted:?} was not with an external worker"));
        }
        self.balance -= accepted.len() as u64;
        Ok(!accepted.is_empty())
    }

    pub(crate) async fn settle_external(&mut self, outcomes: &[(usize, AttemptOutcome)]) -> Outcome<bool> {
        let fences = self.pick_outs(&outcomes.iter().map(|(back, _)| *back).collect::<Vec<_>>());
        let settlements: Vec<Settlement> =
            fences.iter().zip(outcomes).map(|(fence, (_, ending))| settlement(*fence, *ending)).collect();
        let accepted = both!(self, |side| side.jobs.settle_external(&settlements).await);
        let accepted = same("settle_external", accepted.map(sorted))?;
        let cancelled = settlements.iter().filter(|s| s.verdict == Verdict::Cancel && accepted.contains(&s.fence.id));
        self.balance -= cancelled.count() as u64;
        Ok(!accepted.is_empty())
    }

    /// Ends the leases of all hand-outs, then releases them.
    pub(crate) async fn expire_external(&mut self, limit: usize) -> Outcome<bool> {
        let fences = self.outs.clone();
        let answers = both!(self, |side| {
            let over: Vec<_> = fences
                .iter()
                .map(|fence| jobwright::internal::engine::Extension { fence: *fence, lease: Some(Duration::ZERO) })
                .collect();
            let late = side.jobs.extend_external(&over).await.map_err(|error| error.to_string())?.len() as u64;
            let mut sum = (0, 0);
            while sum.0 + sum.1 < late {
                let released = side.jobs.expire_external(limit).await.map_err(|error| error.to_string())?;
                if released.total() > limit as u64 {
                    return Err(format!("{} were released with a limit of {limit}", released.total()));
                }
                sum = (sum.0 + released.waiting, sum.1 + released.dead);
            }
            Ok::<_, String>(sum)
        });
        Ok(same("expire_external", answers)? != (0, 0))
    }
}
