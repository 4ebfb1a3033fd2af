//! A running job that is cancelled keeps its group, and its permits, until its handler has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Rule, Scope};
use jobwright::{CommandExecutor, ExecutorConfig, JobId, KindOptions, NewJob, Outcome};

use crate::support::environment::{PATIENCE, World, patient, quick};
use crate::support::eventually;

/// Handlers that block their thread and ignore cancellation, until the test lets them go on.
#[derive(Clone, Debug, Default)]
struct Deaf(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    began: AtomicUsize,
    ended: AtomicUsize,
    /// How many may end.
    may_end: AtomicUsize,
}

impl Deaf {
    fn began(&self) -> usize {
        self.0.began.load(Ordering::SeqCst)
    }

    fn block(&self) {
        let turn = self.0.began.fetch_add(1, Ordering::SeqCst);
        while self.0.may_end.load(Ordering::SeqCst) <= turn {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }

    fn let_go(&self, count: usize) {
        self.0.may_end.store(count, Ordering::SeqCst);
    }

    async fn begun(&self, count: usize) {
        eventually(PATIENCE, async || self.began() >= count).await;
    }
}

/// However a test ends, its threads end.
impl Drop for Deaf {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.let_go(usize::MAX);
        }
    }
}

async fn start<W: World>(db: &W, config: ExecutorConfig, deaf: &Deaf) -> CommandExecutor<W::Store> {
    let deaf = deaf.clone();
    CommandExecutor::builder(db.messages().await)
        .config(config.cancel_grace(Duration::from_millis(10)))
        .queue("default", 8)
        .handle_blocking("deaf", move |_| {
            deaf.block();
            Ok(Outcome::Done)
        })
        .start()
        .await
        .unwrap()
}

async fn cancel<W: World>(db: &W, id: JobId) {
    let affected = db.jobs().cancel(&JobFilter::ids([id]), false).await.unwrap();
    assert_eq!(affected.0.get(&JobState::Running), Some(&1));
}

/// Asserts that admission passes find nothing to start, and that the number of handlers does not change.
async fn no_other_job_starts<W: World>(db: &W, deaf: &Deaf, second: JobId) {
    let jobs = db.jobs();
    for _ in 0..5 {
        assert_eq!(jobs.admit_all().await, 0, "something was admitted beside a handler that still runs");
    }
    assert!(matches!(jobs.state(second).await, Some(JobState::Blocked | JobState::Waiting)));
    assert_eq!((deaf.began(), deaf.0.ended.load(Ordering::SeqCst)), (1, 0));
}

/// The second job begins only when the first handler has ended, and then at once, without polling.
async fn waits_for_the_handler<W: World>(db: &W, sent: impl Fn() -> NewJob) {
    let deaf = Deaf::default();
    let executor = start(db, patient(), &deaf).await;
    let messages = db.messages().await;
    let first = messages.send(sent()).await.unwrap();
    deaf.begun(1).await;
    let second = messages.send(sent()).await.unwrap();
    cancel(db, first).await;
    no_other_job_starts(db, &deaf, second).await;
    deaf.let_go(1);
    deaf.begun(2).await;
    assert_eq!(deaf.0.ended.load(Ordering::SeqCst), 1);
    deaf.let_go(2);
    db.drained().await;
    let stats = executor.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!((stats.cancelled + stats.refused, stats.done, stats.in_flight), (1, 1, 0));
    assert_eq!(db.jobs().permit_faults().await.unwrap(), Vec::<String>::new());
}

pub(crate) async fn a_group_waits_for_the_handler<W: World>(db: &W) {
    waits_for_the_handler(db, || NewJob::json("deaf", &1).exclusive("g")).await;
}

pub(crate) async fn an_ordered_group_waits_for_the_handler<W: World>(db: &W) {
    waits_for_the_handler(db, || NewJob::json("deaf", &1).ordered("g")).await;
}

pub(crate) async fn a_limit_waits_for_the_handler<W: World>(db: &W) {
    db.jobs().put_rule(&Rule::new(Scope::Kind, "deaf").running(1)).await.unwrap();
    waits_for_the_handler(db, || NewJob::json("deaf", &1)).await;
}

/// A limit that is set while the job runs counts it as well.
pub(crate) async fn a_limit_that_came_later_waits_for_the_handler<W: World>(db: &W) {
    let deaf = Deaf::default();
    let executor = start(db, patient(), &deaf).await;
    let messages = db.messages().await;
    let first = messages.send(NewJob::json("deaf", &1)).await.unwrap();
    deaf.begun(1).await;
    db.jobs().put_rule(&Rule::new(Scope::Tenant, "*").running(1)).await.unwrap();
    db.jobs().put_rule(&Rule::new(Scope::Kind, "deaf").running(1)).await.unwrap();
    let second = messages.send(NewJob::json("deaf", &2)).await.unwrap();
    cancel(db, first).await;
    no_other_job_starts(db, &deaf, second).await;
    deaf.let_go(2);
    deaf.begun(2).await;
    db.drained().await;
    executor.shutdown(Duration::from_secs(20)).await.unwrap();
}

/// The same id sent again is another job, and waits like any other.
pub(crate) async fn the_same_id_waits_for_the_handler<W: World>(db: &W) {
    let deaf = Deaf::default();
    let executor = start(db, patient(), &deaf).await;
    let messages = db.messages().await;
    let id = messages.send(NewJob::json("deaf", &1).id(JobId::new()).exclusive("g")).await.unwrap();
    deaf.begun(1).await;
    cancel(db, id).await;
    assert_eq!(messages.send(NewJob::json("deaf", &2).id(id).exclusive("g")).await.unwrap(), id);
    no_other_job_starts(db, &deaf, id).await;
    deaf.let_go(1);
    deaf.begun(2).await;
    deaf.let_go(2);
    db.drained().await;
    executor.shutdown(Duration::from_secs(20)).await.unwrap();
    assert_eq!(db.jobs().permit_faults().await.unwrap(), Vec::<String>::new());
}

/// A node that retires frees everything, though one of its threads still runs: as for jobs that were not cancelled.
pub(crate) async fn a_node_that_leaves_frees_the_group<W: World>(db: &W) {
    let deaf = Deaf::default();
    let executor = start(db, quick(), &deaf).await;
    let messages = db.messages().await;
    let first = messages.send(NewJob::json("deaf", &1).exclusive("g")).await.unwrap();
    deaf.begun(1).await;
    let second = messages.send(NewJob::json("deaf", &2).exclusive("g")).await.unwrap();
    cancel(db, first).await;
    no_other_job_starts(db, &deaf, second).await;
    // Its thread still runs: it can't be waited for.
    drop(executor);
    let other = start(db, quick(), &deaf).await;
    deaf.begun(2).await;
    deaf.let_go(2);
    db.drained().await;
    other.shutdown(Duration::from_secs(20)).await.unwrap();
}

/// A failure by timeout is recorded when the thread has really ended, if other jobs wait for it.
pub(crate) async fn a_timeout_waits_for_the_thread<W: World>(db: &W) {
    let deaf = Deaf::default();
    let own = deaf.clone();
    let executor = CommandExecutor::builder(db.messages().await)
        .config(patient())
        .queue("default", 8)
        .handle_blocking("deaf", move |_| {
            own.block();
            Ok(Outcome::Done)
        })
        .kind_options("deaf", KindOptions::default().timeout(Duration::from_millis(50)))
        .start()
        .await
        .unwrap();
    let messages = db.messages().await;
    let first = messages.send(NewJob::json("deaf", &1).exclusive("g").max_attempts(1)).await.unwrap();
    deaf.begun(1).await;
    let second = messages.send(NewJob::json("deaf", &2).exclusive("g")).await.unwrap();
    db.reaches(second, JobState::Blocked).await;
    // Many times its timeout.
    tokio::time::sleep(Duration::from_secs(1)).await;
    no_other_job_starts(db, &deaf, second).await;
    assert_eq!(db.jobs().state(first).await, Some(JobState::Running));
    deaf.let_go(2);
    deaf.begun(2).await;
    db.reaches(first, JobState::Dead).await;
    db.gone(second).await;
    executor.shutdown(Duration::from_secs(20)).await.unwrap();
}
