//! Group runs: the jobs of a group follow one another in one slot.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, JobContext, JobError, JobId, NewJob, Outcome, RetryPolicy};
use tokio::sync::Semaphore;

use crate::support::environment::{PATIENCE, World, patient};
use crate::support::postgres::Pg;
use crate::support::{TestDb as _, eventually};

/// Counts the unblocks that are written.
async fn counting(db: &Pg<false>) {
    db.raw(
        "create table {schema}.opened (n int);
         create function {schema}.opened() returns trigger language plpgsql as
             $$ begin insert into {schema}.opened values (1); return null; end $$;
         create trigger opened after insert on {schema}.unblock for each row execute function {schema}.opened()",
    )
    .await;
}

async fn opened(db: &Pg<false>) -> i64 {
    db.client().await.query_one("select count(*) from opened", &[]).await.unwrap().get(0)
}

/// The jobs run in order, one at a time, and without an admission pass for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_follows_in_one_place() {
    let Some(db) = Pg::<false>::create().await else { return };
    const JOBS: usize = 300;
    counting(&db).await;
    let messages = db.messages().await;
    let mut context = messages.begin();
    for n in 0..JOBS {
        context.send(NewJob::json("step", &n).exclusive("g")).unwrap();
    }
    context.commit().await.unwrap();
    let (seen, running) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (noted, busy) = (seen.clone(), running.clone());
    let executor = CommandExecutor::builder(messages)
        .config(patient())
        .queue("default", 8)
        .handle("step", move |job| {
            let (noted, busy) = (noted.clone(), busy.clone());
            async move {
                assert_eq!(busy.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                noted.lock().unwrap().push(job.payload.decode::<usize>()?);
                tokio::task::yield_now().await;
                busy.fetch_sub(1, Ordering::SeqCst);
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    eventually(PATIENCE, async || executor.stats().done == JOBS as u64).await;
    executor.shutdown(PATIENCE).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..JOBS).collect::<Vec<_>>());
    let rounds = opened(&db).await;
    assert!(rounds < JOBS as i64 / 4, "{rounds} unblocks for {JOBS} jobs");
}

/// A group that never runs out of jobs gives its slot to others from time to time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_group_does_not_delay_other_jobs() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = db.messages().await;
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, more) = (stop.clone(), messages.clone());
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .queue("default", 1)
        .handle("again", move |_| {
            let (stopped, more) = (stopped.clone(), more.clone());
            async move {
                // Not by the job's own context, which would commit the job's transaction.
                if !stopped.load(Ordering::SeqCst) {
                    more.send(NewJob::json("again", &1).exclusive("g")).await?;
                }
                Ok(Outcome::Done)
            }
        })
        .handle("other", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    messages.send(NewJob::json("again", &1).exclusive("g")).await.unwrap();
    eventually(PATIENCE, async || executor.stats().done > 20).await;
    let other = messages.send(NewJob::json("other", &1).priority(9)).await.unwrap();
    let jobs = db.jobs();
    eventually(Duration::from_secs(20), async || jobs.state(other).await.is_none()).await;
    stop.store(true, Ordering::SeqCst);
    eventually(PATIENCE, async || jobs.all().await.is_empty()).await;
    executor.shutdown(PATIENCE).await.unwrap();
}

/// The statement fails every time: each outcome is recorded without it, and admission passes start the next jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_can_not_be_claimed_next_pass_admission() {
    let Some(db) = Pg::<false>::create().await else { return };
    const JOBS: u64 = 20;
    db.raw(
        "create function {schema}.no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
         create trigger no before update on {schema}.job for each row
             when (old.blocked_on is not null and coalesce(current_setting('jobwright.ended', true), '') <> '') execute function {schema}.no()",
    )
    .await;
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .queue("default", 4)
        .handle("step", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    for n in 0..JOBS {
        messages.send(NewJob::json("step", &n).exclusive("g")).await.unwrap();
    }
    eventually(PATIENCE, async || executor.stats().done == JOBS).await;
    assert_eq!(executor.stats().refused, 0);
    executor.shutdown(PATIENCE).await.unwrap();
    assert_eq!(db.jobs().permit_faults().await.unwrap(), Vec::<String>::new());
}

/// Handlers that commit their own transactions keep their group too: the transaction creates the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_with_transactions_follow_one_another() {
    let Some(db) = Pg::<false>::create().await else { return };
    const JOBS: i64 = 200;
    counting(&db).await;
    db.raw("create table {schema}.written (place serial, n bigint)").await;
    let messages = db.messages().await;
    let mut context = messages.begin();
    for n in 0..JOBS {
        context.send(NewJob::json("write", &n).exclusive("g")).unwrap();
    }
    context.commit().await.unwrap();
    let insert = format!("insert into \"{}\".written (n) values ($1)", db.schema());
    let executor = CommandExecutor::builder(messages)
        .config(patient())
        .queue("default", 8)
        .handle_with("write", move |cx: &mut JobContext<'_>| {
            let insert = insert.clone();
            Box::pin(async move {
                let n = cx.job().payload.decode::<i64>()?;
                cx.transaction().await?.execute(&insert, &[&n]).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    eventually(PATIENCE, async || executor.stats().done == JOBS as u64).await;
    executor.shutdown(PATIENCE).await.unwrap();
    let client = db.client().await;
    let written = client.query("select n from written order by place", &[]).await.unwrap();
    assert_eq!(written.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), (0..JOBS).collect::<Vec<_>>());
    let rounds = opened(&db).await;
    assert!(rounds < JOBS / 4, "{rounds} unblocks for {JOBS} jobs");
    assert_eq!(db.jobs().permit_faults().await.unwrap(), Vec::<String>::new());
}

/// The meaning of a failure may not be known before it is recorded: its transaction may still be in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_recorded_before_the_next_begins() {
    let Some(db) = Pg::<false>::create().await else { return };
    const JOBS: usize = 40;
    let messages = db.messages().await;
    let mut context = messages.begin();
    for n in 0..JOBS {
        context.send(NewJob::json("odd", &n).exclusive("g").retry(RetryPolicy::Fixed(10 * PATIENCE))).unwrap();
    }
    context.commit().await.unwrap();
    let before: Arc<Mutex<Option<JobId>>> = Arc::default();
    let jobs = db.jobs();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let states = seen.clone();
    let executor = CommandExecutor::builder(messages)
        .config(patient())
        .queue("default", 8)
        .handle("odd", move |job| {
            let (before, jobs, states) = (before.clone(), jobs.clone(), states.clone());
            async move {
                let failed = before.lock().unwrap().take();
                if let Some(failed) = failed {
                    let state = jobs.state(failed).await;
                    states.lock().unwrap().push(state);
                }
                if job.payload.decode::<usize>()? % 2 == 0 {
                    *before.lock().unwrap() = Some(job.id);
                    return Err(JobError::new("odd"));
                }
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    eventually(PATIENCE, async || executor.stats().done + executor.stats().failed == JOBS as u64).await;
    executor.shutdown(PATIENCE).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), vec![Some(JobState::Timer); JOBS / 2]);
}

/// A job behind one that takes long is blocked again, as if it had not been claimed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_behind_a_long_one_are_blocked_again() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = db.messages().await;
    let (gate, jobs) = (Arc::new(Semaphore::new(0)), db.jobs());
    let opened = gate.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .queue("default", 8)
        .handle("quick", |_| async { Ok(Outcome::Done) })
        .handle("long", move |_| {
            let gate = gate.clone();
            async move {
                drop(gate.acquire().await);
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    let mut context = messages.begin();
    let ids = ["quick", "quick", "quick", "long", "quick", "quick"]
        .map(|kind| context.send(NewJob::json(kind, &1).exclusive("g")).unwrap());
    context.commit().await.unwrap();
    let [.., long, behind, last] = ids;
    eventually(PATIENCE, async || {
        let mut states = Vec::new();
        for id in [long, behind, last] {
            states.push(jobs.state(id).await);
        }
        states == [JobState::Running, JobState::Blocked, JobState::Blocked].map(Some) && executor.stats().done == 3
    })
    .await;
    assert_eq!(jobs.detail(last).await.summary.attempt, 0);
    opened.add_permits(1);
    eventually(PATIENCE, async || jobs.all().await.is_empty()).await;
    executor.shutdown(PATIENCE).await.unwrap();
    assert_eq!(db.jobs().permit_faults().await.unwrap(), Vec::<String>::new());
}

/// A job that was given back comes before those that were blocked behind it, though the group run goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_is_kept_when_a_run_is_given_back() {
    let Some(db) = Pg::<false>::create().await else { return };
    const JOBS: usize = 60;
    const LONG: usize = 9;
    let messages = db.messages().await;
    let (seen, gate, jobs) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)), db.jobs());
    let (noted, opened) = (seen.clone(), gate.clone());
    let mut context = messages.begin();
    let ids: Vec<JobId> = (0..JOBS).map(|n| context.send(NewJob::json("step", &n).exclusive("g")).unwrap()).collect();
    context.commit().await.unwrap();
    let executor = CommandExecutor::builder(messages)
        .config(patient())
        .queue("default", 8)
        .handle("step", move |job| {
            let (noted, gate) = (noted.clone(), gate.clone());
            async move {
                let n = job.payload.decode::<usize>()?;
                noted.lock().unwrap().push(n);
                if n == LONG {
                    drop(gate.acquire().await);
                }
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    // The long one runs, and the one behind it is blocked again.
    eventually(PATIENCE, async || {
        seen.lock().unwrap().last() == Some(&LONG) && jobs.state(ids[LONG + 1]).await == Some(JobState::Blocked)
    })
    .await;
    opened.add_permits(1);
    eventually(PATIENCE, async || executor.stats().done == JOBS as u64).await;
    executor.shutdown(PATIENCE).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..JOBS).collect::<Vec<_>>());
    assert_eq!(db.jobs().permit_faults().await.unwrap(), Vec::<String>::new());
}
