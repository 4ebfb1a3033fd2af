//! Groups whose jobs follow one another in one place.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::{CommandExecutor, NewJob, Outcome};

use crate::support::postgres::Pg;
use crate::support::world::{PATIENCE, World, patient};
use crate::support::{TestDb as _, eventually};

/// Counts the openings that are written.
async fn counting(db: &Pg<false>) {
    db.raw(
        "create table {schema}.opened (n int);
         create function {schema}.opened() returns trigger language plpgsql as
             $$ begin insert into {schema}.opened values (1); return null; end $$;
         create trigger opened after insert on {schema}.opening for each row execute function {schema}.opened()",
    )
    .await;
}

async fn opened(db: &Pg<false>) -> i64 {
    db.client().await.query_one("select count(*) from opened", &[]).await.unwrap().get(0)
}

/// In their order, one at a time, and without a round for each.
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
    assert!(rounds < JOBS as i64 / 4, "{rounds} openings for {JOBS} jobs");
}

/// A group that never runs dry gives its place to others from time to time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_group_keeps_nobody_waiting() {
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
                // Not by the job's own context, which would commit by itself.
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

/// The statement fails, for good: each outcome is recorded without it, and rounds do the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_handed_on_goes_the_old_way() {
    let Some(db) = Pg::<false>::create().await else { return };
    const JOBS: u64 = 20;
    db.raw(
        "create function {schema}.no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
         create trigger no before delete on {schema}.blocked_job for each row
             when (coalesce(current_setting('jobwright.ended', true), '') <> '') execute function {schema}.no()",
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
    assert_eq!(db.jobs().slot_faults().await.unwrap(), Vec::<String>::new());
}
