//! Answers get lost at random, with the connections that they were to come over. No session ends, so nothing may start twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobwright::admin::{Rule, Scope};
use jobwright::{CommandExecutor, Job, JobId, MessageServices, NewJob, Outcome};

use crate::support::environment::{PATIENCE, World, at_once, lease};
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::seeded_random::Chance;
use crate::support::{TestDb, eventually};

/// Several dispatchers of a node claim at the same time.
const QUEUES: usize = 6;
/// One answer in so many gets lost.
const LOST: usize = 50;
/// Long enough that claims wait for one another.
const DELAY: Duration = Duration::from_millis(20);
/// One job in five is in one of these groups.
const GROUPS: usize = 12;
/// How many jobs of the kind `counted` may run at the same time.
const LIMIT: u32 = 3;

/// One run of a handler.
#[derive(Clone, Copy, Debug)]
struct Run {
    id: JobId,
    began: Instant,
    ended: Instant,
}

/// All runs, by what may not overlap in them.
#[derive(Clone, Debug, Default)]
struct Runs(Arc<Mutex<BTreeMap<String, Vec<Run>>>>);

impl Runs {
    async fn visit(&self, job: Job, takes: Duration) {
        let began = Instant::now();
        tokio::time::sleep(takes).await;
        let run = Run { id: job.id, began, ended: Instant::now() };
        let name = job.options.group.unwrap_or(job.kind);
        self.0.lock().unwrap().entry(name).or_default().push(run);
    }

    /// Returns how many jobs of this name ran at the same time.
    fn at_the_same_time(&self, name: &str) -> usize {
        let runs = self.0.lock().unwrap();
        let runs = runs.get(name).map(Vec::as_slice).unwrap_or_default();
        runs.iter()
            .map(|run| runs.iter().filter(|one| one.began <= run.began && run.began < one.ended).count())
            .max()
            .unwrap_or(0)
    }

    fn of_each(&self) -> BTreeMap<JobId, Vec<Run>> {
        let mut each: BTreeMap<JobId, Vec<Run>> = BTreeMap::new();
        for run in self.0.lock().unwrap().values().flatten() {
            each.entry(run.id).or_default().push(*run);
        }
        each
    }
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

async fn start(messages: &MessageServices, runs: &Runs) -> CommandExecutor {
    let mut builder = CommandExecutor::builder(messages.clone())
        .config(lease(60).poll_interval(Duration::from_millis(100)))
        .kind_options("plain", at_once())
        .kind_options("counted", at_once());
    for queue in 0..QUEUES {
        builder = builder.queue(format!("q{queue}"), 4);
    }
    for (kind, takes) in [("plain", 150), ("counted", 20)] {
        let runs = runs.clone();
        builder = builder.handle(kind, move |job: Job| {
            let runs = runs.clone();
            async move {
                runs.visit(job, Duration::from_millis(takes)).await;
                Ok(Outcome::Done)
            }
        });
    }
    builder.start().await.unwrap()
}

/// `JOBWRIGHT_LOST_ANSWERS_JOBS` sets how many jobs are sent, and `JOBWRIGHT_LOST_ANSWERS_SEED` repeats a choice of faults.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_starts_twice_while_its_node_lives() {
    let Some(db) = Pg::<false>::create().await else { return };
    let seed = number("JOBWRIGHT_LOST_ANSWERS_SEED", uuid::Uuid::new_v4().as_u64_pair().0 as usize) as u64;
    let count = number("JOBWRIGHT_LOST_ANSWERS_JOBS", 900);
    println!("JOBWRIGHT_LOST_ANSWERS_SEED={seed} JOBWRIGHT_LOST_ANSWERS_JOBS={count}");
    let proxy = Proxy::start(db.address()).await;
    let config = db.config_by(proxy.address);
    proxy.slow(DELAY);
    let runs = Runs::default();
    let mut executors = Vec::new();
    for _ in 0..2 {
        let messages = MessageServices::postgres(&config).await.unwrap();
        executors.push(start(&messages, &runs).await);
    }
    let direct = db.messages().await;
    db.jobs().put_rule(&Rule::new(Scope::Kind, "counted").running(LIMIT)).await.unwrap();
    proxy.lose_answers(LOST, seed);

    let mut chance = Chance::new(seed);
    let mut sent = 0;
    while sent < count {
        let mut cx = direct.begin();
        for _ in 0..30.min(count - sent) {
            let job = match chance.below(60) {
                n if n < GROUPS => NewJob::json("plain", &()).exclusive(format!("group {n}")),
                n if n < GROUPS + 4 => NewJob::json("counted", &()),
                _ => NewJob::json("plain", &()),
            };
            cx.send(job.queue(format!("q{}", chance.below(QUEUES)))).unwrap();
            sent += 1;
        }
        cx.commit().await.unwrap();
    }
    let jobs = db.jobs();
    let patience = PATIENCE + Duration::from_millis(100) * u32::try_from(count).unwrap();
    eventually(patience, async || jobs.all().await.is_empty()).await;
    let lost = proxy.lose_no_more();
    println!("{lost} answers got lost");
    assert!(lost > count / 20, "only {lost} answers got lost");
    proxy.heal();
    for executor in executors {
        assert_eq!(executor.stats().leases_lost, 0, "a session ended: jobs may have started twice rightly");
        executor.shutdown(Duration::from_secs(5)).await.unwrap();
    }

    let each = runs.of_each();
    let twice: Vec<_> = each.values().filter(|runs| runs.len() > 1).collect();
    assert!(twice.is_empty(), "{} of {count} jobs started twice: {twice:#?}", twice.len());
    assert_eq!(each.len(), count, "jobs that never ran");
    for n in 0..GROUPS {
        assert_eq!(runs.at_the_same_time(&format!("group {n}")), 1, "jobs of group {n} overlapped");
    }
    let counted = runs.at_the_same_time("counted");
    assert!((1..=LIMIT as usize).contains(&counted), "{counted} jobs ran under a limit of {LIMIT}");
}
