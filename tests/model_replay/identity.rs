//! One given id in several tables: the subject `identity`.
//!
//! On PostgreSQL both senders have transactions open at the same time. Elsewhere there is one writer, so a sender ends before anything else happens.
//! Transactions whose snapshot is older than another send are left out: there the stores keep both, which `old_snapshots` of the conformance suite
//! tests.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::engine::{UnitOfWork, Verdict};
use jobwright::{Job, JobId, NewJob, NodeId};
use jobwright_model::check;
use jobwright_model::identity::{ATTEMPTS, Action, Identity, Innocent, SENDERS, Sender, State, Table};
use jobwright_model::kernel::index;
use jobwright_model::vocabulary::{Promise, Rules, Steps as _, Subject as _};
use serde_json::json;

use crate::model_replay::play::{Player, Result, play, same};
use crate::support::jobs::message;
use crate::support::oracle::Oracle;
use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb, eventually};

type Transaction<T> = <<T as TestDb>::Store as Store>::Transaction;

/// How senders of a database can overlap.
pub(crate) trait Senders: TestDb {
    /// Whether several can have transactions open at the same time.
    const OVERLAP: bool;

    /// Makes the transaction read the present state.
    async fn take_snapshot(_: &Transaction<Self>) {
        unreachable!("there are no overlapping transactions");
    }
}

impl Senders for Oracle {
    const OVERLAP: bool = false;
}

#[cfg(feature = "sqlite")]
impl Senders for crate::support::sqlite::SqliteDb {
    const OVERLAP: bool = false;
}

impl Senders for Pg<false> {
    const OVERLAP: bool = true;

    async fn take_snapshot(transaction: &Transaction<Self>) {
        transaction.batch_execute("set transaction isolation level repeatable read; select 1").await.unwrap();
    }
}

pub(crate) async fn random_paths<T: Senders>(db: &T) {
    let subject = Identity { rules: Rules::BUILT, crashes: 3, revivals: 3, again: true, only: None };
    let stores = stores(db).await;
    for (what, path) in crate::model_replay::play::random_paths::<Ids<'_, T>>(&subject, 20, |_, _| true) {
        play(Ids::new(db, &stores, subject).await, &path, &what).await;
    }
}

/// The shortest path that breaks a twin must not break the real store. It is played as far as possible. Where the twin would keep a second row, the
/// sender here waits and finds the id, and steps that depend on the second row are left out.
pub(crate) async fn ways_to_break_the_twins<T: Senders>(db: &T) {
    let rules = Rules { ids_are_decided_once: false, ..Rules::BUILT };
    let stores = stores(db).await;
    for promise in
        [Promise::IdsStandOnce, Promise::AttemptsAreCounted, Promise::EverythingComesRight, Promise::NothingIsLost]
    {
        let twin = Identity { rules, crashes: 2, revivals: 1, again: false, only: Some(promise) };
        let refuted = check::explore(&twin, 1).refuted.expect("a twin is refuted");
        assert_eq!(refuted.promise, promise);
        let built = Identity { rules: Rules::BUILT, only: None, ..twin };
        let path = one_after_the_other(&refuted.path);
        let played = play(Ids::new(db, &stores, built).await, &path, &refuted.to_string()).await;
        assert!(played * 2 >= refuted.path.len(), "only {played} steps were possible of\n{refuted}");
    }
}

/// Returns the same path with each sender waiting for the earlier one.
fn one_after_the_other(path: &[Action]) -> Vec<Action> {
    let mut ordered = Vec::new();
    let mut waiting: Vec<Action> = Vec::new();
    for action in path.iter().copied() {
        match action {
            Action::Flush { .. } => waiting.push(action),
            Action::Commit { sender } | Action::RollBack { sender } => {
                ordered.extend(waiting.extract_if(.., |flush| *flush == Action::Flush { sender }));
                ordered.push(action);
            }
            _ => ordered.push(action),
        }
    }
    ordered
}

/// Returns one store for each sender, and one for the node.
async fn stores<T: TestDb>(db: &T) -> Vec<T::Store> {
    let mut stores = Vec::new();
    for _ in 0..=SENDERS {
        stores.push(db.reopen().await);
    }
    stores
}

struct Ids<'a, T: TestDb> {
    db: &'a T,
    /// The store of the operator and of a monitor.
    store: Jobs,
    senders: &'a [T::Store],
    open: [Option<Transaction<T>>; SENDERS],
    process: Jobs,
    node: NodeId,
    subject: Identity,
    state: State,
    id: JobId,
    innocent: JobId,
    /// The job that the node runs.
    held: Option<Job>,
    held_innocent: Option<Job>,
}

fn only(id: JobId) -> JobFilter {
    JobFilter::ids([id])
}

impl<'a, T: Senders> Ids<'a, T> {
    async fn new(db: &'a T, stores: &'a [T::Store], subject: Identity) -> Self {
        db.clear().await;
        let (store, process) = (db.jobs(), Jobs(stores[SENDERS].engine()));
        let node = process.node().await;
        let innocent = store.send(NewJob::json("kind", &json!({})).queue("innocent").max_attempts(100)).await;
        Self {
            db,
            store,
            senders: &stores[..SENDERS],
            open: [None, None],
            process,
            node,
            subject,
            state: subject.start(),
            id: JobId::new(),
            innocent,
            held: None,
            held_innocent: None,
        }
    }

    async fn begin(&mut self, sender: u8) {
        self.open[index(sender)] = Some(self.senders[index(sender)].begin().await.unwrap());
    }

    async fn flush(&mut self, sender: u8) -> Result<()> {
        if self.open[index(sender)].is_none() {
            self.begin(sender).await;
        }
        let new = NewJob::json("kind", &json!({})).id(self.id).queue("id").max_attempts(u32::from(ATTEMPTS));
        // The second sends with a delay. Its length does not matter: the job is due when it is checked.
        let new = if sender == 0 { new } else { new.delay(Duration::from_millis(1)) };
        let transaction = self.open[index(sender)].as_mut().expect("it was begun");
        let inserted = transaction.insert(&[message(new)], None).await.map_err(|error| error.to_string())?;
        let duplicates = matches!(self.state.senders[index(sender)], Sender::Flushed(Some(_)));
        same("sent", inserted.rows, u64::from(duplicates))
    }

    async fn take(&self, queue: &str) -> Result<Job> {
        let mut claimed = self.process.take_from(queue, self.node, 1).await;
        same("claimed", claimed.len(), 1)?;
        Ok(claimed.remove(0))
    }

    async fn cancel(&self, before: &State) -> Result<()> {
        let dead = before.rows[Table::Dead as usize].is_some();
        let only = only(self.id);
        let affected = if dead { self.store.delete(&only, false).await } else { self.store.cancel(&only, false).await };
        same("cancelled", affected.unwrap().total(), 1)
    }

    async fn crash(&mut self) {
        self.db.bury(self.node).await;
        (self.held, self.held_innocent) = (None, None);
        self.node = self.process.node().await;
    }

    async fn release(&self, before: &State) -> Result<()> {
        let lost = |owner: u8| owner != 0 && owner < before.node;
        let innocent = matches!(before.innocent, Innocent::Owned(owner) if lost(owner));
        let row = before.rows[Table::Job as usize].is_some_and(|row| lost(row.owner));
        let (waiting, dead) = self.store.release_all_lost().await;
        same("released", waiting + dead, u64::from(innocent) + u64::from(row))
    }

    async fn compare(&self) -> Result<()> {
        let rows = self.store.find(&only(self.id)).await;
        let tables = [Table::Job, Table::Timer, Table::Dead].map(|table| table as usize);
        let expected: Vec<_> = tables
            .into_iter()
            .filter_map(|table| self.state.rows[table].map(|row| (table, row)))
            .map(|(table, row)| {
                let state = match (table, row.owner) {
                    (0, 0) => JobState::Waiting,
                    (0, _) => JobState::Running,
                    (1, _) => JobState::Timer,
                    _ => JobState::Dead,
                };
                (state, u32::from(row.attempt))
            })
            .collect();
        same("rows", rows.iter().map(|row| (row.state, row.attempt)).collect(), expected)?;
        let owned = |owner: u8| (owner == self.state.node).then_some(self.node);
        if let (Some(row), Some(model)) = (rows.first(), self.state.rows[0])
            && owned(model.owner).is_some()
        {
            same("owner", row.owner, owned(model.owner))?;
        }
        let innocent = match self.state.innocent {
            Innocent::Waiting => Some(JobState::Waiting),
            Innocent::Owned(_) => Some(JobState::Running),
            Innocent::Ended => None,
        };
        same("the innocent job", self.store.state(self.innocent).await, innocent)
    }
}

impl<T: Senders> Player for Ids<'_, T> {
    type Subject = Identity;

    fn subject(&self) -> &Identity {
        &self.subject
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn wanted(state: &State, action: Action) -> bool {
        let flushed = |sender: &Sender| matches!(sender, Sender::Flushed(_));
        match action {
            Action::Begin { .. } if !T::OVERLAP => false,
            Action::Commit { sender } | Action::RollBack { sender } if !T::OVERLAP => {
                flushed(&state.senders[index(sender)])
            }
            _ if !T::OVERLAP && state.senders.iter().any(flushed) => false,
            // A sender that found the id is waited for too, not only one that inserted it.
            Action::Flush { sender } => {
                let stale = matches!(state.senders[index(sender)], Sender::Begun { sends, .. } if sends != state.sends);
                !stale && !state.senders.iter().any(flushed)
            }
            _ => true,
        }
    }

    async fn play(&mut self, action: Action) -> Result<()> {
        let before = self.state;
        self.state = self.subject.step(&before, action).ok_or("the model does not allow it")?;
        match action {
            Action::Begin { sender } => {
                self.begin(sender).await;
                T::take_snapshot(self.open[index(sender)].as_ref().expect("it was begun")).await;
            }
            Action::Flush { sender } => self.flush(sender).await?,
            Action::Commit { sender } => {
                self.open[index(sender)]
                    .take()
                    .expect("it is open")
                    .commit()
                    .await
                    .map_err(|error| error.to_string())?;
            }
            Action::RollBack { sender } => {
                self.open[index(sender)].take().expect("it is open").rollback().await.unwrap();
            }
            Action::Again { .. } => {}
            Action::Claim => self.held = Some(self.take("id").await?),
            Action::Succeed => {
                let held = self.held.take().expect("it runs");
                same("accepted", self.process.complete(self.node, &[held.fence()]).await.unwrap().len(), 1)?;
            }
            Action::Fail => {
                let held = self.held.take().expect("it runs");
                let verdict = Verdict::Retry(Duration::ZERO);
                same("accepted", self.process.settle_one(self.node, held.fence(), verdict).await, true)?;
            }
            Action::Promote => eventually(Duration::from_secs(5), async || self.store.promote().await == 1).await,
            Action::Revive => {
                same("revived", self.store.retry(&only(self.id), false).await.unwrap().total(), 1)?;
            }
            Action::Cancel => self.cancel(&before).await?,
            Action::ClaimInnocent => self.held_innocent = Some(self.take("innocent").await?),
            Action::EndInnocent => {
                let held = self.held_innocent.take().expect("it runs");
                same("accepted", self.process.complete(self.node, &[held.fence()]).await.unwrap().len(), 1)?;
            }
            Action::Crash => self.crash().await,
            Action::Release => self.release(&before).await?,
        }
        self.compare().await
    }
}
