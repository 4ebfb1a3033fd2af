//! Producers that record their commits, and executors whose handlers record their runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobwright::{
    CommandExecutor, ErrorKind, ExecutorConfig, JobId, KindOptions, MessageServices, NewJob, Outcome, RetryPolicy,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::ha::cluster::Node;
use crate::ha::handler_barriers::Gates;
use crate::ha::scenario::{CALL, Stage, Way};
use crate::support::eventually;

/// Longer than anything takes unless it is broken, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// Handlers at a time, of each executor.
const SLOTS: usize = 10;

/// What the producers know of their commits.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) sure: Vec<Sent>,
    pub(crate) unknown: Vec<JobId>,
    /// Jobs for which an error said that nothing was kept.
    pub(crate) failed: Vec<JobId>,
    pub(crate) errors: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) id: JobId,
    pub(crate) begun: Instant,
    pub(crate) committed: Instant,
    /// Its handler uses no transaction, so it leaves no line.
    pub(crate) bare: bool,
}

/// The load, which goes on until it is stopped.
pub(crate) struct Load {
    pub(crate) book: Arc<Mutex<Book>>,
    pub(crate) gates: Gates,
    stop: Arc<AtomicBool>,
    producers: Vec<JoinHandle<()>>,
    executors: Vec<CommandExecutor>,
    pub(crate) messages: MessageServices,
}

/// The lease of an executor: `JOBWRIGHT_HA_LEASE`, in seconds. Short, because it is part of the measurement, and long enough for a busy machine.
pub(crate) fn lease() -> Duration {
    Duration::from_secs(std::env::var("JOBWRIGHT_HA_LEASE").ok().and_then(|text| text.parse().ok()).unwrap_or(10))
}

impl Load {
    /// Starts two executors, a producer beside the first one and another one alone.
    pub(crate) async fn start(stage: &Stage, nodes: &[&Node]) -> Self {
        let mut ways = Vec::new();
        for _ in 0..3 {
            ways.push(stage.way(nodes).await);
        }
        Self::start_by(&ways).await
    }

    /// The same with given ways to the servers: the producer's, and those of the executors.
    pub(crate) async fn start_by(ways: &[Way]) -> Self {
        let messages = services(&ways[0]).await;
        Self::start_with(messages, futures_util::future::join_all(ways[1..].iter().map(services)).await).await
    }

    pub(crate) async fn start_with(messages: MessageServices, others: Vec<MessageServices>) -> Self {
        let mut load = Self {
            book: Arc::default(),
            gates: Gates::default(),
            stop: Arc::default(),
            producers: Vec::new(),
            executors: Vec::new(),
            messages: messages.clone(),
        };
        for (n, other) in others.iter().enumerate() {
            load.execute(other.clone(), &format!("executor {n}"), 1).await;
        }
        // Beside an executor its jobs are preclaimed.
        for messages in [messages, others[0].clone()] {
            load.producers.push(tokio::spawn(produce(messages, load.book.clone(), load.stop.clone())));
        }
        load
    }

    /// Adds an executor; its queue `narrow` has this many slots.
    pub(crate) async fn join(&mut self, way: &Way, name: &str, narrow: usize) {
        self.execute(services(way).await, name, narrow).await;
    }

    async fn execute(&mut self, messages: MessageServices, name: &str, narrow: usize) {
        let gates = [self.gates.clone(), self.gates.clone(), self.gates.clone()];
        let [noting, bare, gated] = gates;
        let again = KindOptions::default().retry(RetryPolicy::Fixed(Duration::from_millis(50)));
        // A frozen server never answers a handler's own statement.
        let bounded = again.clone().timeout(CALL);
        let config = ExecutorConfig::default()
            .name(name.to_owned())
            .lease(lease())
            .poll_interval(Duration::from_secs(1))
            .quarantine_after(0);
        let executor = CommandExecutor::builder(messages)
            .config(config)
            .queue("default", SLOTS)
            .queue("narrow", narrow)
            .kind_options("note", bounded.clone())
            .kind_options("bare", bounded)
            .kind_options("gated", again)
            .handle_with("note", move |cx| {
                let gates = noting.clone();
                Box::pin(async move {
                    let (id, takes) = (cx.job().id, cx.job().payload.decode::<u64>()?);
                    let run = gates.enter(id);
                    sleep(Duration::from_millis(takes)).await;
                    note(cx.transaction().await?, id, run).await?;
                    Ok(Outcome::Done)
                })
            })
            .handle_with("bare", move |cx| {
                let gates = bare.clone();
                Box::pin(async move {
                    gates.enter(cx.job().id);
                    sleep(Duration::from_millis(cx.job().payload.decode::<u64>()?)).await;
                    Ok(Outcome::Done)
                })
            })
            .handle_with("gated", move |cx| {
                let gates = gated.clone();
                Box::pin(async move {
                    let id = cx.job().id;
                    let run = gates.enter(id);
                    gates.pass(id, run).await;
                    note(cx.transaction().await?, id, run).await?;
                    Ok(Outcome::Done)
                })
            })
            .start()
            .await
            .unwrap();
        self.executors.push(executor);
    }

    /// Sends a job that waits at its gates, and waits until its commit is certain.
    pub(crate) async fn send_limited(&self, queue: &str) -> JobId {
        let id = JobId::new();
        let job = NewJob::json("gated", &()).queue(queue).id(id).max_attempts(1000);
        let begun = Instant::now();
        assert!(commit(&self.messages, job, id, false).await.is_ok(), "nothing is wrong yet");
        self.book.lock().unwrap().sure.push(Sent { id, begun, committed: Instant::now(), bare: false });
        id
    }

    /// Returns the jobs done so far, as executors counted them.
    pub(crate) fn done(&self) -> u64 {
        self.executors.iter().map(|executor| executor.stats().done).sum()
    }

    /// Returns the number of refused outcomes, whose claims were no longer current.
    pub(crate) fn refused(&self) -> u64 {
        self.executors.iter().map(|executor| executor.stats().refused).sum()
    }

    /// Returns how often an executor had to register again.
    pub(crate) fn leases_lost(&self) -> u64 {
        self.executors.iter().map(|executor| executor.stats().leases_lost).sum()
    }

    /// Returns the number of broker deliveries that were used.
    pub(crate) fn delivered(&self) -> u64 {
        self.executors.iter().map(|executor| executor.stats().delivered).sum()
    }

    /// Returns the longest time between two successful commits since this time, in seconds.
    pub(crate) fn longest_gap(&self, since: Instant) -> f64 {
        let book = self.book.lock().unwrap();
        let mut moments: Vec<Instant> = book.sure.iter().map(|sent| sent.committed).filter(|at| *at > since).collect();
        moments.sort();
        let gaps = moments.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64());
        gaps.fold(0.0, f64::max)
    }

    /// Waits until this many more jobs are committed and done.
    pub(crate) async fn goes_on_for(&self, jobs: usize) {
        let (sent, done) = (self.book.lock().unwrap().sure.len(), self.done());
        eventually(PATIENCE, async || {
            self.book.lock().unwrap().sure.len() >= sent + jobs && self.done() >= done + jobs as u64
        })
        .await;
    }

    /// Stops the producers.
    pub(crate) async fn stop_producers(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for producer in self.producers.drain(..) {
            tokio::time::timeout(PATIENCE, producer).await.expect("a producer hangs").unwrap();
        }
    }

    pub(crate) async fn stop_executors(&mut self) {
        for executor in self.executors.drain(..) {
            let _ = tokio::time::timeout(PATIENCE, executor.shutdown(Duration::from_secs(10))).await;
        }
    }
}

async fn services(way: &Way) -> MessageServices {
    MessageServices::postgres(&way.config).await.unwrap()
}

type Transaction = <jobwright::Postgres as jobwright::Store>::Transaction;

/// The table has no unique constraint: duplicates are what the account looks for.
async fn note(transaction: &Transaction, id: JobId, run: u32) -> Result<(), jobwright::JobError> {
    let run = run.cast_signed();
    transaction.execute("insert into public.done (id, run) values ($1, $2)", &[id.as_uuid(), &run]).await?;
    Ok(())
}

/// Why a commit is not certain.
enum NotSure {
    /// One of the caller's own statements failed, so there was no commit.
    NotTried(String),
    Said(jobwright::Error),
}

impl From<jobwright::Error> for NotSure {
    fn from(error: jobwright::Error) -> Self {
        Self::Said(error)
    }
}

async fn commit(messages: &MessageServices, job: NewJob, id: JobId, bare: bool) -> Result<(), NotSure> {
    let mut cx = messages.begin();
    cx.send(job)?;
    let insert = "insert into public.sent (id, bare) values ($1, $2)";
    let transaction = cx.transaction().await?;
    match tokio::time::timeout(CALL, transaction.execute(insert, &[id.as_uuid(), &bare])).await {
        Ok(Ok(_)) => Ok(cx.commit().await?),
        Ok(Err(error)) => Err(NotSure::NotTried(error.to_string())),
        Err(_) => Err(NotSure::NotTried(format!("no answer within {CALL:?}"))),
    }
}

/// Sends short jobs of some milliseconds, and every twentieth takes most of a second, so that some always run.
async fn produce(messages: MessageServices, book: Arc<Mutex<Book>>, stop: Arc<AtomicBool>) {
    for n in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let (id, bare, begun) = (JobId::new(), n % 4 == 3, Instant::now());
        let takes = if n % 20 == 0 { 700 } else { n * 7 % 40 };
        let kind = if bare { "bare" } else { "note" };
        let job = NewJob::json(kind, &takes).id(id).max_attempts(1000);
        let committed = commit(&messages, job, id, bare).await;
        {
            let mut book = book.lock().unwrap();
            match committed {
                Ok(()) => book.sure.push(Sent { id, begun, committed: Instant::now(), bare }),
                Err(NotSure::NotTried(error)) => {
                    *book.errors.entry("insert refused").or_default() += 1;
                    tracing::info!(%error, %id, "not committed");
                    book.failed.push(id);
                }
                Err(NotSure::Said(error)) => {
                    *book.errors.entry(error.kind().code()).or_default() += 1;
                    tracing::info!(%error, %id, "not committed for sure");
                    match error.kind() {
                        ErrorKind::CommitUnknown | ErrorKind::Timeout => book.unknown.push(id),
                        _ => book.failed.push(id),
                    }
                }
            }
        }
        sleep(Duration::from_millis(10)).await;
    }
}
