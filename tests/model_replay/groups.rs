//! Exclusive groups and limits: the subject `groups`.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Rule, Scope};
use jobwright::internal::engine::{AdmitRequest, ClaimRequest, Verdict};
use jobwright::internal::{ClaimNumber, Fence};
use jobwright::{JobId, NewJob, NodeId};
use jobwright_model::check;
use jobwright_model::groups::{ATTEMPTS, Action, Groups, JOBS, PROCESSES, RowState, State};
use jobwright_model::kernel::{Faults, index};
use jobwright_model::vocabulary::{Promise, Rules, Steps as _, Subject as _};
use serde_json::json;

use crate::model_replay::play::{Player, Result, play, processes, same};
use crate::support::jobs::message;
use crate::support::{Jobs, SqlDb};

fn groups(rules: Rules, jobs: u8, limit: usize, claims: u8, faults: u8, only: Option<Promise>) -> Groups {
    let faults = Faults { crashes: faults, deaths: faults, lost: faults, ..Faults::NONE };
    Groups { rules, jobs, limit, sends: 2, claims, faults, only }
}

pub(crate) async fn random_paths<T: SqlDb>(db: &T) {
    let processes = processes(db, PROCESSES).await;
    for limit in [1, 2] {
        let subject = groups(Rules::BUILT, JOBS as u8, limit, 12, 2, None);
        for (what, path) in crate::model_replay::play::random_paths::<Permits<'_, T>>(&subject, 20, |_, _| true)
            .skip(limit - 1)
            .step_by(2)
        {
            let what = format!("{what}, limit {limit}");
            play(Permits::new(db, &processes, subject).await, &path, &what).await;
        }
    }
}

/// The shortest path that breaks a twin must not break the real store. It is played as far as possible.
pub(crate) async fn ways_to_break_the_twins<T: SqlDb>(db: &T) {
    let built = Rules::BUILT;
    let twins = [
        (Rules { permits_outlive_rows: false, ..built }, Promise::LimitsHold),
        (Rules { permits_belong_to_claims: false, ..built }, Promise::LimitsHold),
        (Rules { permits_of_the_dead_are_swept: false, ..built }, Promise::EverythingComesRight),
        (Rules { looks_see_permits: false, ..built }, Promise::EverythingComesRight),
    ];
    let processes = processes(db, PROCESSES).await;
    for (rules, promise) in twins {
        let twin = groups(rules, 2, 1, 4, 1, Some(promise));
        let refuted = check::explore(&twin, 1).refuted.expect("a twin is refuted");
        assert_eq!(refuted.promise, promise);
        let as_built = Groups { rules: built, only: None, ..twin };
        let played = play(Permits::new(db, &processes, as_built).await, &refuted.path, &refuted.to_string()).await;
        // Where the twin admits and claims the second one, the real store does not.
        assert!(played + 3 >= refuted.path.len(), "only {played} steps were possible of\n{refuted}");
    }
}

struct Permits<'a, T> {
    db: &'a T,
    /// The store of the operator and of a monitor.
    store: Jobs,
    /// The stores of the processes.
    processes: &'a [Jobs],
    subject: Groups,
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

impl<'a, T: SqlDb> Permits<'a, T> {
    async fn new(db: &'a T, processes: &'a [Jobs], subject: Groups) -> Self {
        db.clear().await;
        let store = db.jobs();
        let limit = Rule::new(Scope::Kind, "kind");
        // One at a time is an exclusive group, more are a limit.
        let limit = if subject.limit == 1 { limit } else { limit.running(u32::try_from(subject.limit).unwrap()) };
        store.put_rule(&limit).await.unwrap();
        let mut nodes = Vec::new();
        for process in processes {
            nodes.push(process.node().await);
        }
        let ids = (0..subject.jobs).map(|_| JobId::new()).collect();
        Self { db, store, processes, subject, state: subject.start(), ids, nodes }
    }

    fn node(&self, node: u8) -> NodeId {
        self.nodes[index(node) - 1]
    }

    fn fence(&self, (job, claim): (u8, u8)) -> Fence {
        Fence::new(self.ids[index(job)], ClaimNumber::new(claim.into()).get())
    }

    async fn send(&self, job: u8) -> Result<()> {
        let id = self.ids[index(job)];
        let dead = JobFilter::ids([id]).states(vec![JobState::Dead]);
        self.store.delete(&dead, false).await.unwrap();
        let new = NewJob::json("kind", &json!({})).id(id).queue(queue(job)).max_attempts(u32::from(ATTEMPTS));
        // The first has the highest priority, so that the order is known.
        let new = new.priority(10 - i16::from(job));
        let new = if self.subject.limit == 1 { new.exclusive("group") } else { new };
        same("sent", self.store.insert(&[message(new)], None).await.unwrap().rows, 1)
    }

    /// Admits as many as there are permits.
    async fn admit(&self) -> u64 {
        let queues: Vec<String> = (0..self.subject.jobs).map(queue).collect();
        let mut jobs = 0;
        loop {
            let admitted = self
                .store
                .admit(&AdmitRequest { limit: 500, queues: &queues, kinds: None, counting: false })
                .await
                .unwrap();
            jobs += admitted.jobs;
            if !admitted.more {
                return jobs;
            }
        }
    }

    /// A store admits all at once.
    async fn admit_all(&mut self) -> Result<()> {
        let mut count = 1;
        for job in 0..self.subject.jobs {
            if let Some(next) = self.subject.step(&self.state, Action::Admit { job }) {
                self.state = next;
                count += 1;
            }
        }
        same("admitted", self.admit().await, count)
    }

    async fn claim(&self, process: u8, job: u8) -> Result<()> {
        let (queue, node) = (queue(job), self.node(self.state.processes[index(process)].node));
        let request = ClaimRequest::new(node, ClaimNumber::new(self.state.claims.into()), &queue, 1);
        same("claimed", self.processes[index(process)].claim(&request).await.unwrap().jobs.len(), 1)
    }

    /// Records an outcome or, where it is refused, reports that the handler has ended, as the executor does.
    async fn ended(&self, before: &State, process: u8, hand: u8, success: Option<bool>) -> Result<()> {
        let (at, by) = (before.processes[index(process)], &self.processes[index(process)]);
        let held = at.hand[index(hand)].expect("it runs");
        let (node, fence) = (self.node(at.node), self.fence(held));
        let accepted = match success {
            Some(true) => !by.complete(node, &[fence]).await.unwrap().is_empty(),
            Some(false) => by.settle_one(node, fence, Verdict::Retry(Duration::ZERO)).await,
            None => {
                let gone = by.stale_claims(node, &[fence]).await.unwrap();
                same("gone", gone.len(), 1)?;
                false
            }
        };
        same("the outcome is accepted", accepted, before.rows[index(held.0)] != self.state.rows[index(held.0)])?;
        if !accepted {
            let left = before.left != self.state.left;
            same("freed", by.handlers_ended(node, &[fence]).await.unwrap(), u64::from(left))?;
        }
        self.store.promote().await;
        Ok(())
    }

    /// A store releases and frees all at once.
    async fn release(&mut self) {
        for action in (0..self.subject.jobs).map(|job| Action::Release { job }).chain([Action::Free]) {
            if let Some(next) = self.subject.step(&self.state, action) {
                self.state = next;
            }
        }
        self.store.release_all_lost().await;
    }

    async fn compare(&self) -> Result<()> {
        let admitted = self.db.admitted().await;
        for job in 0..self.subject.jobs {
            let id = self.ids[index(job)];
            let detail = self.store.show(id).await.unwrap();
            let live = detail.filter(|detail| detail.summary.state != JobState::Dead);
            let row = self.state.rows[index(job)];
            same(&format!("there is a row of job {job}"), live.is_some(), row.is_some())?;
            let (Some(live), Some(row)) = (live, row) else { continue };
            let owned = match row.place {
                RowState::Owned { node, claim } => Some((self.node(node), ClaimNumber::new(claim.into()).get())),
                RowState::Blocked | RowState::Admitted => None,
            };
            same("owner", live.summary.owner.map(|owner| (owner, live.version)), owned)?;
            same(&format!("job {job} is admitted"), admitted.contains(&id), row.place != RowState::Blocked)?;
            same("attempt", live.summary.attempt, u32::from(row.attempt))?;
        }
        same("faults of slots", self.store.permit_faults().await.unwrap(), Vec::new())?;
        // Where the model has no permit left, there is none.
        let may = |job: u8| self.subject.step(&self.state, Action::Admit { job }).is_some();
        if !(0..self.subject.jobs).any(may) {
            same("admitted too many", self.admit().await, 0)?;
        }
        Ok(())
    }
}

impl<T: SqlDb> Player for Permits<'_, T> {
    type Subject = Groups;

    fn subject(&self) -> &Groups {
        &self.subject
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn wanted(state: &State, action: Action) -> bool {
        match action {
            // The best of those that wait.
            Action::Admit { job } => {
                !state.rows[..index(job)].iter().flatten().any(|row| row.place == RowState::Blocked)
            }
            _ => true,
        }
    }

    async fn play(&mut self, action: Action) -> Result<()> {
        let before = self.state;
        self.state = self.subject.step(&before, action).ok_or("the model does not allow it")?;
        match action {
            Action::Send { job } => self.send(job).await?,
            Action::Admit { .. } => self.admit_all().await?,
            Action::Claim { process, job, .. } => self.claim(process, job).await?,
            Action::Succeed { process, hand } => self.ended(&before, process, hand, Some(true)).await?,
            Action::Fail { process, hand } => self.ended(&before, process, hand, Some(false)).await?,
            Action::Told { process, hand } => self.ended(&before, process, hand, None).await?,
            Action::Cancel { job } => {
                let cancelled = self.store.cancel(&JobFilter::ids([self.ids[index(job)]]), false).await;
                same("cancelled", cancelled.unwrap().total(), 1)?;
                let place = before.rows[index(job)].expect("it is cancelled").place;
                if matches!(place, RowState::Owned { node, .. } if before.nodes.is_dead(node)) {
                    // A store leaves nothing of a job whose node is known to be dead; the model frees it next.
                    self.release().await;
                }
            }
            Action::Look { process } => {
                let at = before.processes[index(process)];
                let known: Vec<Fence> = at.hand.iter().flatten().map(|held| self.fence(*held)).collect();
                self.processes[index(process)].release_unknown(self.node(at.node), &known, None).await.unwrap();
            }
            Action::Register { process } => self.nodes.push(self.processes[index(process)].node().await),
            Action::Declare { node } => self.db.bury(self.node(node)).await,
            Action::Release { .. } | Action::Free => self.release().await,
            // A store does not see these.
            Action::Fence { .. } | Action::Crash { .. } => {}
        }
        self.compare().await
    }

    /// Asserts that all permits are free again.
    async fn rests(&mut self) -> Result<()> {
        self.ids = (0..self.subject.jobs).map(|_| JobId::new()).collect();
        for job in 0..self.subject.jobs {
            self.send(job).await?;
        }
        same("places", self.admit().await, self.subject.limit as u64)
    }
}
