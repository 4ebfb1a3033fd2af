//! Random histories of groups and limits. What is decided among equals is the store's business, so there is no oracle here, but what
//! must hold after each step, and that in the end everything that is left can run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jobwright::store::{ClaimRequest, ExternalDone, JobFilter, JobState, JobSummary, Rule, Scope, Settlement, Verdict};
use jobwright::{Fence, JobId, NewJob, NodeId};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::player::Outcome;
use crate::support::jobs::{LATER, messages, node_info};
use crate::support::{Jobs, TestDb};

const NODES: usize = 3;
const QUEUES: [&str; 2] = ["default", "other"];

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Send(Vec<Message>),
    Admit,
    Claim {
        node: usize,
        queue: usize,
        limit: usize,
    },
    Complete {
        claims: Vec<usize>,
    },
    Settle {
        claim: usize,
        verdict: Verdict,
    },
    Promote,
    HandOut {
        queue: usize,
        limit: usize,
    },
    Report {
        out: usize,
        done: bool,
    },
    TakeBack {
        out: usize,
    },
    /// A node dies; another one takes its place.
    Perish {
        node: usize,
    },
    ReleaseLost,
    Retire {
        node: usize,
    },
    Remove {
        job: usize,
        delete: bool,
    },
    Requeue,
    Rule {
        scope: usize,
        running: Option<u32>,
        paused: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    group: Option<u8>,
    ordered: bool,
    tenant: Option<u8>,
    queue: usize,
    priority: i16,
    later: bool,
}

fn message() -> impl Strategy<Value = Message> {
    let group = prop::option::weighted(0.7, 0_u8..3);
    let tenant = prop::option::weighted(0.6, 0_u8..2);
    (group, any::<bool>(), tenant, prop::bool::weighted(0.2), -1_i16..=1, prop::bool::weighted(0.1)).prop_map(
        |(group, ordered, tenant, other, priority, later)| Message {
            group,
            ordered,
            tenant,
            queue: usize::from(other),
            priority,
            later,
        },
    )
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        3 => Just(Verdict::Retry(Duration::ZERO)),
        1 => Just(Verdict::Retry(LATER)),
        1 => Just(Verdict::Snooze(Duration::ZERO)),
        1 => Just(Verdict::Release),
        1 => Just(Verdict::Cancel),
        1 => Just(Verdict::Dead),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => vec(message(), 1..5).prop_map(Op::Send),
        8 => Just(Op::Admit),
        8 => (0..NODES, 0..QUEUES.len(), 1_usize..5).prop_map(|(node, queue, limit)| Op::Claim { node, queue, limit }),
        4 => vec(0_usize..8, 1..4).prop_map(|claims| Op::Complete { claims }),
        4 => (0_usize..8, verdict()).prop_map(|(claim, verdict)| Op::Settle { claim, verdict }),
        3 => Just(Op::Promote),
        2 => (0..QUEUES.len(), 1_usize..3).prop_map(|(queue, limit)| Op::HandOut { queue, limit }),
        2 => (0_usize..4, any::<bool>()).prop_map(|(out, done)| Op::Report { out, done }),
        1 => (0_usize..4).prop_map(|out| Op::TakeBack { out }),
        2 => (0..NODES).prop_map(|node| Op::Perish { node }),
        2 => Just(Op::ReleaseLost),
        1 => (0..NODES).prop_map(|node| Op::Retire { node }),
        1 => (0_usize..10, any::<bool>()).prop_map(|(job, delete)| Op::Remove { job, delete }),
        1 => Just(Op::Requeue),
        2 => (0_usize..4, prop::option::weighted(0.6, 0_u32..3), prop::bool::weighted(0.2))
            .prop_map(|(scope, running, paused)| Op::Rule { scope, running, paused }),
    ]
}

/// Up to `longest` things that happen one after the other.
pub(crate) fn history(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), longest / 4..=longest)
}

/// What rules are about in these histories.
const RULES: [(Scope, &str); 4] =
    [(Scope::Tenant, "t0"), (Scope::Tenant, "*"), (Scope::Queue, "default"), (Scope::Kind, "kind")];

pub(crate) struct Player<'a, T: TestDb> {
    db: &'a T,
    jobs: Jobs,
    nodes: [NodeId; NODES],
    claims: Vec<(NodeId, Fence)>,
    outs: Vec<Fence>,
    /// Group, strictness and tenant of each job.
    terms: BTreeMap<JobId, Message>,
    /// Most that may run under each rule: that, or what ran already when it was set.
    most: BTreeMap<(Scope, &'static str), usize>,
}

impl<'a, T: TestDb> Player<'a, T> {
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
        Self { db, jobs, nodes, claims, outs, terms: BTreeMap::new(), most: BTreeMap::new() }
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
                let sent = made.iter().map(NewJob::job_id).zip(sent.iter().cloned());
                self.terms.extend(sent);
                jobs.insert(&messages(made), None).await?;
            }
            Op::Admit => drop(jobs.admit_all().await),
            Op::Claim { node, queue, limit } => {
                let node = self.nodes[*node];
                let queue = QUEUES[*queue];
                let request = ClaimRequest { node, queue, kinds: None, limit: *limit, after: None, held_too: false };
                let claimed = jobs.claim(&request).await?;
                self.claims.extend(claimed.iter().map(|job| (node, job.fence())));
            }
            Op::Complete { claims } => {
                for claim in claims {
                    if let Some((node, fence)) = self.claim(*claim) {
                        jobs.complete(node, &[fence]).await?;
                    }
                }
            }
            Op::Settle { claim, verdict } => {
                if let Some((node, fence)) = self.claim(*claim) {
                    jobs.settle(node, &[Settlement::new(fence, verdict.clone()).error("oh", None)]).await?;
                }
            }
            Op::Promote => drop(jobs.promote().await),
            Op::HandOut { queue, limit } => {
                let handed = jobs.hand_out(QUEUES[*queue], *limit, LATER).await?;
                self.outs.extend(handed.iter().map(jobwright::Job::fence));
            }
            Op::Report { out, done } => {
                let Some(fence) = self.out(*out) else { return Ok(()) };
                if *done {
                    jobs.complete_external(&[ExternalDone { fence, result: None }]).await?;
                } else {
                    let verdict = Verdict::Retry(Duration::ZERO);
                    jobs.settle_external(&[Settlement::new(fence, verdict).error("oh", None)]).await?;
                }
            }
            Op::TakeBack { out } => {
                if let Some(fence) = self.out(*out) {
                    jobs.take_back(&[fence]).await?;
                }
            }
            Op::Perish { node } => {
                self.db.bury(self.nodes[*node]).await;
                self.nodes[*node] = jobs.register_node(&node_info("node")).await?;
            }
            Op::ReleaseLost => drop(jobs.release_lost(100, None).await?),
            Op::Retire { node } => {
                jobs.retire_node(self.nodes[*node]).await?;
                self.nodes[*node] = jobs.register_node(&node_info("node")).await?;
            }
            Op::Remove { job, delete } => {
                let all = jobs.all().await;
                if let Some(row) = all.get(*job % all.len().max(1)) {
                    let filter = JobFilter::ids([row.id]);
                    if *delete {
                        jobs.delete(&filter, false).await?
                    } else {
                        jobs.cancel(&filter, false).await?
                    };
                }
            }
            Op::Requeue => drop(jobs.retry(&JobFilter::state(JobState::Dead), false).await?),
            Op::Rule { scope, running, paused } => {
                let (scope, name) = RULES[*scope];
                jobs.put_rule(&Rule::new(scope, name).running(*running).paused(*paused)).await?;
                self.most.clear();
                // What may run more than a rule says runs since before it was set, or was admitted before.
                let all = jobs.all().await;
                for rule in jobs.rules().await? {
                    let Some(key) =
                        RULES.iter().find(|(scope, name)| (*scope, *name) == (rule.scope, rule.name.as_str()))
                    else {
                        continue;
                    };
                    if let Some(running) = rule.running {
                        let held = all.iter().filter(|row| busy(row) || row.state == JobState::Waiting);
                        let now = held.filter(|row| self.covers(*key, row.id, &row.queue)).count();
                        self.most.insert(*key, now.max(running as usize));
                    }
                }
            }
        }
        Ok(())
    }

    fn claim(&self, n: usize) -> Option<(NodeId, Fence)> {
        self.claims.len().checked_sub(1 + n).map(|at| self.claims[at])
    }

    fn out(&self, n: usize) -> Option<Fence> {
        self.outs.len().checked_sub(1 + n).map(|at| self.outs[at])
    }

    fn covers(&self, (scope, name): (Scope, &'static str), id: JobId, queue: &str) -> bool {
        let tenant = self.terms[&id].tenant;
        match (scope, name) {
            (Scope::Tenant, "t0") => tenant == Some(0),
            // Each by itself, and the one that has a rule of its own is not meant: here there is one other.
            (Scope::Tenant, _) => tenant == Some(1),
            (Scope::Queue, _) => queue == "default",
            _ => true,
        }
    }

    async fn check(&self) -> Outcome<()> {
        let faults = self.jobs.slot_faults().await.map_err(|error| error.to_string())?;
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        let all = self.jobs.all().await;
        let mut groups = BTreeSet::new();
        for row in all.iter().filter(|row| busy(row)) {
            if let Some(group) = self.terms[&row.id].group
                && !groups.insert(group)
            {
                return Err(format!("two jobs of group {group} run at the same time"));
            }
        }
        for (key, most) in &self.most {
            let running = all.iter().filter(|row| busy(row) && self.covers(*key, row.id, &row.queue)).count();
            if running > *most {
                return Err(format!("{running} run under {key:?}, which allows {most}"));
            }
        }
        Ok(())
    }

    /// Without rules, everything that is left runs: nothing was forgotten behind a gate.
    pub(crate) async fn finish(mut self) -> Outcome<()> {
        for (scope, name) in RULES {
            self.jobs.put_rule(&Rule::new(scope, name)).await.map_err(|error| error.to_string())?;
        }
        self.most.clear();
        for node in self.nodes {
            self.jobs.retire_node(node).await.map_err(|error| error.to_string())?;
        }
        let node = self.jobs.register_node(&node_info("last")).await.map_err(|error| error.to_string())?;
        while self.jobs.release_lost(100, None).await.map_err(|error| error.to_string())?.total() == 100 {}
        for fence in std::mem::take(&mut self.outs) {
            let done = ExternalDone { fence, result: None };
            self.jobs.complete_external(&[done]).await.map_err(|error| error.to_string())?;
        }
        // Those that hold their groups as dead letters, or until much later.
        for state in [JobState::Dead, JobState::Timer] {
            self.jobs.retry(&JobFilter::state(state), false).await.map_err(|error| error.to_string())?;
        }
        for _ in 0..1000 {
            self.jobs.admit_all().await;
            let mut any = false;
            for queue in QUEUES {
                for job in self.jobs.take_from(queue, node, 10).await {
                    any = true;
                    self.jobs.finish(node, &job).await;
                }
            }
            self.check().await?;
            if !any {
                break;
            }
        }
        let left = self.jobs.all().await;
        if left.is_empty() { Ok(()) } else { Err(format!("these can't run any more: {left:#?}")) }
    }
}

fn busy(row: &JobSummary) -> bool {
    matches!(row.state, JobState::Running | JobState::External)
}

fn make(message: &Message) -> NewJob {
    let mut job =
        NewJob::json("kind", &json!(1)).queue(QUEUES[message.queue]).priority(message.priority).max_attempts(3);
    if let Some(group) = message.group {
        let group = format!("g{group}");
        job = if message.ordered { job.ordered(group) } else { job.exclusive(group) };
    }
    if let Some(tenant) = message.tenant {
        job = job.tenant(format!("t{tenant}"));
    }
    if message.later { job.delay(LATER) } else { job }
}
