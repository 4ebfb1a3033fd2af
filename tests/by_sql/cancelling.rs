//! `jobwright.cancel`, for triggers.

use jobwright::admin::{HistoryFilter, HistoryOutcome, JobState};
use jobwright::internal::engine::Verdict;
use jobwright::{JobId, Unique};

use super::{CANCELLED, NO_RIGHT, REFUSED, Site, call};
use crate::support::TestDb;
use crate::support::jobs::{LATER, job};

impl Site {
    /// Calls `cancel`; returns whether there was something to cancel.
    async fn cancel(&self, arguments: &str) -> bool {
        self.worker.query_one(&format!("select cancel({arguments})"), &[]).await.unwrap().get(0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_each_state_but_as_a_dead_letter() {
    let Some(site) = Site::create().await else { return };
    site.worker.batch_execute("set jobwright.history = 'all'").await.unwrap();
    let (node, running) = site.jobs.running(job()).await;
    let external = site.taken(job()).await;
    let waiting = site.jobs.send(job()).await;
    let blocked = site.jobs.send(job().exclusive("g")).await;
    let timer = site.jobs.send(job().delay(LATER)).await;
    let suspended = site.jobs.send(job()).await;
    site.db.suspend(suspended).await;
    for id in [running.id, external.id(), waiting, blocked, timer, suspended] {
        assert!(site.cancel(&format!("'{id}'")).await, "{id}");
        assert_eq!(site.jobs.state(id).await, None);
        assert!(!site.cancel(&format!("'{id}'")).await, "once");
    }
    assert!(!site.jobs.settle_one(node, running.fence(), Verdict::Retry(LATER)).await, "its outcome is refused");
    assert_eq!(call(&site.worker, "done", external, "").await.unwrap_err().0, CANCELLED);
    let dead = site.taken(job()).await;
    super::accepted(&site.worker, "fail", dead, ", 'e', dead => true").await;
    assert!(!site.cancel(&format!("'{}'", dead.id)).await);
    assert_eq!(site.jobs.state(dead.id()).await, Some(JobState::Dead));
    let ended = site.jobs.history(&HistoryFilter::default(), 20).await.unwrap();
    assert_eq!(ended.iter().filter(|entry| entry.outcome == HistoryOutcome::Cancelled).count(), 6);
}

/// By its unique key, as the order that is deleted knows it. A key that is left over cancels nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_its_unique_key() {
    let Some(site) = Site::create().await else { return };
    site.jobs.send(job().unique(Unique::key("order-7")).delay(LATER)).await;
    let row = site.worker.query_one("select send('remind', '{}', unique_key => 'order-7')", &[]).await.unwrap();
    let by_sql = JobId::from(row.get::<_, uuid::Uuid>(0));
    assert!(!site.cancel("kind => 'kind', unique_key => 'order-8'").await);
    assert!(site.cancel("kind => 'kind', unique_key => 'order-7'").await);
    assert_eq!(site.jobs.all().await.iter().map(|job| job.id).collect::<Vec<_>>(), [by_sql]);
    assert!(site.cancel("kind => 'remind', unique_key => 'order-7'").await);
    assert!(!site.cancel("kind => 'remind', unique_key => 'order-7'").await);
    // The key is free again.
    site.jobs.send(job().unique(Unique::key("order-7"))).await;
    assert_eq!(site.jobs.all().await.len(), 1);
    // The id is used again by a job that has another key.
    let id = site.jobs.all().await[0].id;
    site.db.raw("alter table {schema}.job disable trigger job_unique; delete from {schema}.job; alter table {schema}.job enable trigger job_unique").await;
    site.jobs.send(job().id(id)).await;
    assert!(!site.cancel("kind => 'kind', unique_key => 'order-7'").await);
    assert_eq!(site.jobs.state(id).await, Some(JobState::Waiting));
}

/// It happens with the caller's transaction or not at all, and the group of a running job stays taken until its handler has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_callers_transaction_and_the_group_stays_taken() {
    let Some(site) = Site::create().await else { return };
    site.jobs.send_all([job().exclusive("g"), job().exclusive("g")]).await;
    site.jobs.admit_all().await;
    let node = site.jobs.node().await;
    let claimed = site.jobs.take_one(node).await;
    site.worker.batch_execute(&format!("begin; select cancel('{}'); rollback", claimed.id)).await.unwrap();
    assert_eq!(site.jobs.state(claimed.id).await, Some(JobState::Running));
    assert!(site.cancel(&format!("'{}'", claimed.id)).await);
    assert_eq!(site.jobs.admit_all().await, 0);
    assert!(!site.jobs.settle_one(node, claimed.fence(), Verdict::Retry(LATER)).await);
    site.jobs.handlers_ended(node, &[claimed.fence()]).await.unwrap();
    assert_eq!(site.jobs.admit_all().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_and_strangers_are_refused() {
    let Some(site) = Site::create().await else { return };
    for arguments in ["", "null", "kind => 'k'", "unique_key => 'u'", "gen_random_uuid(), 'k', 'u'"] {
        let error = site.worker.query(&format!("select cancel({arguments})"), &[]).await.expect_err(arguments);
        assert_eq!(super::told(&error).0, REFUSED, "{arguments}");
    }
    let role = crate::support::unique("stranger_");
    site.worker
        .batch_execute(&format!(
            "create role \"{role}\"; grant usage on schema {} to \"{role}\"; set role \"{role}\"",
            site.db.schema()
        ))
        .await
        .unwrap();
    let error = site.worker.query("select cancel(gen_random_uuid())", &[]).await.unwrap_err();
    assert_eq!(super::told(&error).0, NO_RIGHT);
    site.worker.batch_execute(&format!("reset role; drop owned by \"{role}\"; drop role \"{role}\"")).await.unwrap();
}

/// As for every other argument that may be left out, null is the default: a trigger need not ask whether there is a date.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_due_date_that_is_null_is_now() {
    let Some(site) = Site::create().await else { return };
    site.worker.query_one("select send('kind', '{}', due_at => null)", &[]).await.unwrap();
    assert_eq!(site.take("1").await.len(), 1);
}
