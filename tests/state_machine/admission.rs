//! Random histories of groups and limits, of rates, times to live and operations. A store may decide among equals, so there is no oracle here.
//! Instead, conditions are checked after each step, and in the end all remaining jobs must be able to run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jobwright::admin::{Change, DueChange, JobFilter, JobState, JobSummary, Rule, Scope};
use jobwright::internal::Action;
use jobwright::internal::Fence;
use jobwright::internal::engine::{ClaimRequest, ExternalDone, OperatorOptions, Settlement, Verdict};
use jobwright::{JobId, NewJob, NodeId};

use crate::state_machine::admission_ops::{MINUTE, Message, NODES, Op, QUEUES, RULES, make};
use crate::state_machine::admission_watch::Watch;
use crate::state_machine::player::Outcome;
use crate::support::jobs::{LATER, claim_number, hand_out_number, messages, node_info};
use crate::support::{Jobs, SqlDb};

pub(crate) struct Player<'a, T: SqlDb> {
    db: &'a T,
    jobs: Jobs,
    nodes: [NodeId; NODES],
    claims: Vec<(NodeId, Fence)>,
    outs: Vec<Fence>,
    /// Handlers of jobs that were cancelled while they ran.
    endings: Vec<Running>,
    /// Group, strictness and tenant of each job.
    options: BTreeMap<JobId, Message>,
    /// The most that may run under each rule: its limit, or the number that ran already when it was set.
    most: BTreeMap<(Scope, &'static str), usize>,
    watch: Watch,
    /// The jobs after the last step.
    last: Vec<JobSummary>,
}

/// A handler that still runs though its job is gone: its permits are not free.
struct Running {
    /// `None`: an external worker's.
    node: Option<NodeId>,
    fence: Fence,
    group: Option<u8>,
    limits: Vec<(Scope, &'static str)>,
}

impl<'a, T: SqlDb> Player<'a, T> {
    pub(crate) async fn new(db: &'a T) -> Self {
        let jobs = db.jobs();
        for rule in jobs.rules().await.unwrap() {
            jobs.put_rule(&Rule::new(rule.scope, rule.name)).await.unwrap();
        }
        let mut nodes = [NodeId(0); NODES];
        for node in &mut nodes {
            *node = jobs.register_node(&node_info("node")).await.unwrap();
        }
        let (claims, outs) = (Vec::new(), Vec::new());
        Self {
            db,
            jobs,
            nodes,
            claims,
            outs,
            endings: Vec::new(),
            options: BTreeMap::new(),
            most: BTreeMap::new(),
            watch: Watch::default(),
            last: Vec::new(),
        }
    }

    pub(crate) async fn play(&mut self, op: &Op) -> Outcome<()> {
        self.apply(op).await.map_err(|error| error.to_string())?;
        self.check().await
    }

    async fn apply(&mut self, op: &Op) -> jobwright::Result<()> {
        let jobs = self.jobs.clone();
        match op {
            Op::Send(sent) => {
                let made: Vec<NewJob> = sent.iter().map(make).collect();
                for (job, message) in made.iter().zip(sent) {
                    self.watch.sent(job.job_id(), message);
                    self.options.insert(job.job_id(), message.clone());
                }
                jobs.insert(&messages(made), None).await?;
            }
            Op::Admit => drop(jobs.admit_all().await),
            Op::Claim { node, queue, limit } => {
                let node = self.nodes[*node];
                let queue = QUEUES[*queue];
                let request = ClaimRequest::new(node, claim_number(), queue, *limit);
                let claimed = jobs.claim(&request).await?.jobs;
                self.claims.extend(claimed.iter().map(|job| (node, job.fence())));
                self.watch.started(claimed.iter().map(|job| job.id));
            }
            Op::Complete { claims } => {
                for claim in claims {
                    if let Some((node, fence)) = self.claim(*claim) {
                        jobs.complete(node, &[fence]).await?;
                        self.ended(node, fence).await?;
                    }
                }
            }
            Op::Settle { claim, verdict } => {
                if let Some((node, fence)) = self.claim(*claim) {
                    let settled =
                        jobs.settle(node, &[Settlement::new(fence, verdict.clone()).error("oh", None)]).await?;
                    if *verdict == Verdict::Retry(LATER) {
                        self.watch.later(&settled);
                    }
                    self.ended(node, fence).await?;
                }
            }
            Op::Promote => drop(jobs.promote().await),
            Op::HandOut { queue, limit } => {
                let handed = jobs.hand_out(QUEUES[*queue], *limit, LATER, hand_out_number()).await?;
                self.outs.extend(handed.iter().map(jobwright::Job::fence));
                self.watch.started(handed.iter().map(|job| job.id));
            }
            Op::Report { out, done } => {
                let Some(fence) = self.out(*out) else { return Ok(()) };
                if *done {
                    jobs.complete_external(&[ExternalDone { fence, result: None }]).await?;
                } else {
                    let verdict = Verdict::Retry(Duration::ZERO);
                    jobs.settle_external(&[Settlement::new(fence, verdict).error("oh", None)]).await?;
                }
                self.endings.retain(|ending| ending.node.is_some() || ending.fence != fence);
            }
            Op::TakeBack { out } => {
                if let Some(fence) = self.out(*out) {
                    jobs.take_back(&[fence]).await?;
                    self.endings.retain(|ending| ending.node.is_some() || ending.fence != fence);
                }
            }
            Op::Perish { node } => {
                self.db.bury(self.nodes[*node]).await;
                self.endings.retain(|ending| ending.node != Some(self.nodes[*node]));
                self.nodes[*node] = jobs.register_node(&node_info("node")).await?;
            }
            Op::ReleaseLost => drop(jobs.release_lost(100, None).await?),
            Op::Retire { node } => {
                jobs.retire_node(self.nodes[*node]).await?;
                self.endings.retain(|ending| ending.node != Some(self.nodes[*node]));
                self.nodes[*node] = jobs.register_node(&node_info("node")).await?;
            }
            Op::Remove { job, delete } => {
                if let Some(filter) = self.nth(*job) {
                    if *delete {
                        jobs.delete(&filter, false).await?
                    } else {
                        self.endings.extend(self.running(&filter));
                        jobs.cancel(&filter, false).await?
                    };
                }
            }
            op => self.operate(op).await?,
        }
        Ok(())
    }

    /// Applies an operation, or moves the clock.
    async fn operate(&mut self, op: &Op) -> jobwright::Result<()> {
        let jobs = self.jobs.clone();
        match op {
            Op::Requeue => {
                jobs.retry(&JobFilter::state(JobState::Dead), false).await?;
                self.watch.requeued(&self.last);
            }
            Op::Suspend { job } => {
                let Some(filter) = self.nth(*job) else { return Ok(()) };
                jobs.operate(&filter, &Action::Suspend, OperatorOptions::UNNAMED).await?;
                self.watch.suspended(&self.last, &filter);
            }
            Op::Resume => {
                jobs.operate(&JobFilter::default(), &Action::Resume, OperatorOptions::UNNAMED).await?;
                self.watch.resumed();
            }
            Op::RunNow => {
                jobs.operate(&JobFilter::default(), &Action::RunNow, OperatorOptions::UNNAMED).await?;
                self.watch.hurried(&self.last);
            }
            Op::Change { job, priority, due, queue } => {
                let Some(filter) = self.nth(*job) else { return Ok(()) };
                let mut change = Change::default();
                change.priority = *priority;
                change.due = due.map(|minutes| DueChange::In(MINUTE * minutes));
                change.queue = queue.map(|queue| QUEUES[queue].to_owned());
                jobs.operate(&filter, &Action::Change(change), OperatorOptions::UNNAMED).await?;
                if let Some(minutes) = due {
                    self.watch.put_off(&self.last, &filter, *minutes);
                }
            }
            Op::Expire => {
                jobs.expire_jobs(100).await?;
                self.watch.expired();
            }
            Op::Pass(minutes) => {
                self.db.pass(MINUTE * *minutes).await;
                self.watch.now += minutes;
            }
            Op::Rule { scope, running, paused, rate } => {
                let (scope, name) = RULES[*scope];
                let mut rule = Rule::new(scope, name).paused(*paused);
                rule.running = *running;
                if let Some((starts, minutes)) = rate {
                    rule = rule.rate(*starts, MINUTE * *minutes);
                }
                jobs.put_rule(&rule).await?;
                self.watch.rule((scope, name), *rate);
                self.most.clear();
                // Jobs beyond a rule's limit have run since before it was set, or were admitted before.
                let all = jobs.all().await;
                for rule in jobs.rules().await? {
                    let Some(key) =
                        RULES.iter().find(|(scope, name)| (*scope, *name) == (rule.scope, rule.name.as_str()))
                    else {
                        continue;
                    };
                    if let Some(running) = rule.running {
                        let held = all.iter().filter(|row| busy(row) || row.state == JobState::Waiting);
                        let now = held.filter(|row| self.covers(*key, row.id, &row.queue)).count() + self.ending(*key);
                        self.most.insert(*key, now.max(running as usize));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Selects one of the jobs that existed after the last step.
    fn nth(&self, n: usize) -> Option<JobFilter> {
        self.last.get(n % self.last.len().max(1)).map(|row| JobFilter::ids([row.id]))
    }

    /// Returns the running handlers of the matching jobs, as far as their nodes live.
    fn running(&self, filter: &JobFilter) -> Vec<Running> {
        let meant = |row: &&JobSummary| busy(row) && filter.ids.as_ref().is_some_and(|ids| ids.contains(&row.id));
        let each = self.last.iter().filter(meant).filter_map(|row| {
            let (node, fence) = match row.state {
                JobState::External => (None, *self.outs.iter().rfind(|out| out.id == row.id)?),
                _ => {
                    let (node, fence) = *self.claims.iter().rfind(|(_, fence)| fence.id == row.id)?;
                    (Some(node), fence)
                }
            };
            if node.is_some_and(|node| !self.nodes.contains(&node)) {
                return None;
            }
            let limits = self.most.keys().filter(|key| self.covers(**key, row.id, &row.queue)).copied().collect();
            Some(Running { node, fence, group: self.options[&row.id].group, limits })
        });
        each.collect()
    }

    /// Counts the running handlers under a rule whose job is gone.
    fn ending(&self, key: (Scope, &'static str)) -> usize {
        self.endings.iter().filter(|ending| ending.limits.contains(&key)).count()
    }

    /// Reports the end of a handler, as an executor does whose outcome was refused.
    async fn ended(&mut self, node: NodeId, fence: Fence) -> jobwright::Result<()> {
        let held = self.jobs.handlers_ended(node, &[fence]).await?;
        let meant = |ending: &Running| ending.node == Some(node) && ending.fence == fence;
        if self.endings.iter().any(|ending| meant(ending) && ending.group.is_some()) {
            assert_eq!(held, 1, "the handler of a cancelled job held nothing");
        }
        self.endings.retain(|ending| !meant(ending));
        Ok(())
    }

    fn claim(&self, n: usize) -> Option<(NodeId, Fence)> {
        self.claims.len().checked_sub(1 + n).map(|at| self.claims[at])
    }

    fn out(&self, n: usize) -> Option<Fence> {
        self.outs.len().checked_sub(1 + n).map(|at| self.outs[at])
    }

    fn covers(&self, (scope, name): (Scope, &'static str), id: JobId, queue: &str) -> bool {
        let tenant = self.options[&id].tenant;
        match (scope, name) {
            (Scope::Tenant, "t0") => tenant == Some(0),
            // Each tenant separately, without the one that has its own rule: here there is one other.
            (Scope::Tenant, _) => tenant == Some(1),
            (Scope::Queue, _) => queue == "default",
            _ => true,
        }
    }

    async fn check(&mut self) -> Outcome<()> {
        let faults = self.jobs.permit_faults().await.map_err(|error| error.to_string())?;
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        let all = self.jobs.all().await;
        let mut groups = BTreeSet::new();
        for group in self.endings.iter().filter_map(|ending| ending.group) {
            if !groups.insert(group) {
                return Err(format!("two handlers of cancelled jobs of group {group} run at the same time"));
            }
        }
        for row in all.iter().filter(|row| busy(row)) {
            if let Some(group) = self.options[&row.id].group
                && !groups.insert(group)
            {
                return Err(format!("two jobs of group {group} run at the same time"));
            }
        }
        for (key, most) in &self.most {
            let running = all.iter().filter(|row| busy(row) && self.covers(*key, row.id, &row.queue)).count();
            let running = running + self.ending(*key);
            if running > *most {
                return Err(format!("{running} run under {key:?}, which allows {most}"));
            }
        }
        let admitted = self.db.admitted().await;
        // Jobs that already run when a limit is set take their permits then; that is no start.
        let ran: BTreeSet<JobId> = self.last.iter().filter(|row| busy(row)).map(|row| row.id).collect();
        let started = |id: &JobId| admitted.contains(id) && !self.watch.admitted.contains(id) && !ran.contains(id);
        let newly: Vec<&JobSummary> = all.iter().filter(|row| started(&row.id)).collect();
        for key in RULES {
            let starts = newly.iter().filter(|row| self.covers(key, row.id, &row.queue)).count();
            self.watch.count(key, starts)?;
        }
        self.watch.admitted = admitted;
        self.watch.look(&self.last, &all)?;
        self.last = all;
        Ok(())
    }

    /// First with rates as the only rules, and then without any, every remaining job runs or expires: none is forgotten blocked on a key.
    pub(crate) async fn finish(mut self) -> Outcome<()> {
        for (scope, name) in RULES {
            let rate = self.watch.rate((scope, name));
            let rule = Rule::new(scope, name);
            let rule = rate.map_or(rule.clone(), |(starts, minutes)| rule.rate(starts, MINUTE * minutes));
            self.jobs.put_rule(&rule).await.map_err(|error| error.to_string())?;
        }
        self.most.clear();
        for node in self.nodes {
            self.jobs.retire_node(node).await.map_err(|error| error.to_string())?;
        }
        let node = self.jobs.register_node(&node_info("last")).await.map_err(|error| error.to_string())?;
        while self.jobs.release_lost(100, None).await.map_err(|error| error.to_string())?.total() == 100 {}
        self.endings.clear();
        for fence in std::mem::take(&mut self.outs) {
            let done = ExternalDone { fence, result: None };
            self.jobs.complete_external(&[done]).await.map_err(|error| error.to_string())?;
        }
        self.check().await?;
        // Dead letters that hold their groups, suspended jobs, and jobs that are due much later.
        for op in [Op::Requeue, Op::RunNow] {
            self.play(&op).await?;
        }
        let mut idle = 0;
        while idle < PATIENCE && !self.last.is_empty() {
            self.jobs.admit_all().await;
            // Before they are claimed: that is when they start.
            self.check().await?;
            let mut any = false;
            for queue in QUEUES {
                for job in self.jobs.take_from(queue, node, 10).await {
                    any = true;
                    self.watch.started([job.id]);
                    self.jobs.finish(node, &job).await;
                }
            }
            self.check().await?;
            if any {
                continue;
            }
            idle += 1;
            self.play(&Op::Expire).await?;
            // An expired job holds its group, if it is ordered.
            self.jobs.delete(&JobFilter::state(JobState::Dead), false).await.map_err(|error| error.to_string())?;
            if idle == PATIENCE / 2 {
                for scope in 0..RULES.len() {
                    self.play(&Op::Rule { scope, running: None, paused: false, rate: None }).await?;
                }
            } else if !self.watch.rates_are_over() {
                self.play(&Op::Pass(5)).await?;
            }
            self.check().await?;
        }
        if self.last.is_empty() { Ok(()) } else { Err(format!("these can't run any more: {:#?}", self.last)) }
    }
}

/// The number of polls that find nothing to run before the rest is given up.
const PATIENCE: u32 = 12;

fn busy(row: &JobSummary) -> bool {
    matches!(row.state, JobState::Running | JobState::External)
}

/// Plays a history from its start to its end.
pub(crate) async fn play<T: SqlDb>(db: &T, history: &[Op]) -> Outcome<()> {
    let mut player = Player::new(db).await;
    for (n, op) in history.iter().enumerate() {
        player.play(op).await.map_err(|why| format!("step {n}: {why}"))?;
    }
    player.finish().await.map_err(|why| format!("at the end: {why}"))
}
