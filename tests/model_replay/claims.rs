//! Claims, ends of leases, and outcomes: the subject `claims`.

use std::collections::BTreeSet;
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::engine::{ClaimRequest, Preclaim, Verdict};
use jobwright::internal::{ClaimNumber, Fence};
use jobwright::{ErrorKind, JobId, NewJob, NodeId};
use jobwright_model::check;
use jobwright_model::claims::{ATTEMPTS, Action, Bounds, Claims, Fate, Held, Phase, Progress, Request, Row, State};
use jobwright_model::kernel::{Faults, index};
use jobwright_model::vocabulary::{Promise, Rules, Steps as _, Subject as _};
use serde_json::json;

use crate::model_replay::play::{Player, Result, play, processes, same};
use crate::support::jobs::message;
use crate::support::{Jobs, TestDb};

fn claims(rules: Rules, claims: u8, faults: u8, only: Option<Promise>) -> Claims {
    let faults = Faults { crashes: faults, deaths: faults, lost: faults, ..Faults::NONE };
    Claims { rules, bounds: Bounds { jobs: 2, sends: 2, processes: 2, claims, faults }, only }
}

/// Whether a statement that was begun commits before anything else.
fn at_once(state: &State, action: Action) -> bool {
    let open =
        |process: usize| state.processes[process].request.is_some_and(|request| request.progress == Progress::Open);
    let begun = (0..state.processes.len()).find(|process| open(*process));
    begun.is_none_or(|process| action == Action::Commit { process: process as u8 })
}

pub(crate) async fn random_paths<T: TestDb>(db: &T) {
    let subject = claims(Rules::BUILT, 12, 2, None);
    let processes = processes(db, subject.bounds.processes.into()).await;
    for (what, path) in crate::model_replay::play::random_paths::<Ledger<'_, T>>(&subject, 20, at_once) {
        play(Ledger::new(db, &processes, subject).await, &path, &what).await;
    }
}

/// The shortest path that breaks a twin must not break the real store. It is played as far as possible.
pub(crate) async fn ways_to_break_the_twins<T: TestDb>(db: &T) {
    let twins = [
        (Rules { outcomes_are_fenced: false, ..Rules::BUILT }, Promise::OutcomesAreTheirOwn),
        (Rules { claimers_draw_numbers: false, ..Rules::BUILT }, Promise::OutcomesAreTheirOwn),
        (Rules { claimers_draw_numbers: false, ..Rules::BUILT }, Promise::NobodyEndsUnasked),
        (
            Rules { looks_compare_claims: false, looks_now_and_then: false, ..Rules::BUILT },
            Promise::EverythingComesRight,
        ),
    ];
    let processes = processes(db, 1).await;
    for (rules, promise) in twins {
        let mut twin = claims(rules, 3, 1, Some(promise));
        twin.bounds = Bounds { jobs: 1, processes: 1, ..twin.bounds };
        let refuted = check::explore(&twin, 1).refuted.expect("a twin is refuted");
        assert_eq!(refuted.promise, promise);
        let built = Claims { rules: Rules::BUILT, only: None, ..twin };
        let played = play(Ledger::new(db, &processes, built).await, &refuted.path, &refuted.to_string()).await;
        assert!(played + 1 >= refuted.path.len(), "only {played} steps were possible of\n{refuted}");
    }
}

struct Ledger<'a, T> {
    db: &'a T,
    /// The store of the operator and of a monitor.
    store: Jobs,
    /// The stores of the processes.
    processes: &'a [Jobs],
    subject: Claims,
    state: State,
    /// Job ids, by the model's numbers.
    ids: Vec<JobId>,
    /// Node ids, by the model's numbers less one.
    nodes: Vec<NodeId>,
}

/// Each job has its own queue, so that a claim takes the one that the model says.
fn queue(job: u8) -> String {
    format!("queue-{job}")
}

fn number(claim: u8) -> ClaimNumber {
    ClaimNumber::new(claim.into())
}

impl<'a, T: TestDb> Ledger<'a, T> {
    async fn new(db: &'a T, processes: &'a [Jobs], subject: Claims) -> Self {
        db.clear().await;
        let mut nodes = Vec::new();
        for process in processes {
            nodes.push(process.node().await);
        }
        let ids = (0..subject.bounds.jobs).map(|_| JobId::new()).collect();
        Self { db, store: db.jobs(), processes, subject, state: subject.start(), ids, nodes }
    }

    fn node(&self, node: u8) -> NodeId {
        self.nodes[index(node) - 1]
    }

    async fn send(&self, by: &Jobs, job: u8, owned: Option<Request>) -> Result<()> {
        let id = self.ids[index(job)];
        let there = self.state.fates[index(job)].iter().filter(|fate| **fate != Fate::Unsent).count();
        let new = NewJob::json("kind", &json!({ "send": there })).id(id).queue(queue(job));
        let messages = [message(new.max_attempts(u32::from(ATTEMPTS)))];
        // An id also belongs to its dead letter, until that is deleted. The model deletes it before it sends the id again.
        let dead = JobFilter::ids([id]).states(vec![JobState::Dead]);
        self.store.delete(&dead, false).await.unwrap();
        let owner = owned.map(|request| Preclaim {
            node: self.node(request.node),
            claim: number(request.claim),
            ids: [id].into(),
        });
        let inserted = by.insert(&messages, owner.as_ref()).await.unwrap();
        let row = self.state.rows[index(job)];
        let mine = owned.map_or(0, |request| usize::from(row.is_some_and(|row| row.claim == request.claim)));
        same("born owned", inserted.owned.len(), mine)
    }

    async fn take(&self, process: u8, request: Request, takes: bool) -> Result<()> {
        let by = &self.processes[index(process)];
        if request.born {
            return self.send(by, request.job, Some(request)).await;
        }
        let queue = queue(request.job);
        let claim = ClaimRequest::new(self.node(request.node), number(request.claim), &queue, 1);
        let claimed = match by.claim(&claim).await {
            Ok(claimed) => claimed.jobs.len(),
            // A node that may not claim takes nothing.
            Err(error) if error.kind() == ErrorKind::LeaseLost => 0,
            Err(error) => return Err(error.to_string()),
        };
        same("claimed", claimed, usize::from(takes))
    }

    fn fence(&self, held: Held) -> Fence {
        Fence::new(self.ids[index(held.job)], number(held.version).get())
    }

    async fn report(&self, before: &State, process: u8, held: Held, success: bool) -> Result<()> {
        let by = &self.processes[index(process)];
        let (node, fence) = (self.node(held.node), self.fence(held));
        let accepted = if success {
            by.complete(node, &[fence]).await.unwrap() == [fence.id]
        } else {
            let accepted = by.settle_one(node, fence, Verdict::Retry(Duration::ZERO)).await;
            self.store.promote().await;
            accepted
        };
        let changed = before.rows[index(held.job)] != self.state.rows[index(held.job)];
        same("the outcome is accepted", accepted, changed)
    }

    async fn listen(&self, before: &State, process: u8) -> Result<()> {
        let (was, is) = (before.processes[index(process)], self.state.processes[index(process)]);
        let asked = |held: &&Held| held.phase == Phase::Running && held.node == was.node;
        let fences: Vec<Fence> = was.hand.iter().flatten().filter(asked).map(|held| self.fence(*held)).collect();
        let gone = self.processes[index(process)].stale_claims(self.node(was.node.max(1)), &fences).await.unwrap();
        let told = was.hand.iter().zip(is.hand).filter(|(was, is)| **was != *is).filter_map(|(_, is)| is);
        let set = |fences: Vec<Fence>| -> BTreeSet<_> { fences.iter().map(|f| (f.id, f.version)).collect() };
        same("gone", set(gone), set(told.map(|held| self.fence(held)).collect()))
    }

    /// A store releases all jobs of dead nodes at once.
    async fn release(&mut self) {
        for job in 0..self.subject.bounds.jobs {
            if let Some(next) = self.subject.step(&self.state, Action::Release { job }) {
                self.state = next;
            }
        }
        self.store.release_all_lost().await;
    }

    async fn compare(&self, job: u8) -> Result<()> {
        let detail = self.store.show(self.ids[index(job)]).await.unwrap();
        let live = detail.filter(|detail| detail.summary.state != JobState::Dead);
        let row: Option<Row> = self.state.rows[index(job)];
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

impl<T: TestDb> Player for Ledger<'_, T> {
    type Subject = Claims;

    fn subject(&self) -> &Claims {
        &self.subject
    }

    fn state(&self) -> &State {
        &self.state
    }

    async fn play(&mut self, action: Action) -> Result<()> {
        let before = self.state;
        self.state = self.subject.step(&before, action).ok_or("the model does not allow it")?;
        match action {
            Action::Send { job } => self.send(&self.store, job, None).await?,
            Action::Cancel { job } => {
                let cancelled = self.store.cancel(&JobFilter::ids([self.ids[index(job)]]), false).await;
                same("cancelled", cancelled.unwrap().total(), 1)?;
            }
            Action::Execute { process } => {
                let request = before.processes[index(process)].request.expect("it is executed");
                let now = self.state.processes[index(process)].request;
                // A claim that takes something is played at its commit; the others are played here, and take nothing.
                if now.is_none_or(|now| now.progress != Progress::Open) {
                    self.take(process, request, false).await?;
                }
            }
            Action::Commit { process } => {
                self.take(process, before.processes[index(process)].request.expect("it is committed"), true).await?;
            }
            Action::Report { process, hand, success, .. } => {
                let held = before.processes[index(process)].hand[index(hand)].expect("it reports");
                self.report(&before, process, held, success).await?;
            }
            Action::Listen { process } => self.listen(&before, process).await?,
            Action::Walk { process } => {
                let at = before.processes[index(process)];
                let note = at.noted.expect("it noted what it knows");
                let known = note.known.iter().flatten();
                let known: Vec<Fence> =
                    known.map(|(job, _, version)| Fence::new(self.ids[index(*job)], number(*version).get())).collect();
                let before = Some(number(note.before));
                self.processes[index(process)].release_unknown(self.node(at.node), &known, before).await.unwrap();
            }
            Action::Heartbeat { process } => {
                let lives = self.processes[index(process)]
                    .heartbeat(self.node(before.processes[index(process)].node))
                    .await
                    .unwrap();
                same("the node lives", lives, false)?;
            }
            Action::Retire { process } => {
                self.processes[index(process)]
                    .retire_node(self.node(before.processes[index(process)].former))
                    .await
                    .unwrap();
            }
            Action::Register { process } => self.nodes.push(self.processes[index(process)].node().await),
            Action::Declare { node } => self.db.bury(self.node(node)).await,
            Action::Release { .. } => self.release().await,
            // A store does not see these.
            Action::Draw { .. }
            | Action::Ask { .. }
            | Action::Look { .. }
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
}
