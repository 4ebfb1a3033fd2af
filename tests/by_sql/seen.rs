//! Workers by SQL are seen: in the status, and in the answer to why a job does not run.

use std::time::Duration;

use jobwright::admin::{Admin, Count, Reason};
use jobwright::internal::SqlWorker;
use jobwright::{CommandExecutor, ExternalQueue, JobId, MessageServices, Outcome};

use super::{Site, read};
use crate::support::environment::{PATIENCE, patient};
use crate::support::eventually;
use crate::support::jobs::{job, jobs};

async fn admin(site: &Site) -> Admin {
    MessageServices::postgres(&site.db.config()).await.unwrap().admin()
}

async fn why(admin: &Admin, id: JobId) -> Vec<Reason> {
    admin.why(id).await.unwrap().unwrap().reasons
}

async fn workers(admin: &Admin) -> Vec<SqlWorker> {
    admin.status().await.unwrap().workers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_status_with_what_they_hold() {
    let Some(site) = Site::create().await else { return };
    let admin = admin(&site).await;
    assert_eq!(workers(&admin).await, []);
    site.jobs.send_all(jobs(3)).await;
    site.take("2, '1 second', kinds => '{kind}'").await;
    site.worker.query("select * from take('other', 'test')", &[]).await.unwrap();
    site.worker.query("select * from take('other', 'another')", &[]).await.unwrap();
    let all = workers(&admin).await;
    assert_eq!(all.iter().map(|worker| worker.name.as_str()).collect::<Vec<_>>(), ["another", "test"]);
    assert!(all.iter().all(|worker| worker.alive));
    let kinds = ["kind".to_owned()].into();
    assert_eq!(all[1].queues, [("default".to_owned(), Some(kinds)), ("other".to_owned(), None)].into());
    assert_eq!((all[0].held, all[1].held), (Count::Exact(0), Count::Exact(2)));
    // It is silent, and its leases end.
    site.worker.execute("update worker set heard_at = now() - interval '2 minutes'", &[]).await.unwrap();
    site.worker.execute("update external_job set lease_until = now() - interval '2 minutes'", &[]).await.unwrap();
    let all = workers(&admin).await;
    assert!(all.iter().all(|worker| !worker.alive), "{all:?}");
    assert_eq!(site.jobs.expire_external(9).await.unwrap().waiting, 2);
    assert_eq!(workers(&admin).await[1].held, Count::Exact(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_a_job_of_theirs_does_not_run() {
    let Some(site) = Site::create().await else { return };
    let admin = admin(&site).await;
    let id = site.jobs.send(job()).await;
    assert_eq!(why(&admin, id).await, [Reason::NoNode]);
    site.worker.query("select * from take('default', 'w', kinds => '{other}')", &[]).await.unwrap();
    assert_eq!(why(&admin, id).await, [Reason::NoNode], "it takes other kinds");
    let later = site.jobs.send(job()).await;
    let taken = read(&site.take("1").await[0]);
    assert_eq!(taken.id(), id);
    assert_eq!(why(&admin, later).await, [Reason::Next]);
    let reasons = why(&admin, id).await;
    assert!(
        matches!(&reasons[..], [Reason::HandedOut { until: Some(_), worker: Some(name) }] if name == "test"),
        "{reasons:?}"
    );
    let text = reasons[0].to_string();
    assert!(text.starts_with("the worker test has taken it by SQL; the worker's lease ends at "), "{text}");
}

/// Without a broker an external queue is for workers by SQL. An executor admits its limited jobs, and leaves them all alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_queue_without_a_broker_is_for_them() {
    let Some(site) = Site::create().await else { return };
    let messages = MessageServices::postgres(&site.db.config()).await.unwrap();
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .external_queue(ExternalQueue::new("partner"))
        .queue("default", 1)
        .handle("other", async |_| Ok(Outcome::Done))
        .start()
        .await
        .unwrap();
    let rule = jobwright::admin::Rule::new(jobwright::admin::Scope::Tenant, "acme").running(1);
    site.jobs.put_rule(&rule).await.unwrap();
    let limited = site.jobs.send(job().queue("partner").tenant("acme")).await;
    // The executor may be just admitting it.
    let reasons = why(&messages.admin(), limited).await;
    assert!(reasons.contains(&Reason::NoWorker { queue: "partner".to_owned() }), "{reasons:?}");
    let taken = async || site.worker.query("select * from take('partner', 'test', 9)", &[]).await.unwrap();
    eventually(PATIENCE, async || {
        site.worker.query_one("select wake('partner')", &[]).await.unwrap();
        taken().await.iter().any(|row| read(row).id() == limited)
    })
    .await;
    // So does one that does not name the queue, because it is seen that a worker takes from it.
    let second = site.jobs.send(job().queue("third").tenant("other")).await;
    site.jobs
        .put_rule(&jobwright::admin::Rule::new(jobwright::admin::Scope::Tenant, "other").running(1))
        .await
        .unwrap();
    let taken = async || site.worker.query("select * from take('third', 'test', 9)", &[]).await.unwrap();
    eventually(PATIENCE, async || {
        site.worker.query_one("select wake('third')", &[]).await.unwrap();
        taken().await.iter().any(|row| read(row).id() == second)
    })
    .await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}
