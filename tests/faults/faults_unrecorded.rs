//! Outcomes that a node knows when it loses its lease: recorded under the old node, as long as its claims are current.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::Postgres;
use jobwright::admin::JobState;
use jobwright::{CommandExecutor, JobId, MessageServices, NewJob, Outcome};

use crate::faults::faults_database::behind;
use crate::support::environment::{Gate, PATIENCE, World, at_once, lease};
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

/// How many jobs run when the network breaks.
const JOBS: usize = 12;

/// Counts how often jobs start, and how many of their handlers have returned.
#[derive(Clone, Default)]
struct Starts {
    started: Arc<Mutex<HashMap<JobId, usize>>>,
    returned: Arc<AtomicUsize>,
}

impl Starts {
    fn of_all(&self) -> Vec<usize> {
        self.started.lock().unwrap().values().copied().collect()
    }

    /// Starts an executor whose handlers wait at the gate, and whose outcomes go to the completer.
    async fn executor(&self, messages: &MessageServices, seconds: u64, gate: &Gate) -> CommandExecutor<Postgres> {
        let (starts, gate) = (self.clone(), gate.clone());
        CommandExecutor::builder(messages.clone())
            .config(lease(seconds).poll_interval(Duration::from_millis(100)))
            .queue("default", 2 * JOBS)
            .kind_options("counted", at_once())
            .handle_with("counted", move |cx| {
                let (starts, gate) = (starts.clone(), gate.clone());
                Box::pin(async move {
                    *starts.started.lock().unwrap().entry(cx.job().id).or_default() += 1;
                    gate.pass().await;
                    starts.returned.fetch_add(1, Ordering::SeqCst);
                    Ok(Outcome::Done)
                })
            })
            .start()
            .await
            .unwrap()
    }
}

/// Sends jobs of which some belong to groups: their ends go another way.
async fn send(db: &Pg<false>) {
    let messages = db.messages().await;
    for n in 0..JOBS {
        let job = NewJob::json("counted", &n);
        messages.send(if n % 3 == 0 { job.exclusive(format!("g{n}")) } else { job }).await.unwrap();
    }
}

/// An executor whose handlers go on although its database answers nobody.
struct CutOff {
    db: Pg<false>,
    proxy: Proxy,
    starts: Starts,
    executor: CommandExecutor<Postgres>,
}

impl CutOff {
    async fn with_a_lease_of(seconds: u64) -> Option<Self> {
        let db = Pg::<false>::with_ledger().await?;
        let proxy = Proxy::start(db.address()).await;
        let (starts, gate) = (Starts::default(), Gate::closed());
        let executor = starts.executor(&behind(&proxy, &db).await, seconds, &gate).await;
        send(&db).await;
        gate.waiting(JOBS).await;
        proxy.stall();
        gate.open();
        Some(Self { db, proxy, starts, executor })
    }
}

/// The database answers nobody for longer than a lease, so nobody declares anybody dead. The handlers ended meanwhile, and none starts again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_known_when_the_lease_is_lost_are_recorded() {
    let Some(cut) = CutOff::with_a_lease_of(3).await else { return };
    let CutOff { db, proxy, starts, executor } = cut;
    eventually(PATIENCE, async || starts.returned.load(Ordering::SeqCst) == JOBS).await;
    assert_eq!(executor.stats().leases_lost, 0, "the handlers ended while the lease lasted");
    eventually(PATIENCE, async || executor.stats().leases_lost == 1).await;
    assert_eq!(db.jobs().count(JobState::Running).await, JOBS, "none of the outcomes got through");
    // What was under way is lost.
    proxy.cut();
    proxy.heal();
    db.drained().await;
    assert_eq!(starts.of_all(), [1; JOBS], "handlers that had ended started again");
    eventually(PATIENCE, async || executor.stats().done == JOBS as u64).await;
    // The next session works.
    send(&db).await;
    db.drained().await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(starts.of_all(), [1; 2 * JOBS]);
}

/// Another node has declared this one dead and runs the jobs. The late outcomes do not end them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_declared_dead_ends_nothing() {
    let Some(cut) = CutOff::with_a_lease_of(2).await else { return };
    let CutOff { db, proxy, starts, executor } = cut;
    eventually(PATIENCE, async || starts.returned.load(Ordering::SeqCst) == JOBS).await;
    let (others, closed) = (Starts::default(), Gate::closed());
    let rescuer = others.executor(&db.messages().await, 2, &closed).await;
    closed.waiting(JOBS).await;
    eventually(PATIENCE, async || executor.stats().leases_lost == 1).await;
    proxy.cut();
    proxy.heal();
    // It is back, as another node.
    eventually(PATIENCE, async || executor.stats().refused == JOBS as u64).await;
    assert_eq!(executor.telemetry().metrics().fenced.into_iter().collect::<Vec<_>>(), [("done", JOBS as u64)]);
    eventually(PATIENCE, async || {
        db.jobs().status().await.unwrap().nodes.iter().filter(|node| !node.dead).count() == 2
    })
    .await;
    assert_eq!(db.jobs().count(JobState::Running).await, JOBS, "the jobs of the other node were ended");
    closed.open();
    db.drained().await;
    assert_eq!((starts.of_all(), others.of_all()), (vec![1; JOBS], vec![1; JOBS]));
    for executor in [executor, rescuer] {
        executor.shutdown(Duration::from_secs(5)).await.unwrap();
    }
}

/// By then a copy answers, with rows of the same jobs. Nothing is written there, and the outcomes are kept for the database that they are of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_are_not_recorded_in_a_copy() {
    let logs = Logs::capture();
    let Some(cut) = CutOff::with_a_lease_of(2).await else { return };
    let CutOff { db, proxy, starts, executor } = cut;
    eventually(PATIENCE, async || executor.stats().leases_lost == 1).await;
    let client = db.client().await;
    let place = client.query_one("select database_oid from installation", &[]).await.unwrap();
    db.raw("update {schema}.installation set database_oid = 1").await;
    proxy.cut();
    proxy.heal();
    eventually(PATIENCE, async || logs.contains("could not register again") && logs.contains("JW-INSTALLATION")).await;
    assert_eq!(db.jobs().count(JobState::Running).await, JOBS, "the outcomes were recorded in a copy");
    client.execute("update installation set database_oid = $1", &[&place.get::<_, u32>(0)]).await.unwrap();
    db.drained().await;
    assert_eq!(starts.of_all(), [1; JOBS], "handlers that had ended started again");
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// The outcomes can't be recorded, and a stop does not wait for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_them() {
    let Some(cut) = CutOff::with_a_lease_of(2).await else { return };
    // The proxy lives on, and answers nothing.
    let CutOff { db, proxy: _proxy, executor, .. } = cut;
    eventually(PATIENCE, async || executor.stats().leases_lost == 1).await;
    // One try to register may be under way, with the deadline of its call.
    tokio::time::timeout(PATIENCE / 2, executor.shutdown(Duration::ZERO)).await.expect("it stops in time").unwrap();
    assert_eq!(db.jobs().count(JobState::Running).await, JOBS);
}
