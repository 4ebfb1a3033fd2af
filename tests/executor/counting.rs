//! Limits of queues and kinds, which executors count with their claims.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::Postgres;
use jobwright::admin::{Rule, Scope};
use jobwright::internal::engine::Hint;
use jobwright::{CommandExecutor, ExecutorConfig, NewJob, Outcome};
use tokio::sync::Semaphore;

use crate::support::environment::{Gate, PATIENCE, World, lease, noting_behind, patient, quick};
use crate::support::postgres::Pg;
use crate::support::{TestDb as _, eventually};

/// The number of running handlers, and the highest so far.
#[derive(Clone, Default)]
struct Watch(Arc<(AtomicUsize, AtomicUsize)>);

struct Here(Watch);

impl Watch {
    fn enter(&self) -> Here {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        Here(self.clone())
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Starts an executor whose handlers take a short while.
async fn start(db: &Pg<false>, config: ExecutorConfig, watch: &Watch) -> CommandExecutor<Postgres> {
    let mut builder =
        CommandExecutor::builder(db.messages().await).config(config).queue("default", 8).queue("other", 8);
    for kind in ["work", "more"] {
        let watch = watch.clone();
        builder = builder.handle(kind, move |_| {
            let watch = watch.clone();
            async move {
                let _here = watch.enter();
                tokio::task::yield_now().await;
                Ok(Outcome::Done)
            }
        });
    }
    builder.start().await.unwrap()
}

/// Asserts that nothing counts any more, and that no permit was ever held.
async fn all_is_free(db: &Pg<false>) {
    let client = db.client().await;
    eventually(PATIENCE, async || {
        let row = client.query_one("select coalesce(sum(n), 0)::int8 from usage", &[]).await.unwrap();
        row.get::<_, i64>(0) == 0
    })
    .await;
    let jobs = db.jobs();
    eventually(PATIENCE, async || jobs.permit_faults().await.unwrap().is_empty()).await;
}

async fn send(db: &Pg<false>, count: usize, job: impl Fn(usize) -> NewJob) {
    let messages = db.messages().await;
    let mut context = messages.begin();
    for n in 0..count {
        context.send(job(n)).unwrap();
    }
    context.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_over_nodes_queues_and_kinds() {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Kind, "work").running(3)).await.unwrap();
    store.put_rule(&Rule::new(Scope::Queue, "*").running(4)).await.unwrap();
    db.raw(
        "create function {schema}.no() returns trigger language plpgsql as $$ begin raise exception 'a permit'; end $$;
         create trigger no before insert on {schema}.permit for each row execute function {schema}.no()",
    )
    .await;
    let work = Watch::default();
    let executors = [start(&db, patient(), &work).await, start(&db, patient(), &work).await];
    send(&db, 200, |n| NewJob::json("work", &n).queue(if n % 2 == 0 { "default" } else { "other" })).await;
    db.drained().await;
    assert!(work.most() <= 3, "{}", work.most());
    send(&db, 200, |n| NewJob::json("more", &n)).await;
    db.drained().await;
    assert!(work.most() <= 4, "{}", work.most());
    let done: Vec<u64> = executors.iter().map(|executor| executor.stats().done).collect();
    assert_eq!(done.iter().sum::<u64>(), 400);
    all_is_free(&db).await;
    for executor in executors {
        executor.shutdown(PATIENCE).await.unwrap();
    }
}

/// In every window of the period, two nodes together start no more jobs than the rate allows, and nearly as many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_holds_in_every_window() {
    let Some(db) = Pg::<false>::create().await else { return };
    const RATE: usize = 20;
    const PERIOD: Duration = Duration::from_millis(200);
    db.jobs().put_rule(&Rule::new(Scope::Queue, "default").rate(RATE as u32, PERIOD)).await.unwrap();
    db.raw(
        "create table {schema}.started (at timestamptz not null);
         create function {schema}.started() returns trigger language plpgsql as
             $$ begin insert into {schema}.started values (new.claimed_at); return null; end $$;
         create trigger started after update on {schema}.job for each row
             when (old.lock_owner is null and new.lock_owner is not null) execute function {schema}.started()",
    )
    .await;
    let watch = Watch::default();
    let executors = [start(&db, patient(), &watch).await, start(&db, patient(), &watch).await];
    send(&db, 150, |n| NewJob::json("work", &n)).await;
    db.drained().await;
    let client = db.client().await;
    let rows =
        client.query("select (extract(epoch from at) * 1000000)::int8 from started order by at", &[]).await.unwrap();
    let starts: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(starts.len(), 150);
    for window in starts.windows(RATE + 1) {
        let took = window[RATE] - window[0];
        assert!(took >= PERIOD.as_micros() as i64, "{} starts within {took} us", RATE + 1);
    }
    for executor in executors {
        executor.shutdown(PATIENCE).await.unwrap();
    }
}

/// Jobs of groups go through admission passes, others do not, and they are counted together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_groups_share_a_limit_with_others() {
    let Some(db) = Pg::<false>::create().await else { return };
    db.jobs().put_rule(&Rule::new(Scope::Kind, "work").running(3)).await.unwrap();
    let watch = Watch::default();
    let executors = [start(&db, quick(), &watch).await, start(&db, quick(), &watch).await];
    send(&db, 150, |n| {
        let job = NewJob::json("work", &n);
        if n % 2 == 0 { job.exclusive(format!("g{}", n % 5)) } else { job }
    })
    .await;
    db.drained().await;
    assert!(watch.most() <= 3, "{}", watch.most());
    all_is_free(&db).await;
    for executor in executors {
        executor.shutdown(PATIENCE).await.unwrap();
    }
}

/// The limit is lowered, raised, removed and set again, while everything runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_changes_while_everything_runs() {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = db.jobs();
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, here) = (gate.clone(), running.clone());
    store.put_rule(&Rule::new(Scope::Kind, "held").running(4)).await.unwrap();
    let executor = CommandExecutor::builder(db.messages().await)
        .config(quick())
        .queue("default", 20)
        .handle("held", move |_| {
            let (gate, here) = (gate.clone(), here.clone());
            async move {
                here.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                here.fetch_sub(1, Ordering::SeqCst);
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    send(&db, 40, |n| NewJob::json("held", &n)).await;
    let run = async |count: usize| eventually(PATIENCE, async || running.load(Ordering::SeqCst) == count).await;
    run(4).await;
    store.put_rule(&Rule::new(Scope::Kind, "held").running(6)).await.unwrap();
    run(6).await;
    store.put_rule(&Rule::new(Scope::Kind, "held").running(2)).await.unwrap();
    opened.add_permits(5);
    eventually(PATIENCE, async || executor.stats().done == 5).await;
    run(2).await;
    store.put_rule(&Rule::new(Scope::Kind, "held")).await.unwrap();
    run(20).await;
    store.put_rule(&Rule::new(Scope::Kind, "held").running(3)).await.unwrap();
    opened.add_permits(18);
    eventually(PATIENCE, async || executor.stats().done == 23).await;
    run(3).await;
    opened.add_permits(100);
    db.drained().await;
    all_is_free(&db).await;
    executor.shutdown(PATIENCE).await.unwrap();
}

/// Nodes are dropped while they work, and their permits become free; two that live both get some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_die_and_others_take_over() {
    let Some(db) = Pg::<false>::create().await else { return };
    db.jobs().put_rule(&Rule::new(Scope::Queue, "default").running(4)).await.unwrap();
    let watch = Watch::default();
    let by_node: Arc<Mutex<BTreeMap<usize, usize>>> = Arc::default();
    let begin = async |node: usize, config: ExecutorConfig| {
        let (watch, by_node) = (watch.clone(), by_node.clone());
        CommandExecutor::builder(db.messages().await)
            .config(config)
            .queue("default", 8)
            .handle("work", move |_| {
                let (watch, by_node) = (watch.clone(), by_node.clone());
                async move {
                    let _here = watch.enter();
                    *by_node.lock().unwrap().entry(node).or_default() += 1;
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    Ok(Outcome::Done)
                }
            })
            .start()
            .await
            .unwrap()
    };
    send(&db, 600, |n| NewJob::json("work", &n).max_attempts(100)).await;
    let first = begin(0, lease(1)).await;
    let second = begin(1, quick()).await;
    let seen = |node: usize| by_node.lock().unwrap().get(&node).copied().unwrap_or(0);
    eventually(PATIENCE, async || seen(0) > 20 && seen(1) > 20).await;
    drop(first);
    let third = begin(2, quick()).await;
    // The second may have done all that was there before the third began.
    send(&db, 600, |n| NewJob::json("work", &n).max_attempts(100)).await;
    eventually(PATIENCE, async || seen(2) > 20).await;
    db.drained().await;
    assert!(watch.most() <= 4, "{}", watch.most());
    all_is_free(&db).await;
    for executor in [second, third] {
        executor.shutdown(PATIENCE).await.unwrap();
    }
}

/// A node that stops, with one job left to finish, counts that one and not those that have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_node_reports_ended_jobs() {
    let Some(db) = Pg::<false>::create().await else { return };
    db.jobs().put_rule(&Rule::new(Scope::Kind, "held").running(3)).await.unwrap();
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, here) = (gate.clone(), running.clone());
    let executor = CommandExecutor::builder(db.messages().await)
        .config(patient())
        .queue("default", 8)
        .handle("held", move |_| {
            let (gate, here) = (gate.clone(), here.clone());
            async move {
                here.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                here.fetch_sub(1, Ordering::SeqCst);
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    send(&db, 3, |n| NewJob::json("held", &n)).await;
    eventually(PATIENCE, async || running.load(Ordering::SeqCst) == 3).await;
    let stopping = tokio::spawn(executor.shutdown(PATIENCE));
    let client = db.client().await;
    let counted =
        async || -> i64 { client.query_one("select coalesce(sum(n), 0)::int8 from usage", &[]).await.unwrap().get(0) };
    assert_eq!(counted().await, 3);
    opened.add_permits(2);
    eventually(PATIENCE, async || running.load(Ordering::SeqCst) == 1 && counted().await == 1).await;
    assert!(!stopping.is_finished());
    opened.add_permits(1);
    stopping.await.unwrap().unwrap();
    eventually(PATIENCE, async || counted().await == 0).await;
}

/// It asks rarely after many refusals, so the node on which a job ends has to say that it leaves something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_some_of_a_limit_tells_the_others() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    db.jobs().put_rule(&Rule::new(Scope::Kind, "work").running(1)).await.unwrap();
    let gate = Gate::closed();
    let start = async |queue: &str| {
        CommandExecutor::builder(db.messages().await)
            .config(patient())
            .queue(queue, 2)
            .handle_with("work", noting_behind::<Pg<false>>(&gate))
            .start()
            .await
            .unwrap()
    };
    let (one, other) = (start("one").await, start("other").await);
    let jobs = db.jobs();
    // The store sends no hints for what it inserts, and these nodes poll once an hour.
    let send = async |queue: &str| {
        jobs.send(NewJob::json("work", &1).queue(queue)).await;
        jobs.notify(&[Hint::Queue(queue.to_owned())]).await.unwrap();
    };
    send("one").await;
    gate.waiting(1).await;
    send("other").await;
    let client = db.client().await;
    let wanted = "select exists (select from usage where demand > 0)";
    eventually(PATIENCE, async || client.query_one(wanted, &[]).await.unwrap().get(0)).await;
    let mut hints = jobs.listen().await.unwrap().unwrap();
    gate.open();
    let told = async { while hints.next().await.unwrap() != Hint::Admission {} };
    tokio::time::timeout(PATIENCE, told).await.expect("a hint");
    db.drained().await;
    for executor in [one, other] {
        executor.shutdown(Duration::ZERO).await.unwrap();
    }
}
