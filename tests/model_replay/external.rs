//! Jobs handed out to external workers: the subject `external`. `tests/ha` covers what a standby or a backup forgets.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::engine::{Extension, ExternalDone, Settlement, Verdict};
use jobwright::internal::{Fence, HandOutNumber};
use jobwright::{JobId, NewJob};
use jobwright_model::check;
use jobwright_model::external::{ATTEMPTS, Action, Copy, External, State};
use jobwright_model::kernel::{Faults, index};
use jobwright_model::vocabulary::{Promise, Rules, Steps as _, Subject as _};
use serde_json::json;

use crate::model_replay::play::{Player, Result, play, processes, same};
use crate::support::jobs::{LATER, message};
use crate::support::{Jobs, TestDb};

/// One hands out, and one takes reports in.
const NODES: usize = 2;

fn external(rules: Rules, jobs: u8, hand_outs: u8, network: u8, only: Option<Promise>) -> External {
    External { rules, jobs, sends: 2, hand_outs, faults: Faults { network, ..Faults::NONE }, only }
}

pub(crate) async fn random_paths<T: TestDb>(db: &T) {
    let subject = external(Rules::BUILT, 2, 12, 6, None);
    let nodes = processes(db, NODES).await;
    for (what, path) in crate::model_replay::play::random_paths::<HandOuts<'_>>(&subject, 150, |_, _| true) {
        play(HandOuts::new(db, &nodes, subject).await, &path, &what).await;
    }
}

/// The shortest path that breaks a twin must not break the real store. It is played as far as possible.
pub(crate) async fn ways_to_break_the_twins<T: TestDb>(db: &T) {
    let promise = Promise::OutcomesAreTheirOwn;
    let unfenced = Rules { outcomes_are_fenced: false, ..Rules::BUILT };
    let counted = Rules { claimers_draw_numbers: false, ..Rules::BUILT };
    let nodes = processes(db, NODES).await;
    for rules in [unfenced, counted] {
        let twin = external(rules, 1, 3, 1, Some(promise));
        let refuted = check::explore(&twin, 1).refuted.expect("a twin is refuted");
        assert_eq!(refuted.promise, promise);
        let built = External { rules: Rules::BUILT, only: None, ..twin };
        let played = play(HandOuts::new(db, &nodes, built).await, &refuted.path, &refuted.to_string()).await;
        assert!(played + 1 >= refuted.path.len(), "only {played} steps were possible of\n{refuted}");
    }
}

struct HandOuts<'a> {
    /// The operator's store.
    store: Jobs,
    nodes: &'a [Jobs],
    subject: External,
    state: State,
    /// Job ids, by the model's numbers.
    ids: Vec<JobId>,
}

/// Each job has its own queue, so that a hand-out takes the one that the model says.
fn queue(job: u8) -> String {
    format!("queue-{job}")
}

impl<'a> HandOuts<'a> {
    async fn new<T: TestDb>(db: &T, nodes: &'a [Jobs], subject: External) -> Self {
        db.clear().await;
        let ids = (0..subject.jobs).map(|_| JobId::new()).collect();
        Self { store: db.jobs(), nodes, subject, state: subject.start(), ids }
    }

    fn fence(&self, copy: Copy) -> Fence {
        Fence::new(self.ids[index(copy.job)], HandOutNumber::new(copy.token.into()).get())
    }

    async fn send(&self, job: u8) -> Result<()> {
        let id = self.ids[index(job)];
        // An id also belongs to its dead letter, until that is deleted. The model deletes it before it sends the id again.
        let dead = JobFilter::ids([id]).states(vec![JobState::Dead]);
        self.store.delete(&dead, false).await.unwrap();
        let new = NewJob::json("kind", &json!({})).id(id).queue(queue(job)).max_attempts(u32::from(ATTEMPTS));
        same("sent", self.store.insert(&[message(new)], None).await.unwrap().rows, 1)
    }

    async fn report(&self, copy: Copy, success: bool) -> usize {
        let fence = self.fence(copy);
        if success {
            return self.nodes[1].complete_external(&[ExternalDone { fence, result: None }]).await.unwrap().ids.len();
        }
        let failed = Settlement::new(fence, Verdict::Retry(Duration::ZERO)).error("no", None);
        let accepted = self.nodes[1].settle_external(&[failed]).await.unwrap().len();
        self.store.promote().await;
        accepted
    }

    /// Ends this lease alone.
    async fn expire(&self, before: &State, job: u8) -> Result<()> {
        let row = before.now.rows[index(job)].expect("it is handed out");
        let fence = Fence::new(self.ids[index(job)], HandOutNumber::new(row.token.into()).get());
        let over = Extension { fence, lease: Some(Duration::ZERO) };
        same("its lease", self.nodes[1].extend_external(&[over]).await.unwrap(), vec![fence.id])?;
        same("late", self.nodes[0].expire_external(10).await.unwrap().total(), 1)
    }

    async fn compare(&self, job: u8) -> Result<()> {
        let detail = self.store.show(self.ids[index(job)]).await.unwrap();
        let live = detail.filter(|detail| detail.summary.state != JobState::Dead);
        let row = self.state.now.rows[index(job)];
        same("there is a row", live.is_some(), row.is_some())?;
        let (Some(live), Some(row)) = (live, row) else { return Ok(()) };
        same("state", live.summary.state, if row.out { JobState::External } else { JobState::Waiting })?;
        same("attempt", live.summary.attempt, u32::from(row.attempt))?;
        if row.out {
            same("token", live.version, HandOutNumber::new(row.token.into()).get())?;
        }
        Ok(())
    }
}

impl Player for HandOuts<'_> {
    type Subject = External;

    fn subject(&self) -> &External {
        &self.subject
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn wanted(_: &State, action: Action) -> bool {
        !matches!(action, Action::Save | Action::Restore)
    }

    async fn play(&mut self, action: Action) -> Result<()> {
        let before = self.state;
        self.state = self.subject.step(&before, action).ok_or("the model does not allow it")?;
        let copy = |copy: u8| before.copies[index(copy)].expect("it is under way");
        let changed = usize::from(before.now != self.state.now);
        match action {
            Action::Send { job } => self.send(job).await?,
            Action::Cancel { job } => {
                let cancelled = self.store.cancel(&JobFilter::ids([self.ids[index(job)]]), false).await;
                same("cancelled", cancelled.unwrap().total(), 1)?;
            }
            Action::HandOut { job } => {
                let token = HandOutNumber::new(self.state.hand_outs.into());
                let out = self.nodes[0].hand_out(&queue(job), 1, LATER, token).await.unwrap();
                same("handed out", out.len(), 1)?;
            }
            Action::TakeBack { copy: n } => {
                let taken = self.nodes[0].take_back(&[self.fence(copy(n))]).await.unwrap();
                same("taken back", taken, changed as u64)?;
            }
            Action::Report { copy: n, success, .. } => {
                same("the report is accepted", self.report(copy(n), success).await, changed)?;
            }
            Action::Expire { job } => self.expire(&before, job).await?,
            // A store does not see these.
            Action::Publish { .. } | Action::Forgotten { .. } | Action::Deliver { .. } | Action::Redeliver { .. } => {}
            Action::Save | Action::Restore => return Err("nothing is restored here".into()),
        }
        for job in 0..self.subject.jobs {
            self.compare(job).await.map_err(|why| format!("job {job}: {why}"))?;
        }
        Ok(())
    }
}
