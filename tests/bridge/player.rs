//! Does to a store what an action of the model says, and compares.

use std::collections::BTreeSet;
use std::time::Duration;

use jobwright::store::{ClaimRequest, JobFilter, JobState, Preclaim, ScanPart, Verdict};
use jobwright::{ClaimNumber, ErrorKind, Fence, JobId, NewJob, NodeId};
use jobwright_model::claims::{ATTEMPTS, Action, Claims, Fate, Held, Phase, Progress, Request, Row, State};
use jobwright_model::vocabulary::{Subject as _, slot};
use serde_json::json;

use crate::support::jobs::message;
use crate::support::{Jobs, TestDb};

/// Why the two differ.
type Result<T> = std::result::Result<T, String>;

pub(crate) struct Player<'a, T> {
    db: &'a T,
    store: Jobs,
    subject: Claims,
    state: State,
    /// By the model's numbers of jobs.
    ids: Vec<JobId>,
    /// By the model's numbers of nodes, less one.
    nodes: Vec<NodeId>,
}

/// Each job has a queue of its own, so that a claim takes the one that the model says.
fn queue(job: u8) -> String {
    format!("queue-{job}")
}

fn number(claim: u8) -> ClaimNumber {
    ClaimNumber::new(claim.into())
}

#[allow(clippy::needless_pass_by_value, reason = "it reads better where it is used")]
fn same<V: PartialEq + std::fmt::Debug>(what: &str, real: V, model: V) -> Result<()> {
    if real == model { Ok(()) } else { Err(format!("{what}: the store says {real:?}, the model {model:?}")) }
}

impl<'a, T: TestDb> Player<'a, T> {
    pub(crate) async fn new(db: &'a T, subject: Claims) -> Self {
        let store = db.jobs();
        let mut nodes = Vec::new();
        for _ in 0..subject.bounds.processes {
            nodes.push(store.node().await);
        }
        let ids = (0..subject.bounds.jobs).map(|_| JobId::new()).collect();
        Self { db, store, subject, state: subject.start(), ids, nodes }
    }

    /// Whether the model allows it here.
    pub(crate) fn can(&self, action: Action) -> bool {
        self.subject.step(&self.state, action).is_some()
    }

    pub(crate) async fn play(&mut self, action: Action) -> Result<()> {
        let before = self.state;
        self.state = self.subject.step(&before, action).ok_or("the model does not allow it")?;
        match action {
            Action::Send { job } => self.send(job, None).await?,
            Action::Cancel { job } => {
                let cancelled = self.store.cancel(&JobFilter::ids([self.ids[slot(job)]]), false).await;
                same("cancelled", cancelled.unwrap().total(), 1)?;
            }
            Action::Execute { process } => {
                let request = before.processes[slot(process)].request.expect("it is executed");
                let now = self.state.processes[slot(process)].request;
                // What takes something is done at its commit; the rest happens here, and takes nothing.
                if now.is_none_or(|now| now.progress != Progress::Open) {
                    self.take(request, false).await?;
                }
            }
            Action::Commit { process } => {
                self.take(before.processes[slot(process)].request.expect("it is committed"), true).await?;
            }
            Action::Report { process, hand, success, .. } => {
                let held = before.processes[slot(process)].hand[slot(hand)].expect("it reports");
                self.report(&before, held, success).await?;
            }
            Action::Listen { process } => self.listen(&before, process).await?,
            Action::Look { process } => {
                let at = before.processes[slot(process)];
                let known: Vec<Fence> = at.hand.iter().flatten().map(|held| self.fence(*held)).collect();
                self.store.release_unknown(self.node(at.node), &known, None).await.unwrap();
            }
            Action::Heartbeat { process } => {
                let lives = self.store.heartbeat(self.node(before.processes[slot(process)].node)).await.unwrap();
                same("the node lives", lives, false)?;
            }
            Action::Retire { process } => {
                self.store.retire_node(self.node(before.processes[slot(process)].former)).await.unwrap();
            }
            Action::Register { .. } => self.nodes.push(self.store.node().await),
            Action::Declare { node } => self.db.bury(self.node(node)).await,
            Action::Release { .. } => self.release().await,
            // Of these a store hears nothing.
            Action::Ask { .. }
            | Action::Abort { .. }
            | Action::Answer { .. }
            | Action::GiveUp { .. }
            | Action::EndTold { .. }
            | Action::Fence { .. }
            | Action::Crash { .. } => {}
        }
        for job in 0..self.subject.bounds.jobs {
            self.compare(job).await.map_err(|why| format!("job {job}: {why}"))?;
        }
        Ok(())
    }

    fn node(&self, node: u8) -> NodeId {
        self.nodes[slot(node) - 1]
    }

    async fn send(&self, job: u8, owned: Option<Request>) -> Result<()> {
        let id = self.ids[slot(job)];
        let there = self.state.fates[slot(job)].iter().filter(|fate| **fate != Fate::Unsent).count();
        let new = NewJob::json("kind", &json!({ "send": there })).id(id).queue(queue(job));
        let messages = [message(new.max_attempts(u32::from(ATTEMPTS)))];
        // An id stands for its dead letter too, until that is deleted. The model's user does so before he sends it again.
        let dead = JobFilter { states: Some(vec![JobState::Dead]), ..JobFilter::ids([id]) };
        self.store.delete(&dead, false).await.unwrap();
        let owner = owned.map(|request| Preclaim {
            node: self.node(request.node),
            claim: number(request.claim),
            positions: vec![0],
        });
        let inserted = self.store.insert(&messages, owner.as_ref()).await.unwrap();
        let row = self.state.rows[slot(job)];
        let mine = owned.map_or(0, |request| usize::from(row.is_some_and(|row| row.claim == request.claim)));
        same("born owned", inserted.owned.len(), mine)
    }

    async fn take(&self, request: Request, takes: bool) -> Result<()> {
        if request.born {
            return self.send(request.job, Some(request)).await;
        }
        let claim = ClaimRequest {
            node: self.node(request.node),
            claim: number(request.claim),
            queue: &queue(request.job),
            kinds: None,
            limit: 1,
            part: ScanPart::All,
            held_too: false,
        };
        let claimed = match self.store.claim(&claim).await {
            Ok(claimed) => claimed.jobs.len(),
            // A node that may not claim takes nothing.
            Err(error) if error.kind() == ErrorKind::LeaseLost => 0,
            Err(error) => return Err(error.to_string()),
        };
        same("claimed", claimed, usize::from(takes))
    }

    fn fence(&self, held: Held) -> Fence {
        Fence::new(self.ids[slot(held.job)], number(held.version).get())
    }

    async fn report(&self, before: &State, held: Held, success: bool) -> Result<()> {
        let (node, fence) = (self.node(held.node), self.fence(held));
        let accepted = if success {
            self.store.complete(node, &[fence]).await.unwrap() == [fence.id]
        } else {
            let accepted = self.store.settle_one(node, fence, Verdict::Retry(Duration::ZERO)).await;
            self.store.promote().await;
            accepted
        };
        let changed = before.rows[slot(held.job)] != self.state.rows[slot(held.job)];
        same("the outcome is accepted", accepted, changed)
    }

    async fn listen(&self, before: &State, process: u8) -> Result<()> {
        let (was, is) = (before.processes[slot(process)], self.state.processes[slot(process)]);
        let asked = |held: &&Held| held.phase == Phase::Running && held.node == was.node;
        let fences: Vec<Fence> = was.hand.iter().flatten().filter(asked).map(|held| self.fence(*held)).collect();
        let gone = self.store.gone(self.node(was.node.max(1)), &fences).await.unwrap();
        let told = was.hand.iter().zip(is.hand).filter(|(was, is)| **was != *is).filter_map(|(_, is)| is);
        let set = |fences: Vec<Fence>| -> BTreeSet<_> { fences.iter().map(|f| (f.id, f.version)).collect() };
        same("gone", set(gone), set(told.map(|held| self.fence(held)).collect()))
    }

    /// A store releases all at once.
    async fn release(&mut self) {
        for job in 0..self.subject.bounds.jobs {
            if let Some(next) = self.subject.step(&self.state, Action::Release { job }) {
                self.state = next;
            }
        }
        self.store.release_all_lost().await;
    }

    async fn compare(&self, job: u8) -> Result<()> {
        let detail = self.store.show(self.ids[slot(job)]).await.unwrap();
        let live = detail.filter(|detail| detail.summary.state != JobState::Dead);
        let row: Option<Row> = self.state.rows[slot(job)];
        same("there is a row", live.is_some(), row.is_some())?;
        let (Some(live), Some(row)) = (live, row) else { return Ok(()) };
        let owner = (row.owner != 0).then(|| self.node(row.owner));
        same("owner", live.summary.owner, owner)?;
        same("state", live.summary.state, if owner.is_some() { JobState::Running } else { JobState::Waiting })?;
        same("attempt", live.summary.attempt, u32::from(row.attempt))?;
        if owner.is_some() {
            same("version", live.version, number(row.version).get())?;
        }
        Ok(())
    }
}
