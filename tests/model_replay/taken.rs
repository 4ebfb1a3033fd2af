//! Jobs taken by SQL: the subject `taken`. Each worker is a session that calls the functions, and its transactions stay open from one step to the next.

use jobwright::admin::{JobFilter, JobState};
use jobwright::{JobId, NewJob};
use jobwright_model::check;
use jobwright_model::kernel::{Fate, Faults, index};
use jobwright_model::taken::{ATTEMPTS, Action, Stage, State, Taken, WORKERS};
use jobwright_model::vocabulary::{Promise, Rules, Steps as _, Subject as _};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::model_replay::play::{Player, Result, play, same};
use crate::support::jobs::message;
use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb};

fn taken(rules: Rules, jobs: u8, hand_outs: u8, crashes: u8, only: Option<Promise>) -> Taken {
    Taken { rules, jobs, sends: 2, hand_outs, faults: Faults { crashes, ..Faults::NONE }, only }
}

pub(crate) async fn random_paths(db: &Pg<false>) {
    let subject = taken(Rules::BUILT, 2, 14, 6, None);
    let workers = workers(db).await;
    for (what, path) in crate::model_replay::play::random_paths::<Takers<'_>>(&subject, 150, |_, _| true) {
        play(Takers::new(db, &workers, subject).await, &path, &what).await;
    }
}

/// The shortest path that breaks a twin must not break the real functions. It is played as far as possible.
pub(crate) async fn ways_to_break_the_twins(db: &Pg<false>) {
    let (own, work) = (Promise::OutcomesAreTheirOwn, Promise::WorkEndsWithItsJob);
    let workers = workers(db).await;
    for (rules, promise) in [
        (Rules { outcomes_are_fenced: false, ..Rules::BUILT }, own),
        (Rules { claimers_draw_numbers: false, ..Rules::BUILT }, own),
        (Rules { ends_lock_their_row: false, ..Rules::BUILT }, work),
        (Rules { locked_hand_outs_are_passed_over: false, ..Rules::BUILT }, work),
        (Rules { late_ends_are_errors: false, ..Rules::BUILT }, work),
    ] {
        let twin = taken(rules, 1, 3, 1, Some(promise));
        let refuted = check::explore(&twin, 1).refuted.expect("a twin is refuted");
        assert_eq!(refuted.promise, promise);
        let built = Taken { rules: Rules::BUILT, only: None, ..twin };
        let played = play(Takers::new(db, &workers, built).await, &refuted.path, &refuted.to_string()).await;
        assert!(played + 1 >= refuted.path.len(), "only {played} steps were possible of\n{refuted}");
    }
}

async fn workers(db: &Pg<false>) -> Vec<Client> {
    db.raw("create table {schema}.work (job uuid not null)").await;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(db.client().await);
    }
    workers
}

struct Takers<'a> {
    db: &'a Pg<false>,
    store: Jobs,
    workers: &'a [Client],
    subject: Taken,
    state: State,
    /// Job ids, by the model's numbers.
    ids: Vec<JobId>,
    /// The token that each worker got.
    tokens: [Uuid; WORKERS],
}

/// Each job has its own queue, so that a worker takes the one that the model says.
fn queue(job: u8) -> String {
    format!("queue-{job}")
}

impl<'a> Takers<'a> {
    async fn new(db: &'a Pg<false>, workers: &'a [Client], subject: Taken) -> Self {
        for worker in workers {
            // One that could not be played to its end left a transaction.
            worker.batch_execute("rollback").await.unwrap();
        }
        db.clear().await;
        db.raw("truncate {schema}.work; delete from {schema}.terminating_handler").await;
        let ids = (0..subject.jobs).map(|_| JobId::new()).collect();
        let (store, tokens) = (db.jobs(), [Uuid::nil(); WORKERS]);
        Self { db, store, workers, subject, state: subject.start(), ids, tokens }
    }

    async fn send(&self, job: u8) -> Result<()> {
        let id = self.ids[index(job)];
        // An id also belongs to its dead letter, until that is deleted. The model deletes it before it sends the id again.
        let dead = JobFilter::ids([id]).states(vec![JobState::Dead]);
        self.store.delete(&dead, false).await.unwrap();
        let new = NewJob::json("kind", &json!({})).id(id).queue(queue(job)).max_attempts(u32::from(ATTEMPTS));
        same("sent", self.store.insert(&[message(new)], None).await.unwrap().rows, 1)
    }

    /// Takes a job, and begins its work.
    async fn take(&mut self, process: u8, job: u8) -> Result<()> {
        let worker = &self.workers[index(process)];
        let sql = "select id, token from take($1, 'w', 9, '1 hour')";
        let rows = worker.query(sql, &[&queue(job)]).await.unwrap();
        same("taken", rows.iter().map(|row| row.get(0)).collect::<Vec<Uuid>>(), vec![self.ids[index(job)].into()])?;
        self.tokens[index(process)] = rows[0].get(1);
        worker.batch_execute("begin").await.unwrap();
        let id: Uuid = self.ids[index(job)].into();
        worker.execute("insert into work values ($1)", &[&id]).await.unwrap();
        Ok(())
    }

    /// Calls the function that ends a job. A failure is recorded in a transaction of its own.
    async fn end(&self, process: u8, job: u8, success: bool) -> Result<()> {
        let (worker, id): (_, Uuid) = (&self.workers[index(process)], self.ids[index(job)].into());
        if !success {
            worker.batch_execute("rollback; begin").await.unwrap();
        }
        let sql = if success { "select done($1, $2)" } else { "select fail($1, $2, 'no', retry => '0')" };
        let answer = worker.query_one(sql, &[&id, &self.tokens[index(process)]]).await;
        let refused = answer.err().map(|error| error.code().map(|code| code.code().to_owned()));
        let accepted = matches!(
            self.state.workers[index(process)].map(|work| work.stage),
            Some(Stage::Ends { accepted: true, .. })
        );
        same("accepted", refused.is_none(), accepted)?;
        if let Some(code) = refused {
            same("it is late", ["JW002", "JW003"].contains(&code.unwrap_or_default().as_str()), true)?;
        }
        Ok(())
    }

    /// Ends this lease alone.
    async fn expire(&self, job: u8) -> Result<()> {
        let id = self.ids[index(job)];
        self.db
            .raw(&format!(
                "update {{schema}}.external_job set lease_until = now() - interval '1 second' where id = '{id}'"
            ))
            .await;
        same("late", self.store.expire_external(10).await.unwrap().total(), 1)
    }

    async fn compare(&self, job: u8) -> Result<()> {
        let id: Uuid = self.ids[index(job)].into();
        let detail = self.store.show(id.into()).await.unwrap();
        let live = detail.filter(|detail| detail.summary.state != JobState::Dead);
        let row = self.state.rows[index(job)];
        same("there is a row", live.is_some(), row.is_some())?;
        if let (Some(live), Some(row)) = (live, row) {
            same("state", live.summary.state, if row.out { JobState::External } else { JobState::Waiting })?;
            same("attempt", live.summary.attempt, u32::from(row.attempt))?;
        }
        let done = self.state.fates[index(job)].iter().filter(|fate| **fate == Fate::Done).count();
        let work = self.db.aside().await.query("select from work where job = $1", &[&id]).await.unwrap();
        same("committed work", work.len(), done)
    }
}

impl Player for Takers<'_> {
    type Subject = Taken;

    fn subject(&self) -> &Taken {
        &self.subject
    }

    fn state(&self) -> &State {
        &self.state
    }

    async fn play(&mut self, action: Action) -> Result<()> {
        let before = self.state;
        self.state = self.subject.step(&before, action).ok_or("the model does not allow it")?;
        let job_of = |process: u8| before.workers[index(process)].expect("it works").job;
        match action {
            Action::Send { job } => self.send(job).await?,
            Action::Cancel { job } => {
                let cancelled = self.store.cancel(&JobFilter::ids([self.ids[index(job)]]), false).await;
                same("cancelled", cancelled.unwrap().total(), 1)?;
            }
            Action::Take { process, job } => self.take(process, job).await?,
            Action::End { process, success } => self.end(process, job_of(process), success).await?,
            Action::Commit { process } => {
                self.workers[index(process)].batch_execute("commit").await.unwrap();
                self.store.promote().await;
            }
            Action::Abort { process } | Action::Die { process } => {
                self.workers[index(process)].batch_execute("rollback").await.unwrap();
            }
            Action::Expire { job } => self.expire(job).await?,
        }
        for job in 0..self.subject.jobs {
            self.compare(job).await.map_err(|why| format!("job {job}: {why}"))?;
        }
        Ok(())
    }
}
