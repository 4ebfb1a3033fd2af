//! Random histories of unique jobs: the holder of each key is predicted from the listing, and two jobs that exclude each other never exist together.

use std::collections::BTreeSet;
use std::time::Duration;

use jobwright::Store;
use jobwright::admin::{Change, JobFilter, JobState};
use jobwright::internal::Action;
use jobwright::internal::Fence;
use jobwright::internal::engine::{
    ClaimRequest, ExternalDone, Inserted, OperatorOptions, Settlement, UnitOfWork, Verdict,
};
use jobwright::{ErrorKind, JobId, JobMessage, NodeId};

use crate::state_machine::player::Outcome;
use crate::state_machine::uniques_model::{Forecast, Key, Ledger, MINUTE, Message, NODES, Op, QUEUES, States, Way};
use crate::support::jobs::{LATER, claim_number, hand_out_number, messages, node_info, preclaim};
use crate::support::{Jobs, SqlDb};

pub(crate) struct Player<'a, T: SqlDb> {
    db: &'a T,
    jobs: Jobs,
    nodes: [NodeId; NODES],
    claims: Vec<(NodeId, Fence)>,
    outs: Vec<Fence>,
    ledger: Ledger,
    /// Ids that are given again and again.
    given: [JobId; 2],
    sent: u32,
}

/// Returns the states in the listing.
async fn states(jobs: &Jobs) -> States {
    jobs.all().await.into_iter().map(|row| (row.id, row.state)).collect()
}

/// Returns whether it was rejected. Any other error ends the history.
fn rejected(answer: &jobwright::Result<Inserted>) -> Outcome<bool> {
    match answer {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(true),
        Err(error) => Err(error.to_string()),
    }
}

impl<'a, T: SqlDb> Player<'a, T> {
    pub(crate) async fn new(db: &'a T) -> Self {
        let jobs = db.jobs();
        let mut nodes = [NodeId(0); NODES];
        for node in &mut nodes {
            *node = jobs.register_node(&node_info("node")).await.unwrap();
        }
        let given = [JobId::new(), JobId::new()];
        let (claims, outs) = (Vec::new(), Vec::new());
        Self { db, jobs, nodes, claims, outs, ledger: Ledger::default(), given, sent: 0 }
    }

    pub(crate) async fn play(&mut self, op: &Op) -> Outcome<()> {
        let before = states(&self.jobs).await;
        match op {
            Op::Send { sent, way } => self.send(sent, *way, &before).await?,
            Op::Together(one, other) => self.together(one, other, &before).await?,
            Op::Race { sent, node, queue } => self.race(sent, *node, *queue, &before).await?,
            op => self.apply(op, &before).await.map_err(|error| error.to_string())?,
        }
        self.ledger.look(&states(&self.jobs).await)
    }

    /// Makes messages, and pairs them with their ids. An id is given once in a flush, and only if `given`.
    fn made(&mut self, sent: &[Message], given: bool) -> (Vec<JobMessage>, Vec<(JobId, Message)>) {
        let mut used = BTreeSet::new();
        let mut made = Vec::new();
        for message in sent {
            self.sent += 1;
            let job = message.make(self.sent);
            let id = message.given.filter(|n| given && used.insert(*n));
            made.push(id.map_or(job.clone(), |n| job.id(self.given[n])));
        }
        let made = messages(made);
        let named = made.iter().map(|message| message.id).zip(sent.iter().cloned()).collect();
        (made, named)
    }

    async fn send(&mut self, sent: &[Message], way: Way, before: &States) -> Outcome<()> {
        let (made, named) = self.made(sent, true);
        let answer = match way {
            Way::Alone => self.jobs.insert(&made, None).await,
            Way::Owned(node) => self.jobs.insert(&made, Some(&preclaim(self.nodes[node], &made))).await,
            Way::Committed | Way::RolledBack => {
                let mut transaction = self.db.store().begin().await.map_err(|error| error.to_string())?;
                let answer = transaction.insert(&made, None).await;
                // A rejected flush leaves the transaction as it was: it can be committed.
                let ended =
                    if way == Way::Committed { transaction.commit().await } else { transaction.rollback().await };
                ended.map_err(|error| error.to_string())?;
                answer
            }
        };
        let rejected = rejected(&answer)?;
        let mut keys = self.ledger.clone();
        let forecast = keys.foretell(before, &named);
        if rejected != forecast.rejected {
            return Err(format!("rejected: {rejected}, foretold: {forecast:?}"));
        }
        let after = states(&self.jobs).await;
        if way == Way::RolledBack {
            let same = before.keys().eq(after.keys());
            return if same { Ok(()) } else { Err(format!("rolled back, and not the same: {before:?}, {after:?}")) };
        }
        let Inserted { owned, duplicates, .. } = answer.unwrap_or_default();
        for (id, holder) in duplicates.iter().filter(|(id, _)| !before.contains_key(id)) {
            if forecast.kept.get(id) != Some(holder) {
                return Err(format!("{id} was kept out by {holder}, foretold: {forecast:?}"));
            }
        }
        if let Way::Owned(node) = way {
            let node = self.nodes[node];
            self.claims.extend(owned.iter().map(|row| (node, Fence::new(row.id, 1))));
        }
        forecast.compare(before, &after)?;
        self.ledger = keys;
        Ok(())
    }

    /// Flushes twice at the same time: the result is as if one came after the other.
    async fn together(&mut self, one: &[Message], other: &[Message], before: &States) -> Outcome<()> {
        let (first, one) = self.made(one, true);
        // The two never use the same id.
        let (second, other) = self.made(other, false);
        let aside = Jobs(self.db.store().engine());
        let (first, second) = tokio::join!(self.jobs.insert(&first, None), aside.insert(&second, None));
        let seen = [rejected(&first)?, rejected(&second)?];
        let after = states(&self.jobs).await;
        let mut told = Vec::new();
        for turned in [false, true] {
            let (mut ledger, mut between) = (self.ledger.clone(), before.clone());
            let mut forecasts = Vec::new();
            for flush in if turned { [&other, &one] } else { [&one, &other] } {
                let forecast = ledger.foretell(&between, flush);
                between.retain(|id, _| !forecast.replaced.contains(id));
                between.extend(forecast.accepted.iter().map(|id| (*id, JobState::Waiting)));
                forecasts.push(forecast);
            }
            if turned {
                forecasts.reverse();
            }
            let same = seen == [forecasts[0].rejected, forecasts[1].rejected];
            let both = Forecast::sum(&forecasts);
            if same && both.compare(before, &after).is_ok() {
                self.ledger = ledger;
                return Ok(());
            }
            told.push(forecasts);
        }
        Err(format!("neither order explains {seen:?} and {after:?}\nbefore: {before:?}\nforetold: {told:#?}"))
    }

    /// Sends a job while a node claims: the send sees the jobs as they were before the claim, or after it.
    async fn race(&mut self, sent: &Message, node: usize, queue: usize, before: &States) -> Outcome<()> {
        let (made, named) = self.made(std::slice::from_ref(sent), true);
        let aside = Jobs(self.db.store().engine());
        let node = self.nodes[node];
        let request = ClaimRequest::new(node, claim_number(), QUEUES[queue], 10);
        let (answer, claimed) = tokio::join!(aside.insert(&made, None), self.jobs.claim(&request));
        let claimed = claimed.map_err(|error| error.to_string())?.jobs;
        self.claims.extend(claimed.iter().map(|job| (node, job.fence())));
        let rejected = rejected(&answer)?;
        let after = states(&self.jobs).await;
        let taken: BTreeSet<JobId> = claimed.iter().map(|job| job.id).collect();
        let mut started = before.clone();
        started.extend(taken.iter().filter(|id| before.contains_key(id)).map(|id| (*id, JobState::Running)));
        let mut told = Vec::new();
        for met in [before, &started] {
            let mut ledger = self.ledger.clone();
            let forecast = ledger.foretell(met, &named);
            let lost = forecast.replaced.iter().any(|id| taken.contains(id));
            if forecast.rejected == rejected && !lost && forecast.compare(before, &after).is_ok() {
                self.ledger = ledger;
                return Ok(());
            }
            told.push(forecast);
        }
        Err(format!("claimed {taken:?}, {after:?}\nbefore: {before:?}\nforetold: {told:#?}"))
    }

    async fn apply(&mut self, op: &Op, before: &States) -> jobwright::Result<()> {
        let jobs = self.jobs.clone();
        let nth = |n: usize| before.keys().nth(n % before.len().max(1)).map(|id| JobFilter::ids([*id]));
        match op {
            Op::Send { .. } | Op::Together(..) | Op::Race { .. } => {}
            Op::Admit => drop(jobs.admit_all().await),
            Op::Claim { node, queue, limit } => {
                let claimed = jobs.take_from(QUEUES[*queue], self.nodes[*node], *limit).await;
                self.claims.extend(claimed.iter().map(|job| (self.nodes[*node], job.fence())));
            }
            Op::Complete { claims } => {
                for claim in claims {
                    if let Some((node, fence)) = self.claims.iter().rev().nth(*claim) {
                        jobs.complete(*node, &[*fence]).await?;
                    }
                }
            }
            Op::Settle { claim, verdict } => {
                if let Some((node, fence)) = self.claims.iter().rev().nth(*claim) {
                    jobs.settle(*node, &[Settlement::new(*fence, verdict.clone()).error("oh", None)]).await?;
                }
            }
            Op::HandOut { queue, limit } => {
                let handed = jobs.hand_out(QUEUES[*queue], *limit, LATER, hand_out_number()).await?;
                self.outs.extend(handed.iter().map(jobwright::Job::fence));
            }
            Op::Report { out, done } => {
                let Some(fence) = self.outs.iter().rev().nth(*out).copied() else { return Ok(()) };
                if *done {
                    jobs.complete_external(&[ExternalDone { fence, result: None }]).await?;
                } else {
                    let verdict = Verdict::Retry(Duration::ZERO);
                    jobs.settle_external(&[Settlement::new(fence, verdict).error("oh", None)]).await?;
                }
            }
            Op::TakeBack { out } => {
                if let Some(fence) = self.outs.iter().rev().nth(*out) {
                    jobs.take_back(&[*fence]).await?;
                }
            }
            Op::Promote => drop(jobs.promote().await),
            Op::Perish { node } => {
                self.db.bury(self.nodes[*node]).await;
                self.nodes[*node] = jobs.register_node(&node_info("node")).await?;
            }
            Op::ReleaseLost => drop(jobs.release_lost(100, None).await?),
            Op::Retire { node } => {
                jobs.retire_node(self.nodes[*node]).await?;
                self.nodes[*node] = jobs.register_node(&node_info("node")).await?;
            }
            Op::Cancel { job } => drop(jobs.cancel(&nth(*job).unwrap_or_default(), false).await?),
            Op::Delete { job } => drop(jobs.delete(&nth(*job).unwrap_or_default(), false).await?),
            Op::Requeue => drop(jobs.retry(&JobFilter::state(JobState::Dead), false).await?),
            Op::Suspend { job } => {
                jobs.operate(&nth(*job).unwrap_or_default(), &Action::Suspend, OperatorOptions::UNNAMED).await?;
            }
            Op::Resume => drop(jobs.operate(&JobFilter::default(), &Action::Resume, OperatorOptions::UNNAMED).await?),
            Op::RunNow => drop(jobs.operate(&JobFilter::default(), &Action::RunNow, OperatorOptions::UNNAMED).await?),
            Op::Move { job, queue } => {
                let change = Change::default().queue(QUEUES[*queue]);
                jobs.operate(&nth(*job).unwrap_or_default(), &Action::Change(change), OperatorOptions::UNNAMED).await?;
            }
            Op::Pass(minutes) => {
                self.db.pass(MINUTE * *minutes).await;
                self.ledger.now += *minutes;
            }
            Op::Expire => {
                jobs.expire_jobs(100).await?;
            }
        }
        Ok(())
    }

    /// Runs all remaining jobs to their end; then every key is free, except those whose period is not over.
    pub(crate) async fn finish(mut self) -> Outcome<()> {
        let jobs = self.jobs.clone();
        for node in self.nodes {
            jobs.retire_node(node).await.map_err(|error| error.to_string())?;
        }
        while jobs.release_lost(100, None).await.map_err(|error| error.to_string())?.total() == 100 {}
        for fence in std::mem::take(&mut self.outs) {
            let done = ExternalDone { fence, result: None };
            jobs.complete_external(&[done]).await.map_err(|error| error.to_string())?;
        }
        jobs.retry(&JobFilter::state(JobState::Dead), false).await.map_err(|error| error.to_string())?;
        jobs.operate(&JobFilter::default(), &Action::RunNow, OperatorOptions::UNNAMED)
            .await
            .map_err(|error| error.to_string())?;
        let node = jobs.register_node(&node_info("last")).await.map_err(|error| error.to_string())?;
        for _ in 0..1000 {
            jobs.admit_all().await;
            let mut any = false;
            for queue in QUEUES {
                for job in jobs.take_from(queue, node, 10).await {
                    any = true;
                    jobs.finish(node, &job).await;
                }
            }
            self.ledger.look(&states(&jobs).await)?;
            if !any {
                break;
            }
        }
        let left = jobs.all().await;
        if !left.is_empty() {
            return Err(format!("these are left: {left:#?}"));
        }
        for round in [1, 2] {
            if round == 2 {
                jobs.delete(&JobFilter::default(), false).await.map_err(|error| error.to_string())?;
                // Longer than any period.
                self.db.pass(LATER).await;
                self.ledger.now += 60;
                self.ledger.look(&States::new())?;
            }
            for key in Key::all() {
                let before = states(&jobs).await;
                self.send(&[key.strict()], Way::Alone, &before).await?;
            }
        }
        // In the second round none was a duplicate.
        let sent = jobs.all().await.len();
        if sent == Key::all().count() { Ok(()) } else { Err(format!("only {sent} keys are free at the end")) }
    }
}

/// Plays a history from its start to its end.
pub(crate) async fn play<T: SqlDb>(db: &T, history: &[Op]) -> Outcome<()> {
    let mut player = Player::new(db).await;
    for (n, op) in history.iter().enumerate() {
        player.play(op).await.map_err(|why| format!("step {n}: {why}"))?;
    }
    player.finish().await.map_err(|why| format!("at the end: {why}"))
}
