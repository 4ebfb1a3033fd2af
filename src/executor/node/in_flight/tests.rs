//! When a node reconciles what it owns, on an embedded database. Time stands still while anything is done, so these hours take no time.

use std::path::PathBuf;

use tokio::time::sleep;

use crate::Sqlite;
use crate::config::DatabaseConfig;
use crate::executor::node::failing::FailingTasks;
use crate::executor::node::in_flight::*;
use crate::job::{Limits, NewJob};
use crate::store::{Acquitted, ClaimRequest, Claimed, JobState, JobStore, NodeInfo, ScanRange, Store, Suspect};

/// Longer than a reconciliation takes.
const MOMENT: Duration = Duration::from_secs(1);
/// How long a statement whose answer got lost may still run.
const STRAGGLER: Duration = Duration::from_secs(60);

/// A node that reconciles what it owns, and does nothing else.
struct Node {
    directory: PathBuf,
    store: Arc<dyn JobStore>,
    id: NodeId,
    in_flight: Arc<InFlight>,
    stop: CancellationToken,
}

impl Node {
    async fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("jobwright-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).unwrap();
        let config = DatabaseConfig::url(format!("sqlite:{}", directory.join("jobs.db").display()));
        let store = Sqlite::open(&config).await.unwrap().engine();
        store.migrate().await.unwrap();
        let info = NodeInfo::new("test", "here", 1, Duration::from_secs(30));
        let id = store.register_node(&info).await.unwrap();
        let (in_flight, stop) = (Arc::<InFlight>::default(), CancellationToken::new());
        let looks = (in_flight.clone(), store.clone(), stop.clone());
        tokio::spawn(async move {
            let (in_flight, store, stop) = looks;
            let state = Arc::<FailingTasks>::default().task("reconciliation", None, FAILED);
            in_flight.reconcile(store, id, STRAGGLER, |_| (), state, stop).await;
        });
        Self { directory, store, id, in_flight, stop }
    }

    /// Claims a job and loses the answer, so the job is not known to be in flight.
    async fn unheard(&self) -> (Job, ClaimNumber) {
        let message = NewJob::json("kind", &()).validate(Limits::default()).unwrap();
        self.store.insert(&[message], None).await.unwrap();
        let claim = self.in_flight.begin_claim().await.number();
        let request = ClaimRequest {
            node: self.id,
            claim,
            queue: "default",
            kinds: None,
            limit: 1,
            range: ScanRange::All,
            include_hidden: false,
            counted: &[],
            admitted_too: true,
            suspects: false,
        };
        (self.store.claim(&request).await.unwrap().jobs.remove(0), claim)
    }

    async fn is_owned(&self, job: &Job) -> bool {
        self.store.show(job.id).await.unwrap().unwrap().summary.state == JobState::Running
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_looked_for_at_once_and_when_its_statement_can_no_longer_run() {
    let node = Node::start().await;
    let (first, _) = node.unheard().await;
    node.in_flight.suspect();
    sleep(MOMENT).await;
    assert!(!node.is_owned(&first).await, "given back at once");
    // The statement still ran at the first check.
    let (late, _) = node.unheard().await;
    sleep(STRAGGLER / 2).await;
    assert!(node.is_owned(&late).await, "not looked for yet");
    sleep(STRAGGLER).await;
    assert!(!node.is_owned(&late).await, "given back at the second look");
    let (never, _) = node.unheard().await;
    sleep(STRAGGLER * 2).await;
    assert!(node.is_owned(&never).await, "nobody suspects anything");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_by_name_is_looked_for_twice_too() {
    let node = Node::start().await;
    let (job, claim) = node.unheard().await;
    node.in_flight.suspect_of(claim, vec![job.id]);
    sleep(MOMENT).await;
    assert!(!node.is_owned(&job).await, "given back at once");
    // The statement still ran at the first check: the same claim of the same job.
    let request = ClaimRequest {
        node: node.id,
        claim,
        queue: "default",
        kinds: None,
        limit: 1,
        range: ScanRange::All,
        include_hidden: false,
        counted: &[],
        admitted_too: true,
        suspects: false,
    };
    assert_eq!(node.store.claim(&request).await.unwrap().jobs.len(), 1);
    sleep(STRAGGLER * 2).await;
    assert!(!node.is_owned(&job).await, "given back at the second look");
}

/// A claim whose answer is on its way: its rows are owned and not known yet.
#[tokio::test(start_paused = true)]
async fn a_look_waits_for_claims_under_way() {
    let node = Node::start().await;
    let claim = node.in_flight.begin_claim().await;
    let (job, _) = node.unheard().await;
    node.in_flight.suspect();
    sleep(MOMENT).await;
    assert!(node.is_owned(&job).await, "its answer is on its way");
    node.in_flight.add(std::iter::once(&job));
    drop(claim);
    sleep(STRAGGLER * 2).await;
    assert!(node.is_owned(&job).await, "it is known");
    node.in_flight.remove(std::iter::once(job.fence()));
    node.in_flight.suspect();
    sleep(MOMENT).await;
    assert!(!node.is_owned(&job).await, "there was a look");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_suspects_is_found_now_and_then() {
    let node = Node::start().await;
    let (job, _) = node.unheard().await;
    // Every ten minutes, more or less (docs/executor.md).
    sleep(Duration::from_secs(7 * 60)).await;
    assert!(node.is_owned(&job).await, "not yet");
    sleep(Duration::from_secs(6 * 60)).await;
    assert!(!node.is_owned(&job).await);
}

/// Answers in the order of these errors, then with success.
#[derive(Default)]
struct Answers {
    errors: Mutex<Vec<crate::Error>>,
    calls: Mutex<Vec<ClaimNumber>>,
}

#[async_trait::async_trait]
impl Claims for Answers {
    async fn release_claimed(&self, _: NodeId, claim: ClaimNumber, _: &[JobId]) -> crate::Result<u64> {
        self.calls.lock().unwrap().push(claim);
        self.errors.lock().unwrap().pop().map_or(Ok(1), Err)
    }

    async fn release_unknown(&self, _: NodeId, _: &[Fence], _: Option<ClaimNumber>) -> crate::Result<u64> {
        unreachable!()
    }

    async fn claim(&self, _: &ClaimRequest<'_>) -> crate::Result<Claimed> {
        unreachable!()
    }

    async fn claim_delivered(
        &self,
        _: NodeId,
        _: ClaimNumber,
        _: &[Fence],
        _: Option<&[String]>,
    ) -> crate::Result<Vec<Job>> {
        unreachable!()
    }

    async fn suspects(&self, _: &[String], _: Option<&[String]>, _: usize) -> crate::Result<Vec<Suspect>> {
        unreachable!()
    }

    async fn acquit(&self, _: &[JobId]) -> crate::Result<Acquitted> {
        unreachable!()
    }
}

/// A lock is about one of them, an outage about all.
#[tokio::test]
async fn a_lock_keeps_one_claim_and_an_outage_is_waited_for_once() {
    let named = || (1..=3).map(|n| (ClaimNumber::new(n), vec![JobId::new()])).collect::<Vec<_>>();
    let error = || crate::Error::new(crate::error::ErrorKind::Unreachable, "no answer");
    for (error, calls, left) in [(error().undecided(), 3, vec![3]), (error(), 1, vec![1, 2, 3])] {
        let answers = Arc::new(Answers { errors: Mutex::new(vec![error]), ..Answers::default() });
        let (store, mut named): (Arc<dyn Claims>, _) = (answers.clone(), named());
        InFlight::default().give_back(&store, NodeId(1), &mut named, false, &|_| ()).await.unwrap_err();
        assert_eq!(answers.calls.lock().unwrap().len(), calls);
        assert_eq!(
            named.iter().map(|(claim, _)| *claim).collect::<Vec<_>>(),
            left.into_iter().map(ClaimNumber::new).collect::<Vec<_>>()
        );
    }
}
