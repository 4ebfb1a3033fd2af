//! Work, messages and the end of a job are one commit, and no job starts twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobwright::admin::{JobState, Rule, Scope};
use jobwright::{JobId, NewJob};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Site, accepted, read, take};
use crate::support::jobs::{job, jobs};
use crate::support::{TestDb, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_messages_and_the_end_commit_together_or_not_at_all() {
    let Some(site) = Site::create().await else { return };
    site.worker.batch_execute("create table paid (n integer)").await.unwrap();
    let taken = site.taken(job()).await;
    let work = "insert into paid values (1); select send('next', '{}')";
    for end in ["rollback", "commit"] {
        site.worker.batch_execute(&format!("begin; {work}")).await.unwrap();
        accepted(&site.worker, "done", taken, "").await;
        site.worker.batch_execute(end).await.unwrap();
        let paid = site.worker.query("select from paid", &[]).await.unwrap().len();
        let is_committed = end == "commit";
        assert_eq!(
            (paid, site.jobs.count(JobState::Waiting).await),
            (usize::from(is_committed), usize::from(is_committed))
        );
        assert_eq!(site.jobs.state(taken.id()).await, (!is_committed).then_some(JobState::External), "{end}");
    }
}

/// Of two ends of one job, the second waits for the transaction of the first, and is late if that commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ends_of_one_job() {
    let Some(site) = Site::create().await else { return };
    for end in ["rollback", "commit"] {
        let taken = site.taken(job()).await;
        site.worker.batch_execute("begin").await.unwrap();
        accepted(&site.worker, "done", taken, "").await;
        let other = site.db.client().await;
        let pid: i32 = other.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        let second = tokio::spawn(async move { super::call(&other, "done", taken, ", strict => false").await });
        eventually(Duration::from_secs(20), async || {
            let waits = "select exists (select from pg_locks where pid = $1 and not granted)";
            site.worker.query_one(waits, &[&pid]).await.unwrap().get(0)
        })
        .await;
        site.worker.batch_execute(end).await.unwrap();
        let answer = second.await.unwrap().unwrap().unwrap();
        assert_eq!(answer, if end == "commit" { "false" } else { "true" });
    }
}

/// Workers by SQL and nodes drain a queue together, while some die with what they have. Each job starts once for each lease that was given out, and ends once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_and_nodes_drain_a_queue_together() {
    const JOBS: usize = 600;
    let Some(site) = Site::create().await else { return };
    site.worker.batch_execute("create table ran (id uuid, attempt integer, primary key (id, attempt)); create table ended (id uuid primary key)").await.unwrap();
    site.jobs.send_all(jobs(JOBS)).await;
    let ended = std::sync::Arc::new(AtomicUsize::new(0));
    let mut all = JoinSet::new();
    for number in 0..4 {
        let (client, ended) = (site.db.client().await, ended.clone());
        all.spawn(async move {
            while ended.load(Ordering::SeqCst) < JOBS {
                let rows = take(&client, "7, interval '2 seconds'").await.unwrap();
                for (place, row) in rows.iter().enumerate() {
                    let (taken, attempt): (_, i32) = (read(row), row.get("attempt"));
                    client
                        .execute("insert into ran values ($1, $2)", &[&taken.id, &attempt])
                        .await
                        .expect("it started twice");
                    // It dies with the rest of what it took.
                    if number == 0 && attempt == 1 && place == 3 {
                        break;
                    }
                    client.batch_execute("begin").await.unwrap();
                    client.execute("insert into ended values ($1)", &[&taken.id]).await.expect("it ended twice");
                    accepted(&client, "done", taken, "").await;
                    client.batch_execute("commit").await.unwrap();
                    ended.fetch_add(1, Ordering::SeqCst);
                }
                if rows.is_empty() {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    let (jobs, done, client) = (site.db.jobs(), ended.clone(), site.db.client().await);
    all.spawn(async move {
        let node = jobs.node().await;
        while done.load(Ordering::SeqCst) < JOBS {
            for job in jobs.take(node, 5).await {
                let attempt = i32::try_from(job.attempt).unwrap();
                client
                    .execute("insert into ran values ($1, $2)", &[job.id.as_uuid(), &attempt])
                    .await
                    .expect("it started twice");
                client.execute("insert into ended values ($1)", &[job.id.as_uuid()]).await.expect("it ended twice");
                jobs.finish(node, &job).await;
                done.fetch_add(1, Ordering::SeqCst);
            }
            jobs.expire_external(100).await.unwrap();
        }
    });
    timeout(Duration::from_secs(100), async { while all.join_next().await.transpose().unwrap().is_some() {} })
        .await
        .expect("some jobs were lost");
    assert_eq!(site.jobs.all().await.len(), 0);
    let rows = site.worker.query("select id, max(attempt) from ran group by id", &[]).await.unwrap();
    let most: BTreeMap<JobId, i32> =
        rows.iter().map(|row| (JobId::from(row.get::<_, uuid::Uuid>(0)), row.get(1))).collect();
    assert_eq!(most.len(), JOBS);
    assert!(most.values().any(|attempt| *attempt > 1), "no worker died");
}

/// The end of a job of a group admits the next with its own commit, so that no admission pass stands between them, and the group is never free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_passed_on_with_the_end_of_its_job() {
    let Some(site) = Site::create().await else { return };
    let sent = site.jobs.send_all((0..4).map(|_| job().exclusive("g"))).await;
    assert_eq!(site.jobs.admit_all().await, 1);
    for (n, (end, arguments)) in
        [("done", ""), ("fail", ", 'e', dead => true"), ("later", ", '1 hour'")].into_iter().enumerate()
    {
        let taken = read(&site.take("9").await[0]);
        assert_eq!(taken.id(), sent[n]);
        site.worker.batch_execute("begin").await.unwrap();
        accepted(&site.worker, end, taken, arguments).await;
        let other = site.db.client().await;
        assert_eq!(take(&other, "9").await.unwrap().len(), 0, "it is not committed");
        assert_eq!(site.jobs.admit_all().await, 0);
        site.worker.batch_execute("rollback").await.unwrap();
        assert_eq!(site.take("9").await.len(), 0, "the first still has it");
        accepted(&site.worker, end, taken, arguments).await;
        assert_eq!(site.jobs.count(JobState::Waiting).await, 1, "the next");
    }
    let last = read(&site.take("9").await[0]);
    accepted(&site.worker, "done", last, "").await;
    assert_eq!(site.worker.query("select from permit", &[]).await.unwrap().len(), 0);
    // An ordered job keeps its group while it waits for its next attempt.
    site.jobs.send_all((0..2).map(|_| job().ordered("o"))).await;
    assert_eq!(site.jobs.admit_all().await, 1);
    let first = read(&site.take("9").await[0]);
    accepted(&site.worker, "fail", first, ", 'e', retry => '1 hour'").await;
    site.jobs.admit_all().await;
    assert_eq!(site.take("9").await.len(), 0);
}

/// Under a limit, jobs of kinds that no worker takes hold nothing that others wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_no_worker_takes_hold_no_permits() {
    let Some(site) = Site::create().await else { return };
    let messages = jobwright::MessageServices::postgres(&site.db.config()).await.unwrap();
    let executor = jobwright::CommandExecutor::builder(messages)
        .config(crate::support::environment::patient())
        .queue("elsewhere", 1)
        .handle("other", async |_| Ok(jobwright::Outcome::Done))
        .start()
        .await
        .unwrap();
    site.jobs.put_rule(&Rule::new(Scope::Queue, "default").running(1)).await.unwrap();
    site.jobs.send_all((0..3).map(|_| NewJob::json("nobody", &1))).await;
    let id = site.jobs.send(NewJob::json("mail", &1)).await;
    eventually(Duration::from_secs(60), async || {
        site.worker.query_one("select wake()", &[]).await.unwrap();
        site.take("1, kinds => '{mail}'").await.iter().any(|row| read(row).id() == id)
    })
    .await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}
