//! Nodes that were declared dead, and are not.

use std::collections::BTreeMap;
use std::time::Duration;

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::internal::Fence;
use jobwright::internal::engine::{ClaimRequest, Settlement, UnitOfWork, Verdict};
use jobwright::{MessageServices, NewJob};
use serde_json::json;

use crate::faults::ledger_worker::{Does, Orders, send, start};
use crate::support::environment::{PATIENCE, World, lease};
use crate::support::jobs::{claim_number, node_info};
use crate::support::postgres::Pg;
use crate::support::process::{Sign, Worker, role};
use crate::support::{TestDb, eventually};

/// All ways to end an attempt.
const PATHS: [&str; 8] =
    ["done", "done with transaction", "retry", "snooze", "cancel", "dead", "release", "release unknown"];

/// A process is stopped for longer than its lease while it holds a job for each way to end one. Its jobs run elsewhere. Then it continues and reports
/// its outcomes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigstop_then_every_late_outcome_is_refused() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let ids = send::<Pg<false>>(&messages, Does::Note, PATHS.len()).await;
    let (claimed, go, report) = (Sign::new(), Sign::new(), Sign::new());
    let config = db.config();
    let zombie = Worker::start(
        concat!(module_path!(), "::zombie"),
        &json!({
            "url": config.url.expose(), "schema": config.schema,
            "claimed": claimed.path(), "go": go.path(), "report": report.path(),
        }),
    );
    eventually(PATIENCE, async || claimed.text().is_some()).await;
    zombie.signal("STOP");

    let rescuer = start::<Pg<false>>(&messages, lease(1), 8, None).await;
    db.drained().await;
    db.each_once(&ids).await;
    // Each job is claimed again by another node when the zombie continues; a fence that checked only the id would accept its outcomes.
    rescuer.shutdown(Duration::from_secs(5)).await.unwrap();
    let mut cx = messages.begin();
    for id in &ids {
        cx.send(NewJob::json("ledger", &Does::Note).id(*id)).unwrap();
    }
    cx.commit().await.unwrap();
    let heir = db.jobs().register_node(&node_info("heir")).await.unwrap();
    assert_eq!(db.jobs().take(heir, PATHS.len()).await.len(), PATHS.len());

    go.give("");
    zombie.signal("CONT");
    eventually(PATIENCE, async || report.text().is_some()).await;
    let report: BTreeMap<String, String> = serde_json::from_str(&report.text().unwrap()).unwrap();
    let refused: BTreeMap<_, _> =
        PATHS.iter().chain(&["heartbeat", "claim"]).map(|path| ((*path).to_owned(), "refused".to_owned())).collect();
    assert_eq!(report, refused);
    db.each_once(&ids).await;
    let jobs = db.jobs().all().await;
    assert!(
        jobs.len() == PATHS.len() && jobs.iter().all(|job| job.owner == Some(heir) && job.attempt == 1),
        "{jobs:?}"
    );
}

/// The process that is stopped. It calls the store directly, so that only the store can refuse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a worker process of other tests"]
async fn zombie() {
    let Some(role) = role() else { return };
    let text = |key: &str| role[key].as_str().unwrap().to_owned();
    let config = jobwright::DatabaseConfig::url(text("url")).schema(text("schema"));
    let messages = MessageServices::postgres(&config).await.unwrap();
    let store = messages.engine();
    let info = node_info("zombie").lease(Duration::from_secs(1));
    let node = store.register_node(&info).await.unwrap();
    let claim = ClaimRequest::new(node, claim_number(), "default", PATHS.len());
    let jobs = store.claim(&claim).await.unwrap().jobs;
    assert_eq!(jobs.len(), PATHS.len());
    let fences: BTreeMap<&str, Fence> = PATHS.into_iter().zip(jobs.iter().map(jobwright::Job::fence)).collect();
    let mut transaction = messages.store().begin().await.unwrap();
    let fence = fences["done with transaction"];
    Pg::<false>::note(&mut transaction, &fence.id.to_string()).await.unwrap();
    Sign::at(text("claimed")).give("");
    Sign::at(text("go")).given().await;

    let mut report: BTreeMap<&str, bool> = BTreeMap::new();
    // The transaction is still open, and its job is no longer ours.
    report.insert("done with transaction", transaction.remove(node, fence).await.unwrap());
    transaction.rollback().await.unwrap();
    report.insert("done", !store.complete(node, &[fences["done"]]).await.unwrap().is_empty());
    let verdicts = [
        ("retry", Verdict::Retry(Duration::ZERO)),
        ("snooze", Verdict::Snooze(Duration::ZERO)),
        ("cancel", Verdict::Cancel),
        ("dead", Verdict::Dead),
        ("release", Verdict::Release),
    ];
    for (path, verdict) in verdicts {
        let settled = store.settle(node, &[Settlement::new(fences[path], verdict).error("late", None)]).await.unwrap();
        report.insert(path, !settled.is_empty());
    }
    report.insert("release unknown", store.release_unknown(node, &[], None).await.unwrap() > 0);
    report.insert("heartbeat", store.heartbeat(node).await.unwrap());
    report.insert("claim", store.claim(&claim).await.is_ok_and(|claimed| !claimed.jobs.is_empty()));
    let words: BTreeMap<_, _> =
        report.into_iter().map(|(path, accepted)| (path, if accepted { "accepted" } else { "refused" })).collect();
    Sign::at(text("report")).give(&json!(words).to_string());
}

/// A whole executor is stopped for longer than its lease, while handlers run, and continues later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigstop_of_an_executor_that_later_goes_on() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut ids = send::<Pg<false>>(&messages, Does::NoteThenWait, 4).await;
    ids.extend(send::<Pg<false>>(&messages, Does::WaitThenNote, 16).await);
    let sign = Sign::new();
    let mut zombie = Orders::new(&db.config(), "zombie").concurrency(20).waiting_for(&sign).start();
    db.counts(JobState::Running, 20).await;
    let first = db.jobs().status().await.unwrap().nodes[0].id;
    zombie.signal("STOP");

    let config = lease(1).name("rescuer");
    let rescuer = start::<Pg<false>>(&messages, config, 20, None).await;
    db.drained().await;
    db.each_once(&ids).await;
    rescuer.shutdown(Duration::ZERO).await.unwrap();

    // Its handlers could finish now.
    sign.give("");
    zombie.signal("CONT");
    // It starts again under another node id, without intervention.
    eventually(PATIENCE, async || {
        let nodes = db.jobs().status().await.unwrap().nodes;
        nodes.iter().any(|node| node.pid == zombie.pid() && node.id != first && !node.dead)
    })
    .await;
    let more = send::<Pg<false>>(&messages, Does::Note, 5).await;
    db.drained().await;
    ids.extend(more);
    db.each_once(&ids).await;
    assert!(zombie.is_running());
}
